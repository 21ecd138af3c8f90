"""``rccltune workload``: what a job asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rccltune.cli.console import Console, common, table
from rccltune.cli.help import verb
from rccltune.cli.shared_options import FILE
from rccltune.model.text import JoinedLines, join_lines
from rccltune.model.units import format_size

if TYPE_CHECKING:
    from rccltune.workload import Workload


_SHOWN = 20


@verb("workload")
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@common
def workload(*, console: Console, files: tuple[Path, ...]) -> None:
    """Say which collectives and sizes a job asks for, and their shares.

    Reads the plugin's records, which one export line on a real job writes beside NCCL_TUNER_PLUGIN
    (rccltune plugin --env), and dumps of NCCL's Inspector plugin. The calls of all files are added
    up, in one table; sizes are as a tuner sees them, the total over ranks for all_gather and
    reduce_scatter. -v shows every size.

    \b
    Example:
      export RCCLTUNE_RECORD=$PWD/record-%h-%p.csv
      rccltune workload record-*.csv
      cat record-*.csv > workload.csv
      rccltune sweep --mode cpx-nps4 --workload workload.csv

    Exit codes: 0 done, 2 the same recording twice, 6 a file is no workload.
    """
    from rccltune.workload import read_workloads, snapshots_beside

    beside = snapshots_beside(files)
    if beside:
        console.say(
            f"Note: {len(beside)} snapshots of recordings that were never finished lie beside "
            f"these files and are not among them: {beside[0]}{' …' if beside[1:] else ''}"
        )
    workload = read_workloads(files)
    console.result(workload, _text(workload, None if console.verbosity > 0 else _SHOWN))
    console.say("Next: rccltune sweep --workload FILE measures these sizes, and no others.")


def _text(workload: Workload, most: int | None) -> JoinedLines:
    ranks = ", ".join(f"{scale} (by {workload.ranks_at(scale)})" for scale in workload.scales)
    size = format_size(workload.total_nbytes)
    head = f"{workload.calls} calls, {size}, recorded at {ranks or '–'}"
    columns = ["collective", "ranks", "nodes", "size", "calls", "of calls", "of bytes"]
    calls = workload.table
    rows = [
        (
            row.collective,
            str(row.n_ranks),
            str(row.n_nodes),
            format_size(row.min_nbytes)
            + (f"…{format_size(row.max_nbytes)}" if row.max_nbytes > row.min_nbytes else ""),
            str(row.calls),
            f"{row.of_calls:.1%}",
            f"{row.of_bytes:.1%}",
        )
        for row in calls.head(most or len(calls)).itertuples()
    ]
    parts = [head, "", table(columns, rows, numeric=range(1, 7))]
    rest = calls.iloc[len(rows) :]
    if len(rest):
        parts.append(
            f"and {len(rest)} sizes more, {rest['of_calls'].sum():.1%} of the calls "
            f"and {rest['of_bytes'].sum():.1%} of the bytes (-v)"
        )
    return join_lines([*parts, "", *(f"Note: {remark}." for remark in workload.remarks)])
