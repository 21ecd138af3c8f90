"""The version of rccltune, for whoever writes it into a file: importing this costs nothing else."""

__version__ = "0.1.0"
