"""Tables that ``fit`` prints and others repeat: environments, scales, what links let through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rccltune.cli.console import Console, table
from rccltune.cli.help import grouped
from rccltune.cli.options import FOLDER, F
from rccltune.model import DEFAULT_VARIANT, Laid, format_size, lay
from rccltune.session import CEILING_FILE

if TYPE_CHECKING:
    from rccltune.ceiling import Bounded, Reached
    from rccltune.fit import FitDone
    from rccltune.model import Ceiling, Environment, LinkRates, Scale, ScaleError, ScaleModel


def environment_lines(environments: Iterable[Environment]) -> list[str]:
    """What each variant gains and costs, and which one the rules are for."""
    from rccltune.rules import finding_lines

    lines: list[str] = []
    for one in environments:
        fate = _fate(one)
        exports = " ".join(f"{name}={value}" for name, value in one.variant.environment)
        lines.append(f"variant {one.variant.name} ({exports or 'no environment'}): {fate}")
        lines += [f"  {line}" for gain in one.gains for line in finding_lines(gain)]
    return lines


def _fate(one: Environment) -> str:
    if one.chosen:
        return "the rules are for it"
    if one.recommended:
        return "it wins more than rules alone: rules for it are in a file of their own"
    return one.against or "another gains more"


_NOTE = (
    "Over scales: hops are those of RCCL's own model; what is not told apart is taken in its "
    "ratio. Each scale is predicted from the others: median and worst error; * has a slowest link "
    "that no other scale has."
)


def scale_text(models: tuple[ScaleModel, ...]) -> Laid:
    """Latency of each hop, bandwidth of each slowest link, and the error at scales left out."""
    links = list(dict.fromkeys(link for model in models for link, _ in model.us_per_byte))
    hops = list(dict.fromkeys(link for model in models for link, _ in model.hop_us))
    scales = sorted(
        {error.span.scale for model in models for error in model.errors},
        key=lambda scale: (scale.n_ranks, scale.n_nodes),
    )
    columns = (
        *("collective", "setting", "view", lay(["base", "µs"])),
        *(lay(["µs a hop", link.value]) for link in hops),
        *(lay(["GB/s", link.value]) for link in links),
        *(scale.short for scale in scales),
    )
    rows = (
        (
            *_named(model),
            f"{model.base_us:.3g}",
            *(_time(dict(model.hop_us).get(link)) for link in hops),
            *(_speed(dict(model.us_per_byte).get(link)) for link in links),
            *(_error(model, scale) for scale in scales),
        )
        for model in models
    )
    apart = Counter(" | ".join(" + ".join(group) for group in m.separated) for m in models)
    lines = [f"Told apart in {n} of {len(models)}: {terms}" for terms, n in apart.most_common()]
    return lay([table(columns, rows, numeric=range(3, len(columns))), _NOTE, *lines])


def _named(model: ScaleModel) -> tuple[str, str, str]:
    key = model.key
    return key.collective.value, str(key.setting), str(key.view)


def _time(us: float | None) -> str:
    return "–" if us is None else f"{us:.3g}"


def _speed(us_per_byte: float | None) -> str:
    return f"{1e-3 / us_per_byte:.3g}" if us_per_byte else "–"


def _error(model: ScaleModel, scale: Scale) -> str:
    found: ScaleError | None = next((e for e in model.errors if e.span.scale == scale), None)
    if found is None:
        return "–"
    return f"{'*' if found.unseen else ''}{100 * found.median:.0f} %, {100 * found.worst:+.0f} %"


_SHOWN = 8


def transferbench_option(command: F) -> F:
    """Where rates of links come from."""
    return grouped(
        "--transferbench",
        type=FOLDER,
        metavar="FILE",
        group="Advanced",
        help="Rates of links from TransferBench: the program, or what its a2a printed.",
    )(command)


def take(console: Console, sessions: Iterable[Path], file: Path | None) -> None:
    """Keep the rates of ``--transferbench`` in the sessions, where it was given."""
    if file is not None:
        from rccltune.ceiling import take_rates

        for session in sessions:
            take_rates(session, file, reporter=console)


def ceiling_of(done: FitDone) -> Bounded | None:
    """The ceiling of a session, None where it has no rates of links."""
    if not (done.session.path / CEILING_FILE).exists():
        return None
    from rccltune.ceiling import bounded

    return bounded(done)


def ceiling_lines(found: Bounded) -> list[str]:
    """The ceiling, what reached how much of it, and links out of line."""
    lines = [_head(found)]
    if found.reached:
        columns = ("collective", "scale", "ceiling", "slowest link", "best", "at", "with", "of it")
        rows = (
            (
                one.ceiling.collective.value,
                str(one.ceiling.scale),
                f"{one.ceiling.gb_per_s:.1f}",
                _product(one.ceiling),
                f"{one.gb_per_s:.1f}",
                format_size(one.nbytes),
                _with(one),
                f"{one.fraction:.2f}",
            )
            for one in found.reached
        )
        lines.append(table(columns, rows, numeric=(2, 4, 5, 7)))
    lines += [f"no ceiling for {said}" for said in found.without]
    lines += _slow(found)
    return lines


def _with(one: Reached) -> str:
    plain = one.variant == DEFAULT_VARIANT.name
    return str(one.setting) if plain else f"{one.setting} [{one.variant}]"


def _product(one: Ceiling) -> str:
    return f"{one.n_links} x {one.slowest.gb_per_s:.3f}, {one.slowest}"


def _head(found: Bounded) -> str:
    rates = found.rates
    slowest = min(link.gb_per_s for link in rates.links)
    fastest = max(link.gb_per_s for link in rates.links)
    simulated = "SIMULATED " if rates.simulated else ""
    return (
        f"{simulated}Ceiling in GB/s of bus bandwidth, from {len(rates.links)} links at "
        f"{slowest:.3f} to {fastest:.3f} GB/s, median {found.middle:.3f} ({_origin(rates)})"
    )


def _origin(rates: LinkRates) -> str:
    version = f" {rates.version}" if rates.version else ""
    copies = f", copies of {format_size(rates.nbytes)}" if rates.nbytes else ""
    return f"TransferBench{version}{copies}, {rates.source}"


def _slow(found: Bounded) -> list[str]:
    """Links out of line; a handful of them, since a broken switch has dozens."""
    lines = [
        f"link out of line: {link}, {link.gb_per_s:.2f} GB/s, "
        f"{100 * (1 - link.gb_per_s / found.middle):.0f} % below the median"
        for link in found.slow[:_SHOWN]
    ]
    more = len(found.slow) - _SHOWN
    return [*lines, f"{more} more links out of line"] if more > 0 else lines
