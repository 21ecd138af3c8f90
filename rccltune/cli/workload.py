"""``rccltune workload``: what a job asks for, and what of it rules cover."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rccltune.cli.console import Console, common, put, table
from rccltune.cli.options import COLLECTIVE, FOLDER
from rccltune.model import Collective, CommandLineError, Laid, format_size, lay

if TYPE_CHECKING:
    from rccltune.job import Shown
    from rccltune.workload import Share, Stated


_SHOWN = 20
_FILES = click.argument("files", nargs=-1, required=True, type=FOLDER, metavar="FILE...")
_STATED = (
    click.option(
        "--scale-captured",
        type=click.IntRange(min=1),
        default=1,
        metavar="N",
        help="Calls were captured into graphs that ran N times.",
    ),
    click.option("--collective", type=COLLECTIVE, help="Of logs that name none."),
    click.option("--ranks", type=click.IntRange(min=2), metavar="N", help="Of logs without it."),
    click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Of logs and replays."),
)


@click.group("workload")
def workload() -> None:
    """Say what a job asks for: the plugin's records, RCCL's replays, Inspector dumps, TUNING logs.

    One export line on a real job records it, beside NCCL_TUNER_PLUGIN (rccltune plugin --env):
    export RCCLTUNE_RECORD=/path/record-%h-%p.csv

    \b
    Example:
      rccltune workload merge record-*.csv -o workload.csv
      rccltune workload show workload.csv --rules rules.csv
      rccltune sweep --mode cpx-nps4 --workload workload.csv

    Exit codes: 0 done, 2 command line, 3 the rule file is refused, 6 a file is no workload,
    7 no session.
    """


def _stated(collective: Collective | None, ranks: int | None, nodes: int | None) -> Stated:
    from rccltune.workload import Stated

    return Stated(collective=collective, n_ranks=ranks, n_nodes=nodes)


@workload.command("show", short_help="Which sizes matter, and which share rules cover.")
@_FILES
@click.option("--rules", type=FOLDER, metavar="FILE", help="Which share this rule file covers.")
@click.option("--session", type=FOLDER, metavar="SESSION", help="Times, as measured there.")
@click.option(
    "--steps", type=click.IntRange(min=1), metavar="N", help="Steps that the job made meanwhile."
)
@click.option("--all", "everything", is_flag=True, help=f"Every size, not the first {_SHOWN}.")
@_STATED[0]
@_STATED[1]
@_STATED[2]
@_STATED[3]
@common
def show(
    *,
    console: Console,
    files: tuple[Path, ...],
    rules: Path | None,
    session: Path | None,
    steps: int | None,
    everything: bool,
    scale_captured: int,
    collective: Collective | None,
    ranks: int | None,
    nodes: int | None,
) -> None:
    """Show which collectives and sizes matter, and which share rules cover.

    Sizes are as a tuner sees them: the total over ranks for all_gather and reduce_scatter. The
    calls of all ranks are added up. What matters most comes first: by the time that the library
    takes by itself where a session has it, by calls and bytes otherwise. With --session also what
    rules can save at the very most; with --rules too what these save.

    \b
    Example:
      rccltune workload show record-*.csv --rules rccl_tuner_gfx942_cpx-nps4.csv

    Exit codes: 0 done, 2 command line, 3 the rule file is refused, 6 a file is no workload,
    7 no session.
    """
    from rccltune import job

    _tell_snapshots(console, files)
    whole = job.read_merged(files, _stated(collective, ranks, nodes), scale_captured)
    found = job.show(whole, rules=rules, folder=session, steps=steps, reporter=console)
    console.result(found.as_plain(), _text(found, len(found.shares) if everything else _SHOWN))
    console.say("Next: rccltune sweep --workload FILE measures these sizes, and no others.")


@workload.command("merge", short_help="One file of those of many ranks.")
@_FILES
@click.option("-o", "--output", type=FOLDER, required=True, help="File; - is stdout.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@_STATED[0]
@_STATED[1]
@_STATED[2]
@_STATED[3]
@common
def merge(
    *,
    console: Console,
    files: tuple[Path, ...],
    output: Path,
    force: bool,
    scale_captured: int,
    collective: Collective | None,
    ranks: int | None,
    nodes: int | None,
) -> None:
    """Make one file of those of many ranks; --workload of sweep and emit-config takes it.

    Records, replay files and logs may be mixed. Where a part of a job ran from captured graphs,
    merge its files with --scale-captured first, and the result with the others.

    \b
    Example:
      rccltune workload merge record-*.csv -o workload.csv

    Exit codes: 0 done, 2 command line, or the same recording twice, 6 a file is no workload.
    """
    from rccltune import job, session
    from rccltune.workload import write_table

    if str(output) != "-" and output.exists() and not force:
        raise CommandLineError(
            "the file is there already", where=str(output), hint="add --force, or name another."
        )
    _tell_snapshots(console, files)
    whole = job.read_merged(files, _stated(collective, ranks, nodes), scale_captured)
    for cut in whole.cuts:
        console.say(f"Warning: {cut}.")
    text = write_table(whole)
    if str(output) == "-":
        put(lay(text.removesuffix("\n").split("\n")))
        return
    session.write_atomically(output, text)
    plain = {
        "path": str(output),
        "files": len(files),
        "recorders": len(whole.recorders),
        "sizes": len(whole.counts),
        "calls": whole.calls,
        "bytes": whole.total_nbytes,
    }
    console.result(
        plain,
        f"{whole.calls} calls of {len(whole.counts)} sizes, {len(whole.recorders)} recordings, "
        f"in {output}",
    )
    path = shlex.quote(str(output))
    console.say(f"Next: rccltune workload show {path}, rccltune sweep --workload {path}")


def _tell_snapshots(console: Console, files: tuple[Path, ...]) -> None:
    """What killed ranks left is not left out silently."""
    from rccltune import job

    beside = job.snapshots_beside(files)
    if beside:
        console.say(
            f"Note: {len(beside)} snapshots of recordings that were never finished lie beside "
            f"these files and are not among them: {beside[0]}{' …' if beside[1:] else ''}"
        )


def _text(found: Shown, most: int) -> Laid:
    from rccltune.job import ceiling_text, saving_text

    whole = found.workload
    ranks = ", ".join(f"{scale} (by {whole.ranks_at(scale)})" for scale in whole.scales)
    size = format_size(whole.total_nbytes)
    head = f"{whole.calls} calls, {size}, recorded at {ranks or '–'}"
    columns = ["collective", "ranks", "nodes", "size", "calls", "of calls", "of bytes", "of time"]
    columns += ["rule"] if found.has_rules else []
    rows = [_row(share, has_rules=found.has_rules) for share in found.shares[:most]]
    parts = [head, "", table(columns, rows, numeric=(1, 2, 3, 4, 5, 6, 7))]
    if len(found.shares) > most:
        rest = found.shares[most:]
        parts.append(
            f"and {len(rest)} sizes more, {_percent(sum(s.of_calls for s in rest))} of the calls "
            f"and {_percent(sum(s.of_bytes for s in rest))} of the bytes (--all)"
        )
    if found.has_rules:
        parts += ["", _covered(found)]
    if found.ceiling is not None:
        parts += ["", ceiling_text(found.ceiling)]
    if found.saving is not None:
        parts.append(saving_text(found.saving))
    return lay([*parts, "", *(f"Note: {remark}." for remark in found.remarks)])


def _covered(found: Shown) -> str:
    text = (
        f"Rules cover {_percent(found.covered(lambda s: s.of_calls))} of the calls and "
        f"{_percent(found.covered(lambda s: s.of_bytes))} of the bytes"
    )
    if any(share.of_time is not None for share in found.shares):
        text += f", {_percent(found.covered(lambda s: s.of_time))} of the time that is known"
    return text


def _row(share: Share, *, has_rules: bool) -> tuple[str, ...]:
    one = share.count
    size = format_size(one.min_nbytes)
    if not one.is_exact:
        size += f"…{format_size(one.max_nbytes)}"
    cells = (
        one.collective.value,
        str(one.scale.n_ranks),
        str(one.scale.n_nodes),
        size,
        str(one.calls),
        _percent(share.of_calls),
        _percent(share.of_bytes),
        "–" if share.of_time is None else _percent(share.of_time),
    )
    if not has_rules:
        return cells
    rule = share.rule
    return (*cells, f"{rule.setting} (line {rule.line})" if rule else "–")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
