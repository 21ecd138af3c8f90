"""Two sides measured in turns, and which of them is faster, size by size."""
