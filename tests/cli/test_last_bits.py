"""What is written hangs on no last bit: another processor's logarithms lead to the same bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rccltune.analyse.session_fit import FIT_FILE, FitFile
from rccltune.cli import run
from rccltune.rules.stored_choice import CHOICE_FILE, read_choice, write_choice
from rccltune.session import store

FUNCTIONS = ("log", "log1p", "exp", "expm1")


def _moved(value: np.ndarray[Any, Any], seed: int) -> np.ndarray[Any, Any]:
    """A quarter of the numbers one last bit up, a quarter down, by what they are.

    0 and 1 are exact everywhere.
    """
    bits = value.view(np.int64) ^ np.int64(seed * 0x9E3779B97F4A7)
    way = (bits * np.int64(0x5851F42D4C957F2D) >> np.int64(61)) & 3
    moved = np.nextafter(value, np.select([way == 0, way == 1], [-np.inf, np.inf], value))
    exact = (value == 0) | (value == 1) | ~np.isfinite(value)
    return np.where(exact, value, moved)


def _shifted(function: Callable[..., Any], seed: int) -> Callable[..., Any]:
    """The function of numpy or math as another library of logarithms would have it."""

    def called(*arguments: object, **options: object) -> object:
        found = function(*arguments, **options)
        moved = _moved(np.atleast_1d(np.asarray(found, dtype=float)), seed)
        if isinstance(found, pd.Series):
            return pd.Series(moved, index=found.index, name=found.name)
        if isinstance(found, pd.DataFrame):
            return pd.DataFrame(moved, index=found.index, columns=found.columns)
        return moved if np.ndim(found) else type(found)(moved[0])

    return called


def _move_last_bits(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    modules: tuple[ModuleType, ...] = (np, math)
    for module in modules:
        for name in FUNCTIONS:
            monkeypatch.setattr(module, name, _shifted(getattr(module, name), seed))


def _written(table: Path, session: Path) -> dict[str, bytes]:
    """What is made of a table of times, by its name."""
    assert run(["import", str(table), "-o", str(session), "-q"]) == 0
    assert run(["fit", str(session), "-q"]) == 0
    assert run(["emit-config", str(session), "-q"]) == 0
    there = (*session.glob("*.json"), *session.rglob("*.csv"), *session.rglob("*.env"))
    return {
        str(path.relative_to(session)): path.read_bytes().replace(bytes(session), b"SESSION")
        for path in there
        # It has a random name of its own.
        if path.name != store.HEADER
    }


@pytest.mark.parametrize(
    "example", ["h200x2-nccl-2.28.9/sweep.csv", "mi300x-cpx-nps4/all_reduce.csv"]
)
def test_no_last_bit_of_a_logarithm_is_written(
    example: str, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fit.json, choice.json, samples.csv, rules and exports; with three functions a last bit off."""
    table = repository / "examples" / example
    wanted = _written(table, tmp_path / "wanted")
    assert {FIT_FILE, CHOICE_FILE, store.SAMPLES} < wanted.keys()
    assert any(name.startswith("rccl_tuner") for name in wanted)
    logarithms = np.log(np.arange(2.0, 99.0))
    _move_last_bits(monkeypatch, 1)
    assert not np.array_equal(np.log(np.arange(2.0, 99.0)), logarithms)
    found = _written(table, tmp_path / "found")
    assert {name for name in wanted if wanted[name] != found.get(name)} == set()
    assert wanted.keys() == found.keys()


def test_what_is_read_is_written_again_alike(repository: Path, tmp_path: Path) -> None:
    """Byte for byte: fit.json and choice.json through their records, samples.csv by its reader."""
    session = tmp_path / "S"
    before = _written(repository / "examples/h200x2-nccl-2.28.9/sweep.csv", session)
    fit = store.read_derived(session, FIT_FILE, FitFile)
    choice = read_choice(session)
    samples = store.stored_samples(store.open_session(session))
    assert fit is not None
    assert choice is not None
    store.write_derived(session, FIT_FILE, fit)
    write_choice(session, choice)
    assert (session / FIT_FILE).read_bytes() == before[FIT_FILE]
    assert (session / CHOICE_FILE).read_bytes() == before[CHOICE_FILE]
    assert samples is not None
    store.commit(store.open_session(session), [], samples)
    assert (session / store.SAMPLES).read_bytes() == before[store.SAMPLES]
