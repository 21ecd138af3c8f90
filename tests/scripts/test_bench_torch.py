"""What the bench of the PyTorch runner says of two arms' times."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from rccltune.model import Collective


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """The script, as a module."""
    return importlib.import_module("bench_torch")


def test_ratios_are_of_medians_and_noise_is_the_arms_own(
    bench: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """2 % apart counts as equal; 30 % does where an arm itself varies by 40 %, else not."""
    torch = {1024: [10.2, 10.2, 10.3], 2048: [13.0, 13.0, 13.0], 4096: [13.0, 13.1, 12.9]}
    tests = {1024: [10.0, 10.0, 10.1], 2048: [10.0, 14.0, 10.0], 4096: [10.0, 10.0, 10.0]}
    middle = bench.compared(Collective.ALL_REDUCE, {"torch": torch, "tests": tests})
    assert middle == pytest.approx(1.3)
    said = capsys.readouterr().out
    assert "median ratio 1.300 (1.020 to 1.300); 2 of 3 sizes" in said


def test_sizes_of_one_arm_alone_are_not_compared(bench: ModuleType) -> None:
    """Rounding differs for sizes that are no whole elements of every rank."""
    found = {"torch": {8: [5.0], 16: [6.0]}, "tests": {16: [6.0]}}
    assert bench.compared(Collective.ALL_GATHER, found) == pytest.approx(1.0)
