"""Which setting to choose at which size, and which environment is worth its price."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
