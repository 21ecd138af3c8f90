"""Measuring with the rank program ``rccltune-perf``: its plans, its runs, its rows."""
