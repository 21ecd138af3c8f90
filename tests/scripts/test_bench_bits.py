"""The bench of equal bits on a simulated node: everything is predicted, or it ends with an error."""

from __future__ import annotations

import re
import sys

import bench_bits
import pytest

from rccltune import plugin
from rccltune.model.errors import MachineError


@pytest.fixture(autouse=True)
def _built() -> None:
    try:
        plugin.native_folder()
    except MachineError as error:
        pytest.skip(str(error))


def bench(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """Run it."""
    monkeypatch.setattr(sys, "argv", ["bench_bits", *words])
    bench_bits.main()


def test_every_element_is_predicted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And one channel of a tree has one chain, in the order that the real RCCL's first ring has."""
    words = ("--ranks", "8", "--channels", "1", "--max-bytes", "9000")
    bench(monkeypatch, "--simulate", "mi300x-cpx-nps4", *words)
    said = capsys.readouterr().out
    found = re.search(r"elements (\d+), their tree known (\d+), with other bits 0", said)
    assert found is not None
    assert found[1] == found[2]
    assert "all_reduce tree/ll/1: 1; 1; tree/ll/1 (((((((6+7)+5)+4)+3)+2)+1)+0)" in said


def test_other_bits_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """DDA of this node adds in double: its bits are not those of its trees."""
    words = ("--ranks", "8", "--channels", "--max-bytes", "9000")
    with pytest.raises(SystemExit):
        bench(monkeypatch, "--simulate", "mi300x-rcclx-spx-nps1", *words)
