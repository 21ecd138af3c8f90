"""A folder of write-once launches, and what is derived from them: samples first of all."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
