"""sweep.yaml: typed values, and every mistake at once with its place."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wording import lacks

from rccltune.measure.sweep_file import dump_sweep, read_sweep_file
from rccltune.measure.sweep_schema import SweepOptions
from rccltune.model.errors import InputFileError
from rccltune.model.measurement import Sweep
from rccltune.model.settings import Mode, Setting
from rccltune.model.units import parse_duration
from rccltune.model.vocabulary import Collective


def test_values_are_typed() -> None:
    """Sizes, settings, modes and lists come out as the rest of the program uses them."""
    values = read_sweep_file(
        "mode: cpx-nps4\nmin-bytes: 4K\ncollective: [all_reduce, allgather]\n"
        "setting:\n  - tree/ll128/16\nenv: {NCCL_NET: Socket}\n",
        "sweep.yaml",
    )

    assert values == {
        "mode": Mode(compute="CPX", memory="NPS4"),
        "min_bytes": 4096,
        "collective": (Collective.ALL_REDUCE, Collective.ALL_GATHER),
        "setting": (Setting.parse("tree/ll128/16"),),
        "env": {"NCCL_NET": "Socket"},
    }


def test_every_mistake_is_told_at_once_with_line_and_column() -> None:
    """A user mends a file in one go, not in five."""
    text = (
        "mode: warp\n"
        "chanels: [1]\n"
        "factor: 1\n"
        "setting: [tree/ll, oak/ll]\n"
        "factor: 2\n"
        "min_bytes: [1]\n"
        "env: x\n"
    )
    with pytest.raises(InputFileError) as caught:
        read_sweep_file(text, "s.yaml")

    lines = caught.value.message.splitlines()[1:]
    assert caught.value.exit_code == 3
    assert [line.split(": ")[0].strip() for line in lines] == [
        "s.yaml:1:7",
        "s.yaml:2:1",
        "s.yaml:3:9",
        "s.yaml:4:20",
        "s.yaml:5:1",
        "s.yaml:6:12",
        "s.yaml:7:6",
    ]
    assert lacks(lines[1], "mean", "channels") == []
    assert "given twice" in lines[4]


@pytest.mark.parametrize("text", ["- a\n", "just words", "a: [", "\tx: 1", "a: 1\n b: 2"])
def test_what_is_no_sweep_file_is_named(text: str) -> None:
    """A list, a sentence or broken YAML gets a place and a reason."""
    with pytest.raises(InputFileError, match=r"no YAML|pairs|mistake"):
        read_sweep_file(text, "s.yaml")


@given(st.text(max_size=200))
def test_no_text_makes_it_fail_otherwise(text: str) -> None:
    """Whatever is in the file, the answer is values or an InputFileError."""
    with suppress(InputFileError):
        assert set(read_sweep_file(text, "s.yaml")) <= set(SweepOptions.model_fields)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("1.5h", 5400)]
)
def test_durations(text: str, seconds: float) -> None:
    """Seconds, minutes, hours."""
    assert parse_duration(text) == seconds


def test_a_resolved_sweep_reads_back() -> None:
    """The session's sweep.yaml can be given to --config again."""
    sweep = Sweep(
        collectives=(Collective.BROADCAST,),
        settings=(Setting.parse("ring/ll/8"),),
        min_nbytes=8,
        max_nbytes=1 << 30,
        mode=Mode.parse("cpx-nps4"),
    )

    values = read_sweep_file(dump_sweep(sweep), "sweep.yaml")

    assert values["collective"] == sweep.collectives
    assert values["setting"] == sweep.settings
    assert (values["min_bytes"], values["max_bytes"], values["factor"]) == (8, 1 << 30, 2)
    assert values["mode"] == sweep.mode
