"""Curves at several scales to a curve at a scale that nobody measured."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
