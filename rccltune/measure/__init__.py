"""Measuring a site: options, launchers, the rank program's sweep, and launches of rccl-tests."""
