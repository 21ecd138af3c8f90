"""The catalog of variants: what no tuner can switch, where it exists, and what sets it."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
