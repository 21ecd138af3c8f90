"""``rccltune check``: do the rules still hold here, in seconds or, unmeasured, at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rccltune.cli.console import DEFAULT_SESSION, Console, common, table
from rccltune.cli.help import grouped, verb
from rccltune.cli.progress import shown_progress
from rccltune.cli.shared_options import FILE, FOLDER
from rccltune.cli.sweep_options import sweep_options
from rccltune.model.text import JoinedLines, join_lines
from rccltune.model.units import format_last, format_size, format_span

if TYPE_CHECKING:
    from rccltune.check.bound import CheckedRule, CheckResult, RulesToCheck


@verb("check")
@click.argument("where", required=False, type=FOLDER, metavar="[SESSION|DIR]")
@grouped(
    "--quick",
    is_flag=True,
    group="Running",
    usual=True,
    help="Compare library, GPU, mode and file alone; measure nothing.",
)
@grouped("--rules", type=FILE, metavar="FILE", group="What", usual=True, help="Another rule file.")
@sweep_options("mode", "simulate", "librccl", "np", "launcher", "hostfile", "timeout")
@common
@click.pass_context
def check(
    context: click.Context,
    /,
    *,
    console: Console,
    where: Path | None,
    quick: bool,
    rules: Path | None,
    **options: Any,  # noqa: ANN401 - where to run, as of a sweep
) -> None:
    """Say whether rules that were verified still hold here: after an upgrade, or in front of a job.

    Library, GPU, mode and rule file must be as they were. Then the library alone and the rules are
    called in turns in six communicators, at the ends of each rule and at powers of two inside.

    \b
    Example, at the top of a job script:
      rccltune check --quick /apps/rccltune || unset NCCL_TUNER_PLUGIN NCCL_TUNER_CONFIG_FILE

    Exit codes: 0 they hold, 2 no rule for these ranks, 3 the plugin refuses the file, 4 no GPU or
    library, 5 the library cannot run, 7 no session, 8 cannot tell, 9 a rule no longer wins, or
    something is not as it was.
    """
    from rccltune.check.holding import check as run_check

    rules_to_check = _read_rules_to_check(console, where, rules, options)
    with shown_progress(console) as reporter:
        done = run_check(rules_to_check, quick=quick, reporter=reporter)
    console.result(done, text_of(done))
    if done.exit_code:
        remedy = _remedy(done) if done.exit_code == 9 else "check again where nothing else runs."
        console.fail("; ".join((*done.differences, *_holding(done))), where=done.path, hint=remedy)
    context.exit(done.exit_code)


def _read_rules_to_check(
    console: Console, where: Path | None, rules: Path | None, options: dict[str, Any]
) -> RulesToCheck:
    """What is checked: a rule file, a folder that deploy made, or a session."""
    from rccltune.check.bound import read_deployed_rules, read_rule_file, read_session_rules
    from rccltune.measure.request import merge_request, session_request
    from rccltune.measure.sweep_schema import PERF
    from rccltune.session.store import is_swept
    from rccltune.verify.verdict_store import used_session

    folder = where or DEFAULT_SESSION
    is_deployed = (folder / "env.sh").is_file() and not (folder / "session.json").exists()
    if is_deployed:
        console.say(f"Folder: {folder}")
    elif rules is None or where is not None:
        console.say(f"Session: {folder}")
    if is_deployed or (rules is not None and where is None) or not is_swept(used_session(folder)):
        request = merge_request(None, options, runner=PERF)
    else:
        request = session_request(used_session(folder), options)
    if rules is not None:
        return read_rule_file(rules, request)
    return (
        read_deployed_rules(folder, request) if is_deployed else read_session_rules(folder, request)
    )


def text_of(done: CheckResult) -> JoinedLines:
    """What differs, a row a rule, and what follows."""
    lines = [f"Not as it was: {one}" for one in done.differences]
    lines += [f"Not compared: {one}" for one in done.unknown]
    if done.rules:
        names = ("collective", "from", "to", "setting", "now", "verified", "standing")
        rows = [_row(one) for one in done.rules]
        lines += [table(names, rows, numeric=(1, 2)), *_reasons(done.rules)]
        is_timed = any(one.gain is not None for one in done.rules)
        how = "six communicators" if is_timed else "one communicator"
        lines.append(f"{_holding(done)[0]}, after {how} in {done.seconds:.0f} s: {done.path}")
    elif not done.n_rules:
        lines.append(f"There is no rule in {done.path}: the library chooses by itself")
    elif not done.differences:
        lines.append(f"Library, GPU, mode and rule file are as they were: {done.path}")
    if done.exit_code == 9:
        lines.append(_remedy(done))
    if done.simulated and done.rules:
        lines.append("SIMULATED: nothing of this was measured on hardware")
    return join_lines(lines)


def _holding(done: CheckResult) -> list[str]:
    """How many rules hold; nothing where none was measured."""
    from rccltune.check.bound import Standing

    n_holding = sum(one.standing is Standing.HOLDS for one in done.rules)
    return [f"{n_holding} of {len(done.rules)} rules hold"] if done.rules else []


def _remedy(done: CheckResult) -> str:
    """Command that makes rules that hold."""
    from rccltune.check.bound import Standing

    keeping = any(one.standing is Standing.OTHER_BITS for one in done.rules)
    how = "tune --same-bits" if keeping else "tune"
    return f"rccltune {how} makes rules for this machine as it is now."


def _row(one: CheckedRule) -> tuple[str, ...]:
    return (
        one.rule.collective.value,
        format_size(one.rule.min_nbytes),
        format_last(one.rule.max_nbytes),
        str(one.rule.setting),
        str(one.gain) if one.gain else "–",
        f"{one.verified.value:.2f}x" if one.verified else "–",
        one.standing.value,
    )


def _reasons(rules: tuple[CheckedRule, ...]) -> list[str]:
    spans = ((one, format_span(one.rule.min_nbytes, one.rule.max_nbytes)) for one in rules)
    return [
        f"{one.rule.collective.value} {span}: {one.reason}" for one, span in spans if one.reason
    ]
