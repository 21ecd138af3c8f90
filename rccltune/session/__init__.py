"""A folder of runs and logs, written once, and what is derived from them: samples first of all."""
