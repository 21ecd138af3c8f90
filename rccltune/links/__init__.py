"""The link map: pairs of devices, measured and drawn."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
