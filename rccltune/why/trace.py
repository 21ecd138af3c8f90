"""The plugin's trace files, row by row; docs/plugin.md has the columns."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from rccltune.model import Collective, OutputError, Setting, grammar
from rccltune.why.evidence import Evidence, read_setting
from rccltune.why.own_lines import answer_of
from rccltune.why.records import Said, Started, Where

COLUMNS: Final = (
    "comm,abi,n_nodes,n_ranks,step,setting,collective,nbytes,calls,changed,"
    "selectable,host_times_us,host_choice,answer,line"
)
_N_COLUMNS: Final = COLUMNS.count(",") + 1


def read_trace(rows: Iterable[str], where: str, evidence: Evidence) -> None:
    """Put down what the rows of one trace say.

    Args:
        rows: the lines below the two of its head.
        where: the file's name, for messages.
        evidence: takes it.

    Raises:
        OutputError: a row is damaged.
    """
    found = False
    for number, line in enumerate(rows, start=3):
        row = line.rstrip("\r\n").split(",")
        if line.startswith("#@ dropped"):
            evidence.job.dropped += 1
        if line.startswith("#") or line.rstrip("\r\n") == COLUMNS or not line.strip():
            continue
        try:
            _row(row, evidence)
        except (ValueError, IndexError) as error:
            if not line.endswith("\n"):
                break  # cut off while it was written
            raise OutputError(
                f"the trace's row cannot be read: {error}", where=f"{where}:{number}"
            ) from error
        found = True
    evidence.job.n_empty_traces += not found


def _row(row: list[str], evidence: Evidence) -> None:
    if len(row) != _N_COLUMNS:
        raise ValueError(f"{len(row)} fields instead of {_N_COLUMNS}")
    at = Where(grammar.whole(row[2]), grammar.whole(row[3]))
    seen = evidence.at(at, Collective.parse(row[6]), grammar.whole(row[7]))
    if row[1] == "2":
        evidence.job.old_hosts.add(at)
    if row[5] not in ("rules", "silent"):
        seen.scheduled = True
        evidence.start(at, Started("schedule"))
    seen.said[Said(answer_of(row[13]), grammar.whole(row[14]))] += grammar.whole(row[8])
    cells = _cells(row[10])
    seen.offered = set(cells) | (seen.offered or set())
    host = None if row[12] == "-" else read_setting(row[12])
    if host is not None:
        seen.host.add(host)
    evidence.job.recorded.add(at)


@lru_cache(maxsize=1024)
def _cells(text: str) -> frozenset[Setting]:
    """Cells with a name; a library may have more."""
    settings = (read_setting(cell) for cell in grammar.words(text))
    return frozenset(setting for setting in settings if setting is not None)
