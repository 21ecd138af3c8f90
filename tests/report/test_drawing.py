"""Where a value is drawn: by hand at the ends and in the middle, and never outside the panel."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import figure

from rccltune.report.drawing import Drawing, draw, svg_path
from rccltune.report.records import Axis, Band, Figure, Line, Point


def axis(low: float, high: float, *, logarithmic: bool = True) -> Axis:
    """Without ticks."""
    return Axis(label="x", low=low, high=high, ticks=(), logarithmic=logarithmic)


def places(drawing: Drawing) -> list[tuple[float, float]]:
    """Of all markers."""
    return [(spot.x, spot.y) for stroke in drawing.strokes for spot in stroke.spots]


@pytest.mark.parametrize(
    ("value", "share"), [(1, 0), (1024, 1), (32, 0.5), (0.25, 0), (5000, 1), (2, 0.1), (0, 0)]
)
def test_a_logarithmic_axis(value: float, share: float) -> None:
    """2^k of 2^0 to 2^10 lies at k tenths; beyond the ends it stays on them."""
    assert axis(1, 1024).share(value) == pytest.approx(share)


def test_a_linear_axis() -> None:
    """From -10 to 30; a bare line may go on for as much as it is told."""
    line = axis(-10, 30, logarithmic=False)
    assert [line.share(v) for v in (-10, 0, 30, 99)] == pytest.approx([0, 0.25, 1, 1])
    assert line.share(50, beyond=1.0) == pytest.approx(1.5)


def one_line(points: list[tuple[float, float]], **how: bool) -> Figure:
    """A line of circles in a panel from 1 to 1024 and from 0 to 10."""
    line = Line(name="a", points=tuple(Point(x=x, y=y, words="") for x, y in points), ink="ll")
    across, up = axis(1, 1024), axis(0, 10, logarithmic=False)
    return replace(figure(), x=across, y=up, lines=(replace(line, **how),), bands=(), level=None)


def test_corners_are_corners() -> None:
    """The least is at the lower left, the greatest at the upper right."""
    made = draw(one_line([(1, 0), (1024, 10), (32, 5)]))
    low, high, middle = places(made)
    assert low == (made.left, made.bottom)
    assert high == (made.right, made.top)
    assert middle == pytest.approx(((made.left + made.right) / 2, (made.top + made.bottom) / 2))


@given(
    st.lists(
        st.tuples(st.floats(1e-3, 1e12, allow_nan=False), st.floats(-1e9, 1e9, allow_nan=False)),
        min_size=1,
        max_size=20,
    )
)
def test_no_marker_leaves_the_panel_and_what_would_is_an_arrow(
    points: list[tuple[float, float]],
) -> None:
    """Whatever the values: on the edge, and marked there."""
    made = draw(one_line(points))
    for x, y in places(made):
        assert made.left <= x <= made.right
        assert made.top <= y <= made.bottom
    found = [spot.beyond for spot in made.strokes[0].spots]
    assert found == [1 if y > 10 else -1 if y < 0 else 0 for _, y in points]


def test_a_line_goes_through_its_markers() -> None:
    """In the order of its points."""
    made = draw(one_line([(1, 1), (8, 3), (64, 2)]))
    assert list(made.strokes[0].path) == places(made)
    numbers = [float(n) for n in re.findall(r"[\d.]+", svg_path(made.strokes[0].path))]
    assert numbers[::2] == pytest.approx([x for x, _ in places(made)], abs=0.06)


def test_a_line_of_one_point_is_still_seen() -> None:
    """A path of one place has nothing but its ends."""
    assert svg_path(draw(one_line([(8, 3)])).strokes[0].path).count("L") == 1


def test_an_interval_is_an_outline_there_and_back() -> None:
    """Above along the points, below back; points without one are left out."""
    points = (
        Point(x=1, y=5, words="", low=4, high=6),
        Point(x=8, y=5, words=""),
        Point(x=1024, y=5, words="", low=2, high=8),
    )
    plain = one_line([(1, 1)])
    made = draw(replace(plain, lines=(replace(plain.lines[0], points=points),)))
    height = made.bottom - made.top
    shares = [(made.bottom - y) / height for _, y in made.strokes[0].area]
    assert shares == pytest.approx([0.6, 0.8, 0.2, 0.4])


def test_what_is_read_off_lies_in_front() -> None:
    """Broad strokes behind, thin lines before them, markers on top."""
    lines = figure().lines
    chosen = replace(lines[0], chosen=True, marker="none", name="chosen")
    made = draw(replace(figure(), lines=(*lines, chosen)))
    kinds = [
        "chosen" if s.line.chosen else "faint" if s.line.faint else "line" for s in made.strokes
    ]
    assert kinds == ["chosen", "faint", "line", "line"]


def test_lines_of_one_key_share_an_entry_of_the_legend() -> None:
    """Shown as the one that carries values; those that carry none come last."""
    lines = figure().lines
    thin = replace(lines[2], name="thin", key="all_reduce")
    others = [replace(lines[2], name=f"ring/ll/{n}", key="other numbers") for n in (2, 4)]
    made = draw(replace(figure(), lines=(*others, thin, *lines[:2])))
    assert [one.key for one in made.legend] == ["all_reduce", "all_reduce 2", "other numbers"]
    assert made.legend[0].spots


@given(st.lists(st.floats(0, 10), min_size=1, max_size=10))
def test_names_at_the_ends_never_cover_each_other(ends: list[float]) -> None:
    """Ten lines that end at one place included; each has its name, inside the picture."""
    lines = tuple(
        replace(one_line([(1, 5), (1024, y)]).lines[0], name=f"line {n}")
        for n, y in enumerate(ends)
    )
    made = draw(replace(one_line([(1, 1)]), lines=lines))
    labels = [stroke.label for stroke in made.strokes if stroke.label]
    assert len(labels) == len(lines)
    rising = sorted(label.y for label in labels)
    assert all(b - a >= 14.9 for a, b in pairwise(rising))
    assert all(made.right < label.x < made.width - 30 for label in labels)
    assert rising[0] > 0
    assert rising[-1] < made.height


def banded(*bands: tuple[float, float, str, str]) -> Drawing:
    """A figure from 1 to 1024 with these bands: ends, name, short name."""
    made = tuple(
        Band(low=a, high=b, name=name, short=short, ink=None) for a, b, name, short in bands
    )
    return draw(replace(one_line([(1, 1)]), bands=(("rules", made),)))


def test_every_band_is_named_or_keyed() -> None:
    """Its name, its short name, a letter; and without room for that its sizes, below the figure."""
    made = banded(
        (1, 512, "no rule: not faster", "not faster"),
        (512, 560, "tree/ll128", ""),
        (560, 561, "ring/ll", ""),
        (561, 800, "no rule: not faster", "not faster"),
        (800, 1024, "no rule: not measured", ""),
    )
    [row] = made.rows
    assert [box.label for box in row.boxes[:1]] == ["no rule: not faster"]
    assert [box.label for box in row.boxes[1:]] == ["", "", "a", "b"]
    assert [key.replace("\N{NO-BREAK SPACE}", " ") for key in made.keys] == [
        "·: tree/ll128, 512 B to 559 B",
        "·: ring/ll, 560 B",
        "a: no rule: not faster, 561 B to 799 B",
        "b: no rule: not measured, above 799 B",
    ]


def test_a_short_name_stands_where_the_long_one_has_no_room() -> None:
    """The reason alone rather than a letter."""
    made = banded((1, 2, "no rule: not faster", "not faster"), (2, 1024, "ring/ll", ""))
    assert [box.label for box in made.rows[0].boxes] == ["not faster", "ring/ll"]
