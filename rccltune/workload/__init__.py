"""What a job asked for, from whatever says so."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
