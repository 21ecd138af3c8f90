"""A plugin and its rules as a folder that a site can put before its jobs."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
