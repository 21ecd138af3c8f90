"""What ranks are told to do, step by step, and what they wrote: plans, runs, rows."""
