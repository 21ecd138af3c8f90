"""``rccltune verify``: which rules stay."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from rccltune.cli.console import Console, Word, common, table
from rccltune.cli.help import grouped, verb
from rccltune.cli.options import FOLDER, allow_need_option, session_argument
from rccltune.cli.progress import progress_of
from rccltune.cli.sweep_options import sweep_option, sweep_options
from rccltune.model import defaults
from rccltune.model.chosen import Judgement
from rccltune.model.curves import LAUNCHES_DIFFER
from rccltune.model.errors import SessionError, VerificationError
from rccltune.model.vocabulary import (
    DTYPE_BYTES,
    Collective,
    Laid,
    format_last,
    format_size,
    format_span,
    lay,
    parse_size,
    short_size,
)

if TYPE_CHECKING:
    from rccltune.verify.verifying import Verified


_BESIDE_NBYTES = 1 << 20


def _parse_beside(text: str) -> tuple[Collective, int]:
    """``all_gather`` or ``all_gather:4M``."""
    name, colon, size = text.partition(":")
    nbytes = parse_size(size) if colon else _BESIDE_NBYTES
    if nbytes < 1:
        raise ValueError(f"'{text}' names no size to run at the same time")
    return Collective.parse(name), nbytes


_BESIDE = Word("collective[:size]", _parse_beside)
_SHOWN = 12


@verb("verify")
@session_argument
@grouped(
    "--rules",
    type=FOLDER,
    metavar="FILE",
    group="What",
    usual=True,
    help="Rule file to verify. [default: the session's]",
)
@grouped(
    "--keep-losers",
    is_flag=True,
    group="Choosing",
    usual=True,
    help="Change no file; exit with 9 where a rule loses.",
)
@grouped(
    "--repeats",
    "n_repeats",
    type=click.IntRange(min=1),
    default=defaults.REPEATS,
    show_default=True,
    metavar="N",
    group="Running",
    help="Most rounds of launches while something is undecided.",
)
@grouped(
    "--dtype",
    "dtypes",
    type=click.Choice(list(DTYPE_BYTES)),
    multiple=True,
    metavar="TYPE",
    group="What",
    usual=True,
    help="Check this data type, too: nothing may be slower (repeatable).",
)
@grouped(
    "--graph",
    "graphs",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="N",
    group="What",
    usual=True,
    help="Check calls replayed from a graph N times (-G), too (repeatable).",
)
@grouped(
    "--beside",
    "besides",
    type=_BESIDE,
    multiple=True,
    metavar="C[:SIZE]",
    group="What",
    help=f"Check beside this running collective, too ({short_size(_BESIDE_NBYTES)}; repeatable).",
)
@sweep_options("timeout", "simulate", "rccl_tests")
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
    keep_losers: bool,
    n_repeats: int,
    dtypes: tuple[str, ...],
    graphs: tuple[int, ...],
    besides: tuple[tuple[Collective, int], ...],
    timeout: float | None,
    allowed: frozenset[str],
    **options: Any,  # noqa: ANN401 - where to run, as in a sweep file
) -> None:
    """Compare rules with the library's own choice on this machine; keep what wins.

    Each launch measures with and without the rules in turns, at four sizes an octave and at every
    boundary; a few launches without the plugin show whether loading it changes anything. A rule
    stands if its gain is certain and no size in it is slower or wrong; what loses is cut out,
    and what stays undecided is left out, so that it always ends. The session's own file is
    replaced by what stands; of another file a copy goes into the session. Rules must win as the
    sweep was measured; --dtype, --graph and --beside add conditions in which they must not lose.

    \b
    Example:
      rccltune verify
      rccltune verify --rules rccl_tuner_gfx942.csv
      rccltune verify --dtype bfloat16 --graph 4 --beside all_gather:4M

    Exit codes: 0 all that is left stands, also where that is nothing, 3 the plugin refuses the
    file, 4 the machine cannot run it, 5 the benchmark fails without rules, 7 no session, 9 wrong
    results without rules, ranks without the plugin, --keep-losers with a rule that loses.
    """
    from rccltune.measure.request import session_request
    from rccltune.measure.site import find_site
    from rccltune.model.schema import to_plain
    from rccltune.session.store import open_session
    from rccltune.verify.begun import VerifyRequest
    from rccltune.verify.harm import in_words
    from rccltune.verify.verifying import rule_file_of, verify_rules

    console.say(f"Session: {session}")
    open_session(session)
    if not (session / "sweep.yaml").exists():
        raise SessionError(
            "this session was imported, and rules are verified with the ranks and sizes of a sweep",
            where=str(session),
            hint="rccltune sweep on the machine makes one; --rules then takes any rule file.",
        )
    measured = session_request(session, options)
    site = find_site(measured.site)
    own = rule_file_of(session, site)
    chosen = rules or own
    request = VerifyRequest(
        folder=session,
        rules=chosen,
        output=own if rules is None else session / f"verified-{chosen.name}",
        n_looks=n_repeats,
        keep_losers=keep_losers,
        timeout_s=timeout,
        dtypes=dtypes,
        graphs=graphs,
        besides=besides,
        allowed=allowed,
    )
    with progress_of(console) as reporter:
        done = verify_rules(request, measured.sweep, site, reporter=reporter)
    console.result(to_plain(done.file), text_of(done))
    console.say(
        "Next: rccltune report; rccltune deploy DIR hands the rules to jobs."
        if done.after.rules
        else "Next: rccltune report shows what was measured; jobs stay as they are."
    )
    if keep_losers and done.harmed:
        raise VerificationError(
            "with the rules sizes that they do not answer are slower: " + in_words(done.harmed),
            where=str(chosen),
            hint="leave out --keep-losers to have the rules dropped.",
        )
    if keep_losers and done.losers:
        raise VerificationError(
            f"{len(done.losers)} of {done.after} do not stand; the file was left as it is",
            where=str(chosen),
            hint="leave out --keep-losers to have them narrowed or dropped.",
        )


def _unharmed(done: Verified) -> str:
    """Whether anything is slower anywhere, and what looks slowest."""
    if not done.after.rules and not done.standings:
        return "no rule is left, so nothing is changed"
    own = [one.verdict for one in done.weighed if not done.is_given_back(one)]
    if not own:
        return "nothing was measured"
    sizes = {(one.target.collective, one.nbytes) for one in own}
    decided = [one for one in own if one.judgement is not Judgement.UNDECIDED]
    open_at = sum(map(len, done.undecided.values()))
    said = f"no size of {len(sizes)} is slower than without rules, beyond noise"
    if decided:
        slowest = min(decided, key=lambda verdict: verdict.ratio)
        said += (
            f"; the slowest looks {slowest.ratio:.2f}x ({slowest.low:.2f} to {slowest.high:.2f}, "
            f"{slowest.target.collective.value} {format_size(slowest.nbytes)}, {slowest.view})"
        )
    if open_at:
        said += f"; undecided at {open_at}, where noise could hide a loss of 5 %"
    return said


def by_environment(done: Verified) -> list[str]:
    """What the environment that the rules need does where no rule is."""
    if not done.needs or done.environment is None:
        return []
    one = done.environment
    names = ", ".join(f"{name}={value}" for name, value in done.needs)
    if done.environment_gains:
        return [f"{each}, without a rule" for each in done.environment_gains]
    percent, low, high = (100 * (ratio - 1) for ratio in one.ratios)
    line = (
        f"{names} changes the times without a rule by {percent:+.1f} % "
        f"({low:+.1f} to {high:+.1f}, {one.n_launches} launches)"
    )
    return [line]


def no_hardware(runner: str | None) -> str:
    """That everything is simulated, and which library ran where the real one did."""
    from rccltune.machine.real_rccl import unchecked

    return f"SIMULATED: nothing of this was measured on hardware{unchecked(runner)}"


def _control(done: Verified) -> list[str]:
    """How far the idle plugin differs from itself: no claim is finer."""
    own = [w.verdict for w in done.weighed if w.gains and w.verdict.control is not None]
    if not own:
        return []
    small = [one.control or 0.0 for one in own if one.nbytes < LAUNCHES_DIFFER]
    large = [one.control or 0.0 for one in own if one.nbytes >= LAUNCHES_DIFFER]
    parts = [
        f"±{100 * median(found):.1f} % {where} {format_size(LAUNCHES_DIFFER)}"
        for found, where in ((small, "below"), (large, "from"))
        if found
    ]
    return [f"the library against itself, in the same launches: {', '.join(parts)}"]


# Below it launches differ much more than above, on every machine that was seen.


def text_of(done: Verified) -> Laid:
    """What stands, what does not, and how to use it."""
    columns = (
        "collective",
        "from",
        "to",
        "setting",
        "faster",
        "95 %",
        "least",
        "seen",
    )
    rows = []
    for one in done.standings:
        ratios = one.ratios
        ratio, low, high = one.gain.ratios
        rows.append(
            (
                one.rule.collective.value,
                format_size(one.rule.min_nbytes),
                format_last(one.rule.max_nbytes),
                str(one.rule.setting),
                f"{ratio:.2f}x",
                f"{low:.2f} to {high:.2f}",
                f"{ratios[0]:.2f}x" if ratios else "–",
                one.shown.value if one.stands else one.state.value,
            )
        )
    lines: list[str] = [table(columns, rows, numeric=(1, 2, 4, 6))] if rows else []
    lines += [
        f"left to the library: {cut.collective.value} "
        f"{format_span(cut.min_nbytes, cut.max_nbytes)}: {cut.reason}"
        for cut in done.cuts[:_SHOWN]
    ]
    lines += [
        f"a path takes {one.value} past the tuner at {len(sizes)} sizes, "
        f"{format_span(min(sizes), max(sizes))}: no rule does anything there"
        + ("" if held.condition.is_own else f" ({held.condition})")
        for held in done.held
        for one, sizes in held.proven.bypassed.items()
    ]
    lines.append(f"Rules answered {done.n_hits:,} calls; {done.n_misses:,} had no rule")
    lines += by_environment(done)
    lines += _control(done)
    lines.append(_unharmed(done))
    lines.append(
        f"{done.after} of {done.before.rules} stand{'s' * (done.after.rules == 1)} after "
        f"{done.n_launches} launches" + (f", in {done.path}" if done.path else "")
    )
    if done.simulated:
        lines.append(no_hardware(done.runner))
    return lay(lines)
