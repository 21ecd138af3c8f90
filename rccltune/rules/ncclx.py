"""Rules in the dialect of NCCLX's built-in tuner: sizes per rank, topology as intervals.

The grammar is that of torchcomms, comms/ncclx/meta/tuner/README.md at 46726f15. What is compared
there is nBytes // nRanks, so a rule whose boundary is the same number of bytes per rank at several
scales becomes one. Seven columns are written, the ones that all its versions read alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final

from rccltune.model import Collective, Scale, Setting, Zone
from rccltune.rules.line_format import UNPROVEN_MARK, comment

_COLUMNS: Final = "collective,bytesPerRank,algorithm,protocol,channels,nNodes,nLocalRanks"
_Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclxFile:
    """What was made.

    Attributes:
        n_rules: rows.
        n_before: rules that they stand for, one for each scale.
        unsaid: what the dialect cannot say, in sentences.
    """

    text: str
    n_rules: int
    n_before: int
    unsaid: tuple[str, ...]


@dataclass(slots=True)
class _Edge:
    """A boundary between two zones of one scale, in bytes per rank.

    Attributes:
        first: the smallest number of bytes per rank that is above it.
        low: the smallest that it may be without changing the choice at a measured size.
        high: the largest.
    """

    first: int
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row of one scale, before rows are joined."""

    setting: Setting
    low: int
    high: int | None
    scale: Scale
    fallback: bool
    doubted: bool


def render_ncclx(
    provenance: Iterable[str],
    needs: Sequence[tuple[str, str]],
    zones: Sequence[Zone],
    *,
    span: bool = False,
) -> NcclxFile:
    """The file's text.

    Args:
        provenance: where all figures come from.
        needs: (name, value) that the rules were measured with.
        zones: of one machine; each scale's cover all sizes.
        span: a row may reach over scales between measured ones that agree.
    """
    lines = [line for text in provenance for line in comment(text)]
    lines += comment(
        "for NCCLX_TUNER_CONFIG_FILE; nothing in this dialect checks the machine, the environment "
        "or where the ranks are"
    )
    lines += [line for name, value in needs for line in comment(f"needs {name}={value}")]
    lines += comment(
        "boundaries are whole bytes per rank: beside one, sizes that are no multiple of the ranks "
        "may be answered as their neighbours"
    )
    lines += comment(f"columns: {_COLUMNS}")
    rows, unsaid, n_before = [], [], 0
    for collective, found in groupby(sorted(zones, key=_order), key=lambda z: z.target.collective):
        made = _Collective(tuple(found))
        written = [line for row in _joined(made, span=span) for line in row.lines(collective)]
        unsaid += made.unsaid
        n_before += made.n_before
        rows += [f"# {collective.value}", *written] if written else []
    count = sum(not line.startswith("#") for line in rows)
    lines += [line for text in unsaid for line in comment(text)]
    return NcclxFile(
        text="\n".join((*lines, *rows)) + "\n",
        n_rules=count,
        n_before=n_before,
        unsaid=tuple(unsaid),
    )


def _order(zone: Zone) -> tuple[int, int, int, int]:
    target = zone.target
    scale = target.scale
    return target.collective.func_index, scale.n_nodes, scale.n_ranks, zone.min_nbytes


class _Collective:
    """The rows of one collective at every scale, with boundaries that agree where they can."""

    def __init__(self, zones: Sequence[Zone]) -> None:
        """Turn sizes into bytes per rank."""
        self.unsaid: list[str] = []
        self.n_before = 0
        self.by_scale: dict[Scale, list[Zone]] = {}
        for zone in zones:
            self.by_scale.setdefault(zone.target.scale, []).append(zone)
        for scale in [s for s in self.by_scale if s.n_ranks % s.n_nodes]:
            del self.by_scale[scale]
            self.unsaid.append(
                f"not written: {scale}: nodes with different numbers of ranks have no nLocalRanks"
            )
        self.edges = {
            scale: [_edge(below, above, scale) for below, above in pairwise(found)]
            for scale, found in self.by_scale.items()
        }
        self._agree()

    def _agree(self) -> None:
        """One boundary for all scales whose measured sizes allow the same."""
        alike: dict[tuple[object, ...], list[list[_Edge]]] = {}
        for scale, found in self.by_scale.items():
            for (below, above), edge in zip(pairwise(found), self.edges[scale], strict=True):
                groups = alike.setdefault((below.setting, above.setting), [])
                group = next((g for g in groups if _common([*g, edge])), None)
                if group is None:
                    groups.append([edge])
                else:
                    group.append(edge)
        for group in (g for groups in alike.values() for g in groups):
            common = _common(group)
            if common is not None:
                wanted = sorted(edge.first for edge in group)[len(group) // 2]
                for edge in group:
                    edge.first = min(max(wanted, common[0]), common[1])

    def rows(self) -> Iterator[_Row]:
        """Rows of each scale; fallbacks with their own."""
        for scale, found in self.by_scale.items():
            firsts = [0, *(edge.first for edge in self.edges[scale])]
            lasts: list[int | None] = [first - 1 for first in firsts[1:]]
            for zone, low, high in zip(found, firsts, [*lasts, None], strict=True):
                for setting, fallback in ((zone.setting, False), (zone.fallback, True)):
                    if setting is None or (high is not None and low > high):
                        continue
                    if setting.algorithm is None or setting.protocol is None:
                        self.unsaid.append(
                            f"not written: {setting} for {zone.target.collective.value}, {scale}: "
                            "a row names algorithm and protocol"
                        )
                        continue
                    self.n_before += 1
                    yield _Row(
                        setting=setting,
                        low=low,
                        high=high,
                        scale=scale,
                        fallback=fallback,
                        doubted=not zone.is_proven,
                    )


def _edge(below: Zone, above: Zone, scale: Scale) -> _Edge:
    """Where one zone ends: measured sizes stay on their side, others as nearly as can be."""
    n = scale.n_ranks
    nearest = math.ceil(above.min_nbytes / n)
    low = nearest if below.measured_to is None else below.measured_to // n + 1
    high = nearest if above.measured_from is None else above.measured_from // n
    # Sizes below one byte per rank are alike to this dialect: what was measured decides.
    low, high = (low, high) if low <= high else (min(low, high), min(low, high))
    return _Edge(first=min(max(nearest, low), high), low=low, high=high)


def _common(edges: Sequence[_Edge]) -> _Span | None:
    low, high = max(edge.low for edge in edges), min(edge.high for edge in edges)
    return (low, high) if low <= high else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joined:
    """A row for several scales."""

    row: _Row
    nodes: _Span
    local: _Span
    measured: tuple[Scale, ...]

    def lines(self, collective: Collective) -> list[str]:
        """A comment with the scales that it rests on, and the row."""
        row, setting = self.row, self.row.setting
        size = f"[{row.low},)" if row.high is None else f"[{row.low},{row.high}]"
        if setting.algorithm is None or setting.protocol is None:
            raise AssertionError("rows without them are left out")
        fields = (
            *(collective.csv_name, size, setting.algorithm.value, setting.protocol.value),
            *(setting.channels or -1, _interval(self.nodes), _interval(self.local)),
        )
        why = f"{UNPROVEN_MARK} no repeats prove the gain; " if row.doubted else ""
        why += "reached only where the setting above is not selectable; " if row.fallback else ""
        scales = ", ".join(scale.short for scale in self.measured)
        return [*comment(f"{why}measured at {scales}"), ",".join(map(str, fields))]


def _joined(made: _Collective, *, span: bool) -> list[_Joined]:
    """Rows that differ in their scale alone as one, where scales are neighbours."""
    alike: dict[tuple[object, ...], list[_Row]] = {}
    for row in made.rows():
        same = (row.fallback, row.doubted, row.low, row.high, row.setting)
        alike.setdefault(same, []).append(row)
    known = {_shape(scale) for scale in made.by_scale}
    joined = []
    for rows in alike.values():
        by_shape = {_shape(row.scale): row.scale for row in rows}
        for nodes, local in _rectangles(set(by_shape), known, span=span):
            inside = tuple(
                scale for (n, m), scale in by_shape.items() if _in(n, nodes) and _in(m, local)
            )
            joined.append(_Joined(row=rows[0], nodes=nodes, local=local, measured=inside))
    return sorted(joined, key=lambda one: (one.row.fallback, one.nodes, one.local, one.row.low))


def _shape(scale: Scale) -> _Span:
    return scale.n_nodes, scale.n_ranks // scale.n_nodes


def _rectangles(
    shapes: set[_Span], known: set[_Span], *, span: bool
) -> Iterator[tuple[_Span, _Span]]:
    """(nodes, ranks per node) as pairs of intervals that hold no measured shape but these."""
    by_local: dict[tuple[_Span, ...], list[int]] = {}
    for count in sorted({m for _, m in shapes}):
        mine = [n for n, m in sorted(shapes) if m == count]
        theirs = [n for n, m in sorted(known) if m == count]
        by_local.setdefault(tuple(_runs(mine, theirs, span=span)), []).append(count)
    for runs, locals_ in by_local.items():
        for nodes in runs:
            others = sorted({m for n, m in known if _in(n, nodes)})
            for local in _runs(locals_, others, span=span):
                yield nodes, local


def _runs(numbers: Sequence[int], known: Sequence[int], *, span: bool) -> Iterator[_Span]:
    """Neighbours as intervals: counts that follow each other, or that were measured in a row."""
    start = last = numbers[0]
    for number in numbers[1:]:
        is_next = number == last + 1
        if span:
            is_next = not any(last < other < number for other in known)
        if not is_next:
            yield start, last
            start = number
        last = number
    yield start, last


def _in(number: int, interval: _Span) -> bool:
    return interval[0] <= number <= interval[1]


def _interval(span: _Span) -> str:
    return str(span[0]) if span[0] == span[1] else f"[{span[0]},{span[1]}]"
