"""The launch room: one argv, one environment, one process tree, one ending.

The only room that starts programs. It knows nothing of collectives or tables: it is told what to
start, how long it may take and when its output is complete, and it says how that ended. Whatever
happens, no process that it started is left running.
"""

from rccltune.launch.company import run_beside
from rccltune.launch.environment import CLEARED, Environment, chooses, environment
from rccltune.launch.family import TAG
from rccltune.launch.finding import find_launcher
from rccltune.launch.hosts import first_hosts, hosts_used
from rccltune.launch.launchers import LAUNCHERS, Launcher
from rccltune.launch.process import RUN_ID, Ending, Job, end_leftovers, run
from rccltune.launch.trying import Binding, find_binding

__all__ = [
    "CLEARED",
    "LAUNCHERS",
    "RUN_ID",
    "TAG",
    "Binding",
    "Ending",
    "Environment",
    "Job",
    "Launcher",
    "chooses",
    "end_leftovers",
    "environment",
    "find_binding",
    "find_launcher",
    "first_hosts",
    "hosts_used",
    "run",
    "run_beside",
]
