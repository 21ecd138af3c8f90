"""Measuring a site: options, site, ledger, launches and their samples, round by round."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
