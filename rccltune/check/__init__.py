"""Whether rules that were verified still hold here: ``rccltune check``."""
