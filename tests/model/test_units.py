"""Sizes and bandwidths as rccl-tests understands them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model import units
from rccltune.model.vocabulary import Collective


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        *(("0", 0), ("8", 8), ("4K", 4096), ("4k", 4096), ("1MiB", 1048576), ("8G", 8589934592)),
        *(("1.5M", 1572864), ("512 KiB", 524288), ("16GB", 17179869184)),
    ],
)
def test_sizes_are_binary_multiples(text: str, nbytes: int) -> None:
    """K, M and G are powers of 1024, as in rccl-tests' own option parser."""
    assert units.parse_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "K", "-1", "4X", "1e6", "0.3K", "16E", "9999999999G", "٣"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """Nothing is guessed: a half-understood size would measure something else."""
    with pytest.raises(ValueError, match=r"no size|whole number|2\^63"):
        units.parse_size(text)


@given(st.integers(0, units.MAX_NBYTES) | st.integers(0, 63).map(lambda power: (1 << power) - 1))
def test_a_short_size_is_exact(nbytes: int) -> None:
    """What a help gives as a default can be typed."""
    assert units.parse_size(units.short_size(nbytes)) == nbytes


@pytest.mark.parametrize(
    ("nbytes", "label"),
    [
        (0, "0 B"),
        (1000, "1000 B"),
        (1722, "1.68 KiB"),
        (4096, "4 KiB"),
        (114688, "112 KiB"),
        (1048575, "1 MiB"),
        (1572864, "1.5 MiB"),
        (1023 << 10, "1023 KiB"),
        (2**30, "1 GiB"),
        (2**63 - 1, "8 EiB"),
    ],
)
def test_labels_are_short(nbytes: int, label: str) -> None:
    """Three digits, four below the next unit."""
    assert units.format_size(nbytes) == label


@pytest.mark.parametrize(
    ("collective", "n_ranks", "nbytes", "time_us", "printed"),
    [
        # Rows of the log of AMD's blog of 2025-03-02: size, time and the busbw printed beside.
        (Collective.ALL_REDUCE, 8, 17179869184, 94254.0, 318.98),
        (Collective.ALL_REDUCE, 8, 67108864, 429.1, 273.66),
        # sendrecv and all_gather rows of public nccl-tests logs (10 x 8 H100; 8 A100).
        (Collective.SENDRECV, 8, 134217728, 1211.2, 110.81),
    ],
)
def test_bus_bandwidth_is_what_the_benchmark_prints(
    collective: Collective, n_ranks: int, nbytes: int, time_us: float, printed: float
) -> None:
    """Our factor reproduces the busbw column within the rounding of the printed time."""
    ours = units.busbw(collective, n_ranks, nbytes, time_us)

    assert ours == pytest.approx(printed, rel=2e-4)


def test_every_collective_has_a_factor() -> None:
    """busbw never fails for a collective that can be measured, and is at most twice algbw."""
    assert all(0 < units.busbw_factor(c, 64) < 2 for c in Collective)


@pytest.mark.parametrize(
    ("time_us", "label", "short"),
    [
        (2.8, "2.80 µs", "2.8 µs"),
        (3000, "3.00 ms", "3 ms"),
        (10_140, "10.1 ms", "10.1 ms"),
        (999.7, "1.00 ms", "1 ms"),
        (123.4, "123 µs", "123 µs"),
        (2e6, "2.00 s", "2 s"),
    ],
)
def test_a_time_has_three_significant_digits(time_us: float, label: str, short: str) -> None:
    """In a column all alike; on an axis without zeros at the end."""
    assert units.format_time(time_us) == label
    assert units.short_time(time_us) == short
