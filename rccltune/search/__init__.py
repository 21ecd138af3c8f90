"""What to measure next so that choosing loses as little as possible."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
