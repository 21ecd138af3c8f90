"""Simulated nodes: their YAML files, the form that the C program reads, and their true times."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
