"""Zones to rules, rules to rule files and back, and the plugin that answers by them."""

from rccltune.faces import face

__getattr__, __dir__, __all__ = face(__name__, __file__)
