"""Ceilings of collectives: bandwidths that the links allow, from TransferBench."""
