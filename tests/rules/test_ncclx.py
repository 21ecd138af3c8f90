"""NCCLX's dialect, read back by a reader that was written from its grammar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readers import ALGORITHMS, PROTOCOLS, Call, Cell, Interval, interval, ncclx_answer, ncclx_rows
from wording import lacks

from rccltune.model import (
    DEFAULT_VARIANT,
    MAX_NBYTES,
    Collective,
    Protocol,
    Rule,
    Scale,
    Setting,
    Target,
    Zone,
)
from rccltune.rules import NcclxFile, RuleDocument, read_rules, render, render_ncclx, sections_of

EVERY: set[Cell] = {(a, p) for a in ALGORITHMS for p in PROTOCOLS}
NO_LL128 = {cell for cell in EVERY if cell[1] != "ll128"}
Parts = Sequence[tuple[str | None, Sequence[int]]]


def zones(
    scale: Scale, parts: Parts, cuts: Sequence[int], collective: Collective = Collective.ALL_GATHER
) -> list[Zone]:
    """(setting or None, measured sizes) in order, and where each but the first begins, in bytes."""
    target = Target(
        collective=collective, scale=scale, rank_placement=None, variant=DEFAULT_VARIANT
    )
    edges = [0, *cuts, MAX_NBYTES + 1]
    made = []
    for number, (name, sizes) in enumerate(parts):
        setting = Setting.parse(name) if name else None
        is_ll128 = setting is not None and setting.protocol is Protocol.LL128
        made.append(
            Zone(
                target=target,
                min_nbytes=edges[number],
                max_nbytes=edges[number + 1] - 1,
                setting=setting,
                reason=None if name else "baseline not beaten",
                measured_from=min(sizes, default=None),
                measured_to=max(sizes, default=None),
                n_sizes=len(sizes),
                fallback=Setting.parse("ring/simple") if is_ll128 else None,
            )
        )
    return made


def written(found: Sequence[Zone], *, span: bool = False) -> NcclxFile:
    """As it is emitted."""
    return render_ncclx(("measured by a test",), (("A", "1"),), found, span=span)


def answer(text: str, scale: Scale, nbytes: int, offered: set[Cell] = EVERY) -> str:
    """What NCCLX's own way of reading answers."""
    call = Call("allgather", nbytes, scale.n_nodes, scale.n_ranks)
    found = ncclx_answer(ncclx_rows(text), call, offered)
    if found is None:
        return "none"
    (algorithm, protocol), channels = found
    return f"{algorithm}/{protocol}" + (f"/{channels}" if channels else "")


NAMES = ["ring/ll", "ring/ll128", "ring/simple/8", "pat/simple", None]


@st.composite
def choices(draw: st.DrawFn) -> dict[Scale, list[Zone]]:
    """Zones of a few scales; sizes are powers of two per rank, and cuts lie between them."""
    made = {}
    shapes = st.sampled_from([(1, 8), (1, 16), (2, 8), (3, 8), (2, 16), (4, 8), (1, 6)])
    for nodes, local in draw(st.lists(shapes, unique=True, min_size=1, max_size=4)):
        scale = Scale(n_nodes=nodes, n_ranks=nodes * local)
        steps = sorted(draw(st.sets(st.integers(1, 11), max_size=5)))
        bounds = [0, *steps, 12]
        parts, cuts, previous = [], [], "?"
        for low, high in pairwise(bounds):
            name = draw(st.sampled_from([n for n in NAMES if n != previous]))
            previous = name or ""
            parts.append((name, [scale.n_ranks << k for k in range(low, high)]))
        for step in steps:
            above = scale.n_ranks << step
            cuts.append(draw(st.integers(above // 2 + 1, above)))
        made[scale] = zones(scale, parts, cuts)
    return made


@given(found=choices(), span=st.booleans())
def test_every_measured_size_keeps_its_choice(found: dict[Scale, list[Zone]], span: bool) -> None:
    """At every scale, however rows were joined; where LL128 is not on offer, the fallback's."""
    made = written([zone for listed in found.values() for zone in listed], span=span)
    for scale, listed in found.items():
        for zone in listed:
            first, last = zone.measured_from, zone.measured_to
            assert first is not None
            assert last is not None
            sizes = [scale.n_ranks << k for k in range(12)]
            for nbytes in (n for n in sizes if first <= n <= last):
                wanted = str(zone.setting) if zone.setting else "none"
                assert answer(made.text, scale, nbytes) == wanted
                without = str(zone.fallback) if zone.fallback else wanted
                assert answer(made.text, scale, nbytes, NO_LL128) == without
    assert made.n_rules <= made.n_before
    assert made.n_rules == len(ncclx_rows(made.text))


@given(found=choices())
def test_one_scale_alone_answers_as_its_zones_at_every_size_that_ranks_divide(
    found: dict[Scale, list[Zone]],
) -> None:
    """The size of all_gather and reduce_scatter is such a one: there nothing is moved."""
    scale, listed = next(iter(found.items()))
    text = written(listed).text
    for zone in listed:
        for bound in (zone.min_nbytes, zone.max_nbytes):
            for count in range(bound // scale.n_ranks - 1, bound // scale.n_ranks + 3):
                nbytes = count * scale.n_ranks
                if 0 <= nbytes <= MAX_NBYTES:
                    mine = next(z for z in listed if z.min_nbytes <= nbytes <= z.max_nbytes)
                    assert answer(text, scale, nbytes) == (
                        str(mine.setting) if mine.setting else "none"
                    )


@given(found=choices())
def test_no_scale_gets_a_rule_that_was_not_measured_there(found: dict[Scale, list[Zone]]) -> None:
    """Unless it was asked for, rows do not reach over scales between measured ones."""
    text = written([zone for listed in found.values() for zone in listed]).text
    for nodes in range(1, 6):
        for local in (6, 7, 8, 12, 16):
            scale = Scale(n_nodes=nodes, n_ranks=nodes * local)
            if scale not in found:
                assert {answer(text, scale, scale.n_ranks << k) for k in (0, 5, 11)} == {"none"}


PER_RANK: Mapping[Scale, Sequence[int]] = {
    # The crossovers were estimated at each scale by itself, and differ within what was measured.
    Scale(n_nodes=1, n_ranks=8): (8 * 3000, 8 * 200_000),
    Scale(n_nodes=2, n_ranks=16): (16 * 3500, 16 * 240_000),
    Scale(n_nodes=3, n_ranks=24): (24 * 2500, 24 * 150_000),
    Scale(n_nodes=8, n_ranks=64): (64 * 3900, 64 * 140_000),
}


def constant(collective: Collective = Collective.ALL_GATHER) -> list[Zone]:
    """LL, LL128, Simple with crossovers between 2 and 4 KiB, 128 and 256 KiB per rank."""
    made = []
    for scale, cuts in PER_RANK.items():
        n = scale.n_ranks
        parts: Parts = [
            ("ring/ll", [n << k for k in range(12)]),
            ("ring/ll128", [n << k for k in range(12, 18)]),
            ("ring/simple", [n << k for k in range(18, 24)]),
        ]
        made += zones(scale, parts, cuts, collective)
    return made


def test_a_crossover_that_is_constant_per_rank_takes_fewer_rules() -> None:
    """Four scales with a fallback each: 16 rules of one scale; 8 of one to three nodes and eight."""
    made = written(constant())
    assert (made.n_before, made.n_rules) == (16, 8)
    rows = ncclx_rows(made.text)
    assert {(r.n_nodes, r.n_local_ranks) for r in rows} == {
        (Interval(1, 3), Interval(8, 8)),
        (Interval(8, 8), Interval(8, 8)),
    }
    wide = written(constant(), span=True)
    assert (wide.n_before, wide.n_rules) == (16, 4)
    assert {(r.n_nodes, r.n_local_ranks) for r in ncclx_rows(wide.text)} == {
        (Interval(1, 8), Interval(8, 8))
    }
    assert "measured at 1x8, 2x16, 3x24, 8x64" in wide.text


def test_a_scale_that_disagrees_is_not_reached_over() -> None:
    """Two nodes want another setting: rows of one and of three nodes stay apart, asked or not."""
    found = [z for z in constant() if z.target.scale.n_nodes != 2]
    found += zones(Scale(n_nodes=2, n_ranks=16), [("pat/simple", [16, 1 << 24])], [])
    rows = ncclx_rows(written(found, span=True).text)
    assert not any(r.n_nodes.holds(2) and r.cell != ("pat", "simple") for r in rows)


def test_what_the_dialect_cannot_say_is_said() -> None:
    """Channels alone, and nodes with different numbers of ranks; never a row that is refused."""
    scale = Scale(n_nodes=2, n_ranks=15)
    found = zones(scale, [("ring/ll", [15])], [])
    found += zones(Scale(n_nodes=1, n_ranks=8), [("-/-/16", [8]), ("ring/ll", [1024])], [512])
    made = written(found)
    assert len(made.unsaid) == 2
    assert "15 ranks on 2 nodes" in made.unsaid[0]
    assert lacks(made.unsaid[1], "names algorithm") == []
    [row] = ncclx_rows(made.text)
    assert row.bytes_per_rank == Interval(64, None)
    assert "# needs A=1" in made.text


@pytest.mark.parametrize(
    ("text", "holds", "not_held"),
    [
        ("*", [-5, 0, 1 << 62], []),
        ("5", [5], [4, 6]),
        ("[2,4]", [2, 4], [1, 5]),
        ("(2,4)", [3], [2, 4]),
        ("(2,4]", [3, 4], [2, 5]),
        (" [ 2 , 4 ) ", [2, 3], [1, 4]),
        ("(1,)", [2, 1 << 62], [1]),
        ("[2,)", [2], [1]),
        ("(,4]", [-9, 4], [5]),
    ],
)
def test_the_reader_knows_the_forms_of_the_readme(
    text: str, holds: list[int], not_held: list[int]
) -> None:
    """The table of forms in NCCLX's README, so that the tests above mean something."""
    found = interval(text)
    assert all(found.holds(n) for n in holds)
    assert not any(found.holds(n) for n in not_held)


@pytest.mark.parametrize("text", ["[2]", "(2,1]", "[a,2]", "[1,2", "1,2]", "5x", "[1,2,3]"])
def test_the_reader_refuses_what_ncclx_refuses(text: str) -> None:
    """There a mistake ends the start of every communicator."""
    with pytest.raises(ValueError, match=r"\d"):
        interval(text)


def test_rules_of_both_dialects_come_from_the_same_zones() -> None:
    """Each of RCCL's rows, at sizes that its ranks divide, is what NCCLX answers alone."""
    scale = Scale(n_nodes=1, n_ranks=8)
    found = [z for z in constant() if z.target.scale == scale]
    document = RuleDocument(provenance=(), requires=(), needs=(), sections=sections_of(found))
    rules: tuple[Rule, ...] = read_rules(render(document).encode()).rules
    text = written(found).text
    for rule in rules[:3]:
        low = -(-rule.min_nbytes // 8) * 8
        assert answer(text, scale, low) == answer(text, scale, low + 8) == str(rule.setting)
