"""rccltune: find, prove and apply the fastest setting for each RCCL collective."""

__version__ = "0.1.0"
