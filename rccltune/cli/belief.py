"""What the library predicts, as text: its choice, what was faster, how far its model is off."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby, product
from statistics import median
from typing import TYPE_CHECKING

from rccltune.cli.console import table
from rccltune.model import TREE_SIMPLE_FORCED, Algorithm, Laid, Protocol, format_size, lay

if TYPE_CHECKING:
    from rccltune.fit import Checked
    from rccltune.model import Belief, Curve, Held, Setting, Target


_COLUMNS = (
    *("sizes", "it would choose", "measured fastest", "it loses, median", "at worst"),
    *("predicted/measured, median", "at worst"),
)
# More winners than this in one row are counted rather than listed.
_WINNERS = 3


def belief_text(beliefs: Sequence[Belief], curves: Sequence[Curve]) -> Laid:
    """A part for every target whose predictions are known; empty where none are."""
    from rccltune import fit

    checked = fit.check_beliefs(beliefs, curves)
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
    from rccltune.model import Setting

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
            patched = variant.patched and variant != TREE_SIMPLE_FORCED
            library = " and a patched library" if patched else ""
            return f" (offered with {needs or variant.name}{library})"
    return ""
