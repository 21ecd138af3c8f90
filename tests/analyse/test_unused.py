"""What is left out of curves and rules, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from sample_rows import Sample, frame

from rccltune.analyse import points, unusable_notices
from rccltune.model.measurement import Caution, Notice
from rccltune.model.settings import CurveKey, Scale, Setting
from rccltune.model.vocabulary import Collective, Placement, UnusableReason

KEY = CurveKey(
    collective=Collective.ALL_REDUCE,
    setting=Setting.parse("ring/ll"),
    placement=Placement.OUT_OF_PLACE,
    scale=Scale(n_nodes=1, n_ranks=8),
)


def sample(nbytes: int, time_us: float, launch: str = "a", **changes: object) -> Sample:
    """A good sample of one curve unless changed."""
    plain = Sample(key=KEY, launch=launch, nbytes=nbytes, time_us=time_us)
    return replace(plain, **changes)


def said(samples: Sequence[Sample]) -> tuple[Notice, ...]:
    """Notices of samples."""
    found = frame(samples)
    return unusable_notices.notices(found, points.by_communicator(points.usable(found)))


def burst(launch: str, sizes: range, factor: float) -> list[Sample]:
    """Thirteen sizes of 20 µs + bytes at 10 GB/s, some of them ``factor`` times as slow."""
    return [
        sample(2**n, (20 + 2**n / 1e4) * (factor if n in sizes else 1), launch)
        for n in range(12, 25)
    ]


@pytest.mark.parametrize("sizes", [range(12, 15), range(16, 20), range(22, 25)])
def test_a_stall_beside_a_good_communicator_is_named_once(sizes: range) -> None:
    """With its launch, sizes, and how much longer it took than the other one."""
    (notice,) = said(burst("a", range(0), 1) + burst("b", sizes, 400))
    assert (notice.caution, notice.where, notice.count) == (Caution.BURST, "b", len(sizes))
    assert "all_reduce ring/ll took up to 400 times as long as in another" in notice.message
    assert f"at {len(sizes)} sizes" in notice.message


@pytest.mark.parametrize("sizes", [range(12, 15), range(16, 20), range(22, 25)])
def test_a_stall_without_a_repeat_is_to_be_measured_again(sizes: range) -> None:
    """Nothing says what is normal there, but no larger size needs such a time."""
    (notice,) = said(burst("a", sizes, 400))
    assert notice.caution is Caution.BURST
    assert "over 6 times as long as the neighbouring sizes allow" in notice.message
    assert "measure it again" in notice.remedy


def test_a_step_of_a_real_curve_is_no_stall() -> None:
    """Times double at 128 KiB on public data, and a bad default is slow at some sizes."""
    times = [13, 13, 15, 16, 17, 38, 49, 51, 25, 26, 38, 62]
    assert said([sample(4096 << i, float(t)) for i, t in enumerate(times)]) == ()


@pytest.mark.parametrize("doubt", list(UnusableReason))
def test_samples_that_may_not_be_used_are_counted_by_reason(doubt: UnusableReason) -> None:
    """All in one line, wrong results loudly."""
    good = [sample(n, 10.0) for n in (64, 128, 256)]
    told = {
        UnusableReason.WRONG: [Caution.WRONG_RESULTS],
        # What a library does not offer is no damage.
        UnusableReason.INELIGIBLE: [Caution.NOT_OFFERED],
    }
    notices = said([*good, sample(64, 0.001, doubt=doubt)])
    assert [n.caution for n in notices] == told.get(doubt, [Caution.DOUBTED_SAMPLES])
