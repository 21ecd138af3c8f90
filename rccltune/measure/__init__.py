"""Measuring a site: options, launchers, the rank program that stays, and launches of rccl-tests."""
