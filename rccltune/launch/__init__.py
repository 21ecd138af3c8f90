"""One argv, one environment, one process tree, one ending; and the launchers that start ranks."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
