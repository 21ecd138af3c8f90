"""Why a rule was, or was not, used at each size of a job."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
