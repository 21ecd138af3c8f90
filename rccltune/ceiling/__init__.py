"""What the links let a collective reach, from TransferBench."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
