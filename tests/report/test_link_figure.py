"""The link map's picture: nothing overlaps or leaves, whatever was measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from rccltune.model.link_map import LinkClass, LinkMap, PairTimes
from rccltune.report import link_figure, style
from rccltune.report.plots import draw_links

ORDER = tuple(LinkClass)


def pair(
    first: int, second: int, link: LinkClass, small: float | None, large: float = 1.0
) -> PairTimes:
    """A pair with its times, or a failed one."""
    return PairTimes(
        first=first,
        second=second,
        names=(f"oam0.{first}", f"oam0.{second}"),
        link=link,
        small_us=() if small is None else (small,),
        large_us=() if small is None else (large,),
        failure="it hung" if small is None else None,
    )


def link_map(n: int, classes: list[LinkClass], *pairs: PairTimes, simulated: bool) -> LinkMap:
    """A machine whose classes lie in bands beside the diagonal."""

    def cell(a: int, b: int) -> str:
        at = min(abs(a - b) - 1, len(classes) - 1)
        return "-" if a == b else str(ORDER.index(classes[at]))

    return LinkMap(
        machine="AMD Instinct MI300X, cpx-nps4",
        simulated=simulated,
        node="mi300x-cpx-nps4" if simulated else None,
        measured="2026-07-01T12:00:00+00:00",
        library="RCCL 2.28.3",
        small_nbytes=8,
        large_nbytes=2**26,
        repeats=3,
        devices=tuple(range(n)),
        grid=tuple("".join(cell(a, b) for b in range(n)) for a in range(n)),
        pairs=pairs,
    )


IOD, OAM, ONE = LinkClass.SAME_IOD, LinkClass.SAME_OAM, LinkClass.ONE_LINK
MAPS = {
    "three classes": link_map(
        64,
        [IOD, OAM, ONE],
        *(pair(0, 1, IOD, 12.8, 215.5), pair(62, 63, IOD, 12.9, 217.0)),
        *(pair(0, 2, OAM, 13.6, 408.4), pair(0, 63, ONE, 14.4, 1456.1)),
        simulated=True,
    ),
    "one class": link_map(
        2, [LinkClass.UNKNOWN], pair(0, 1, LinkClass.UNKNOWN, 9.4, 200.0), simulated=False
    ),
    "failures and far figures": link_map(
        9,
        [IOD, OAM, ONE, LinkClass.MORE_LINKS, LinkClass.OTHER_OAM, LinkClass.NO_XGMI],
        *(pair(0, 1, IOD, 8.0, 0.5), pair(1, 2, IOD, 4000.0, 90000.0), pair(0, 2, OAM, None)),
        *(pair(0, 3, ONE, 15.0, 1500.0), pair(0, 8, LinkClass.NO_XGMI, 12345.6, 500000.0)),
        simulated=False,
    ),
}


@pytest.mark.parametrize("name", MAPS)
def test_no_text_overlaps_or_leaves(tidy: Callable[[Figure], None], name: str) -> None:
    """Every label is inside the figure, and none covers another."""
    with style.applied():
        tidy(link_figure.link_map(MAPS[name]))


def test_what_is_simulated_says_so_and_what_is_not_does_not(tmp_path: Path) -> None:
    """In the picture and in its metadata."""
    for name in ("three classes", "one class"):
        svg, png = draw_links(MAPS[name], tmp_path / name.replace(" ", "-"))
        word = b"simulated" if MAPS[name].simulated else b"measured"
        assert word in png.read_bytes()
        assert ("SIMULATED: " in svg.read_text()) == MAPS[name].simulated


def test_rows_count_pairs_and_take_medians() -> None:
    """Two devices' times of 2**26 bytes in 200 µs are 335.5 GB/s; failed pairs count apart."""
    rows = {row.link: row for row in MAPS["failures and far figures"].rows}
    # Bands beside the diagonal of nine devices: 8, 7, 6, 5, 4 pairs and the 3 + 2 + 1 beyond.
    assert [row.n_there for row in rows.values()] == [8, 7, 6, 5, 4, 6]
    assert (rows[OAM].n_measured, rows[OAM].n_failed, rows[OAM].latency_us) == (0, 1, None)
    assert rows[IOD].latency_us is not None
    assert rows[IOD].latency_us.median == pytest.approx((8.0 + 4000.0) / 2)
    one = MAPS["one class"]
    assert one.bandwidth(one.pairs[0]) == pytest.approx(335.544)
