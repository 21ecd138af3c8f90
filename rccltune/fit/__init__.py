"""Samples to curves, curves to crossovers, and what the ways of measuring say of each other."""
