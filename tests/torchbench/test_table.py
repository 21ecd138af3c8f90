"""The table: columns, digits and sums as rccl-tests print them."""

from __future__ import annotations

import io

import pytest

from rccltune.logs import reader
from rccltune.model.measured import Stated
from rccltune.model.settings import BASELINE
from rccltune.model.vocabulary import Placement
from rccltune.torchbench.options import read
from rccltune.torchbench.table import Half, Seat, foot, head, row

SEATS = [
    Seat(rank=r, pid=100 + r, host="node", device=r, bus=f"0000:{5 + 32 * r:02x}:00", product="GPU")
    for r in range(2)
]


@pytest.mark.parametrize(
    ("time_us", "printed"),
    [
        (0.0, "   0.00"),
        (9.5, "   9.50"),
        (1234.56, "1234.56"),
        (12345.67, "12345.7"),
        (123456.7, " 123457"),
        (1234567.0, "1234567"),
        (12345678.0, "1.2e+07"),
    ],
)
def test_times_have_as_many_digits_as_fit(time_us: float, printed: str) -> None:
    """Widths of rccl-tests' getFloatStr: 7 for times, 6 for bandwidths."""
    text, _ = row(
        read(["all_reduce"]),
        nbytes=4,
        count=1,
        n_ranks=2,
        halves=[Half(time_us=time_us, n_wrong=0)],
    )
    columns = text[len(f"{4:12d}  {1:12d}  {'float':>8}  {'sum':>6}  {-1:6d}") :]
    assert columns.startswith(f"  {printed}  ")


def test_bandwidths_are_those_of_the_readme() -> None:
    """1 MB in 100 µs is 10.49 GB/s; all_gather over four ranks moves three quarters of it."""
    options = read(["all_gather"])
    half = Half(time_us=100.0, n_wrong=None)
    text, bandwidths = row(options, nbytes=1 << 20, count=65536, n_ranks=4, halves=[half, half])
    assert text.split()[5:] == ["100.00", "10.49", "7.86", "N/A"] * 2
    assert bandwidths == pytest.approx([7.86432, 7.86432])


def test_what_is_printed_is_read_back() -> None:
    """Ranks, devices, products, sizes, both halves and the mean."""
    sizes = ["-b", "1K", "-e", "2K", "-f", "2"]
    options = read(["reduce_scatter", *sizes, "-d", "half", "-o", "max"])
    said = ["rccltune PyTorch runner version 1: PyTorch 2.9", "NCCL version : 2.28.9"]
    lines = head(options, SEATS, said)
    bandwidths: list[float] = []
    for nbytes in options.sizes:
        text, more = row(
            options,
            nbytes=nbytes,
            count=nbytes // 4,
            n_ranks=2,
            halves=[Half(time_us=8.0, n_wrong=0), Half(time_us=4.0, n_wrong=3)],
        )
        lines.append(text)
        bandwidths += more
    lines += foot(options, 2, bandwidths)
    stream = io.BytesIO("\n".join([*lines, ""]).encode())
    reading = reader.read_stream(stream, "log", Stated(setting=BASELINE), "launch")

    assert reading.library_version == "2.28.9"
    assert reading.fingerprint.product == "GPU"
    assert reading.fingerprint.devices == ("node 0 [0000:05:00]", "node 1 [0000:25:00]")
    halves = [(s.nbytes, s.key.placement, s.time_us, s.n_wrong) for s in reading.samples]
    assert halves == [
        (nbytes, placement, time_us, n_wrong)
        for nbytes in (1024, 2048)
        for placement, time_us, n_wrong in (
            (Placement.OUT_OF_PLACE, 8.0, 0),
            (Placement.IN_PLACE, 4.0, 3),
        )
    ]
    key = reading.samples[0].key
    assert (key.dtype, key.redop, key.graph) == ("half", "max", False)
