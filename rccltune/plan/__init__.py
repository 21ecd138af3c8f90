"""What is to be measured, as launches in an order that spreads drift."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
