"""samples.csv holds every timing, is read by anybody, and is refused where it was damaged."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_records import records
from sample_rows import Sample, frame

from rccltune.model.errors import SessionError
from rccltune.model.settings import (
    BASELINE,
    CurveKey,
    Scale,
    Setting,
)
from rccltune.model.vocabulary import Collective, Placement, UnusableReason
from rccltune.session import samples_csv
from rccltune.session.sample_table import COLUMNS, KINDS

KEYS = st.builds(
    CurveKey,
    collective=st.sampled_from(Collective),
    setting=st.sampled_from([BASELINE, Setting.parse("tree/ll/8"), Setting.parse("ring/-")]),
    placement=st.sampled_from(Placement),
    scale=st.builds(Scale, n_nodes=st.integers(1, 4), n_ranks=st.integers(4, 512)),
    dtype=st.none() | st.sampled_from(["float", 'odd,"name"']),
    op=st.none() | st.just("sum"),
    graph=st.none() | st.booleans(),
    rank_placement=st.none() | st.just("one-oam"),
)
SAMPLES = st.builds(
    Sample,
    key=KEYS,
    launch=st.sampled_from(["a1", "a1:2", "b2"]),
    nbytes=st.integers(1, 2**62),
    # As the rank program prints them.
    time_us=st.integers(10, 10**13).map(lambda n: n / 10**4),
    cycle=st.integers(0, 9),
    n_wrong=st.none() | st.integers(0, 9),
    doubt=st.none() | st.sampled_from(UnusableReason),
    executed=st.none() | st.just(Setting.parse("ring/simple")),
    line=st.none() | st.integers(1, 10**6),
)
SAMPLE = Sample(
    key=CurveKey(
        collective=Collective.ALL_REDUCE,
        setting=Setting.parse("tree/ll128"),
        placement=Placement.IN_PLACE,
        scale=Scale(n_nodes=1, n_ranks=64),
        dtype="float",
    ),
    launch="a1",
    nbytes=1024,
    time_us=12.5,
    line=7,
)


def written(found: pd.DataFrame) -> str:
    """The file."""
    stream = io.BytesIO()
    samples_csv.write(found, stream)
    return stream.getvalue().decode()


def read(folder: Path, text: str | bytes, n_rows: int | None = None) -> pd.DataFrame:
    """The table of a file."""
    path = folder / "samples.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return samples_csv.read(path, n_rows)


@given(st.lists(SAMPLES, max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_samples_survive_their_csv(tmp_path: Path, samples: list[Sample]) -> None:
    """Writing and reading is the identity, whatever names a file used."""
    made = frame(samples)
    again = read(tmp_path, written(made), len(samples))
    assert records(again) == tuple(samples)
    for name in COLUMNS:
        texts = (list(map(str, column)) for column in (made[name], again[name]))
        assert next(texts) == next(texts)
        assert again[name].dtype == KINDS.get(name, "category")


ODD = {
    "collective": "all_talk",
    "n_nodes": "65",
    "n_ranks": "0",
    "rank_placement": "../up",
    "dtype": "flo\u202eat",
    "placement": "aside",
    "setting": "tree/ll129",
    "timing": "sundial",
    "nbytes": "-5",
    "calls": "2.5",
    "time_us": "-1",
    "slowest_us": "nan",
    "wrong": "1.5",
    "ran": "what",
    "library": "ring",
    "registered": "perhaps",
    "trees": "1.5",
    "signature": "a/b",
    "unusable": "dull",
    "rough": "",
    "run": "a/b",
    "process": "",
    "communicator": "99999999999999999999",
    "pass": "x",
    "line": "0x1",
}


@pytest.mark.parametrize(("column", "odd"), ODD.items())
def test_a_field_that_does_not_fit_is_named(tmp_path: Path, column: str, odd: str) -> None:
    """With its line and, but for what contradicts its neighbour, its column."""
    head, good = written(frame([SAMPLE])).splitlines()
    fields = good.split(",")
    fields[COLUMNS.index(column)] = odd
    with pytest.raises(SessionError) as caught:
        read(tmp_path, "\n".join((head, good, ",".join(fields), good, "")))
    assert str(caught.value.where).endswith("samples.csv:3")
    assert caught.value.hint is not None
    assert column in caught.value.message.replace("ranks", "n_ranks n_nodes")


@pytest.mark.parametrize("odd", ["", "0", "nan", "inf", "1e16"])
def test_a_time_that_is_none_must_not_be_used(tmp_path: Path, odd: str) -> None:
    """A row without a time has a reason."""
    text = written(frame([SAMPLE])).replace("12.5", odd)
    with pytest.raises(SessionError, match="time_us"):
        read(tmp_path, text)
    doubted = written(frame([replace(SAMPLE, time_us=None, doubt=UnusableReason.NO_TIME)]))
    assert read(tmp_path, doubted)["time_us"].isna().all()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace(b"float", b"fl\xffat"),
        lambda text: text[:-9],
        lambda text: text.rstrip(b"\n") + b",\n",
        lambda text: text.replace(b"tree/", b'"tree/'),
        lambda text: text + b"\n",
        lambda text: text.replace(b"1024", b"10\x0024"),
        lambda text: text[: text.index(b"\n") + 1],
        lambda text: text + text.splitlines(keepends=True)[1],
    ],
)
def test_a_table_that_was_damaged_is_refused(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """A byte that is no text, a row that was cut or grew, a quote, rows that are gone."""
    with pytest.raises(SessionError) as caught:
        read(tmp_path, damage(written(frame([SAMPLE])).encode()), 1)
    assert "samples.csv" in str(caught.value.where)
    assert caught.value.hint is not None
