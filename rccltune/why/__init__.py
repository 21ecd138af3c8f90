"""The why room: why a rule was, or was not, used at each size of a job.

The way of a line: ``library`` (the library's log), ``ours`` (the plugin's lines) or ``trace`` put
it down as ``evidence``, once however often it is said; ``causes`` looks for what holds for every
size, ``judging`` answers at one size (``answered`` where a rule did), ``ranges`` joins sizes with
one answer. What other rooms know (rule files, paths around the tuner, releases) comes as
:class:`Known`.
"""

from rccltune.why.answers import Answer, Around, Filed, Kind, Known, Remark, RuleHere, Verdict
from rccltune.why.evidence import Evidence
from rccltune.why.library import LibraryLog
from rccltune.why.ours import MARK, OwnLines
from rccltune.why.ranges import verdict
from rccltune.why.records import NOWHERE, Job, Kindred, Where
from rccltune.why.remedies import TELL_ALL
from rccltune.why.trace import COLUMNS, read_trace

__all__ = [
    "COLUMNS",
    "MARK",
    "NOWHERE",
    "TELL_ALL",
    "Answer",
    "Around",
    "Evidence",
    "Filed",
    "Job",
    "Kind",
    "Kindred",
    "Known",
    "LibraryLog",
    "OwnLines",
    "Remark",
    "RuleHere",
    "Verdict",
    "Where",
    "read_trace",
    "verdict",
]
