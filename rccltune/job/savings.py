"""What rules save of a recorded job, from times that sessions measured."""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rccltune import model, workload
from rccltune.fit import FitDone, fit_session
from rccltune.job.bound import Ceiling, Times, ceiling_of
from rccltune.model import (
    Collective,
    Reporter,
    Rule,
    Scale,
    Setting,
    Zone,
)
from rccltune.rules import accepted, content_of
from rccltune.workload import Saving, Share, Source, State, Stated, Timed, Workload

# The setting that runs where rules have their way; None where they have none.
Chosen = Callable[[Collective, Scale, int], Setting | None]


def saving(
    whole: Workload, chosen: Chosen, fits: Sequence[FitDone], steps: int | None = None
) -> Saving:
    """What rules save of a recorded job, estimated from the sessions that they were made of.

    Calls whose size was not measured, of the baseline and of the rule's setting, count as
    not known; those that no rule is for take what they took.

    Args:
        whole: the workload.
        chosen: what runs under the rules, None where there is none.
        fits: the sessions.
        steps: that the job made while it was recorded, None where nobody says.
    """
    times = Times([curve for done in fits for curve in done.curves])

    def timed(collective: Collective, scale: Scale, nbytes: int) -> Timed | None:
        before = times.before(collective, scale, nbytes)
        setting = chosen(collective, scale, nbytes)
        after = before if setting is None else times.under(collective, scale, nbytes, setting)
        if before is None or after is None:
            return None
        return Timed(before_us=before, after_us=after)

    return workload.saving_of(whole, timed, steps)


def saving_in(
    path: Path, folders: Sequence[Path], chosen: Chosen, steps: int | None, *, reporter: Reporter
) -> Saving:
    """The same of a file, and of sessions by their folders; raises as both do."""
    fits = [fit_session(folder, reporter=reporter) for folder in folders]
    whole = workload.read(path)
    for cut in whole.cuts:
        reporter.say(f"Warning: {cut}.")
    return saving(whole, chosen, fits, steps)


def by_zones(zones: Sequence[Zone]) -> Chosen:
    """What zones choose."""

    def chosen(collective: Collective, scale: Scale, nbytes: int) -> Setting | None:
        for zone in zones:
            target = (zone.target.collective, zone.target.scale)
            if target == (collective, scale) and zone.min_nbytes <= nbytes <= zone.max_nbytes:
                return zone.setting
        return None

    return chosen


def by_rules(rules: Sequence[Rule]) -> Chosen:
    """What rules choose, the first that matches."""

    def chosen(collective: Collective, scale: Scale, nbytes: int) -> Setting | None:
        matching = (rule for rule in rules if rule.matches(collective, nbytes, scale))
        first = next(matching, None)
        return None if first is None else first.setting

    return chosen


def saving_plain(saved: Saving) -> dict[str, Any]:
    """For --json."""
    return {
        "before_s": saved.before_s,
        "after_s": saved.after_s,
        "saved_s": saved.saved_s,
        "known": saved.known,
        "steps": saved.steps,
        "saved_s_per_step": saved.saved_s / saved.steps if saved.steps else None,
    }


def saving_text(saved: Saving) -> str:
    """One line for people."""
    if not saved.known:
        return "Time saved: not known, since none of the workload's sizes was measured"
    part = f"{100 * saved.saved_s / saved.before_s:.1f} %" if saved.before_s else "0 %"
    if saved.steps:
        each = [1e3 * time / saved.steps for time in (saved.saved_s, saved.before_s)]
        text = f"Time saved per step, estimated: {each[0]:.3f} ms of {each[1]:.3f} ms"
    else:
        text = (
            f"Time saved of what was recorded, estimated: {1e3 * saved.saved_s:.3f} ms of "
            f"{1e3 * saved.before_s:.3f} ms"
        )
    text += f" in collectives of a rank ({part}), one after the other"
    if saved.known < 1:
        text += f"; {100 * (1 - saved.known):.1f} % of the calls were not measured"
    return text + ("" if saved.steps else "; --steps N says how many steps that were")


# What none of the sources sees, in the words of the contract.
BLIND: Final = {
    Source.RECORD: "records and logs do not see replays of captured graphs (--scale-captured), "
    "point-to-point, paths that ask no tuner, nor how grouped calls were split",
    Source.LOG: "logs are written by rank 0 of each communicator alone",
    Source.INSPECTOR: "Inspector writes calls below 8 KiB only under "
    "NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES, and its times hold what ranks wait for one another; what "
    "of them the job overlaps with its own work is not seen",
    Source.REPLAY: "replay files have calls that take paths without a tuner too, and no nodes "
    "(--nodes)",
}


def read_merged(
    paths: Sequence[Path], stated: Stated | None = None, captured_times: int = 1
) -> Workload:
    """All files as one workload.

    Args:
        paths: of any kind.
        stated: what the user says where a log does not.
        captured_times: replays of the calls that were captured into graphs.

    Raises:
        OutputError: one is no workload, or was cut.
        CommandLineError: a log that leaves something open, or the same recording twice.
    """
    parts = [workload.read(path, stated or Stated()) for path in paths]
    return workload.merge([workload.scaled(part, captured_times) for part in parts])


def snapshots_beside(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Snapshots that killed ranks left beside these files, and that are not among them."""
    given = {path.resolve() for path in paths}
    beside = (
        found
        for path in sorted(given)
        if path.is_file()
        for found in path.parent.glob(f"{glob.escape(path.name)}.*.part")
    )
    return tuple(dict.fromkeys(path for path in beside if path not in given))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a workload is.

    Attributes:
        shares: what matters most first.
        has_rules: whether a rule file was given.
        remarks: what the figures do not hold, one sentence each.
        saving: where both rules and a session were given.
        ceiling: where a session was given.
    """

    workload: Workload
    shares: tuple[Share, ...]
    has_rules: bool
    remarks: tuple[str, ...]
    saving: Saving | None = None
    ceiling: Ceiling | None = None

    def covered(self, of: Callable[[Share], float | None]) -> float:
        """The share that rules cover, from 0 to 1."""
        return sum(of(share) or 0.0 for share in self.shares if share.rule is not None)

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        whole = self.workload
        return {
            "calls": whole.calls,
            "bytes": whole.total_nbytes,
            "recorders": model.to_plain(whole.recorders),
            "ranks": {scale.short: whole.ranks_at(scale) for scale in whole.scales},
            "aside": dict(whole.aside),
            "counts": [_share_plain(share) for share in self.shares],
            "covered": {
                "calls": self.covered(lambda s: s.of_calls),
                "bytes": self.covered(lambda s: s.of_bytes),
                "time": self.covered(lambda s: s.of_time)
                if any(s.of_time is not None for s in self.shares)
                else None,
            }
            if self.has_rules
            else None,
            "saving": None if self.saving is None else saving_plain(self.saving),
            "ceiling": None if self.ceiling is None else self.ceiling.as_plain(),
            "remarks": list(self.remarks),
        }


def _share_plain(share: Share) -> dict[str, Any]:
    count = share.count
    return {
        "collective": count.collective.value,
        "n_ranks": count.scale.n_ranks,
        "n_nodes": count.scale.n_nodes,
        "nbytes": count.nbytes,
        "min_nbytes": count.min_nbytes,
        "max_nbytes": count.max_nbytes,
        "calls": count.calls,
        "total_nbytes": count.total_nbytes,
        "of_calls": share.of_calls,
        "of_bytes": share.of_bytes,
        "of_time": share.of_time,
        "time_us": share.time_us,
        "rule_line": share.rule.line if share.rule else None,
        "setting": str(share.rule.setting) if share.rule else None,
    }


def show(
    whole: Workload,
    *,
    rules: Path | None,
    folder: Path | None,
    steps: int | None = None,
    reporter: Reporter,
) -> Shown:
    """Say what of a workload matters, and what rules cover.

    Args:
        whole: merged.
        rules: a rule file, None for none.
        folder: a session with the times of the baseline, None for none.
        steps: that the job made while it was recorded.
        reporter: told what is worth telling.

    Raises:
        InputFileError: the rule file cannot be read, or is refused.
        SessionError: no session there.
    """
    fitted = None if folder is None else fit_session(folder, reporter=reporter)
    times = None if fitted is None else Times(fitted.curves).before
    read: Sequence[Rule] = ()
    if rules is not None:
        read = accepted(content_of(rules), rules, "correct these lines.").rules
    shares = workload.shares_of(whole, times, read)
    saved = None
    if fitted is not None and rules is not None:
        saved = saving(whole, by_rules(read), [fitted], steps)
    return Shown(
        workload=whole,
        shares=shares,
        has_rules=rules is not None,
        remarks=tuple(_remarks(whole)),
        saving=saved,
        ceiling=None if fitted is None else ceiling_of(whole, Times(fitted.curves), steps),
    )


def _remarks(whole: Workload) -> list[str]:
    """What must be known to trust the figures."""
    sources = {recorder.source for recorder in whole.recorders} or {Source.RECORD}
    remarks = [BLIND[source] for source in Source if source in sources]
    if Source.LOG in sources and Source.RECORD not in sources:
        remarks.insert(0, BLIND[Source.RECORD])
    remarks = [*whole.cuts, *remarks]
    open_ended = [recorder for recorder in whole.recorders if recorder.state is State.UNFINISHED]
    beyond = sum(recorder.beyond for recorder in whole.recorders)
    unknown = sum(recorder.unknown for recorder in whole.recorders)
    inexact = any(not count.is_exact for count in whole.counts)
    times = {
        recorder.captured_times
        for recorder in whole.recorders
        if recorder.source is not Source.REPLAY
    }
    if open_ended:
        remarks.append(
            f"{len(open_ended)} of {len(whole.recorders)} recordings were never finished: their "
            "process was killed or still runs, and what it called since its last snapshot is lost"
        )
    if beyond or inexact:
        remarks.append(
            f"{beyond} calls had more sizes than are kept one by one; they stand in rows of a "
            "power of two each"
        )
    missing = sum(recorder.missing for recorder in whole.recorders)
    if missing:
        remarks.append(
            f"{missing} calls are not in the dump, by its own numbers: too small, or more than its "
            "buffer held"
        )
    if unknown:
        remarks.append(f"{unknown} calls were of a collective that has no name here")
    if times - {1}:
        remarks.append(f"calls of records and logs were multiplied by {_listed(times)}")
    if whole.aside:
        listed = ", ".join(f"{calls} {name}" for name, calls in whole.aside.items())
        remarks.append(f"seen beside them, and not tuned: {listed}")
    return remarks


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
