"""Ranks that differ: in what they chose for one call, which hangs, and in what they were given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rccltune.model.settings import Setting
from rccltune.model.vocabulary import format_size
from rccltune.why.records import (
    ASKED_OF_RANKS,
    NOWHERE,
    AnswerKind,
    Call,
    JobLogs,
    Reason,
    TunerLoading,
)

_ALIKE: Final = (
    "give every rank the same rule file, variables and library: source the same env.sh in the "
    "job's script"
)
# A call of a thousand sizes differs at all of them for one reason.
_MOST: Final = 8
# Settings of a call that a rank took, each with the line that says so.
_Taken = dict[Setting | None, str]


def calls_that_hang(job: JobLogs) -> Iterator[tuple[Call, Reason, tuple[str, str]]]:
    """Calls for which two ranks of a communicator took different settings, with both lines."""
    n = 0
    for call, ranks in job.choices.items():
        (first, mine), *others = ranks.items()
        other = next((one for one in others if _is_apart(mine, one[1])), None)
        if other is None or n == _MOST:
            continue
        n += 1
        (name, taken), size = other, format_size(call.nbytes)
        text = (
            f"{first} took {_names(mine)} and {name} {_names(taken)} for the same {size} "
            f"{call.collective.value} of communicator {call.comm}: that hangs"
        )
        shown = (next(iter(mine.values())), next(iter(taken.values())))
        yield call, Reason(AnswerKind.RANKS_DIFFER, text, _ALIKE), shown


def _is_apart(one: _Taken, other: _Taken) -> bool:
    """Whether no setting of one rank's may be one of the other's."""
    return not any(_is_same(mine, its) for mine in one for its in other)


def _is_same(one: Setting | None, other: Setting | None) -> bool:
    if one is None or other is None:
        return True
    cell = (one.algorithm, one.protocol) == (other.algorithm, other.protocol)
    return cell and (one.channels == other.channels or None in (one.channels, other.channels))


def _names(taken: _Taken) -> str:
    return " or ".join(sorted(map(str, taken)))


def is_known(job: JobLogs) -> bool:
    """Whether several ranks tell of their choices; stock libraries write rank 0's alone."""
    return any(len(ranks) > 1 for ranks in job.choices.values())


def differences(job: JobLogs) -> Iterator[tuple[str, list[str]]]:
    """What ranks were given differently, and the names of the lines that show it."""
    for where, counted in job.started.items():
        starts = [f"started {one.how} {one.sha256}" for one in counted]
        hashes = {one.sha256 for one in counted if one.sha256}
        if len(hashes) > 1:
            yield f"{len(hashes)} different rule files were read by {where}", starts
        if len({one.how for one in counted}) > 1 and where is not NOWHERE:
            yield f"some ranks of {where} have rules and others none", starts
    for name, values in sorted(job.variables.items()):
        if len(values) > 1 and name in ASKED_OF_RANKS:
            known = sorted(values)
            yield f"{name} differs: {', '.join(known)}", [f"variable {name}={v}" for v in known]
    using = sorted({name for what, name in job.loading if what is TunerLoading.USING})
    if len(using) > 1:
        text = f"ranks load different tuners: {', '.join(using)}"
        yield text, [f"using {name}" for name in using]
    if len(job.versions) > 1:
        names = sorted(job.versions)
        text = f"ranks load different libraries: {', '.join(names)}"
        yield text, [f"version {name}" for name in names]
