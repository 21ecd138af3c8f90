"""``rccltune seal``: a rule file says again how many rows it has."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from rccltune.cli.console import Console, common
from rccltune.cli.help import verb
from rccltune.cli.options import FOLDER
from rccltune.model import lay


@verb("seal")
@click.argument("rules", type=FOLDER, metavar="FILE")
@common
def seal(*, console: Console, rules: Path) -> None:
    """Count a rule file's rows and write the number at its head and its end.

    The files of rccltune say how many rows they have (#@ rules N first, #@ end N last), and the
    plugin refuses one that has others, so that no job starts with half a file. After an edit by
    hand this command counts again; a file that says nothing gets both lines. It is replaced as a
    whole; through a link, the file that the link leads to.

    \b
    Example:
      rccltune seal rccl_tuner_gfx942_cpx-nps4.csv

    Exit codes: 0 done, 3 the plugin refuses the file for another reason, 7 it cannot be written.
    """
    from rccltune.rules import seal as rules_seal

    done = rules_seal(rules)
    rows = "1 row" if done.n_rows == 1 else f"{done.n_rows} rows"
    if not done.changed:
        lines = [f"{done.path}: {rows}, as it says; nothing to change."]
    else:
        lines = [f"{done.path}: says {rows} now."]
    if done.was is not None:
        lines.append(f"Before: {done.was}")
    plain = {"path": str(done.path), "rows": done.n_rows, "was": done.was, "changed": done.changed}
    console.result(plain, lay(lines))
    console.say(f"Next: rccltune explain {shlex.quote(str(rules))} shows what it will do.")
