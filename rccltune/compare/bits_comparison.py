"""``compare --bits``: whether two sides give the same bits at each size, and from where on not.

Each side is started once and probed (docs/bits.md): the same random numbers in, the bits that come
out, and which tree each element is added by. ``comparison.csv`` has a row a size; its columns:

==================  =============================================================================
collective          ``all_reduce`` …
nbytes              size in bytes, as a tuner sees it
verdict             ``same`` or ``differ``
first_element       from which element on trees differ; empty where none does, or it is not known
a_trees, b_trees    how many trees an element has on each side, by its place
a_ran, b_ran        what each side ran
==================  =============================================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from rccltune.bits import probes
from rccltune.compare.comparison import PreparedComparison, compare_hosts, opened
from rccltune.compare.results import CSV_FILE
from rccltune.compare.sides import Side
from rccltune.compare.turns import MeasuredSide
from rccltune.measure import rank_program
from rccltune.measure.hosts import HostComparison
from rccltune.measure.instrument import Instrument
from rccltune.measure.perf_sweep import probed_of_simulated
from rccltune.model.errors import CommandLineError, LaunchError
from rccltune.model.reporter import Reporter
from rccltune.model.rounding import csv_text
from rccltune.ranks import plan, rows, runs
from rccltune.ranks.plan import LOOP, CollectiveCall, Label, Step
from rccltune.session import files

# Lets ranks share a GPU (NCCL 2.30.7 src/init.cc:1057), with so few channels that all blocks of all
# ranks fit on it at once: with 64 of them four ranks waited for each other for ever (H200).
SHARED: Final = {
    "NCCL_MULTI_RANK_GPU_ENABLE": "1",
    "NCCL_MAX_NCHANNELS": "16",
    "NCCL_CGA_CLUSTER_SIZE": "0",
}
COLUMNS: Final = (
    *("collective", "nbytes", "verdict", "first_element", "a_trees", "b_trees", "a_ran", "b_ran"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BitsRow:
    """Both sides at one size; see this module for the columns."""

    collective: str
    nbytes: int
    verdict: str
    first_element: int | None
    a_trees: int
    b_trees: int
    a_ran: str
    b_ran: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BitsComparison:
    """Result of a comparison of bits."""

    folder: Path
    a: str
    b: str
    rows: tuple[BitsRow, ...]
    simulated: bool

    @property
    def differing(self) -> tuple[BitsRow, ...]:
        """Sizes at which bits differ, rising."""
        return tuple(one for one in self.rows if one.verdict != "same")

    @property
    def exit_code(self) -> int:
        """9 where a bit differs."""
        return 9 if self.differing else 0

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        return {
            "format": 1,
            "a": self.a,
            "b": self.b,
            "sizes": self.rows,
            "simulated": self.simulated,
            "exit_code": self.exit_code,
        }


def compare_bits(prepared: PreparedComparison, reporter: Reporter) -> BitsComparison:
    """Probe both sides, and say where their bits differ.

    Args:
        prepared: two sides; sizes, type and operation are those of its calls.
        reporter: told what goes on.

    Raises:
        CommandLineError: nothing of it adds in an order that can be probed.
        LaunchError: a side fails.
        SessionError: the folder has another comparison.
    """
    steps_of = [list(_steps(prepared, one)) for one in prepared.sides]
    if not steps_of[0]:
        raise CommandLineError(
            "nothing of this adds in an order that can be probed",
            hint="compare all_reduce or reduce_scatter, --op sum, float or bfloat16.",
        )
    prepared = replace(prepared, question={**prepared.question, "bits": True})
    hosts = compare_hosts(prepared, reporter)
    with opened(prepared, reporter):
        a, b = (
            probe_side(one.side, one.instrument, prepared.request.folder, steps, hosts)
            for one, steps in zip(prepared.sides, steps_of, strict=True)
        )
        rows = tuple(_rows(a, b))
        files.write_atomically(prepared.request.folder / CSV_FILE, _csv(rows))
    return BitsComparison(
        folder=prepared.request.folder,
        a=prepared.request.a.name,
        b=prepared.request.b.name,
        rows=rows,
        simulated=prepared.sides[0].instrument.site.node is not None,
    )


def _csv(rows: Sequence[BitsRow]) -> str:
    import pandas as pd

    lines = [[getattr(one, name) for name in COLUMNS] for one in rows]
    table = pd.DataFrame(lines, columns=list(COLUMNS))
    return csv_text(table.astype({"first_element": "Int64"}))


def _steps(prepared: PreparedComparison, one: MeasuredSide) -> Iterator[Step]:
    scope = prepared.scope
    site = one.instrument.site
    most = None if site.node is None else probed_of_simulated(site.scale.n_ranks)
    for collective, sizes in scope.sizes.items():
        probed = collective in probes.ADDING and scope.op == probes.SUM
        for nbytes in sizes if probed and scope.dtype in probes.BYTES else ():
            if most is None or nbytes <= most:
                call = CollectiveCall(
                    collective, scope.dtype, scope.op, scope.placements[0], nbytes
                )
                yield Step(plan.ORDER, one.setting, call, LOOP)


def probe_side(
    side: Side, instrument: Instrument, folder: Path, steps: Sequence[Step], hosts: HostComparison
) -> runs.Run:
    """Probe a side in one start of all ranks.

    Args:
        side: which.
        instrument: the rank program on its library and variables.
        folder: for the run.
        steps: its probes.
        hosts: that ranks run on.

    Raises:
        LaunchError: the ranks fail.
    """
    with rank_program.waiting_ranks(
        instrument.ground,
        folder.resolve(),
        site=dict(os.environ),
        with_plugin=side.has_plugin,
        largest=max(step.call.nbytes for step in steps),
        check=hosts.check,
    ) as ranks:
        if side.rules:
            ranks.answer_by(side.rules)
        ranks.make({Label(plan.ORDERS, 0, side.digest): steps})
        run = ranks.end()
    if run.ended is not None and run.ended.failure is not None:
        raise LaunchError(
            f"{side.name} {run.ended.failure.words}: {run.ended.words}",
            where=str(run.folder / runs.LOG_FILE),
            hint="rccltune doctor looks for usual causes.",
        )
    return run


def _rows(a: runs.Run, b: runs.Run) -> Iterator[BitsRow]:
    sides = [
        {(r["collective"], r["asked_nbytes"]): r for r in table.to_dict("records")}
        for table in (rows.rows_of_runs([one]) for one in (a, b))
    ]
    ends = [dict(one.remarks.orders) for one in (a, b)]
    for key, mine in sides[0].items():
        if mine["step"] != plan.ORDER or key not in sides[1]:
            continue
        theirs = sides[1][key]
        same = (mine["signature"], mine["bits"]) == (theirs["signature"], theirs["bits"])
        first = first_difference(ends[0].get(mine["line"], ()), ends[1].get(theirs["line"], ()))
        yield BitsRow(
            collective=str(key[0]),
            nbytes=int(mine["nbytes"]),
            verdict="same" if same else "differ",
            first_element=None if same else first,
            a_trees=int(mine["trees"]),
            b_trees=int(theirs["trees"]),
            a_ran=str(mine["ran"]),
            b_ran=str(theirs["ran"]),
        )


def first_difference(a: Sequence[str], b: Sequence[str]) -> int | None:
    """First element whose trees differ; None where none is known to.

    Args:
        a: ``TREE:END`` of each run of elements, as the rank program says them; ``more`` ends a
            list that was cut.
        b: likewise.
    """
    begin = 0
    for mine, theirs in zip_longest(map(_run, a), map(_run, b)):
        if mine is None or theirs is None:
            return None
        if mine[0] != theirs[0]:
            return begin
        if mine[1] != theirs[1]:
            return min(mine[1], theirs[1])
        begin = mine[1]
    return None


def _run(word: str) -> tuple[str, int] | None:
    tree, _, end = word.partition(":")
    return (tree, int(end)) if end.isdigit() else None


def ranges_of(rows: Mapping[str, Sequence[BitsRow]]) -> Iterator[str]:
    """``all_reduce: other bits from 64 KiB, element 512 on`` for each collective that differs."""
    from rccltune.model.units import format_size

    for name, sizes in rows.items():
        differing = [one for one in sizes if one.verdict != "same"]
        if differing:
            first = differing[0]
            element = "" if first.first_element is None else f", element {first.first_element} on"
            yield (
                f"{name}: other bits at {len(differing)} of {len(sizes)} sizes, from "
                f"{format_size(first.nbytes)}{element}"
            )
        else:
            yield f"{name}: the same bits at {len(sizes)} of {len(sizes)} sizes"
