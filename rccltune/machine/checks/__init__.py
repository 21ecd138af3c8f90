"""Checks of ``rccltune doctor``."""
