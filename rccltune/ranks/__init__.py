"""Steps that ranks are sent, and what they wrote: plans, runs, rows."""
