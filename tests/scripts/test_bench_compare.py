"""scripts/bench compare: comparisons drawn from recorded starts."""

from __future__ import annotations

import sys
from pathlib import Path

import bench_compare
import numpy as np
import pandas as pd
import pytest

SIZES = (32 << 10, 128 << 10, 512 << 10)


def write(path: Path, spread: float) -> None:
    """Twenty starts of equal sides."""
    draw = np.random.default_rng(2)
    rows = [
        (start, nbytes, "graph", 50 * float(np.exp(draw.normal(0, spread))))
        for start in range(20)
        for nbytes in SIZES
    ]
    table = pd.DataFrame(rows, columns=["start", "nbytes", "timing", "time_us"])
    table.to_csv(path, index=False)


def test_equal_starts_are_not_called_and_a_planted_loss_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Starts that spread by 0.5 %: 3 % is found at both planted sizes, each time."""
    path = tmp_path / "starts.csv.gz"
    write(path, 0.005)
    monkeypatch.setattr(sys, "argv", ["bench", str(path), "--draws", "20"])
    bench_compare.main()
    out = capsys.readouterr().out
    assert "equal sides: 0 of 20 comparisons call any size" in out
    assert "planted 3 %: at every size in 2 of 2, {'128 KiB': 2, '512 KiB': 2}" in out


def test_a_loss_that_noise_hides_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Starts that spread by 10 %."""
    path = tmp_path / "starts.csv.gz"
    write(path, 0.1)
    monkeypatch.setattr(sys, "argv", ["bench", str(path), "--draws", "20"])
    with pytest.raises(SystemExit) as caught:
        bench_compare.main()
    assert caught.value.code == 1
