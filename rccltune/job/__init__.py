"""A user's own job: what rules would save it."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
