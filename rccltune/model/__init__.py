"""The field's words, units, records and errors: what every package speaks in."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
