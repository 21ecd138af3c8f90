"""What programs print, read: benchmarks' tables, the plugin's traces, the library's log."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
