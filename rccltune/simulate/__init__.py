"""Simulated nodes: their YAML files, the form that the C program reads, and their true times."""
