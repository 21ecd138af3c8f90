"""Rules beside the baseline: what stands, what is cut away, what stays undecided."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
