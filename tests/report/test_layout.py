"""Ticks, labels and looks: nothing overlaps, nothing leaves, nothing depends on colour alone."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.settings import BASELINE, SILENT, Setting
from rccltune.model.vocabulary import Algorithm, Protocol
from rccltune.report.figures.look import (
    capacity,
    elide,
    linear_ticks,
    log_ticks,
    look,
    ratio_ticks,
    size_ticks,
    spread,
    wrap,
)
from rccltune.report.renderers.table import shade

positive = st.floats(1e-3, 1e12)


@given(st.lists(st.floats(-50, 150), min_size=1, max_size=10))
def test_labels_never_overlap_stay_inside_and_keep_their_order(wanted: list[float]) -> None:
    """Whatever the lines' ends, even all at one height or outside the axes."""
    centres = spread(wanted, 10.0, 0.0, 100.0)
    rising = sorted(centres)
    assert all(b - a >= 10.0 - 1e-9 for a, b in itertools.pairwise(rising))
    assert rising[0] >= 5.0 - 1e-9
    assert rising[-1] <= 95.0 + 1e-9
    pairs = sorted(zip(wanted, centres, strict=True))
    assert all(a[1] < b[1] for a, b in itertools.pairwise(pairs) if a[0] < b[0])


def test_what_fits_is_not_moved() -> None:
    """Labels far enough apart stay at their lines."""
    assert spread([80.0, 20.0, 50.0], 10.0, 0.0, 100.0) == (80.0, 20.0, 50.0)


def test_two_at_one_place_share_the_way() -> None:
    """Least squares: each moves half a label."""
    assert spread([50.0, 50.0], 10.0, 0.0, 100.0) == (45.0, 55.0)


def test_more_labels_than_room_are_refused() -> None:
    """The caller asks for the capacity first."""
    assert capacity(10.0, 0.0, 30.0) == 3
    with pytest.raises(ValueError, match="do not fit"):
        spread([1.0] * 4, 10.0, 0.0, 30.0)


@given(st.text(max_size=200), st.integers(1, 30), st.integers(1, 5))
def test_wrapped_lines_fit_and_keep_every_word(text: str, width: int, at_most: int) -> None:
    """In their order; only what is wider than a line, or beyond the last one, is cut."""
    lines = wrap(text, width, len, at_most)
    assert len(lines) <= at_most
    assert all(len(line) <= width for line in lines)
    # A no-break space is a part of its word.
    words = text.replace("\N{NO-BREAK SPACE}", "_").split()
    if len(lines) < at_most and all(len(word) <= width for word in words):
        assert " ".join(lines).replace("\N{NO-BREAK SPACE}", "_").split() == words


@given(st.text(max_size=40), st.integers(1, 30))
def test_an_elided_text_fits(text: str, width: int) -> None:
    """And is the text itself where that fits."""
    short = elide(text, width, len)
    assert len(short) <= width
    assert (short == text) == (len(text) <= width)


@given(positive, st.floats(1.0, 1e9), st.integers(2, 12))
def test_ticks_lie_inside_and_are_few(low: float, factor: float, at_most: int) -> None:
    """For every axis that data can ask for."""
    high = low * factor
    for ticks in (log_ticks(low, high, at_most), linear_ticks(low, high, at_most)):
        assert all(low * (1 - 1e-9) <= tick <= high * (1 + 1e-9) for tick in ticks)
        assert len(ticks) <= at_most
        assert list(ticks) == sorted(ticks)


def test_size_ticks_are_powers_of_four_then_sparser() -> None:
    """4 KiB to 512 MiB: powers of 4 fit; with little room powers of 32."""
    assert size_ticks(2**12, 2**29) == tuple(4**k for k in range(6, 15))
    assert size_ticks(2**12, 2**29, at_most=3) == (2**15, 2**20, 2**25)
    assert size_ticks(600, 1000) == (600, 1000)


@given(st.floats(0.01, 0.999), st.floats(1.001, 500))
def test_one_is_always_a_tick_of_a_speedup_axis(low: float, high: float) -> None:
    """The line at 1 is what the figure is read against."""
    ticks = ratio_ticks(low, high)
    assert any(tick == pytest.approx(1.0) for tick in ticks)
    assert len(ticks) <= 9


def test_every_setting_can_be_told_apart_without_colour() -> None:
    """Marker gives the protocol, dashes the algorithm, for the pairs of RCCL and the baseline."""
    pairs = itertools.product(Algorithm, Protocol)
    settings = [Setting(algorithm=a, protocol=p) for a, p in pairs]
    looks = [look(s) for s in (*settings, BASELINE, SILENT)]
    assert len({(one.marker, one.dashes) for one in looks}) == len(looks)


def test_tree_and_ring_differ_in_their_markers_too() -> None:
    """The commonest pair, also where a fitted curve hides the dashes."""
    assert look(Setting.parse("ring/ll")).filled
    assert not look(Setting.parse("tree/ll")).filled


def test_channels_do_not_change_a_look() -> None:
    """A setting looks alike in all five figures, with channels or without."""
    assert look(Setting.parse("tree/ll/8")) == look(Setting.parse("tree/ll"))
    assert look(Setting.parse("ring/-")).colour == look(Setting.parse("-/-/4")).colour


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return sum(w * p**2.2 for w, p in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


@given(st.floats(1, 100), st.floats(1, 100))
def test_slower_is_darker_also_in_greyscale(one: float, other: float) -> None:
    """Luminance falls with the ratio, so a printout keeps the order."""
    small, large = sorted((one, other))
    assert _luminance(shade(small)[0]) >= _luminance(shade(large)[0]) - 1e-12


@given(st.floats(1, 100))
def test_text_on_a_shade_has_contrast(ratio: float) -> None:
    """WCAG's 4.5 to 1 for every shade."""
    fill, ink = shade(ratio)
    paper, text = _luminance(fill), 1.0 if ink == "white" else 0.0
    bright, dark = max(paper, text), min(paper, text)
    assert (bright + 0.05) / (dark + 0.05) >= 4.4
