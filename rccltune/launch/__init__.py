"""The launch room: one argv, one environment, one process tree, one ending.

The only room that starts programs. It knows nothing of collectives or tables: it is told what to
start, how long it may take and when its output is complete, and it says how that ended. Whatever
happens, no process that it started is left running.
"""

from rccltune.launch.environment import CLEARED, Environment, chooses, environment
from rccltune.launch.launchers import LAUNCHERS, Launcher, find_launcher
from rccltune.launch.process import RUN_ID, Ending, Job, end_leftovers, run

__all__ = [
    "CLEARED",
    "LAUNCHERS",
    "RUN_ID",
    "Ending",
    "Environment",
    "Job",
    "Launcher",
    "chooses",
    "end_leftovers",
    "environment",
    "find_launcher",
    "run",
]
