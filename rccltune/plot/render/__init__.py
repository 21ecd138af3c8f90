"""Thin matplotlib renderers: they place what the data modules computed, and decide nothing."""
