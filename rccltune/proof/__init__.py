"""The proof room: requested is not executed, so what ran is read from what the plugin saw.

In come samples and the plugin's trace of every rank; out come the same samples, each with the
setting that is known to have run, or with a doubt. ``trace`` serves launches of one setting,
``walk`` launches that walk through many. ``belief`` reads from the same trace what the library
would have done by itself. ``log`` stands in where the library loads no plugin.
"""

from rccltune.proof.belief import Shown, read_beliefs
from rccltune.proof.log import Logged, prove_by_log, read_log
from rccltune.proof.trace import Asked, Cell, agree, prove, read_trace
from rccltune.proof.tuner import tuner_of
from rccltune.proof.walk import Walk, agree_on_walk, place, read_walk, suspect

__all__ = [
    "Asked",
    "Cell",
    "Logged",
    "Shown",
    "Walk",
    "agree",
    "agree_on_walk",
    "place",
    "prove",
    "prove_by_log",
    "read_beliefs",
    "read_log",
    "read_trace",
    "read_walk",
    "suspect",
    "tuner_of",
]
