"""rccltune: find, prove and apply the fastest setting for each RCCL collective.

``load(SESSION)`` gives a session's tables, ``rccltune.api`` the verbs as functions; both are
loaded when they are asked for, so that ``import rccltune`` costs nothing.
"""

from typing import TYPE_CHECKING

from rccltune.model.version import __version__

if TYPE_CHECKING:
    from rccltune import api as api
    from rccltune.api import load as load

__all__ = ["__version__", "api", "load"]


def __getattr__(name: str) -> object:
    if name not in ("api", "load"):
        raise AttributeError(f"module 'rccltune' has no attribute '{name}'")
    from importlib import import_module

    api = import_module("rccltune.api")
    return api if name == "api" else api.load
