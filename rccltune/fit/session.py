"""The name under which the old ``tune`` and ``job`` ask for a session's fit."""

from rccltune.analyse.fit import FitDone, fit_session

__all__ = ["FitDone", "fit_session"]
