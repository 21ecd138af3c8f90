"""Samples to curves, curves to crossovers, and what the ways of measuring say of each other."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
