"""NPKit: whether a library has it, what it dumped, and a trace of that."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
