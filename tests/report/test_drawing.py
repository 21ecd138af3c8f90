"""Where a value is drawn: by hand at the ends and in the middle, and never outside the panel."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import figure

from rccltune.report import Axis, Drawing, Line, Point, draw


def axis(low: float, high: float, *, logarithmic: bool = True) -> Axis:
    """Without ticks."""
    return Axis(label="x", low=low, high=high, ticks=(), logarithmic=logarithmic)


def places(drawing: Drawing) -> list[tuple[float, float]]:
    """Of all markers."""
    return [(float(s.x), float(s.y)) for stroke in drawing.strokes for s in stroke.spots]


@pytest.mark.parametrize(
    ("value", "share"), [(1, 0), (1024, 1), (32, 0.5), (0.25, 0), (5000, 1), (2, 0.1)]
)
def test_a_logarithmic_axis(value: float, share: float) -> None:
    """2^k of 2^0 to 2^10 lies at k tenths; beyond the ends it stays on them."""
    assert axis(1, 1024).share(value) == pytest.approx(share)


def test_a_linear_axis() -> None:
    """From -10 to 30."""
    line = axis(-10, 30, logarithmic=False)
    assert [line.share(v) for v in (-10, 0, 30, 99)] == pytest.approx([0, 0.25, 1, 1])


def one_line(points: list[tuple[float, float]]) -> Drawing:
    """A line of circles in a panel from 1 to 1024 and from 0 to 10."""
    line = Line(name="a", points=tuple(Point(x=x, y=y, words="") for x, y in points), ink="ll")
    return draw(
        replace(
            figure(), x=axis(1, 1024), y=axis(0, 10, logarithmic=False), lines=(line,), bands=()
        )
    )


def test_corners_are_corners() -> None:
    """The least is at the lower left, the greatest at the upper right."""
    made = one_line([(1, 0), (1024, 10), (32, 5)])
    low, high, middle = places(made)
    assert low == (float(made.left), float(made.bottom))
    assert high == (float(made.right), float(made.top))
    assert middle == pytest.approx(
        (
            (float(made.left) + float(made.right)) / 2,
            (float(made.top) + float(made.bottom)) / 2,
        ),
        abs=0.05,
    )


@given(
    st.lists(
        st.tuples(st.floats(1e-3, 1e12, allow_nan=False), st.floats(-1e9, 1e9, allow_nan=False)),
        min_size=1,
        max_size=20,
    )
)
def test_no_marker_leaves_the_panel(points: list[tuple[float, float]]) -> None:
    """Whatever the values."""
    made = one_line(points)
    for x, y in places(made):
        assert float(made.left) <= x <= float(made.right)
        assert float(made.top) <= y <= float(made.bottom)


def test_a_line_goes_through_its_markers() -> None:
    """In the order of its points."""
    made = one_line([(1, 1), (8, 3), (64, 2)])
    [stroke] = made.strokes
    numbers = [float(n) for n in re.findall(r"[\d.]+", stroke.path)]
    assert list(zip(numbers[::2], numbers[1::2], strict=True)) == places(made)


def test_a_line_of_one_point_is_still_seen() -> None:
    """A path of one place has nothing but its ends."""
    [stroke] = one_line([(8, 3)]).strokes
    assert stroke.path.count("L") == 1


def test_an_interval_is_an_outline_there_and_back() -> None:
    """Above along the points, below back; points without one are left out."""
    points = (
        Point(x=1, y=5, words="", low=4, high=6),
        Point(x=8, y=5, words=""),
        Point(x=1024, y=5, words="", low=2, high=8),
    )
    line = Line(name="a", points=points, ink="ll")
    made = draw(
        replace(
            figure(), x=axis(1, 1024), y=axis(0, 10, logarithmic=False), lines=(line,), bands=()
        )
    )
    numbers = [float(n) for n in re.findall(r"[\d.]+", made.strokes[0].area)]
    ys = numbers[1::2]
    height = float(made.bottom) - float(made.top)
    shares = [(float(made.bottom) - y) / height for y in ys]
    assert shares == pytest.approx([0.6, 0.8, 0.2, 0.4], abs=0.001)


def test_what_is_read_off_lies_in_front() -> None:
    """Broad strokes behind, thin lines before them, markers on top."""
    lines = figure().lines
    chosen = replace(lines[0], chosen=True, marker="none")
    made = draw(replace(figure(), lines=(*lines, chosen)))
    kinds = [("chosen" if s.chosen else "faint" if s.faint else "line") for s in made.strokes]
    assert kinds == ["chosen", "faint", "line", "line"]
    assert [one.name for one in made.legend] == ["all_reduce", "all_reduce 2"]


def test_a_band_without_room_keeps_its_name_and_shows_none() -> None:
    """A label that is too wide would run into its neighbours."""
    narrow = replace(figure().bands[0][1][0], name="x" * 200)
    made = draw(replace(figure(), bands=(("rules", (narrow,)),)))
    [box] = made.rows[0].boxes
    assert box.label == ""
    assert box.name == "x" * 200
    assert math.isclose(float(box.x), float(made.left))
