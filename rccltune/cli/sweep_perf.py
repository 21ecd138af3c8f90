"""``rccltune sweep``: what it says before, while and after it measures."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rccltune.cli.console import Console
from rccltune.cli.progress import shown_progress
from rccltune.cli.shared_options import then_choose
from rccltune.model.errors import LaunchError
from rccltune.model.rounding import minutes
from rccltune.model.text import JoinedLines, join_lines

if TYPE_CHECKING:
    from rccltune.measure.perf_sweep import PreparedPerfSweep
    from rccltune.measure.rccl_tests_sweep import PreparedRcclTests
    from rccltune.measure.request import Request
    from rccltune.measure.sweep_result import SweepResult

    Prepared: TypeAlias = PreparedPerfSweep | PreparedRcclTests


def prepare(console: Console, request: Request, output: Path) -> Prepared:
    """What would be measured."""
    from rccltune.measure.sweep_schema import PERF

    console.say(f"Session: {output}")
    prepared: Prepared
    if request.site.runner == PERF:
        from rccltune.measure.perf_sweep import prepare_measuring

        prepared = prepare_measuring(request, output, console)
    else:
        from rccltune.measure.rccl_tests_sweep import prepare_rccl_tests

        prepared = prepare_rccl_tests(request, output)
    if prepared.site.node is not None:
        console.say(f"SIMULATED node {prepared.site.node.name}: no hardware is measured")
    return prepared


def plan_text(prepared: Prepared) -> JoinedLines:
    """What would run, and for how long."""
    lines = [*prepared.remarks, *prepared.plan_lines, *_list_unmeasured(prepared)]
    for title, pairs in (("cleared", prepared.cleared), ("passed", prepared.passed)):
        if pairs:
            lines += [f"{title}:", *(f"  {name}={value}" for name, value in pairs)]
    expected = f"about {minutes(prepared.expected_s)}"
    budget = prepared.budget_left_s
    if budget is not None and budget < prepared.expected_s:
        expected += f"; --budget {minutes(budget)} ends it"
    lines.append(f"{_starts(prepared.n_starts)} of all ranks, {expected}")
    return join_lines(lines)


def _list_unmeasured(prepared: Prepared) -> Iterator[str]:
    """Settings, sizes and collectives that a user could miss."""
    for one in prepared.excluded:
        yield f"Not measured: {one}: excluded, {one.reason}"
    for said in prepared.left_out:
        yield f"Not measured: {said}"
    for collective in prepared.sweep.collectives:
        if not collective.is_tunable:
            yield f"{collective.value} never asks a tuner: it is measured as it is"


def talk_before(console: Console, prepared: Prepared) -> None:
    """What a user should know before anything starts."""
    for said in (*prepared.remarks, *_list_unmeasured(prepared)):
        console.say(said)
    if prepared.cleared:
        pairs = ", ".join(f"{name}={value}" for name, value in prepared.cleared)
        console.say(f"These choose: cleared where we choose, kept in the baseline: {pairs}")


def run(console: Console, prepared: Prepared, *, force: bool) -> None:
    """Measure, and say what came of it."""
    from rccltune.measure import perf_sweep, rccl_tests_sweep

    talk_before(console, prepared)
    starts, expected = _starts(prepared.n_starts), minutes(prepared.expected_s)
    console.say(
        f"Sweep: {starts} of all ranks, about {expected}"
        if prepared.left
        else "everything is measured already"
    )
    command = shlex.join(["rccltune", *sys.argv[1:]])
    with shown_progress(console) as reporter:
        if isinstance(prepared, perf_sweep.PreparedPerfSweep):
            done = perf_sweep.measure_with_perf(
                prepared, reporter=reporter, command=command, force=force
            )
        else:
            done = rccl_tests_sweep.measure_with_rccl_tests(
                prepared, reporter=reporter, command=command, force=force
            )
    console.result(done, _text(done, console.verbosity))
    stop_if_aside([done], "Go on without them: rccltune fit.")


def stop_if_aside(sweeps: Sequence[SweepResult], hint: str) -> None:
    """End with an error where settings failed in any of several sessions.

    Raises:
        LaunchError: some did; everything else is measured.
    """
    by_folder = {f"{one.session.path}/runs/": one.excluded for one in sweeps if one.excluded}
    if by_folder:
        reasons = [
            f"{one}: {one.reason}{f' ({folder})' if len(by_folder) > 1 else ''}"
            for folder, settings in by_folder.items()
            for one in settings
        ]
        raise LaunchError(
            f"excluded: {len(reasons)}; everything else is measured: {'; '.join(reasons)}",
            where=", ".join(by_folder),
            hint="look into their logs there; a sweep into a new session (-o DIR) tries again, "
            f"with --timeout where ranks need longer. {hint}",
        )


def _starts(n: int) -> str:
    return f"{n} start{'s' * (n != 1)}"


def _text(done: SweepResult, verbosity: int) -> JoinedLines:
    took = f"{_starts(done.n_starts)} in {done.seconds:.1f} s"
    lines = [f"{done.n_samples} times of {done.library} from {took}, in {done.session.path}"]
    if done.tuner not in (None, "none"):
        lines.append(f"tuner that the library uses by itself here: {done.tuner}")
    lines += [f"not offered: {said}" for said in done.not_offered]
    lines += done.remarks
    if done.is_over:
        lines.append("the budget is spent; the same command with a larger --budget goes on")
    if verbosity >= 0:
        lines.append(then_choose(done.session.path))
    return join_lines(lines)
