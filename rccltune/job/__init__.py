"""A user's own job: what rules would save it."""
