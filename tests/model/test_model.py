"""Records refuse what cannot be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_rows import Sample

from rccltune.model.rule import Rule
from rccltune.model.settings import (
    BASELINE,
    IDLE,
    UNSTATED,
    CurveKey,
    Mode,
    Scale,
    Setting,
)
from rccltune.model.vocabulary import Algorithm, Collective, Placement, Protocol, UnusableReason
from rccltune.model.zone import Zone

ONE_NODE = Scale(n_nodes=1, n_ranks=64)
KEY = CurveKey(
    collective=Collective.ALL_REDUCE,
    setting=BASELINE,
    placement=Placement.OUT_OF_PLACE,
    scale=ONE_NODE,
)

SETTINGS = st.builds(
    Setting,
    algorithm=st.sampled_from(Algorithm),
    protocol=st.none() | st.sampled_from(Protocol),
    channels=st.none() | st.integers(1, 128),
)


@given(SETTINGS | st.sampled_from([BASELINE, IDLE, UNSTATED]))
def test_a_setting_reads_back_from_its_text(setting: Setting) -> None:
    """samples.csv and options hold settings as text; nothing is lost on the way."""
    assert Setting.parse(str(setting)) == setting


@pytest.mark.parametrize(
    "text", ["tree", "tree/ll/0", "tree/ll/x", "tree/ll/²", "tree/ll/٣", "oak/ll", ""]
)
def test_what_is_no_setting_is_refused(text: str) -> None:
    """A typo must not become a setting."""
    with pytest.raises(ValueError, match=r"setting|channels|unknown"):
        Setting.parse(text)


@pytest.mark.parametrize(
    ("text", "compute", "memory"),
    [
        ("cpx-nps4", "CPX", "NPS4"),
        ("SPX-NPS1", "SPX", "NPS1"),
        ("cpx", "CPX", None),
        ("none", None, None),
    ],
)
def test_modes_are_read_as_people_write_them(
    text: str, compute: str | None, memory: str | None
) -> None:
    """Mode names of amd-smi, joined by a hyphen."""
    mode = Mode.parse(text)

    assert (mode.compute, mode.memory) == (compute, memory)
    assert Mode.parse(str(mode)) == mode


@pytest.mark.parametrize(
    "text", ["", "nps4", "cpx_nps4", "xpx-nps1", "cpx-nps", "ſpx-nps1", "cpx-nps٤"]
)
def test_what_is_no_mode_is_refused(text: str) -> None:
    """A mode decides which file a job loads."""
    with pytest.raises(ValueError, match="no mode"):
        Mode.parse(text)


@pytest.mark.parametrize(
    ("nbytes", "time_us"), [(0, 1.0), (8, None), (8, 0.0), (8, float("inf")), (8, float("nan"))]
)
def test_a_sample_that_cannot_be_computed_with_needs_a_doubt(
    nbytes: int, time_us: float | None
) -> None:
    """Fits may divide by any undoubted time."""
    with pytest.raises(ValueError, match="needs"):
        Sample(key=KEY, launch="a", nbytes=nbytes, time_us=time_us)
    assert Sample(key=KEY, launch="a", nbytes=nbytes, time_us=time_us, doubt=UnusableReason.NO_TIME)


def test_impossible_scales_and_zones_are_refused() -> None:
    """Validation is in the record, so that no room repeats it."""
    with pytest.raises(ValueError, match="no scale"):
        Scale(n_nodes=2, n_ranks=1)
    with pytest.raises(ValueError, match="cannot reach"):
        Zone(target=KEY.target, min_nbytes=2, max_nbytes=1, setting=None, reason="x")
    with pytest.raises(ValueError, match="either"):
        Zone(target=KEY.target, min_nbytes=0, max_nbytes=1, setting=None)


@given(
    nbytes=st.integers(0, 300),
    bounds=st.tuples(st.integers(0, 300), st.integers(0, 300)).map(sorted),
    n_ranks=st.sampled_from([None, 8, 64]),
)
def test_a_rule_matches_inclusive_bounds_and_wildcards(
    nbytes: int, bounds: list[int], n_ranks: int | None
) -> None:
    """The definition in RCCL's csv_tuner.cc, said the other way round."""
    rule = Rule(
        collective=Collective.ALL_REDUCE,
        min_nbytes=bounds[0],
        max_nbytes=bounds[1],
        setting=Setting(algorithm=Algorithm.RING, protocol=Protocol.LL),
        n_ranks=n_ranks,
    )
    outside = nbytes < bounds[0] or nbytes > bounds[1] or n_ranks == 8

    assert rule.matches(Collective.ALL_REDUCE, nbytes, ONE_NODE) is not outside
    assert not rule.matches(Collective.REDUCE, nbytes, ONE_NODE)
