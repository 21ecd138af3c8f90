"""Ranks that differ: in what they chose for one call, which hangs, and in what they were given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rccltune.model.settings import Setting
from rccltune.model.units import format_size
from rccltune.why import remedies
from rccltune.why.job_logs import JobLogs, SharedCall
from rccltune.why.job_report import NOWHERE, AnswerKind, Reason

# A call of a thousand sizes differs at all of them for one reason.
_MOST: Final = 8
_SAME_ON_RANKS: Final = (*remedies.FORCING, "NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE")


def find_hanging_calls(job: JobLogs) -> list[tuple[SharedCall, Reason, tuple[str, str]]]:
    """Calls for which two ranks of a communicator took different settings, with both lines."""
    hanging: list[tuple[SharedCall, Reason, tuple[str, str]]] = []
    for call, settings in job.choices.items():
        pair = (
            _find_differing_ranks(settings) if len(settings) > 1 and len(hanging) < _MOST else None
        )
        if pair is not None:
            (first, mine), (other, its) = pair
            _, collective, nbytes = call.key
            text = (
                f"{first} took {_names(mine)} and {other} {_names(its)} for the same "
                f"{format_size(nbytes)} {collective.value} of communicator {call.comm}: that hangs"
            )
            shown = (next(iter(mine.values())), next(iter(its.values())))
            hanging.append(
                (call, Reason(AnswerKind.RANKS_DIFFER, text, remedies.SAME_ON_RANKS), shown)
            )
    return hanging


# Settings of a rank for a call, with the lines that say so.
_Settings = dict[Setting, str]


def _find_differing_ranks(
    settings: dict[Setting, dict[str, str]],
) -> tuple[tuple[str, _Settings], ...] | None:
    """The first rank and one of which no setting may be one of the first's; None without one."""
    ranks: dict[str, _Settings] = {}
    for setting, lines in settings.items():
        for rank, line in lines.items():
            ranks.setdefault(rank, {})[setting] = line
    first, *others = ranks.items()
    for other in others:
        if not any(_is_same(mine, its) for mine in first[1] for its in other[1]):
            return first, other
    return None


def _is_same(one: Setting, other: Setting) -> bool:
    cell = (one.algorithm, one.protocol) == (other.algorithm, other.protocol)
    return cell and (one.channels == other.channels or None in (one.channels, other.channels))


def _names(its: _Settings) -> str:
    return " or ".join(sorted(map(str, its)))


def are_several_ranks_known(job: JobLogs) -> bool:
    """Whether several ranks tell of their choices; stock libraries write rank 0's alone."""
    return any(len(set().union(*settings.values())) > 1 for settings in job.choices.values())


def find_differences(job: JobLogs) -> Iterator[tuple[str, list[str]]]:
    """Differences in what ranks were given, and the lines that show it."""
    for where, starts in job.starts.items():
        n_files = len({one.sha256 for one in starts} - {""})
        have_rules = {one.how == "rules" for one in starts}
        if n_files > 1:
            yield f"{n_files} different rule files were read by {where}", list(starts.values())
        if len(have_rules) > 1 and where is not NOWHERE:
            yield f"some ranks of {where} have rules and others none", list(starts.values())
    for name, values in sorted(job.variables.items()):
        if len(values) > 1 and name in _SAME_ON_RANKS:
            different = sorted(values)
            lines = [job.find_line("variable", name=name, value=value) for value in different]
            yield f"{name} differs: {', '.join(different)}", list(filter(None, lines))
    using = sorted(job.names("using"))
    if len(using) > 1:
        text = f"ranks load different tuners: {', '.join(using)}"
        yield text, [one.line for one in job.facts("using")]
    if len(job.versions) > 1:
        text = f"ranks load different libraries: {', '.join(sorted(job.versions))}"
        yield text, [one.line for one in job.facts("version")]
