"""What the links let a collective reach, from TransferBench."""
