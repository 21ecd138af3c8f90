"""Which tuner the site uses by itself is what its library's log says."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rccltune.logs import library_log


# Lines of public logs (nv34 of the shared data) and of the sources named in find_tuner.
@pytest.mark.parametrize(
    ("line", "tuner"),
    [
        ("h:1:2 [0] NCCL INFO TUNER/Plugin: Using RcclTune (v5)", "plugin RcclTune"),
        # RCCL 2.27.7, and NCCL from 2.21.5 to 2.27.
        ("vm:1:2 [3] NCCL INFO TUNER/Plugin: Using tuner plugin rccltune", "plugin rccltune"),
        ("vm:1:2 [3] NCCL INFO TUNER/Plugin: Using internal tuner plugin.", "none"),
        # NCCL from 2.32.3 on, at a level of its own.
        (
            "h:1:2 [0] plugin/tuner.cc:99 (f) NCCL ATTN External tuner plugin /x.so is unsupported",
            "none",
        ),
        ("h:1:2 [0] plugin/net.cc:9 (f) NCCL ATTN something else", "unknown"),
        (
            "h:1:2 [0] NCCL INFO Using built-in CSV tuner, config: /o/rccl_tuner_gfx950.csv",
            "built-in table /o/rccl_tuner_gfx950.csv",
        ),
        (
            "h:1:2 [0] NCCL INFO TUNER/Plugin: Could not find: x. Using internal tuner plugin.",
            "none",
        ),
        ("", "unknown"),
    ],
)
def test_the_baselines_own_tuner_is_read_from_its_log(line: str, tuner: str) -> None:
    """What the untouched site uses is recorded, not switched off."""
    assert library_log.find_tuner(line) == tuner


def test_public_logs_name_no_tuner_that_is_not_there(shared_data: Path) -> None:
    """Real INFO logs of libraries without a tuner say none."""
    log = (shared_data / "logs/nv34_4gpu_allreduce_rows_split_by_info.log").read_text(
        errors="replace"
    )

    assert library_log.find_tuner(log) == "none"


@pytest.mark.parametrize(
    ("name", "tuner"),
    [
        ("why", "plugin rccltune"),
        ("probe-spx", "plugin probe"),
        ("base-spx", "none"),
        ("base-cpx", "none"),
    ],
)
def test_whole_logs_of_the_real_rccl(shared_data: Path, name: str, tuner: str) -> None:
    """RCCL 2.27.7 over a stand-in runtime (shared/facts/real-rccl.md)."""
    packed = shared_data / "real-rccl" / f"{name}.log.gz"
    if not packed.is_file():
        pytest.skip("the shared data have no logs of the real RCCL")
    assert library_log.find_tuner(gzip.decompress(packed.read_bytes()).decode()) == tuner
