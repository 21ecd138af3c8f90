"""Tables that ``fit`` prints and others repeat: scales, what links let through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rccltune.cli.console import table
from rccltune.cli.help import grouped
from rccltune.cli.options import FILE, F
from rccltune.model.vocabulary import JoinedLines, format_size, join_lines

if TYPE_CHECKING:
    from rccltune.model.curves import Separation
    from rccltune.transferbench import Ceiling, Ceilings, LinkRates


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


def ceiling_lines(found: Ceilings) -> list[str]:
    """The ceiling, and what reached how much of it."""
    lines = [_head(found)]
    if found.known:
        columns = ("collective", "scale", "ceiling", "slowest link", "best", "at", "with", "of it")
        rows = (
            (
                one.target.collective.value,
                str(one.target.scale),
                f"{one.gb_per_s:.1f}",
                _product(one),
                f"{one.best.gb_per_s:.1f}",
                format_size(one.best.nbytes),
                str(one.best.setting),
                f"{one.fraction:.2f}",
            )
            for one in found.known
        )
        lines.append(table(columns, rows, numeric=(2, 4, 5, 7)))
    lines += [f"no ceiling for {said}" for said in found.without]
    return lines


def _product(one: Ceiling) -> str:
    return f"{one.n_links} x {one.slowest.gb_per_s:.3f}, {one.slowest}"


def _head(found: Ceilings) -> str:
    rates = found.rates
    slowest = min(link.gb_per_s for link in rates.links)
    fastest = max(link.gb_per_s for link in rates.links)
    simulated = "SIMULATED " if rates.simulated else ""
    return (
        f"{simulated}Ceiling in GB/s of bus bandwidth, from {len(rates.links)} links at "
        f"{slowest:.3f} to {fastest:.3f} GB/s ({_origin(rates)})"
    )


def _origin(rates: LinkRates) -> str:
    version = f" {rates.version}" if rates.version else ""
    copies = f", copies of {format_size(rates.nbytes)}" if rates.nbytes else ""
    return f"TransferBench{version}{copies}, {rates.source}"
