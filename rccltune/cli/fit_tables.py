"""Tables that ``fit`` prints and others repeat: scales, what links let through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rccltune.cli.console import table
from rccltune.cli.help import grouped
from rccltune.cli.shared_options import FILE, F
from rccltune.model.text import JoinedLines, join_lines
from rccltune.model.units import format_size

if TYPE_CHECKING:
    from rccltune.model.curves import Separation
    from rccltune.transferbench import Ceilings


_APART = (
    "Latencies are split into a base and steps between numbers of ranks of one number of nodes and "
    "one placement, and this session has no two."
)


def steps_text(separations: Sequence[Separation]) -> JoinedLines:
    """Latency of each setting over the scales: base + steps x time of a step."""
    if not separations:
        return join_lines([_APART])
    columns = ("collective", "setting", "ranks", "base", "per step", "steps (RCCL)", "steps (blog)")
    rows = (
        (
            s.target.collective.value,
            str(s.setting),
            ", ".join(str(scale.n_ranks) for scale in s.scales),
            f"{s.base_us:.3g} µs",
            f"{s.per_step_us:.3g} µs",
            ", ".join(map(str, s.steps)),
            ", ".join("–" if step is None else str(step) for step in s.blog_steps),
        )
        for s in separations
    )
    head = "Latency over the scales, base + steps x time of a step:"
    return join_lines([head, table(columns, rows, numeric=(3, 4))])


def transferbench_option(command: F) -> F:
    """Option for TransferBench's rates of links."""
    return grouped(
        "--transferbench",
        type=FILE,
        metavar="FILE",
        group="Advanced",
        help="Rates of links, as TransferBench a2a printed them.",
    )(command)


def ceiling_lines(ceilings: Ceilings) -> list[str]:
    """The ceiling, and what reached how much of it."""
    rates = [link.gb_per_s for link in ceilings.rates.links.values()]
    simulated = "SIMULATED " if ceilings.rates.simulated else ""
    head = f"{simulated}Ceiling in GB/s of bus bandwidth, from {len(rates)} links"
    lines = [f"{head} at {min(rates):.3f} to {max(rates):.3f} GB/s (TransferBench)"]
    if ceilings.targets:
        columns = ("collective", "scale", "ceiling", "slowest link", "best", "at", "with", "of it")
        rows = (
            (
                one.target.collective.value,
                str(one.target.scale),
                f"{one.gb_per_s:.1f}",
                f"{one.n_links} x {one.slowest.gb_per_s:.3f}, {one.slowest}",
                f"{one.reached_gb_per_s:.1f}",
                format_size(one.nbytes),
                str(one.setting),
                f"{one.fraction:.2f}",
            )
            for one in ceilings.targets
        )
        lines.append(table(columns, rows, numeric=(2, 4, 5, 7)))
    lines += [f"no ceiling for {said}" for said in ceilings.without]
    return lines
