"""Telling steps to the real plugin, as the runner does, without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rccltune import plugin
from rccltune.model.errors import MachineError
from rccltune.model.vocabulary import Collective
from rccltune.rules.host import Host
from rccltune.torchbench.ranks import Steps

TABLE = [[5.0] * 3 for _ in range(7)]
RING_LL, RING_SIMPLE = (1, 0), (1, 2)
TOLD = "#@ format 1\n#@ nodes=1 ranks=8 advance=told\nsilent\nring/ll\nring/simple\n"


@pytest.fixture
def library() -> Path:
    """The installed plugin."""
    try:
        return plugin.library()
    except MachineError as error:
        pytest.skip(str(error))


@pytest.fixture
def schedule(tmp_path: Path, library: Path) -> Iterator[dict[str, str]]:
    """Variables of a launch that walks; the process is at the first step before and after."""
    path = tmp_path / "schedule"
    path.write_text(TOLD, encoding="ascii")
    variables = {"RCCLTUNE_SCHEDULE": str(path), "NCCL_TUNER_PLUGIN": str(library)}
    yield variables
    reset = Steps(variables)
    assert reset._tell is not None
    assert reset._tell(0) == 0


def test_passes_are_the_steps_behind_the_warm_up(
    library: Path, schedule: dict[str, str], tmp_path: Path
) -> None:
    """Sizes fall and rise within a pass and end nothing; what was asked is in the trace at once."""
    steps = Steps(schedule)
    trace = tmp_path / "trace"
    env = {**schedule, "RCCLTUNE_TRACE": str(trace)}
    with Host(library).communicator(abi=5, n_nodes=1, n_ranks=8, env=env) as communicator:

        def ask(nbytes: int) -> tuple[int, int] | None:
            return communicator.ask(Collective.ALL_REDUCE, nbytes, TABLE).cell

        assert [ask(n) for n in (8, 64, 8)] == [None] * 3
        steps.begin(0)
        assert [ask(n) for n in (64, 8, 64, 8)] == [RING_LL] * 4
        assert "ring/ll" in trace.read_text(encoding="ascii")
        steps.begin(1)
        assert [ask(n) for n in (64, 8)] == [RING_SIMPLE] * 2
        steps.begin(2)
    text = trace.read_text(encoding="ascii")
    assert "begun=3 of=3 overrun-calls=0" in text


def test_nobody_walking_is_an_error(schedule: dict[str, str]) -> None:
    """The library did not load the plugin: what would be measured is not what was asked for."""
    with pytest.raises(MachineError, match="loaded"):
        Steps(schedule).begin(0)


def test_more_passes_than_steps_is_an_error(library: Path, schedule: dict[str, str]) -> None:
    """Nothing is measured beyond the schedule."""
    steps = Steps(schedule)
    with (
        Host(library).communicator(abi=5, n_nodes=1, n_ranks=8, env=schedule),
        pytest.raises(MachineError, match="fewer steps"),
    ):
        steps.begin(3)


def test_going_back_is_an_error(library: Path, schedule: dict[str, str]) -> None:
    """A step's records are written once."""
    steps = Steps(schedule)
    with Host(library).communicator(abi=5, n_nodes=1, n_ranks=8, env=schedule):
        steps.begin(1)
        with pytest.raises(MachineError, match="later step"):
            steps.begin(0)


def test_without_a_schedule_nothing_is_told(tmp_path: Path) -> None:
    """Untouched launches and launches of one setting."""
    Steps({}).begin(0)
    by_size = tmp_path / "schedule"
    by_size.write_text("#@ format 1\n#@ nodes=1 ranks=8 calls=0\nsilent\n", encoding="ascii")
    Steps({"RCCLTUNE_SCHEDULE": str(by_size)}).begin(0)
    # One comment to the plugin, whatever Python's splitlines would make of it.
    comment = "# was:\u2028#@ nodes=1 ranks=8 advance=told\r#@ advance=told\n"
    by_size.write_bytes(f"#@ format 1\n{comment}#@ nodes=1 ranks=8 calls=0\nsilent\n".encode())
    Steps({"RCCLTUNE_SCHEDULE": str(by_size)}).begin(0)
    Steps({"RCCLTUNE_SCHEDULE": str(tmp_path / "nowhere")}).begin(0)


@pytest.mark.parametrize("name", ["nowhere.so", "libc.so.6"])
def test_a_plugin_that_cannot_be_told_is_an_error(schedule: dict[str, str], name: str) -> None:
    """An older plugin, or another one."""
    with pytest.raises(MachineError, match="told"):
        Steps({**schedule, "NCCL_TUNER_PLUGIN": name})
