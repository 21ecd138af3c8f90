"""Figures and the page: a session as something to look at and to mail."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
