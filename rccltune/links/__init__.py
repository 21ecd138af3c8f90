"""The link map: pairs of devices, measured and drawn."""
