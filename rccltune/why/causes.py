"""Why no rule can have been used at a scale at all, whatever the size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rccltune.why import remedies
from rccltune.why.answers import Kind, Known, Reason
from rccltune.why.load import not_loaded
from rccltune.why.records import Job, Loading, Started, Where, is_ours

# What the plugin says where it stops a job or goes on without rules: first match counts. Texts are
# those of native_plugin/src/config.c, settings.c, watch.c and plugin.c.
_SAID: Final = tuple(
    (re.compile(pattern), kind, remedy)
    for pattern, kind, remedy in (
        (
            r"no rule for \d+ ranks",
            Kind.OTHER_SCALE,
            remedies.MEASURE_SCALE,
        ),
        (
            r"the schedule is for",
            Kind.SCHEDULE,
            remedies.NO_SCHEDULE,
        ),
        (
            r"requires placement=([\w-]+)",
            Kind.PLACEMENT,
            "if the ranks do lie so, set on every rank: export RCCLTUNE_PLACEMENT={0}",
        ),
        (
            r"neither NCCL_TUNER_CONFIG_FILE nor RCCLTUNE_CONFIG_DIR is set",
            Kind.OFF,
            remedies.USE_RULES,
        ),
        (
            r"(\S+): no file for this arch and mode",
            Kind.MACHINE,
            remedies.NAME_FILE,
        ),
        (
            r"no AMD GPU here",
            Kind.MACHINE,
            remedies.NAME_FILE,
        ),
        (
            r"requires another machine",
            Kind.MACHINE,
            "use a file that was measured on such a machine (rccltune detect shows this one)",
        ),
        (
            r"partition mode|arch is not known|requires \S+, and this GPU's arch",
            Kind.MACHINE,
            remedies.MODE,
        ),
        (
            r"refused, line \d+: ",
            Kind.SCHEDULE,
            remedies.NO_SCHEDULE,
        ),
        (
            r"refused, \d+ errors",
            Kind.REFUSED,
            "correct the lines that rccltune explain RULES names",
        ),
        (
            r"cannot be (?:opened|read)|no regular file|larger than the limit|is not a text file",
            Kind.REFUSED,
            remedies.SAME_FILE,
        ),
        (
            r"more than \d+ different|overlap too much|path is too long",
            Kind.REFUSED,
            "make the rule file smaller: rccltune emit-config writes the fewest zones",
        ),
        (
            r"(RCCLTUNE_RECORD) is set",
            Kind.VARIABLE,
            remedies.unset("RCCLTUNE_RECORD"),
        ),
        (
            r"(RCCLTUNE_\w+|NCCL_TUNER_CONFIG_FILE)(?:='|: '|: there is a control)",
            Kind.VARIABLE,
            "correct {0} on every rank, as the message says, or take it away: unset {0}",
        ),
        (
            r"out of memory",
            Kind.MACHINE,
            "see which process fills the host's memory, and start the job again",
        ),
    )
)


def cause(job: Job, where: Where, known: Known) -> Reason | None:
    """The first reason that holds for every size; None where rules may have been used."""
    return next(_causes(job, where, known), None)


def _causes(job: Job, where: Where, known: Known) -> Iterator[Reason]:
    if where.n_ranks == 1:
        yield Reason(Kind.NOT_TUNABLE, "a communicator of one rank has nothing to choose")
    started = tuple(job.started.get(where, ()))
    stopped = [one for one in started if one.how == "error"]
    if stopped:
        yield _said(stopped[0], job, "the plugin stopped the communicator")
    if not started and not any(known_to_answer(job)):
        yield from not_loaded(job)
    yield from _different(job, where)
    for one in started:
        if one.how == "inert":
            yield _said(one, job, "the plugin is loaded and says nothing", known)
        if one.how == "schedule":
            path = f" ({one.path})" if one.path else ""
            yield Reason(
                Kind.SCHEDULE,
                f"RCCLTUNE_SCHEDULE is set{path}, so no rule file is read",
                remedies.NO_SCHEDULE,
            )
    if not started and known.file_scales and not known_in_file(where, known):
        yield Reason(
            Kind.OTHER_SCALE,
            f"{known.file_name} has no rule for {where}; it has {', '.join(known.file_scales)}",
            remedies.MEASURE_SCALE,
        )


def known_to_answer(job: Job) -> Iterator[bool]:
    """Signs that rules are applied by somebody: our plugin, or the library's own table."""
    yield bool(job.recorded)
    yield bool(job.started)
    yield job.table_applied
    for what, name in job.loading:
        yield what is Loading.TABLE or (what is Loading.USING and is_ours(name))


def known_in_file(where: Where, known: Known) -> bool:
    """Whether the file has a rule for the scale; one that is not known may be in it."""
    if where.n_ranks is None or where.n_nodes is None:
        return True
    return str(where) in known.file_scales or "any" in known.file_scales


def _said(started: Started, job: Job, head: str, known: Known | None = None) -> Reason:
    """The plugin's own reason, and what mends it."""
    for pattern, kind, remedy in _SAID:
        match = pattern.search(started.text)
        if match is not None:
            text = f"{head}: {started.text}"
            if kind is Kind.REFUSED and job.findings:
                text += "; " + "; ".join(sorted(job.findings)[:3])
            if kind is Kind.OTHER_SCALE and known is not None and known.file_scales:
                text += f"; the file has {', '.join(known.file_scales)}"
            return Reason(kind, text, remedy.format(*match.groups()))
    return Reason(Kind.UNKNOWN, f"{head}: {started.text}", remedies.TELL_PLUGIN)


def _different(job: Job, where: Where) -> Iterator[Reason]:
    """Ranks that began differently: a hang, or another choice on some."""
    started = tuple(job.started.get(where, ()))
    hashes = {one.sha256 for one in started if one.how == "rules"}
    if len(hashes) > 1:
        files = sorted({f"{one.path} ({one.sha256[:12]})" for one in started if one.sha256})
        yield Reason(
            Kind.OTHER_FILE,
            f"ranks read {len(hashes)} different rule files: {', '.join(files)}",
            remedies.SAME_FILE,
        )
    hows = {one.how for one in started}
    if {"rules", "inert"} <= hows and len({one.text for one in started if one.how == "inert"}) == 1:
        silent = next(one.text for one in started if one.how == "inert")
        yield Reason(
            Kind.OTHER_FILE,
            f"some ranks have rules and others none ({silent})",
            "set the same variables on every rank, and compare with rccltune deploy's check",
        )
