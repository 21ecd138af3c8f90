"""What may be sent of a machine, and how names and secrets are taken out of it.

Needs Python 3.8 and its standard library alone, and imports nothing of rccltune: where nothing is
installed, the folder is copied and started with ``python3 -m gather`` (docs/how-to-send.md).
"""
