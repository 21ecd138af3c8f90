"""The workload room: what a job asked for, from whatever says so.

``reading`` takes any file: the plugin's records (``table``), what RCCL's recorder wrote
(``replay``) and logs (``log``). ``merging`` makes one workload of many ranks' files, ``shares``
says which of it matters, what rules cover and what they save.
"""

from rccltune.workload.log import Stated
from rccltune.workload.merging import merge, scaled
from rccltune.workload.reading import read
from rccltune.workload.records import Count, Recorder, Source, State, Workload
from rccltune.workload.shares import (
    Part,
    Saving,
    Share,
    Sizes,
    Timed,
    covering,
    heaviest,
    saving_of,
    shares_of,
)
from rccltune.workload.table import write_table

__all__ = [
    "Count",
    "Part",
    "Recorder",
    "Saving",
    "Share",
    "Sizes",
    "Source",
    "State",
    "Stated",
    "Timed",
    "Workload",
    "covering",
    "heaviest",
    "merge",
    "read",
    "saving_of",
    "scaled",
    "shares_of",
    "write_table",
]
