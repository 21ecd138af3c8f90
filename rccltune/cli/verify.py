"""``rccltune verify``: which rules stay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rccltune.cli.console import Console, WordChoice, common, table
from rccltune.cli.help import grouped, verb
from rccltune.cli.progress import shown_progress
from rccltune.cli.shared_options import FILE, allow_need_option, named, session_argument
from rccltune.cli.sweep_options import sweep_option, sweep_options
from rccltune.model import defaults
from rccltune.model.errors import SessionError, VerificationError
from rccltune.model.rule import RuleState
from rccltune.model.text import JoinedLines, join_lines
from rccltune.model.units import format_last, format_size, format_span
from rccltune.model.verdict import Verdict
from rccltune.model.vocabulary import DTYPE_BYTES, Collective

if TYPE_CHECKING:
    from rccltune.verify.outcome import VerificationResult
    from rccltune.verify.verdict_file import RuleVerdict, VerdictFile

_SHOWN = 12
_ONE_ROOT = "one root"
_REGISTERED = "registered"


@verb("verify")
@session_argument
@grouped(
    "--rules",
    type=FILE,
    metavar="FILE",
    group="What",
    usual=True,
    help="Rule file to verify. [default: the session's]",
)
@grouped(
    "--communicators",
    "n_communicators",
    type=click.IntRange(min=2),
    metavar="N",
    group="Running",
    usual=True,
    help=f"In how many to compare. [default: {defaults.VERIFY_COMMUNICATORS}, fewer where dear]",
)
@grouped(
    "--dtype",
    type=WordChoice(list(DTYPE_BYTES)),
    metavar="TYPE",
    group="What",
    usual=True,
    help="Compare with this data type. [default: the sweep's]",
)
@grouped(
    "--timing",
    type=WordChoice(["auto", "graph", "loop"]),
    default=defaults.TIMING,
    show_default=True,
    group="Running",
    usual=True,
    help="Replayed graphs, a loop of calls, or graphs up to 4 MiB and a loop above.",
)
@grouped(
    "--keep-losers",
    is_flag=True,
    group="Choosing",
    usual=True,
    help="Change no file; exit with 9 where a rule loses.",
)
@grouped(
    "--no-confirm",
    is_flag=True,
    group="Running",
    usual=True,
    help="Leave out the last look, with rccl-tests, where they are found.",
)
@sweep_options("timeout", "simulate")
@sweep_option("librccl", help="Library to measure with, with and without the rules.")
@sweep_option("launcher", help="Program that starts the ranks.")
@sweep_options("hostfile", "np")
@sweep_option("env", help="Set this variable, with and without the rules (repeatable).")
@allow_need_option
@common
def verify(
    *,
    console: Console,
    session: Path,
    rules: Path | None,
    n_communicators: int | None,
    dtype: str | None,
    timing: str,
    keep_losers: bool,
    no_confirm: bool,
    allowed: frozenset[str],
    **options: Any,  # noqa: ANN401 - where to run, as in a sweep file
) -> None:
    """Compare rules with the library's own choice on this machine; keep what wins.

    In a fixed number of communicators both are called in turns, at four sizes an octave and at
    every end of a rule. A rule stands if its gain is certain and no size in it is slower or wrong.
    What loses is cut out, what is left is judged again on fresh communicators, and what is
    undecided goes back to the library. What stands replaces the session's own file; of another
    one a copy goes into the session.

    \b
    Example:
      rccltune verify --rules rccl_tuner_gfx942.csv

    Exit codes: 0 what is left stands, also nothing, 2 no rule to verify, 3 the plugin refuses the
    file, 4 the machine cannot run it, 5 the library fails without rules, 7 no session, 9 wrong
    results without rules, a loser with --keep-losers, other bits than '#@ bits' names.
    """
    from rccltune.measure.instrument import session_instrument
    from rccltune.measure.rccl_tests import confirming_site
    from rccltune.measure.request import session_request
    from rccltune.rules.placement_files import file_name
    from rccltune.session.store import is_swept, open_session, sweep_then_verify
    from rccltune.verify.outcome import VerifyRequest
    from rccltune.verify.verification import rule_file_of, verify_rules

    console.say(f"Session: {session}")
    opened = open_session(session)
    if not is_swept(session):
        raise SessionError(
            "this session was imported, and rules are verified with the ranks of a sweep",
            where=str(session),
            hint=sweep_then_verify(rules or session / file_name(opened.fingerprint))
            + " does it, on the machine.",
        )
    measured = session_request(session, options)
    instrument = session_instrument(measured, session)
    rule_file = rule_file_of(session, instrument.site)
    chosen = rules or rule_file
    request = VerifyRequest(
        folder=session,
        rules=chosen,
        output=rule_file if rules is None else session / f"verified-{chosen.name}",
        n_communicators=n_communicators,
        keep_losers=keep_losers,
        dtype=dtype,
        timing=timing,
        confirms=confirming_site(measured.site, instrument.site, leaves_out=no_confirm),
        allowed=allowed,
        environment=measured.site.added,
    )
    with shown_progress(console) as reporter:
        done = verify_rules(request, measured.sweep, instrument, reporter=reporter)
    console.result(done.file, text_of(done))
    if not keep_losers:
        console.say(f"Next: {_next(done, session, is_own=rules is None)}")
        if rules is None and (session / "plots").is_dir():
            console.say(f"{named('plot', session)} draws the figures anew.")
    if keep_losers and done.losers:
        raise VerificationError(
            f"{_out_of(len(done.losers), done)} not stand; the file was left as it is",
            where=str(chosen),
            hint="leave out --keep-losers to have them trimmed or dropped.",
        )


def _next(done: VerificationResult, session: Path, *, is_own: bool) -> str:
    """What to do with what stands; deploy takes the session's own file alone."""
    report = named("report", session)
    if not done.file.rules:
        return f"{report} shows what was measured; jobs stay as they are."
    if is_own:
        return f"{report}; {named('deploy DIR', session)} hands the rules to jobs."
    return (
        f"{report}; a job reads these rules by NCCL_TUNER_CONFIG_FILE={done.path} and "
        'NCCL_TUNER_PLUGIN="$(rccltune plugin --path)".'
    )


def _out_of(n: int, done: VerificationResult) -> str:
    """``1 rule of 3 does``, ``0 rules of 1 do``."""
    return f"{n} rule{'s' * (n != 1)} of {done.file.rules_before} do{'es' * (n == 1)}"


def no_hardware(runner: str | None) -> str:
    """That everything is simulated, and which library ran where the real one did."""
    from rccltune.rules.provenance import unchecked

    return f"SIMULATED: nothing of this was measured on hardware{unchecked(runner)}"


def text_of(done: VerificationResult) -> JoinedLines:
    """What stands, what does not, and how to use it."""
    if done.file.bits is not None:
        return _bits_text(done)
    columns: tuple[str, ...] = (
        *("collective", "from", "to", "setting", "faster", "interval", "sizes", "one by one"),
    )
    lines: list[str] = []
    if any(one.one_root for one in done.standings):
        columns = (*columns, _ONE_ROOT)
    if any(one.registered for one in done.standings):
        columns = (*columns, _REGISTERED)
    standings, took = done.standings, f"after {how_often(done.file)} in {done.file.seconds:.0f} s"
    if done.path is None:
        rows = [(*_row(one, columns), one.reason or one.state.value) for one in standings]
        lines.append(table((*columns, "verdict"), rows, numeric=(1, 2, 4, 6)))
        lines += [*overwritten_lines(done), *beside_lines(done)]
        lines += [undecided_line(done)] * any(one.is_kept for one in standings)
        lost = f"{_out_of(len(done.losers), done)} not stand {took}"
        lines.append(f"{lost}; {done.count} left as they were")
    else:
        rows = [_row(one, columns) for one in standings if one.is_kept]
        lines += [table(columns, rows, numeric=(1, 2, 4, 6))] if rows else []
        lines += [f"not kept: {said}" for said in describe_dropped(done)]
        lines += [*overwritten_lines(done), *beside_lines(done), *unregistered_line(done)]
        lines.append(undecided_line(done))
        stand = f"{done.count} of {done.file.rules_before} stand{'s' * (done.file.rules == 1)}"
        lines.append(f"{stand} {took}, in {done.path}")
        needs = " ".join(f"{name}={value}" for name, value in done.file.needs.items())
        lines += [f"They need {needs} in the job's environment"] * bool(needs)
    also = " ".join(f"{name}={value}" for name, value in done.file.environment.items())
    lines += [f"Proven with {also} on both sides: a job must set the same"] * bool(also)
    lines += cost_line(done)
    if done.file.confirmed:
        lines.append(done.file.confirmed)
    if done.file.simulated:
        lines.append(no_hardware(done.file.runner))
    return join_lines(lines)


def _bits_text(done: VerificationResult) -> JoinedLines:
    """That the bits are kept, and what that costs at each size."""
    columns = ("collective", "bytes", "rules", "library's own", "fastest", "tree/simple/1")
    rows = [
        (
            one.collective.value,
            format_size(one.nbytes),
            *(
                "–" if us is None else f"{us:.2f} us"
                for us in (one.rules_us, one.library_us, one.fastest_us, one.pin_us)
            ),
        )
        for one in done.file.bits_times
    ]
    lines: list[str] = [table(columns, rows, numeric=(1, 2, 3, 4, 5))] if rows else []
    lines += bits_lines(done)
    sentence = f"{done.count} keep{'s' * (done.file.rules == 1)} the bits {done.file.bits}"
    where = f", in {done.path}" if done.path else ""
    lines.append(f"{sentence}, after {how_often(done.file)}{where}")
    lines += cost_line(done)
    if done.file.simulated:
        lines.append(no_hardware(done.file.runner))
    return join_lines(lines)


def bits_lines(done: VerificationResult) -> list[str]:
    """What keeping the bits costs against the library's own choice, and gains over the pin."""
    times = done.file.bits_times
    cost = [one.rules_us / one.library_us for one in times]
    gain = [one.pin_us / one.rules_us for one in times if one.pin_us is not None]
    lines = [f"they take {_span(cost)} of the library's own time"] if cost else []
    pin = "one channel of tree/simple, which people pin, takes"
    return [*lines, *([f"{pin} {_span(gain)} of theirs"] if gain else [])]


def _span(ratios: Sequence[float]) -> str:
    low, high = f"{min(ratios):.2f}x", f"{max(ratios):.2f}x"
    return low if low == high else f"{low} to {high}"


def how_often(file: VerdictFile) -> str:
    """In how many replicates both sides were called."""
    from rccltune.verify.verdict_file import replicates_of

    return replicates_of(file.replicates, file.processes)


def _row(one: RuleVerdict, columns: Sequence[str]) -> tuple[str, ...]:
    gain, loop = one.gain, one.loop
    also = [
        f"{other.value:.2f}x" if other else "–"
        for name, other in ((_ONE_ROOT, one.one_root), (_REGISTERED, one.registered))
        if name in columns
    ]
    return (
        one.collective.value,
        format_size(one.min_nbytes),
        format_last(one.max_nbytes),
        str(one.setting),
        f"{gain.value:.2f}x" if gain else "–",
        f"{gain.low:.2f} to {gain.high:.2f}" if gain else "–",
        str(one.n_sizes),
        loop_of(one) if loop else "as timed",
        *also,
    )


def loop_of(one: RuleVerdict) -> str:
    """``1.01x``, or that the loop is too noisy to say."""
    return "too noisy to say" if one.is_loop_noisy else f"{one.loop.value:.2f}x" if one.loop else ""


def describe_dropped(done: VerificationResult) -> list[str]:
    """What goes back to the library, and why, with the interval."""
    cuts = [str(cut) for cut in done.file.cuts]
    # Their sizes may be those of the rule behind them, and no cut then.
    cuts += [
        f"{one.collective.value} {format_span(one.min_nbytes, one.max_nbytes)}, {one.setting}: "
        f"{one.reason}"
        for one in done.standings
        if one.state is RuleState.NOT_SELECTABLE
        and not any(
            cut.collective is one.collective and cut.reaches(one.min_nbytes)
            for cut in done.file.cuts
        )
    ]
    more = len(cuts) - _SHOWN
    return cuts[:_SHOWN] + [f"{more} more ranges"] * (more > 0)


def beside_lines(done: VerificationResult) -> list[str]:
    """What the idle plugin does by itself, where that is not nothing."""
    file = done.file
    return [
        f"the plugin by itself, {one}: taken off the gains there"
        for one in file.beside
        if one.ratio.value < 1
        and any(
            rule.is_kept
            and rule.collective is one.collective
            and rule.min_nbytes <= one.max_nbytes
            and one.min_nbytes <= rule.max_nbytes
            for rule in file.standings
        )
    ][:_SHOWN]


def overwritten_lines(done: VerificationResult) -> list[str]:
    """Rules of which the library made something else where it was asked."""
    return [
        f"{one.collective.value}: {end}, which the library set after the plugin"
        for one in done.standings
        for end in one.overwritten
    ]


def unregistered_line(done: VerificationResult) -> list[str]:
    """Which rules are for unregistered buffers, and how captured calls get them; if any are."""
    kept_rules = [one for one in done.standings if one.is_kept]
    unregistered = [one for one in kept_rules if one.reg_buff == 0]
    if not unregistered:
        return []
    least = min(one.min_nbytes for one in unregistered)
    where = f"Above {format_size(least)}"
    if any(one.max_nbytes > least and one.reg_buff != 0 for one in kept_rules):
        spans = (format_span(one.min_nbytes, one.max_nbytes) for one in unregistered)
        where = f"From {', '.join(dict.fromkeys(spans))}"
    said = f"{where} these rules apply to unregistered buffers only."
    return [f"{said} With captured graphs, set NCCL_GRAPH_REGISTER=0 to get them."]


def cost_line(done: VerificationResult) -> list[str]:
    """What a call launched one by one costs more with the plugin; nothing where simulated."""
    if done.file.cost_ns is None:
        return []
    sentence = f"asking the plugin takes {done.file.cost_ns:.0f} ns a call on these processors"
    return [f"{sentence}; a captured graph asks it once"]


def undecided_line(done: VerificationResult) -> str:
    """At which sizes of the rules a loss of 2 % is not excluded."""
    rules = [one for one in done.standings if one.is_kept]
    if not rules:
        return "no rule is left: the library chooses as it does by itself"
    open_: dict[Collective, set[int]] = {}
    for one in done.file.judging:
        if one.verdict is Verdict.UNDECIDED and any(
            rule.collective is one.collective and rule.reaches(one.nbytes) for rule in rules
        ):
            open_.setdefault(one.collective, set()).add(one.nbytes)
    # The rules' own lines add up to these.
    n_sizes = sum(one.n_sizes for one in rules)
    of = "a rule that stands" if done.path is None and done.losers else "a rule"
    said = f"none of {n_sizes} sizes with {of} is slower"
    n_open = sum(one.n_undecided for one in rules)
    if not n_open:
        return said
    spans = (f"{name.value} {format_span(min(n), max(n))}" for name, n in open_.items())
    where = f": {'; '.join(spans)}" * bool(open_)
    return f"{said}; at {n_open} a loss of 2 % is not excluded{where}"
