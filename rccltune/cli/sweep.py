"""``rccltune sweep``: measure every setting on this machine, or on a simulated one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rccltune.cli import sweep_perf
from rccltune.cli.console import DEFAULT_SESSION, Console, common
from rccltune.cli.help import grouped, verb
from rccltune.cli.options import FOLDER, ON_REQUEST
from rccltune.cli.progress import minutes, progress_of
from rccltune.cli.sweep_options import names, sweep_option, sweep_options
from rccltune.model import defaults
from rccltune.model.errors import CommandLineError, LaunchError
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import Laid, format_size, lay

if TYPE_CHECKING:
    from rccltune.measure.preparation import Prepared
    from rccltune.measure.request import Request
    from rccltune.measure.site import Site
    from rccltune.measure.sweeps import Swept


# What to measure, the session for it, and the scale where --scales asked for it.
_Wanted: TypeAlias = "tuple[Request, Path, Scale | None]"


@verb("sweep")
@sweep_option("mode")
@grouped(
    "-c",
    "--config",
    type=FOLDER,
    metavar="YAML",
    group="What",
    help="Options from a file (sweep.yaml); those given here win over it.",
)
@grouped(
    "-o",
    "--output",
    type=FOLDER,
    default=DEFAULT_SESSION,
    show_default=True,
    metavar="SESSION",
    group="Output",
    usual=True,
    help="Folder for everything that is measured and made.",
)
@sweep_options(*(name for name in names() if name != "mode"))
@grouped(
    "--apply-mode",
    is_flag=True,
    group="Running",
    help="Set the GPUs to --mode first, and put the old mode back afterwards.",
)
@grouped(
    "--plan",
    "plan_only",
    is_flag=True,
    group="Output",
    usual=True,
    help="Show what would run and for how long, and stop.",
)
@grouped(
    "--force",
    is_flag=True,
    group="Advanced",
    help="Go on although runs of one setting differ too much.",
)
@common
def sweep(
    *,
    console: Console,
    config: Path | None,
    output: Path,
    plan_only: bool,
    apply_mode: bool,
    force: bool,
    **options: Any,  # noqa: ANN401 - the options of a sweep file, by name
) -> None:
    """Find out which setting of each collective is fast at which size, and keep it in a session.

    Ranks start by themselves, one a GPU. All settings are checked and timed once, then those that
    could win, and the library as it is, in several communicators. Results are checked, and a time
    counts only where the library itself said that it ran what was asked for. The same command
    resumes a session that was interrupted. A setting that hangs, crashes or gives wrong results is
    set aside: it is measured no more and chosen nowhere, and all others are measured. With
    --runner rccl-tests launches of those benchmarks are measured instead.

    With --scales several scales are swept one after the other, on the first hosts of --hostfile;
    fit, emit-config and plot take the folder for all its sessions.

    \b
    Example:
      rccltune sweep --mode cpx-nps4 --np 64
      rccltune sweep --mode cpx-nps4 --simulate mi300x --collective all_reduce

    Exit codes: 0 done, 2 command line, 3 sweep.yaml, 4 the machine cannot run it, 5 launches
    failed, 7 the session is of another machine, 130 interrupted.
    """
    from rccltune.measure import declaration
    from rccltune.measure.request import merge_request, on_kept_node
    from rccltune.measure.scales import at_scales
    from rccltune.measure.site import in_mode

    request = merge_request(config, options, runner=defaults.SWEEP_RUNNER)
    request = on_kept_node(request, [output / one.short for one in request.scales] or [output])
    check_hardware(request, apply_mode=apply_mode)
    with in_mode(request.sweep.mode, apply=apply_mode, reporter=console):
        wanted: list[_Wanted] = [(request, output, None)]
        if request.scales:
            wanted = [
                (replace(request, site=one.request), one.folder, one.scale)
                for one in at_scales(request.site, request.scales, output)
            ]
        is_perf = request.site.runner == declaration.PERF
        if plan_only and is_perf:
            plans = [sweep_perf.prepare(console, *one) for one in wanted]
            sweep_perf.show(console, plans, request.scales)
            return
        if plan_only:
            _show(console, [_prepare(console, *one) for one in wanted], request.scales)
            return
        failed = []
        for one in wanted:
            try:
                if is_perf:
                    measured = sweep_perf.prepare(console, *one)
                    sweep_perf.run(console, measured, force=force)
                else:
                    _sweep(console, *one, force=force)
            except LaunchError as error:
                # What fails at one scale says nothing of the others.
                failed.append(error)
        for other in failed[1:]:
            console.say(str(other))
        if failed:
            raise failed[0]


def _prepare(console: Console, request: Request, output: Path, scale: Scale | None) -> Prepared:
    """What would run; ``scale`` is what was asked for with --scales."""
    from rccltune.measure import preparation
    from rccltune.measure.scales import check_scale

    console.say(f"Session: {output}")
    site = site_of(console, request, output)
    if scale is not None:
        check_scale(scale, site)
    return preparation.prepare_request(request, site, output)


def _sweep(
    console: Console, request: Request, output: Path, scale: Scale | None, *, force: bool
) -> None:
    """One session."""
    prepared = _prepare(console, request, output, scale)
    _measure(console, prepared, force=force)


def _show(console: Console, plans: Sequence[Prepared], scales: Sequence[Scale]) -> None:
    """The plan, or one for each of several scales."""
    from rccltune.measure.sweeps import plan_as_plain

    plain = [plan_as_plain(one) for one in plans]
    named = {scale.short: one for scale, one in zip(scales, plain, strict=False)}
    texts = (lay([str(one.folder)] * bool(scales) + [plan_text(one)]) for one in plans)
    console.result({"scales": named} if scales else plain[0], lay(texts, gap="\n\n"))
    console.say("Next: the same command without --plan.")


def _measure(console: Console, prepared: Prepared, *, force: bool) -> None:
    from rccltune.measure import sweeps

    talk_before(console, prepared)
    with progress_of(console, n_launches=len(prepared.left)) as reporter:
        done = sweeps.sweep(
            prepared,
            reporter=reporter,
            command=shlex.join(["rccltune", *sys.argv[1:]]),
            force=force,
        )
    text = _text(done, console.verbosity)
    console.event("done", done.as_plain(), text)
    if done.left:
        raise LaunchError(
            f"{len(done.left)} of the launches failed; everything else is measured",
            where=f"{prepared.folder}/launches/{done.failed[-1].launch}/",
            hint="which setting is at fault is seen with one --setting at a time; the same command "
            "tries these launches again.",
        )
    if done.quarantined:
        # What runs in two environments that need no name may fail in both.
        failed = dict.fromkeys(f"{one}: {one.reason}" for one in done.quarantined)
        raise LaunchError(
            f"quarantined: {len(failed)}; everything else is measured: {'; '.join(failed)}",
            where=f"{prepared.folder}/launches/{done.quarantined[0].launches[-1]}/",
            hint="look into the log there; a sweep into a new session (-o DIR) tries again (with "
            "--timeout where it needs longer). Go on without them: rccltune fit.",
        )


def check_hardware(request: Request, *, apply_mode: bool) -> None:
    """Stop where this machine would be changed for a node that is none.

    Raises:
        CommandLineError: it would.
    """
    if apply_mode and request.site.simulate is not None:
        raise CommandLineError(
            "--apply-mode sets the mode of this machine's GPUs, and a simulated node is measured",
            where=request.site.simulate,
            hint="leave it out; or choose another session with -o to measure this machine.",
        )


def site_of(console: Console, request: Request, output: Path) -> Site:
    """Where it runs; where that is no hardware it is said before all else."""
    from rccltune.measure.site import find_site
    from rccltune.session.store import NODE_FILE

    site = find_site(request.site)
    if site.node is not None:
        is_kept = request.site.simulate == str(output / NODE_FILE)
        kept = ", as this session keeps it" if is_kept else ""
        console.say(f"SIMULATED node {site.node.name}{kept}: no hardware is measured")
    return site


def talk_before(console: Console, prepared: Prepared) -> None:
    """What a user should know before anything starts."""
    for remark in prepared.site.remarks:
        console.say(remark)
    console.say(f"Method: {prepared.method}")
    for said in _not_measured(prepared):
        console.say(said)
    if not prepared.sweep.named_variants:
        console.say(ON_REQUEST)
    there = f"; {len(prepared.done)} are there already" if prepared.done else ""
    console.say(f"{_launches(prepared)} to make{there}{_more_rounds(prepared)}")
    for where, name, value in prepared.filled:
        console.say(f"{where} sets {name}={value} in every rank of every launch")
    if prepared.cleared:
        names = ", ".join(name for name, _ in prepared.cleared)
        console.say(f"Cleared for every rank, since they choose: {names}")


def _not_measured(prepared: Prepared) -> Iterator[str]:
    """What a user could miss, and why it is not there."""
    for item in prepared.plan.impossible:
        yield f"Not measured: {item.collective.value} {item.setting}: {item.reason}"
    for one in prepared.quarantined:
        yield f"Not measured: {one}: quarantined, {one.reason}"
    yield from sweep_perf.left_out_of(prepared)


def plan_text(prepared: Prepared) -> Laid:
    """Every launch that is planned, what is not, and how long it takes."""
    from rccltune.session.launches import named_in

    lines = [
        f"{one.id}  {one.collectives[0].value:<15} {named_in(one):<12}  {shlex.join(one.argv)}"
        for one in prepared.left
    ]
    lines += [
        f"not measured: {item.collective.value} {item.setting}: {item.reason}"
        for item in prepared.plan.impossible
    ]
    lines += [f"not measured: {one}: quarantined, {one.reason}" for one in prepared.quarantined]
    lines += [f"not measured: variant {said}" for said in prepared.refused]
    lines += prepared.left_out
    listed = {
        "cleared": [f"{name}={value}" for name, value in prepared.cleared],
        "passed": [f"{name}={value}" for name, value in prepared.passed],
        "set by configuration files": [
            f"{name}={value} ({where})" for where, name, value in prepared.filled
        ],
    }
    for title, pairs in listed.items():
        if pairs:
            lines += [f"{title}:", *(f"  {pair}" for pair in pairs)]
    lines.append(f"method: {prepared.method}")
    lines.append(f"{_launches(prepared)}, {_expected(prepared)}")
    return lay(lines)


def _launches(prepared: Prepared) -> str:
    n = len(prepared.left)
    return f"{n} launch{'es' * (n != 1)}"


def _more_rounds(prepared: Prepared) -> str:
    """What a search may want after these launches, empty where nothing."""
    n = prepared.most_following
    if n < 2:
        return "; perhaps one more round" * n
    return f"; up to {n} more rounds"


def _expected(prepared: Prepared) -> str:
    """How long it takes; what a search will want is not known before, and has a bound."""
    said = f"about {minutes(prepared.estimate_s)}"
    if more := _more_rounds(prepared):
        said += f"{more}, about {minutes(prepared.most_s)} in all"
    if prepared.budget_s is not None and prepared.most_s > prepared.budget_s:
        said += f"; --budget {minutes(prepared.budget_s)} ends it"
    return said


def _text(done: Swept, verbosity: int) -> Laid:
    lines = [f"{done.n_samples} timings from {done.n_launches} launches in {done.session.path}"]
    if done.tuner is not None:
        lines.append(f"tuner that the library uses by itself: {done.tuner}")
    if verbosity > 0:
        # Where they do not agree, a warning says so.
        lines += done.agreements.lines
    lines += _undecided(done)
    if verbosity >= 0:
        lines.append("Next: rccltune fit, rccltune emit-config, rccltune plot")
    return lay(lines)


def _undecided(done: Swept) -> list[str]:
    """What the search still expects to lose, and what the budget left out."""
    from rccltune.measure.searching import expected_text

    lines = [f"may still be lost: {expected_text(one)}" for one in done.expected]
    for one in done.expected:
        if one.open_nbytes:
            sizes = ", ".join(format_size(nbytes) for nbytes in one.open_nbytes[:_SHOWN])
            more = ", …" if len(one.open_nbytes) > _SHOWN else ""
            lines.append(f"undecided: {one.collective.value} at {sizes}{more}")
    if done.unaffordable:
        lines.append(
            f"the budget left out {len(done.unaffordable)} launches; the same command with a "
            "larger --budget goes on"
        )
    return lines


_SHOWN = 8
