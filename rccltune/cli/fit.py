"""``rccltune fit``: how time depends on size, and where settings cross."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from rccltune.cli.console import Console, common, table
from rccltune.cli.fit_tables import (
    ceiling_lines,
    steps_text,
    transferbench_option,
)
from rccltune.cli.help import verb
from rccltune.cli.shared_options import named, session_argument
from rccltune.model.settings import Role
from rccltune.model.text import JoinedLines, join_lines
from rccltune.model.units import format_size

if TYPE_CHECKING:
    from rccltune.analyse.session_fit import FitResult
    from rccltune.model.curves import Crossover, Curve


@verb("fit")
@session_argument
@transferbench_option
@common
def fit(*, console: Console, session: Path, transferbench: Path | None) -> None:
    """Fit time against size for every setting; find where settings cross.

    Three models are fitted to each curve: RCCL's latency + bytes/bandwidth, the same in pieces,
    and the measured points themselves; the one with the least error at sizes left out is used.
    Over several scales, as imported tables have them, latency is split into a base and steps.

    \b
    Example:
      rccltune fit
      rccltune fit --transferbench a2a.txt

    Exit codes: 0 done, 6 TransferBench's output is not understood, 7 no session, 8 no usable
    sample.
    """
    from rccltune.analyse.session_fit import fit_session
    from rccltune.model.schema import to_plain
    from rccltune.transferbench import find_ceilings, keep_rates

    console.say(f"Session: {session}")
    if transferbench is not None:
        keep_rates(session, transferbench, reporter=console)
    done = fit_session(session, reporter=console, again=True)
    console.warn(done.warnings)
    limit = find_ceilings(done)
    lines = [_text(done, console), *(["", *ceiling_lines(limit)] if limit else [])]
    if len({curve.key.scale for curve in done.curves}) > 1:
        lines += ["", steps_text(done.separations)]
    if console.verbosity >= 0:
        more = "" if console.verbosity else " (-v: every curve)"
        verbs = ", ".join(named(verb, session) for verb in ("emit-config", "plot"))
        lines += ["", f"Next: {verbs}{more}"]
    plain = to_plain(done.file) | ({"ceiling": limit} if limit else {})
    console.result(plain, join_lines(lines))


def _text(done: FitResult, console: Console) -> JoinedLines:
    """Crossovers, and a line for each setting; the rest with -v."""
    if console.verbosity > 0:
        return _everything(done)
    return join_lines([*_changes(done.crossovers), "", *_settings(done.curves)])


def _changes(crossovers: tuple[Crossover, ...]) -> list[str]:
    """Crossovers of one placement of each target; those of the other are near by."""
    first = {c.target: c.view for c in reversed(crossovers)}
    crossovers_shown = [c for c in crossovers if c.view == first[c.target]]
    if not crossovers_shown:
        return ["One setting is the fastest at every size, or there is only one."]
    columns = ("collective", "ranks", "up to", "uncertain", "fastest", "then")
    rows = [
        (
            c.target.collective.value,
            str(c.target.scale.n_ranks),
            format_size(c.at_nbytes),
            f"{format_size(c.low_nbytes)} – {format_size(c.high_nbytes)}",
            str(c.below),
            str(c.above),
        )
        for c in crossovers_shown
    ]
    return ["Where the fastest setting changes:", table(columns, rows, numeric=(1, 2))]


def _settings(curves: tuple[Curve, ...]) -> list[str]:
    """A line for each setting, with the largest error of its curves at sizes left out."""
    columns = ("collective", "ranks", "setting", "sizes", "from", "to", "error")
    groups: dict[tuple[str, ...], list[Curve]] = {}
    for curve in curves:
        key = curve.key
        if key.setting.role is not Role.IDLE:
            name = (key.collective.value, str(key.scale.n_ranks), str(key.setting))
            groups.setdefault(name, []).append(curve)
    rows = []
    # By name, the library as it is first: launches come in an order of their own.
    by_name = sorted(groups.items(), key=lambda one: (*one[0][:1], int(one[0][1]), one[0][2:]))
    for names, group in by_name:
        errors = [fit.held_out_error for c in group if (fit := c.fit(c.chosen)) is not None]
        known = [error for error in errors if error is not None]
        rows.append(
            (
                *names,
                str(max(len(curve.points) for curve in group)),
                format_size(min(curve.min_nbytes for curve in group)),
                format_size(max(curve.max_nbytes for curve in group)),
                f"{100 * max(known):.1f} %" if known else "–",
            )
        )
    head = "Settings measured (error: cross-validated mean):"
    return [head, table(columns, rows, numeric=(1, 3, 4, 5, 6))]


def _everything(done: FitResult) -> JoinedLines:
    parts = [_curves(done.curves), "", _crossovers(done.crossovers)]
    parts += ["", *_list_library_choices(done)] if done.own else []
    return join_lines(parts)


def _list_library_choices(done: FitResult) -> list[str]:
    """Settings that the library was seen to run by itself, a line for each target."""
    lines = ["What the library runs by itself:"]
    for target, by_size in done.own_choices.items():
        runs = [
            (str(setting), [nbytes for nbytes, _ in part])
            for setting, part in groupby(sorted(by_size.items()), key=lambda one: one[1])
        ]
        choices = ", ".join(f"{name} {_span(sizes)}" for name, sizes in runs)
        lines.append(f"{target.collective.value}, {target.scale}: {choices}")
    return lines


def _span(sizes: Sequence[int]) -> str:
    low, high = format_size(sizes[0]), format_size(sizes[-1])
    return f"at {low}" if low == high else f"from {low} to {high}"


def _curves(curves: tuple[Curve, ...]) -> JoinedLines:
    """A table for each kind of call: every curve, and the straight line that says what it costs."""
    columns = ("setting", "sizes", "from", "to", "model", "error")
    line = ("latency µs", "GB/s", "line off by")
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        key = curve.key
        words = [key.collective.value, str(key.scale), str(key.view)]
        groups.setdefault(", ".join(words), []).append(curve)
    parts = [
        join_lines(
            [f"{name}:", table((*columns, *line), sorted(map(_curve_row, group)), range(1, 9))]
        )
        for name, group in sorted(groups.items())
    ]
    return join_lines(parts, gap="\n\n")


def _curve_row(curve: Curve) -> tuple[str, ...]:
    from rccltune.model.curves import Model

    chosen, line = curve.fit(curve.chosen), curve.fit(Model.LINEAR)
    error = chosen.held_out_error if chosen else None
    segment = line.segments[0] if line else None
    slope = segment.us_per_byte if segment else 0.0
    return (
        "idle plugin" if curve.key.setting.role is Role.IDLE else str(curve.key.setting),
        str(len(curve.points)),
        format_size(curve.min_nbytes),
        format_size(curve.max_nbytes),
        curve.chosen.value,
        "–" if error is None else f"{100 * error:.1f} %",
        f"{segment.latency_us:.3g}" if segment else "–",
        f"{1e-3 / slope:.3g}" if slope > 0 else "–",
        f"{100 * max(map(abs, line.residuals)):.0f} %" if line else "–",
    )


def _crossovers(crossovers: tuple[Crossover, ...]) -> JoinedLines:
    if not crossovers:
        return join_lines(
            ["No crossover: one setting is the fastest at every size, or there is only one."]
        )
    columns = (
        "collective",
        "view",
        "below",
        "above",
        "cross at",
        "between",
        "how",
    )
    rows = [
        (
            c.target.collective.value,
            str(c.view),
            str(c.below),
            str(c.above),
            format_size(c.at_nbytes),
            f"{format_size(c.low_nbytes)} – {format_size(c.high_nbytes)}",
            c.evidence.value,
        )
        for c in crossovers
    ]
    return table(columns, rows, numeric=(4,))
