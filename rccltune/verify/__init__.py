"""Rules and the library in turns: what stands, what is cut away, what stays undecided."""
