"""The catalog of variants: what no tuner can switch, where it exists, and what sets it."""
