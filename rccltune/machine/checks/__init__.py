"""What ``rccltune doctor`` looks at."""
