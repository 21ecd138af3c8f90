"""``rccltune emit-config``: from what was measured to a rule file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from rccltune.cli.console import Console, common, table
from rccltune.cli.help import grouped, verb
from rccltune.cli.shared_options import (
    FOLDER,
    ChoiceArguments,
    choosing,
    forced_line,
    named,
    session_argument,
)
from rccltune.model.text import JoinedLines, join_lines
from rccltune.model.units import format_last, format_size
from rccltune.model.zone import NOT_MEASURED

if TYPE_CHECKING:
    from rccltune.model.zone import Zone
    from rccltune.rules.emission import EmittedRules


@verb("emit-config")
@session_argument
@grouped(
    "-o",
    "--output",
    type=FOLDER,
    group="Output",
    help="File for the rules; - is stdout. [default: in the session]",
)
@grouped("--force", is_flag=True, group="Output", help="Replace the file of -o, or verified rules.")
@choosing
@common
def emit_config(
    *,
    console: Console,
    session: Path,
    output: Path | None,
    force: bool,
    choosing: ChoiceArguments,
) -> None:
    """Choose the setting for each size and write the rules.

    As few rules as stay within the tolerance of the best at every measured size (behind: by how
    much at most), and none where the library's own choice is as good.

    \b
    Example:
      rccltune emit-config --baseline ring/simple -o -

    Exit codes: 0 done, 2 the file of -o is there (--force), 7 no session, 8 nothing to choose from.
    """
    from rccltune.rules import emission, savings
    from rccltune.session.store import is_swept, sweep_then_verify

    console.say(f"Session: {session}")
    request = emission.EmitRequest(
        folder=session, options=choosing.options(), output=output, overwrite=force
    )
    done = emission.emit_rules(request, reporter=console)
    console.warn(done.notices)
    plain, saved = done.json_fields(), ""
    if choosing.workload is not None:
        chosen = savings.by_zones(done.zones)
        saving = savings.saving_in(choosing.workload, session, chosen, reporter=console)
        plain["saving"], saved = saving, savings.saving_text(saving)
    if done.path is None:
        if saved:
            console.say(saved)
        console.result(plain, _file(done.text), is_file=True)
        return
    changed = _find_changed_rules(session) if done.is_kept else ()
    plain["changed"] = changed
    text = _text(done, session, changed)
    console.result(plain, join_lines((part for part in (text, saved) if part), gap="\n\n"))
    if changed:
        verify = named("verify", changed[0].parent)
        if not is_swept(changed[0].parent):
            verify = sweep_then_verify(changed[0])
        console.say(f"Next: {verify} proves, on the machine, the rules as they are now.")
    elif done.is_kept:
        deploy = named("deploy DIR", session)
        console.say(f"Next: {named('report', session)}; {deploy} hands the rules to jobs.")
    elif done.count.rules:
        rules = "" if output is None else f" --rules {shlex.quote(str(output))}"
        verify = named(f"verify{rules}", session)
        if not is_swept(session):
            verify = sweep_then_verify(done.path)
        console.say(
            f"Next: {verify} keeps, on the machine, only the rules that win there."
            if done.choice.bits is None
            else f"Next: {verify} asks on the machine whether they keep their bits."
        )


def _file(text: str) -> JoinedLines:
    """Show the text that ``-o`` would write to a file."""
    return join_lines(text.rstrip("\n").split("\n"))


def _find_changed_rules(session: Path) -> tuple[Path, ...]:
    """Rule files that deploy would refuse, or the site's own: changed since they were verified."""
    from rccltune.rules.rule_file import read_rules
    from rccltune.rules.writer import is_verified
    from rccltune.verify.verdict_store import rule_paths, used_session
    from rccltune.verify.verifications import find_changed

    changed: list[Path] = []
    for folder in dict.fromkeys((session, used_session(session))):
        paths = filter(is_verified, rule_paths(folder))
        files = {path.name: read_rules(path.read_bytes()) for path in paths}
        changed += (folder / name for name in find_changed(folder, files))
    return tuple(changed)


def _text(done: EmittedRules, session: Path, changed: tuple[Path, ...]) -> JoinedLines:
    from rccltune.verify.verdict_store import used_session

    parts = []
    if done.is_kept:
        parts.append(
            f"Kept: the {'' if changed else 'verified '}rules in {done.path} "
            "(--force replaces them; -o - shows the new ones, unverified)"
        )
        parts += [f"The rules in {path} are not those that were verified" for path in changed]
    elif done.path is not None:
        rows = table(_COLUMNS, map(_row, done.zones), numeric=(1, 2, 3, 5, 6, 7))
        parts += [rows, "", f"{done.count} in {done.path}"]
    if done.needs:
        needs = " ".join(f"{name}={value}" for name, value in done.needs)
        parts.append(f"They need {needs} in the job's environment")
    # Exports of a file without a rule export nothing.
    is_used = done.is_kept or done.count.rules
    if done.environment_path is not None and is_used and not changed:
        parts.append(f"To use it: source {shlex.quote(str(done.environment_path.resolve()))}")
        used = used_session(session) if done.is_kept else session
        if done.path is not None and used != session:
            parts.append(forced_line(used, done.path))
    return join_lines(parts)


_COLUMNS = ("collective", "ranks", "from", "to", "setting", "sizes", "behind", "gain", "why")


def _row(zone: Zone) -> tuple[str, ...]:
    return (
        zone.target.collective.value,
        str(zone.target.scale.n_ranks),
        format_size(zone.min_nbytes),
        format_last(zone.max_nbytes),
        str(zone.setting) if zone.setting else "–",
        str(zone.n_sizes),
        "–" if zone.worst_regret is None else f"{100 * zone.worst_regret:.1f} %",
        _percent(zone.gain.value - 1 if zone.gain else None),
        _why(zone),
    )


def _percent(gain: float | None) -> str:
    return "–" if gain is None else f"{100 * gain:+.0f} %"


def _why(zone: Zone) -> str:
    # Its row says from where to where.
    why = NOT_MEASURED if zone.reason == NOT_MEASURED else zone.why
    return "; ".join(mark for mark in (why, zone.why_unproven) if mark)
