"""Rules beside the baseline: what stands, what is cut away, what stays undecided."""
