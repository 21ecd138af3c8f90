"""``rccltune tune``: sweep, fit, emit-config, verify, plot and report in one go."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rccltune.cli import sweep_perf
from rccltune.cli.console import Console, common
from rccltune.cli.help import verb
from rccltune.cli.progress import shown_progress
from rccltune.cli.shared_options import (
    ChoiceArguments,
    choosing_of_tune,
    forced_line,
    markdown_option,
)
from rccltune.cli.sweep import check_hardware
from rccltune.cli.sweep import sweep as _sweep
from rccltune.cli.verify import (
    beside_lines,
    bits_lines,
    cost_line,
    describe_dropped,
    loop_of,
    no_hardware,
    overwritten_lines,
    undecided_line,
    unregistered_line,
)
from rccltune.model import defaults
from rccltune.model.errors import CommandLineError
from rccltune.model.measurement import Caution
from rccltune.model.rounding import minutes
from rccltune.model.rule import RESTORES, RuleState
from rccltune.model.settings import LL128_FORCED
from rccltune.model.text import JoinedLines, join_lines
from rccltune.model.units import format_span
from rccltune.model.zone import NOT_MEASURED

if TYPE_CHECKING:
    from rccltune.measure.perf_sweep import PreparedPerfSweep
    from rccltune.tune import TuneResult
    from rccltune.verify.outcome import VerificationResult


_SHOWN = 4


@verb("tune")
@choosing_of_tune
@markdown_option
@common
def tune(
    *,
    console: Console,
    choosing: ChoiceArguments,
    markdown: Path | None,
    config: Path | None,
    output: Path,
    plan_only: bool,
    apply_mode: bool,
    force: bool,
    **options: Any,  # noqa: ANN401 - the options of a sweep file, by name
) -> None:
    """Find this machine's best settings, prove them here, and say how to use them.

    Sweep, fit, emit-config, verify, plot and report. Interrupted, the same command goes on. On one
    node of gfx942 a second session, ll128-forced/ in the first, has LL128 forced; the site's .env
    names its rules where they are proven faster somewhere and slower nowhere.

    \b
    Example:
      rccltune tune --mode cpx-nps4

    Exit codes: 0 done, also where nothing is to be won, 2 command line, 3 sweep.yaml, 4 the
    machine cannot run it, 5 runs failed, 7 another machine's session, 8 no tuner is asked at any
    size, 9 verification failed, 130 interrupted.
    """
    from rccltune.measure.paths_here import check_tuner_is_asked
    from rccltune.measure.perf_sweep import prepare_measuring
    from rccltune.measure.rccl_tests import confirming_site
    from rccltune.measure.request import merge_request, refuse_simulated
    from rccltune.measure.site import in_mode
    from rccltune.measure.sweep_schema import PERF
    from rccltune.tune import forced_request
    from rccltune.tune import tune as tune_tune
    from rccltune.verify.verdict_store import FORCED_FOLDER

    request = merge_request(config, options, runner=defaults.SWEEP_RUNNER)
    # Its sizes are measured, and weigh by its calls.
    choosing = replace(choosing, workload=request.workload, same_bits=request.sweep.same_bits)
    if request.site.runner != PERF:
        raise CommandLineError(
            "tune measures with rccltune-perf, and rccl-tests have the last word",
            hint="rccltune sweep --runner rccl-tests, then emit-config and verify, are the way of "
            "rccl-tests alone.",
        )
    console.say(f"Session: {output}")
    refuse_simulated(request, output)
    check_hardware(request, apply_mode=apply_mode)
    with in_mode(request.sweep.mode, apply=apply_mode, reporter=console):
        prepared = prepare_measuring(request, output, console)
        site = prepared.instrument.site
        other = forced_request(request, site)
        forced = prepare_measuring(other, output / FORCED_FOLDER, console) if other else None
        if site.node is not None:
            console.say(f"SIMULATED node {site.node.name}: no hardware is measured")
        if plan_only:
            _show(console, [prepared, *([forced] if forced else [])])
            return
        check_tuner_is_asked(prepared.past, prepared.sweep)
        sweep_perf.talk_before(console, prepared)
        console.say(_duration([prepared, *([forced] if forced else [])]))
        with shown_progress(console) as reporter:
            done = tune_tune(
                prepared,
                choosing.options(),
                reporter=reporter,
                command=shlex.join(["rccltune", *sys.argv[1:]]),
                force=force,
                confirms=confirming_site(request.site, site),
                forced=forced,
            )
    with_reasons = console.verbosity > 0
    # Its own passes measure settings at fewer sizes where they cannot win.
    console.warn(
        one
        for one in done.notices
        if with_reasons or not (one.caution.can_wait or one.caution is Caution.MISSING_VIEW)
    )
    plain, text = done.json_fields(), _text(done, with_details=with_reasons)
    used = done.forced if done.forced and done.is_forced_better else done
    if choosing.workload is not None:
        from rccltune.rules import savings

        rules = [rule for one in used.verified for rule in one.standings if rule.is_kept]
        chosen = savings.by_rules(rules)
        saved = savings.saving_in(choosing.workload, output, chosen, reporter=console)
        plain["saving"] = saved
        text = join_lines([text, savings.saving_text(saved)])
    console.result(plain, text)
    if markdown is not None:
        from rccltune.report.page import write_markdown

        write_markdown(used.folder, markdown, reporter=console)
    swept = [one.swept for one in (done, done.forced) if one is not None]
    sweep_perf.stop_if_aside(swept, "What is said above holds for the rest.")


def _show(console: Console, plans: Sequence[PreparedPerfSweep]) -> None:
    """What would be measured, and what it roughly takes to prove what is found."""
    from rccltune.verify.duration import expected_proof

    plain, texts = [], []
    for one in plans:
        seconds = expected_proof(one).total_s
        line = f"verification: about {minutes(seconds)}, less where rules are for few sizes"
        plain.append({**one.json_fields(), "verification_s": round(seconds, 1)})
        head = [f"{one.folder}, with {_pairs(one.setup.environment)}:"] * (one is not plans[0])
        texts.append(join_lines([*head, sweep_perf.plan_text(one), line]))
    forced = plain[1] if len(plain) > 1 else None
    console.result({**plain[0], "forced": forced}, join_lines(texts, gap="\n\n"))
    console.say("Next: the same command without --plan.")


def _duration(plans: Sequence[PreparedPerfSweep]) -> str:
    """How long each part takes, and all of it."""
    from rccltune.tune import expected_showing_s
    from rccltune.verify.duration import expected_proof

    swept_s = [one.expected_s for one in plans]
    verified_s = [expected_proof(one).total_s for one in plans]
    showing_s = expected_showing_s(len(plans))
    parts = [
        f"{'' if one is plans[0] else f'with {_pairs(one.setup.environment)} '}"
        f"sweep {minutes(swept)}, verification {minutes(verified)}"
        for one, swept, verified in zip(plans, swept_s, verified_s, strict=True)
    ]
    total = minutes(sum([*swept_s, *verified_s, showing_s]))
    return f"About {total}: {'; '.join(parts)}; figures {minutes(showing_s)}"


def _pairs(variables: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in variables.items())


def _text(done: TuneResult, *, with_details: bool) -> JoinedLines:
    """Where it is faster and by how much, what is undecided, and how to use it now.

    Args:
        done: the whole way.
        with_details: technical remarks, too.
    """
    lines = [no_hardware(done.runner)] if done.simulated else []
    rows = [line for one in done.verified for line in _rules(one)]
    if rows:
        lines += [_heading(done), *rows]
    elif done.forced and any(_rules(one) for one in done.forced.verified):
        lines.append("In the environment as it is, no rule gains enough to be kept.")
    else:
        lines += [
            "Nothing to gain here: the library's own choices are as fast as any rule.",
            "The rule file is empty; leave everything as it is.",
        ]
    for one in done.verified:
        lines += _beside_rules(one, with_details=with_details)
    lines += _unmeasured(done)
    used = done
    if done.forced and done.is_forced_better:
        used = done.forced
        lines.append(
            f"With {_pairs(dict(used.emitted.needs))} and rules of its own, verified too, it is "
            "faster still at some sizes and slower at none; the .env file sets both:"
        )
        for one in used.verified:
            lines += [*_rules(one), *_beside_rules(one, with_details=with_details)]
    if rows or used is not done:
        lines.append(f"To use it now: source {shlex.quote(str(done.exports.resolve()))}")
    if used is not done and rows and done.emitted.path is not None:
        lines.append(forced_line(used.folder, done.emitted.path))
    if done.forced and used is done:
        lines += _in_environment(done.forced, with_details=with_details)
    for each in (done, *([done.forced] if done.forced else [])):
        lines += [one.file.confirmed for one in each.verified if one.file.confirmed]
    lines.append(f"The page to mail: {used.report.path}")
    lines.append(f"Figures: {used.figures}; all of it: {done.folder}")
    return join_lines(lines)


def _beside_rules(one: VerificationResult, *, with_details: bool) -> list[str]:
    """What the environment does by itself, what was not kept, and what is undecided."""
    beside = beside_lines(one) if with_details else []
    lines = [f"  {line}" for line in (*overwritten_lines(one), *beside, *unregistered_line(one))]
    lines += [f"  not kept: {line}" for line in describe_dropped(one)[:_SHOWN]]
    n_more = len(one.file.cuts) - _SHOWN
    if n_more > 0:
        lines.append(f"  not kept: {n_more} more ranges; the rule file has the reasons")
    if not _rules(one):
        return lines
    if one.file.bits is not None:
        return [*lines, *(f"  {line}" for line in (*bits_lines(one), *cost_line(one)))]
    return [*lines, *(f"  {line}" for line in (undecided_line(one), *cost_line(one)))]


def _in_environment(forced: TuneResult, *, with_details: bool) -> list[str]:
    """The session with LL128 forced: what its rules gain; in detail, the rules, too."""
    variable = "=".join(LL128_FORCED)
    kept_rules = [rule for one in forced.verified for rule in one.standings if rule.is_kept]
    gains = [rule.gain.value for rule in kept_rules if rule.gain]
    if not gains:
        return [f"{variable}: no gain is certain"]
    low, high = f"{min(gains):.2f}x", f"{max(gains):.2f}x"
    lines = [
        f"Or with {variable} in the job's environment, against the library in it:",
        f"  {forced.verified[0].count}, {low if low == high else f'{low} to {high}'}",
    ]
    if with_details:
        for one in forced.verified:
            lines += [*_rules(one), *_beside_rules(one, with_details=True)]
    path = shlex.quote(str(forced.exports.resolve()))
    lines.append(
        f"Not faster everywhere: rccltune deploy takes the rules of {forced.folder.parent}. "
        f"Where jobs set {LL128_FORCED[0]} anyway: source {path}"
    )
    return lines


def _heading(done: TuneResult) -> str:
    kept_rules = [rule for one in done.verified for rule in one.standings if rule.is_kept]
    if any(one.file.bits is not None for one in done.verified):
        return "Verified, results keep their bits at every size that a rule reaches:"
    if all(rule.state is RuleState.RESTORES for rule in kept_rules):
        return "Verified, as fast as the library is without a plugin:"
    return "Verified, faster than the library's own choice:"


def _rules(one: VerificationResult) -> list[str]:
    lines = []
    for rule in one.standings:
        if rule.is_kept:
            span = format_span(rule.min_nbytes, rule.max_nbytes)
            said = f"  {rule.collective.value} {span}: {rule.setting}, {rule.gain}"
            if rule.state is RuleState.KEEPS_BITS:
                lines.append(said.removesuffix(", None"))
                continue
            if rule.state is RuleState.RESTORES:
                # Calls one by one were compared with the idle plugin alone.
                lines.append(f"{said}: {RESTORES}")
                continue
            if rule.loop is not None:
                up_to = rule.up_to_graphs
                said += f" in a graph{up_to}{', one by one above' if up_to else ''}"
            if (worst := rule.worst_gain(one.file.verdicts)) is not None:
                said += f", {worst:.2f}x at its worst size"
            if rule.loop is not None:
                said += f", one by one{rule.up_to_graphs} {loop_of(rule)}"
            if rule.one_root is not None:
                said += f", with one root {rule.one_root.value:.2f}x"
            if rule.registered is not None:
                said += f", with registered buffers {rule.registered.value:.2f}x"
            lines.append(said)
    return lines


def _unmeasured(done: TuneResult) -> Sequence[str]:
    """Where rules end because measuring did."""
    zones = done.emitted.zones
    ruled = {zone.target for zone in zones if zone.setting is not None}
    open_ = (zone for zone in zones if zone.target in ruled and zone.reason == NOT_MEASURED)
    lines = dict.fromkeys(zone.why for zone in open_)
    end = f" {NOT_MEASURED}: left to the library"
    where = [line.removesuffix(end) for line in lines]
    return (f"  {', '.join(where)}{end}",) if where else ()


_own = {param.name for param in tune.params}
tune.params[:0] = [p for p in _sweep.params if p.name not in _own]
