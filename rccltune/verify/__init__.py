"""Does it hold? Rules asked of the real plugin, and tuned runs compared with the baseline."""

from rccltune.verify.decisions import Decision, cost_table, decisions
from rccltune.verify.host import ABI_VERSIONS, Answer, Communicator, Host

__all__ = [
    "ABI_VERSIONS",
    "Answer",
    "Communicator",
    "Decision",
    "Host",
    "cost_table",
    "decisions",
]
