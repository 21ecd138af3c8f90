"""Random calls through a random schedule: the plugin is where a naive reading of the file is."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_reader import Trace, place_calls, read_trace, schedule_text

from rccltune.model.errors import InputFileError
from rccltune.model.vocabulary import TUNABLE, Algorithm, Collective, Protocol
from rccltune.rules.host import ABI_VERSIONS, Communicator, Host

ALGORITHMS = [a.value for a in Algorithm]
PROTOCOLS = [p.value for p in Protocol]
OPEN, CLOSED = 5.0, -1.0


@dataclass(frozen=True)
class Call:
    """A question, and the one cell that cannot be chosen."""

    collective: Collective
    nbytes: int
    closed: tuple[int, int]

    def table(self) -> list[list[float]]:
        """The cost table of it."""
        return [[CLOSED if (a, p) == self.closed else OPEN for p in range(3)] for a in range(7)]


def wanted(setting: str, call: Call, *, abi: int) -> tuple[tuple[int, int] | None, int]:
    """Cell and channels that a setting answers to a call; a cell that is closed answers nothing."""
    if setting in ("silent", "overrun"):
        return None, 0
    algorithm, protocol, *rest = setting.split("/")
    channels = max(0, int(rest[0])) if rest else 0
    if algorithm == "-1":
        return None, channels
    cell = (ALGORITHMS.index(algorithm), PROTOCOLS.index(protocol))
    if abi == 2:
        tree = cell == (0, 0) and call.collective is Collective.ALL_REDUCE
        return (cell, channels) if tree or cell in ((1, 0), (1, 2)) else (None, 0)
    return (None, 0) if cell == call.closed else (cell, channels)


def said(setting: str, call: Call, *, abi: int) -> str:
    """The same as the trace writes it."""
    cell, channels = wanted(setting, call, abi=abi)
    if cell is None and channels == 0:
        return "none"
    names = f"{ALGORITHMS[cell[0]]}/{PROTOCOLS[cell[1]]}" if cell else "-1/-1"
    return f"{names}/{channels}" if channels else names


CHANNELS = st.sampled_from(["", "/-1", "/1", "/16"])
SETTINGS = st.one_of(
    st.just("silent"),
    st.just("-1/-1/8"),
    st.builds(
        lambda a, p, c: f"{a}/{p}{c}",
        st.sampled_from(ALGORITHMS[:3]),
        st.sampled_from(PROTOCOLS),
        CHANNELS,
    ),
)
CALLS = st.builds(
    Call,
    st.sampled_from(TUNABLE[3:]),
    st.one_of(st.integers(0, 4), st.integers(0, 4), st.sampled_from([2**31, 2**64 - 1])),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
)


def plain(setting: str) -> str:
    """A setting as the trace writes it."""
    return setting.removesuffix("/-1") if setting.count("/") == 2 else setting


@settings(max_examples=int(os.environ.get("RCCLTUNE_TEST_EXAMPLES", "200")))
@given(
    steps=st.lists(SETTINGS, min_size=1, max_size=6),
    n_calls=st.sampled_from([0, 0, 1, 2, 5]),
    calls=st.lists(CALLS, max_size=30),
)
def test_the_plugin_is_where_the_sentence_says(
    host: Host, steps: list[str], n_calls: int, calls: list[Call]
) -> None:
    """Answers and trace, at every version of the interface."""
    places = place_calls([call.nbytes for call in calls], n_steps=len(steps), n_calls=n_calls)
    names = [*map(plain, steps), "overrun"]
    with tempfile.TemporaryDirectory() as folder:
        schedule = Path(folder) / "schedule"
        schedule.write_text(schedule_text(steps, n_ranks=8, n_calls=n_calls), encoding="ascii")
        for abi in ABI_VERSIONS:
            path = Path(folder) / f"trace-{abi}"
            env = {"RCCLTUNE_SCHEDULE": str(schedule), "RCCLTUNE_TRACE": str(path)}
            with host.communicator(abi=abi, n_nodes=1, n_ranks=8, env=env) as communicator:
                for call, place in zip(calls, places, strict=True):
                    got = communicator.ask(call.collective, call.nbytes, call.table())
                    assert (got.cell, got.channels) == wanted(names[place], call, abi=abi)
            check_trace(read_trace(path), names, calls, places, abi)


ROWS = st.lists(
    st.builds(
        lambda low, span, algorithm, protocol, channels, pipe, ranks: (
            f"allreduce,{low},{low + span},{algorithm},{protocol},{channels},1,{ranks},{pipe},-1"
        ),
        st.integers(0, 4),
        st.integers(0, 3),
        st.sampled_from(["tree", "ring"]),
        st.sampled_from(PROTOCOLS),
        st.sampled_from([-1, 16]),
        st.sampled_from([-1, 1, 2]),
        st.sampled_from([8, 8, 16]),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=int(os.environ.get("RCCLTUNE_TEST_EXAMPLES", "100")))
@given(rows=ROWS, calls=st.lists(CALLS, max_size=12), abi=st.sampled_from(ABI_VERSIONS))
def test_a_step_of_rules_answers_as_a_job_without_a_schedule(
    host: Host, rows: list[str], calls: list[Call], abi: int
) -> None:
    """First selectable match, fallbacks, filters: the job itself is what it is held against."""
    calls = sorted(calls, key=lambda call: call.nbytes)  # so that no size ends the step
    with tempfile.TemporaryDirectory() as folder:
        rules, schedule, path = (Path(folder) / name for name in ("rules.csv", "schedule", "trace"))
        rules.write_text("\n".join([*rows, ""]), encoding="ascii")
        schedule.write_text(schedule_text(["rules"], n_ranks=8), encoding="ascii")
        job = {"NCCL_TUNER_CONFIG_FILE": str(rules)}
        walk = {**job, "RCCLTUNE_SCHEDULE": str(schedule), "RCCLTUNE_TRACE": str(path)}
        got = []
        for env in (job, walk):
            with host.communicator(abi=abi, n_nodes=1, n_ranks=8, env=env) as one:
                got.append([one.ask(c.collective, c.nbytes, c.table()) for c in calls])
        assert got[0] == got[1]
        records = read_trace(path).records
        assert {record["setting"] for record in records} <= {"rules"}
        for record in records:
            answered = [
                each.cell is not None or each.channels
                for call, each in zip(calls, got[1], strict=True)
                if (call.collective.csv_name, str(call.nbytes))
                == (record["collective"], record["nbytes"])
            ]
            assert (record["answer"] != "none") == bool(answered[0])
            assert (record["line"] != "0") == bool(answered[0])


def check_trace(
    trace: Trace, names: Sequence[str], calls: Sequence[Call], places: Sequence[int], abi: int
) -> None:
    """One record per step, collective and size; begin lines; the end."""
    begun = sorted(set(places))
    assert trace.begun == [(place, names[place]) for place in begun]
    first: dict[tuple[int, str, int], Call] = {}
    count: dict[tuple[int, str, int], int] = {}
    for call, place in zip(calls, places, strict=True):
        key = (place, call.collective.csv_name, call.nbytes)
        first.setdefault(key, call)
        count[key] = count.get(key, 0) + 1
    assert [(int(r["step"]), r["collective"], int(r["nbytes"])) for r in trace.records] == list(
        first
    )
    for record, key in zip(trace.records, first, strict=True):
        assert record["calls"] == str(count[key])
        assert record["setting"] == names[key[0]]
        assert record["answer"] == said(names[key[0]], first[key], abi=abi)
    n_steps = len(names) - 1
    assert trace.end is not None
    assert trace.end["begun"] == str(len(begun))
    assert trace.end["overrun-calls"] == str(places.count(n_steps))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_schedule_or_refused(host: Host, content: bytes) -> None:
    """No schedule, however broken, ends the process; a refused one says where."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schedule"
        path.write_bytes(content)
        try:
            env = {"RCCLTUNE_SCHEDULE": str(path)}
            with host.communicator(abi=5, n_nodes=1, n_ranks=8, env=env) as communicator:
                communicator.ask(Collective.ALL_REDUCE, 1024, [[1.0] * 3] * 7)
        except InputFileError as error:
            assert "refused, line " in str(error)  # noqa: PT017 - most bytes are refused, some are not


def open_scheduled(host: Host, folder: Path, trace: str, steps: Sequence[str]) -> Communicator:
    """A communicator of 8 ranks under a schedule."""
    schedule = folder / "schedule"
    schedule.write_text(schedule_text(steps, n_ranks=8), encoding="ascii")
    env = {"RCCLTUNE_SCHEDULE": str(schedule), "RCCLTUNE_TRACE": str(folder / trace)}
    return host.communicator(abi=5, n_nodes=1, n_ranks=8, env=env, comm_id=7)


TABLE = [[1.0] * 3] * 7


def test_what_a_death_leaves_behind(host: Host, tmp_path: Path) -> None:
    """Complete steps are in the file while the job runs, and its last line names the culprit."""
    steps = ["silent", "tree/ll", "ring/ll"]
    communicator = open_scheduled(host, tmp_path, "trace", steps)
    try:
        for size in (8, 16, 8, 16):
            communicator.ask(Collective.ALL_REDUCE, size, TABLE)
        killed_now = (tmp_path / "trace").read_text(encoding="ascii").splitlines()
    finally:
        communicator.close()
    assert killed_now[-1].endswith(" step=1 of=3 setting=tree/ll")
    trace = read_trace(tmp_path / "trace")
    assert [len(trace.of_step(step)) for step in (0, 1, 2)] == [2, 2, 0]
    assert trace.end is not None
    assert trace.end["begun"] == "2"


def test_ranks_of_one_process_have_files_of_their_own(host: Host, tmp_path: Path) -> None:
    """%n counts contexts, for ranks that share a process and a communicator's id."""
    ranks = [open_scheduled(host, tmp_path, "trace-%p-%c-%n.csv", ["ring/ll"]) for _ in range(3)]
    for rank in ranks:
        rank.ask(Collective.ALL_REDUCE, 8, TABLE)
    for rank in ranks:
        rank.close()
    files = sorted(tmp_path.glob("trace-*.csv"), key=lambda p: int(p.stem.split("-")[-1]))
    numbers = [int(file.stem.split("-")[-1]) for file in files]
    assert numbers == list(range(numbers[0], numbers[0] + 3))
    assert len({tuple(map(str, read_trace(file).records)) for file in files}) == 1


def test_contexts_that_share_a_file_keep_their_lines_whole(host: Host, tmp_path: Path) -> None:
    """Each step of each context is appended at once; the lines say whose they are."""
    steps = ["tree/ll", "ring/ll", "silent"] * 5
    ranks = [open_scheduled(host, tmp_path, "trace", steps) for _ in range(4)]

    def play(rank: Communicator) -> None:
        for _ in steps:
            for size in (8, 16, 32):
                rank.ask(Collective.ALL_REDUCE, size, TABLE)
        rank.close()

    threads = [threading.Thread(target=play, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trace = read_trace(tmp_path / "trace")
    assert len(trace.begun) == 4 * 15
    assert len(trace.records) == 4 * 15 * 3
    assert all(trace.calls(step) == {8: 4, 16: 4, 32: 4} for step in range(15))


@pytest.mark.parametrize("abi", ABI_VERSIONS)
def test_no_rule_file_is_read_under_a_schedule(abi: int, host: Host, tmp_path: Path) -> None:
    """Not even a broken one, for this scale or another; the log says so."""
    schedule = tmp_path / "schedule"
    schedule.write_text(schedule_text(["ring/ll"], n_ranks=8), encoding="ascii")
    env = {
        "RCCLTUNE_SCHEDULE": str(schedule),
        "NCCL_TUNER_CONFIG_FILE": "/proc/nonexistent",
        "RCCLTUNE_LOG": "summary",
    }
    with host.communicator(abi=abi, n_nodes=1, n_ranks=8, env=env) as communicator:
        assert "rules=not-read (NCCL_TUNER_CONFIG_FILE is set" in communicator.said
        assert communicator.ask(Collective.ALL_REDUCE, 8, TABLE).cell == (1, 0)
    with host.communicator(abi=abi, n_nodes=2, n_ranks=8, env=env) as communicator:
        assert "no rule file is read" in communicator.said
        assert communicator.ask(Collective.ALL_REDUCE, 8, TABLE).cell is None


def test_refusals_name_the_line(host: Host, tmp_path: Path) -> None:
    """A launcher shows it; nothing is measured under half a schedule."""
    schedule = tmp_path / "schedule"
    schedule.write_text(schedule_text(["ring/ll", "ring/lll"], n_ranks=8), encoding="ascii")
    env = {"RCCLTUNE_SCHEDULE": str(schedule)}
    with pytest.raises(InputFileError, match="ring/lll"):
        host.communicator(abi=5, n_nodes=1, n_ranks=8, env=env)
