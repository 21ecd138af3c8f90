"""``rccltune sweep --runner rccl-tests``: what it says before, while and after it measures."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rccltune.cli.console import Console
from rccltune.cli.options import then_choose
from rccltune.cli.progress import minutes
from rccltune.cli.sweep_perf import shown_progress
from rccltune.model.errors import LaunchError
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import JoinedLines, join_lines

if TYPE_CHECKING:
    from rccltune.measure.launch_sweep import LaunchProgress
    from rccltune.measure.prepared_launches import PreparedLaunches
    from rccltune.measure.request import Request
    from rccltune.measure.sweep_result import SweepResult


def prepare(
    console: Console, request: Request, output: Path, scale: Scale | None
) -> PreparedLaunches:
    """What would be measured; ``scale`` is what was asked for with --scales."""
    from rccltune.measure import prepared_launches
    from rccltune.measure.scales import check_scale
    from rccltune.session.store import NODE_FILE

    console.say(f"Session: {output}")
    prepared = prepared_launches.prepare_launches(request, output)
    site = prepared.where.site
    if site.node is not None:
        is_kept = request.site.simulate == str(output / NODE_FILE)
        kept = ", as this session keeps it" if is_kept else ""
        console.say(f"SIMULATED node {site.node.name}{kept}: no hardware is measured")
    if scale is not None:
        check_scale(scale, site)
    return prepared


def show(console: Console, plans: Sequence[PreparedLaunches], scales: Sequence[Scale]) -> None:
    """The plan, or one for each of several scales."""
    plain = [one.as_plain() for one in plans]
    named = {scale.short: one for scale, one in zip(scales, plain, strict=False)}
    texts = (join_lines([str(one.folder)] * bool(scales) + [_plan_text(one)]) for one in plans)
    # Command lines stay whole, to be copied.
    text = join_lines(texts, gap="\n\n")
    console.result({"scales": named} if scales else plain[0], text, is_file=True)
    console.say("Next: the same command without --plan.")


def _plan_text(prepared: PreparedLaunches) -> JoinedLines:
    """Every command line that is left, as for a shell, with how often it is run."""
    lines = [*prepared.remarks]
    for line, (what, n) in prepared.shell_lines().items():
        lines += [f"{what}, {_times(n)}:", f"  {line}"]
    lines += _not_measured(prepared)
    listed = {
        "cleared where a setting is forced": [
            f"{name}={value}" for name, value in prepared.cleared
        ],
        "passed": [f"{name}={value}" for name, value in prepared.passed],
        "set by configuration files": [
            f"{name}={value} ({where})" for where, name, value in prepared.filled
        ],
    }
    for title, pairs in listed.items():
        if pairs:
            lines += [f"{title}:", *(f"  {pair}" for pair in pairs)]
    expected = prepared.expected_s(prepared.left)
    said = f"{_launches(len(prepared.left))}, about {minutes(expected)}"
    if prepared.budget_s is not None and prepared.spent_s + expected > prepared.budget_s:
        said += f"; --budget {minutes(prepared.budget_s)} ends it"
    return join_lines([*lines, said])


def _not_measured(prepared: PreparedLaunches) -> Iterator[str]:
    """What a user could miss, and why it is not there."""
    for left_out in prepared.left_out:
        yield f"Not measured: {left_out}"
    for aside in prepared.aside:
        yield f"Not measured: {aside}: set aside, {aside.reason}"
    for collective in prepared.sweep.collectives:
        if not collective.is_tunable:
            yield f"{collective.value} never asks a tuner: it is measured as it is"


def run(console: Console, prepared: PreparedLaunches, *, force: bool) -> None:
    """Measure, and say what came of it."""
    from rccltune.measure import launch_sweep

    for remark in prepared.remarks:
        console.say(remark)
    for said in _not_measured(prepared):
        console.say(said)
    if prepared.cleared:
        pairs = ", ".join(f"{name}={value}" for name, value in prepared.cleared)
        console.say(
            f"These choose: cleared where a setting is forced, kept in the baseline: {pairs}"
        )
    for where, name, value in prepared.filled:
        console.say(f"{where} sets {name}={value} in every rank of every launch")
    left = prepared.left
    console.say(
        f"{_launches(len(left))} to make, about {minutes(prepared.expected_s(left))}"
        if left
        else "everything is measured already"
    )
    with shown_progress(console, as_events=True) as reporter:
        done = launch_sweep.measure_by_launches(
            prepared,
            reporter=_WarningReporter(console, reporter),
            command=shlex.join(["rccltune", *sys.argv[1:]]),
            force=force,
        )
    console.event("done", done.as_plain(), _text(done, console.verbosity))
    if done.aside:
        named = "; ".join(f"{one}: {one.reason}" for one in done.aside)
        raise LaunchError(
            f"set aside: {len(done.aside)}; everything else is measured: {named}",
            where=f"{prepared.folder}/launches/{done.aside[0].launches[-1]}/",
            hint="look into stdout.log and stderr.log there; a sweep into a new session (-o DIR) "
            "tries again (with --timeout where it needs longer). Go on without them: rccltune fit.",
        )


class _WarningReporter(Reporter):
    """Who is told of a launch, and first warned of what its output says.

    Args:
        console: warns; programs that read along get the whole launch.
        other: told all else.
    """

    def __init__(self, console: Console, other: Reporter) -> None:
        """Keep both."""
        self._console = console
        self._other = other

    def say(self, text: str) -> None:
        """As the other does."""
        self._other.say(text)

    def detail(self, text: str) -> None:
        """As the other does."""
        self._other.detail(text)

    def progress(self, step: object) -> None:
        """Warn, and show how far it is."""
        told = cast("LaunchProgress", step)
        if self._console.as_json:
            self._console.event("launch", _event(told), "")
        else:
            self._console.warn(told.ran.outcome.notices)
            self._other.progress(step)


def _event(told: LaunchProgress) -> dict[str, Any]:
    """One launch for a program that reads along."""
    from rccltune.session.launches import setting_of

    ran = told.ran
    return {
        "done": told.done,
        "of": told.of,
        "id": ran.launch.id,
        "collective": ran.launch.collectives[0].value,
        "setting": str(setting_of(ran.launch)),
        "status": ran.outcome.status.value,
        "failure": ran.outcome.failure.value if ran.outcome.failure else None,
        "samples": len(ran.samples),
        "usable": sum(sample.doubt is None for sample in ran.samples),
        "duration_s": ran.outcome.duration_s,
        "left_s": round(told.left_s, 1),
        "notices": [notice.message for notice in ran.outcome.notices],
    }


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def _launches(n: int) -> str:
    return f"{n} launch{'es' * (n != 1)}"


def _text(done: SweepResult, verbosity: int) -> JoinedLines:
    took = f"{_launches(done.n_starts)} in {done.seconds:.1f} s"
    lines = [f"{done.n_samples} times of {done.library} from {took}, in {done.session.path}"]
    if done.tuner not in (None, "none"):
        lines.append(f"tuner that the library uses by itself here: {done.tuner}")
    lines += done.remarks
    if done.is_over:
        lines.append("the budget is spent; the same command with a larger --budget goes on")
    if verbosity >= 0:
        lines.append(then_choose(done.session.path))
    return join_lines(lines)
