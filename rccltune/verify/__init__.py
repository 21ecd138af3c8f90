"""Does it hold? Rules asked of the real plugin, and tuned runs compared with the baseline."""

from rccltune.verify.decisions import Decision, cost_table, decisions
from rccltune.verify.harm import harmed
from rccltune.verify.host import ABI_VERSIONS, Answer, Communicator, Host
from rccltune.verify.narrowing import Cut, Standing, beyond, inside, standings, without
from rccltune.verify.verdicts import Weighed, weigh

__all__ = [
    "ABI_VERSIONS",
    "Answer",
    "Communicator",
    "Cut",
    "Decision",
    "Host",
    "Standing",
    "Weighed",
    "beyond",
    "cost_table",
    "decisions",
    "harmed",
    "inside",
    "standings",
    "weigh",
    "without",
]
