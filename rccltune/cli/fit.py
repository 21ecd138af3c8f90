"""``rccltune fit``: how time depends on size, where settings cross, what the library predicts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby, product
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from rccltune.cli.console import DEFAULT_SESSION, Console, common, table
from rccltune.cli.fit_tables import (
    ceiling_lines,
    ceiling_of,
    environment_lines,
    steps_text,
    take,
    transferbench_option,
)
from rccltune.cli.help import verb
from rccltune.cli.options import FOLDER
from rccltune.model.settings import Role
from rccltune.model.vocabulary import Algorithm, Laid, Protocol, format_size, lay

if TYPE_CHECKING:
    from rccltune.ceiling.session import Bounded
    from rccltune.fit.beliefs import Checked
    from rccltune.fit.session import FitDone
    from rccltune.model.belief import Belief, Held
    from rccltune.model.curves import Crossover, Curve, Separation
    from rccltune.model.settings import Setting, Target


@verb("fit")
@click.argument("sessions", nargs=-1, type=FOLDER, metavar="[SESSION]...")
@transferbench_option
@common
def fit(*, console: Console, sessions: tuple[Path, ...], transferbench: Path | None) -> None:
    """Fit time against size for every setting; find where settings cross.

    Three models are fitted to each curve: RCCL's latency + bytes/bandwidth, the same in pieces,
    and the measured points themselves; the one with the least error at sizes left out is used.
    Over several scales latency is split into a base and steps.

    \b
    Example:
      rccltune fit
      rccltune fit --transferbench a2a.txt
      rccltune fit 1x16 1x32 1x64

    Exit codes: 0 done, 5 TransferBench failed, 6 its output is not understood, 7 no session,
    8 no usable sample.
    """
    from rccltune.fit.session import fit_session
    from rccltune.session.folders import one_machine, sessions_in

    folders = sessions_in(sessions or (DEFAULT_SESSION,))
    console.say(f"Session: {', '.join(str(folder) for folder in folders)}")
    take(console, folders, transferbench)
    fits = [fit_session(folder, reporter=console, again=True) for folder in folders]
    console.warn(tuple(dict.fromkeys(notice for done in fits for notice in done.warnings)))
    one_machine([done.session for done in fits])
    separations = _separations(fits)
    limits = [ceiling_of(done) for done in fits]
    parts = [
        lay([_text(done, console), *(["", *ceiling_lines(limit)] if limit else [])])
        for done, limit in zip(fits, limits, strict=True)
    ]
    parts += [steps_text(separations)] if separations is not None else []
    if console.verbosity >= 0:
        more = "" if console.verbosity else " (-v: every curve, and what the library predicted)"
        parts.append(lay([f"Next: rccltune emit-config, rccltune plot{more}"]))
    plain = _plain(fits, limits, separations) if console.as_json else None
    console.result(plain, lay(parts, gap="\n\n"))


def _separations(fits: Sequence[FitDone]) -> tuple[Separation, ...] | None:
    """How latency goes with the scale; None where only one was measured."""
    from rccltune.fit.models import separate

    curves = [curve for done in fits for curve in done.curves]
    if len({curve.key.scale for curve in curves}) < 2:
        return None
    return separate(curves)


def _plain(
    fits: list[FitDone], limits: list[Bounded | None], separations: Sequence[Separation] | None
) -> dict[str, Any]:
    """One session as ever; several as a list."""
    from rccltune.model.schema import to_plain

    made = [
        to_plain(done.file) | ({"ceiling": limit.as_plain()} if limit else {})
        for done, limit in zip(fits, limits, strict=True)
    ]
    return made[0] if len(made) == 1 else {"sessions": made, "separations": to_plain(separations)}


def _text(done: FitDone, console: Console) -> Laid:
    """Where the fastest setting changes, and a line for each setting; the rest with -v."""
    if console.verbosity > 0:
        return _everything(done)
    return lay([*_changes(done.crossovers), "", *_settings(done.curves)])


def _changes(crossovers: tuple[Crossover, ...]) -> list[str]:
    """Crossovers of one placement of each target; those of the other are near by."""
    first = {c.target: c.view for c in reversed(crossovers)}
    shown = [c for c in crossovers if c.view == first[c.target]]
    if not shown:
        return ["One setting is the fastest at every size, or there is only one."]
    columns = ("collective", "ranks", "up to", "uncertain", "fastest", "then", "environment")
    rows = [
        (
            c.target.collective.value,
            str(c.target.scale.n_ranks),
            format_size(c.at_nbytes),
            f"{format_size(c.low_nbytes)} – {format_size(c.high_nbytes)}",
            str(c.below),
            str(c.above),
            c.target.variant.name,
        )
        for c in shown
    ]
    return ["Where the fastest setting changes:", _without_defaults(columns, rows, (1, 2))]


def _settings(curves: tuple[Curve, ...]) -> list[str]:
    """A line for each setting, with the largest error of its curves at sizes left out."""
    columns = ("collective", "ranks", "setting", "sizes", "from", "to", "error", "environment")
    groups: dict[tuple[str, ...], list[Curve]] = {}
    for curve in curves:
        key = curve.key
        if key.setting.role is not Role.SILENT:
            name = (key.collective.value, str(key.scale.n_ranks), str(key.setting))
            groups.setdefault((*name, key.variant.name), []).append(curve)
    rows = []
    # By name, the library as it is first: launches come in an order of their own.
    by_name = sorted(groups.items(), key=lambda one: (*one[0][:1], int(one[0][1]), one[0][2:]))
    for names, group in by_name:
        errors = [fit.held_out_error for c in group if (fit := c.fit(c.chosen)) is not None]
        known = [error for error in errors if error is not None]
        rows.append(
            (
                *names[:-1],
                str(max(len(curve.points) for curve in group)),
                format_size(min(curve.min_nbytes for curve in group)),
                format_size(max(curve.max_nbytes for curve in group)),
                f"{100 * max(known):.1f} %" if known else "–",
                names[-1],
            )
        )
    head = "Settings measured; the error of a curve is its mean at sizes left out:"
    return [head, _without_defaults(columns, rows, (1, 3, 4, 5, 6))]


def _without_defaults(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int]
) -> Laid:
    """A table whose last column, the environment, is left out where there is only one."""
    if all(row[-1] == "default" for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return table(columns, rows, numeric=numeric)


def _everything(done: FitDone) -> Laid:
    parts = [_curves(done.curves), "", _crossovers(done.crossovers)]
    parts += ["", *done.agreements.lines] if done.agreements.lines else []
    variants = _variants(done) if done.is_varied else []
    parts += ["", *variants] if variants else []
    parts += ["", belief_text(done.beliefs, done.curves)] if done.beliefs else []
    return lay(parts)


def _variants(done: FitDone) -> list[str]:
    from rccltune.rules.stored import stored_choice

    choice = stored_choice(done.session.path)
    return environment_lines(choice.environments) if choice else []


def _curves(curves: tuple[Curve, ...]) -> Laid:
    """A table for each kind of call: every curve, and the straight line that says what it costs."""
    columns = ("setting", "sizes", "from", "to", "model", "error")
    line = ("latency µs", "GB/s", "line off by")
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        key = curve.key
        words = [key.collective.value, str(key.scale), str(key.view)]
        words += [key.variant.name] if key.variant.name != "default" else []
        groups.setdefault(", ".join(words), []).append(curve)
    parts = [
        lay([f"{name}:", table((*columns, *line), sorted(map(_curve_row, group)), range(1, 9))])
        for name, group in sorted(groups.items())
    ]
    return lay(parts, gap="\n\n")


def _curve_row(curve: Curve) -> tuple[str, ...]:
    from rccltune.model.curves import Model

    chosen, line = curve.fit(curve.chosen), curve.fit(Model.LINEAR)
    error = chosen.held_out_error if chosen else None
    segment = line.segments[0] if line else None
    slope = segment.us_per_byte if segment else 0.0
    return (
        "idle plugin" if curve.key.setting.role is Role.SILENT else str(curve.key.setting),
        str(len(curve.points)),
        format_size(curve.min_nbytes),
        format_size(curve.max_nbytes),
        curve.chosen.value,
        "–" if error is None else f"{100 * error:.1f} %",
        f"{segment.latency_us:.3g}" if segment else "–",
        f"{1e-3 / slope:.3g}" if slope > 0 else "–",
        f"{100 * max(map(abs, line.residuals)):.0f} %" if line else "–",
    )


def _crossovers(crossovers: tuple[Crossover, ...]) -> str:
    if not crossovers:
        return "No crossover: one setting is the fastest at every size, or there is only one."
    columns = (
        "collective",
        "view",
        "below",
        "above",
        "cross at",
        "between",
        "how",
    )
    rows = (
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
    )
    return table(columns, rows, numeric=(4,))


_COLUMNS = (
    *("sizes", "it would choose", "measured fastest", "it loses, median", "at worst"),
    *("predicted/measured, median", "at worst"),
)
# More winners than this in one row are counted rather than listed.
_WINNERS = 3


def belief_text(beliefs: Sequence[Belief], curves: Sequence[Curve]) -> Laid:
    """A part for every target whose predictions are known; empty where none are."""
    from rccltune.fit.beliefs import check_beliefs

    checked = check_beliefs(beliefs, curves)
    return lay((_target(one, checked) for one in checked), gap="\n\n")


def _target(one: Checked, others: Sequence[Checked]) -> Laid:
    head = f"What the library predicts: {_name(one.target)} ({one.view})"
    default = _default_of(one, others)
    if not any(held.choice for held in one.held):
        parts = [f"{head}: it shows a tuner no times, so its choice is not known"]
    elif default is not None and _tables(default.held) == _tables(one.held):
        parts = [f"{head}: it would choose the same as without"]
    else:
        rows = [_row(run) for run in _runs(one.held)]
        parts = [head, table(_COLUMNS, rows, numeric=(3, 5))]
    return lay([*parts, *_corrections(one), _offers(one, others)])


def _name(target: Target) -> str:
    words = [target.collective.value, str(target.scale)]
    if target.rank_placement not in (None, "node"):
        words.append(f"placement {target.rank_placement}")
    if target.variant.name != "default":
        words.append(target.variant.name)
    return ", ".join(words)


def _siblings(one: Checked, others: Iterable[Checked]) -> list[Checked]:
    """The same target in other variants."""
    wanted = one.target
    return [
        other
        for other in others
        if other is not one
        and other.target.collective is wanted.collective
        and other.target.scale == wanted.scale
        and other.target.rank_placement == wanted.rank_placement
    ]


def _default_of(one: Checked, others: Iterable[Checked]) -> Checked | None:
    siblings = _siblings(one, others)
    return next((other for other in siblings if other.target.variant.name == "default"), None)


def _tables(held: Iterable[Held]) -> dict[int, Setting | None]:
    return {one.nbytes: one.table for one in held}


def _runs(held: Iterable[Held]) -> list[list[Held]]:
    """Neighbouring sizes of one choice."""
    return [list(run) for _, run in groupby(held, key=lambda one: one.choice)]


def _row(run: Sequence[Held]) -> tuple[str, ...]:
    losses = [(one.loss, one.nbytes) for one in run if one.loss is not None]
    ratios = [(one.optimism, one.nbytes) for one in run if one.optimism is not None]
    cells = ["–"] * 4
    if losses:
        worst, at = max(losses)
        cells[0] = f"{100 * median(loss for loss, _ in losses):.0f} %"
        cells[1] = f"{100 * worst:.0f} % at {format_size(at)}"
    if ratios:
        worst, at = max(ratios, key=lambda found: abs(math.log(found[0])))
        cells[2] = f"{median(ratio for ratio, _ in ratios):.2f}"
        cells[3] = f"{worst:.2f} at {format_size(at)}"
    choice = run[0].choice
    span = _span([one.nbytes for one in run])
    return span, str(choice) if choice else "not known", _winners(run), *cells


def _corrections(one: Checked) -> list[str]:
    """Where the library was seen to run something else than its table's least."""
    words = []
    for run in _runs([held for held in one.held if held.is_corrected]):
        tables = Counter(str(held.table) for held in run).most_common()
        says = " and ".join(name for name, _ in tables)
        span = _span([held.nbytes for held in run])
        words.append(f"{span}: it ran {run[0].choice}, its table says {says}")
    return [f"Corrected after the table: {'; '.join(words)}."] if words else []


def _span(sizes: Sequence[int]) -> str:
    first, last = format_size(min(sizes)), format_size(max(sizes))
    return first if first == last else f"{first} – {last}"


def _winners(run: Sequence[Held]) -> str:
    """Who was fastest, in the order of the sizes; its choice where nobody is clearly faster."""
    names = [_winner(one) for one in run]
    parts: list[tuple[str, int]] = []
    for name, one in zip(names, run, strict=True):
        if parts and parts[-1][0] == name:
            parts.pop()
        parts.append((name, one.nbytes))
    if len(parts) == 1:
        return parts[0][0]
    if len(parts) <= _WINNERS:
        ends = [f"{name} to {format_size(last)}" for name, last in parts[:-1]]
        return ", ".join([*ends, parts[-1][0]])
    often = Counter(names).most_common()
    listed = [f"{name} at {n} of {len(run)} sizes" for name, n in often[:_WINNERS]]
    return ", ".join(listed) + (" …" if len(often) > _WINNERS else "")


def _winner(one: Held) -> str:
    if one.loss is not None and not one.is_beaten:
        return "its choice"
    widened = one.best_variant is not None and one.best_variant.name != "default"
    return (
        f"{one.best} [{one.best_variant.name}]" if widened and one.best_variant else f"{one.best}"
    )


def _offers(one: Checked, others: Sequence[Checked]) -> str:
    """Which cells the library does not offer, or not at every size."""
    from rccltune.model.settings import Setting

    if all(time_us is None for belief in one.beliefs for _, time_us in belief.offered):
        known = dict.fromkeys(str(cell) for belief in one.beliefs for cell, _ in belief.offered)
        return f"A plugin may answer {', '.join(known)} there; its table is not shown."
    algorithms = [Algorithm.RING]
    algorithms += [Algorithm.TREE] if one.target.collective.has_tree else []
    cells = [Setting(algorithm=a, protocol=p) for a, p in product(algorithms, Protocol)]
    cells += [cell for b in one.beliefs for cell, _ in b.offered if cell not in cells]
    never: dict[str, list[str]] = {}
    partly = []
    for cell in dict.fromkeys(cells):
        sizes = [b.nbytes for b in one.beliefs if _offers_cell(b, cell)]
        if not sizes:
            never.setdefault(_where_offered(cell, one, others), []).append(str(cell))
        elif len(sizes) < len(one.beliefs):
            inner = [b.nbytes for b in one.beliefs if min(sizes) <= b.nbytes <= max(sizes)]
            gaps = f", with {len(inner) - len(sizes)} gaps" if len(inner) > len(sizes) else ""
            partly.append(f"{cell} only at {_span(sizes)}{gaps}")
    listed = [f"{', '.join(cells)}{where}" for where, cells in sorted(never.items())]
    words = [f"Not offered: {'; '.join(listed)}."] if never else []
    words += [f"Offered: {', '.join(partly)}."] if partly else []
    names = " and ".join(algorithm.value for algorithm in algorithms)
    return " ".join(words) or f"Every setting of {names} is offered at every size."


def _offers_cell(belief: Belief, cell: Setting) -> bool:
    return any(offered == cell for offered, _ in belief.offered)


def _where_offered(cell: Setting, one: Checked, others: Iterable[Checked]) -> str:
    """Where else in this session the cell is offered, in brackets; empty where nowhere."""
    siblings = _siblings(one, others)
    for other in sorted(siblings, key=lambda found: len(found.target.variant.environment)):
        if any(_offers_cell(belief, cell) for belief in other.beliefs):
            variant = other.target.variant
            needs = " ".join(f"{name}={value}" for name, value in variant.environment)
            library = " and a patched library" if variant.patched else ""
            return f" (offered with {needs or variant.name}{library})"
    return ""
