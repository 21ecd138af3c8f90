"""A folder of write-once launches, and what is derived from them: samples first of all."""
