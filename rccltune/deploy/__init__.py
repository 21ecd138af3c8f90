"""The deploy room: a plugin and its rules as a folder that a site can put before its jobs.

In come a delivery (the plugin, the rule files, where they come from) and a folder; out comes a
version in it. All texts are made by pure functions; one module writes.
"""

from rccltune.deploy.assemble import MANIFEST, assemble
from rccltune.deploy.place import (
    VERSIONS,
    Placed,
    check_ours,
    current,
    open_to_readers,
    put,
    remarks,
    roll_back,
)
from rccltune.deploy.records import Delivery, File, Rules, Version
from rccltune.deploy.snippets import MOUNT
from rccltune.deploy.words import NOT_VERIFIED, SIMULATED

__all__ = [
    "MANIFEST",
    "MOUNT",
    "NOT_VERIFIED",
    "SIMULATED",
    "VERSIONS",
    "Delivery",
    "File",
    "Placed",
    "Rules",
    "Version",
    "assemble",
    "check_ours",
    "current",
    "open_to_readers",
    "put",
    "remarks",
    "roll_back",
]
