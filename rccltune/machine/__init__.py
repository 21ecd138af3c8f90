"""What this machine is: devices, links, mode, libraries, hosts; and what spoils a measurement."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
