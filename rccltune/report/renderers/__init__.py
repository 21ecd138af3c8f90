"""Thin matplotlib renderers: they place what the figures computed, and decide nothing."""
