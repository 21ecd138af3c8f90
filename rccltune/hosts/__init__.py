"""The hosts room: what several hosts say of themselves, and whether they are one machine.

Pure functions over records: who asks the hosts, and through which launcher, is not known here.
"""

from rccltune.hosts.comparing import AS_SET, Difference, Group, as_asked, differences
from rccltune.hosts.lines import lines_of, read_lines
from rccltune.hosts.merging import Answer, merged
from rccltune.hosts.naming import named
from rccltune.hosts.records import Host
from rccltune.hosts.table import table_of
from rccltune.hosts.variables import compares, value_of

__all__ = [
    "AS_SET",
    "Answer",
    "Difference",
    "Group",
    "Host",
    "as_asked",
    "compares",
    "differences",
    "lines_of",
    "merged",
    "named",
    "read_lines",
    "table_of",
    "value_of",
]
