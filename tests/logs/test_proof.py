"""What ran is what the plugin's trace says, not what was asked for."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wording import lacks

from rccltune import plugin
from rccltune.logs import library, walk
from rccltune.logs.trace import _COLUMNS, Asked, agree, prove, read_trace
from rccltune.model.errors import MachineError, OutputError
from rccltune.model.measured import Sample
from rccltune.model.settings import CurveKey, Scale, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Doubt, Placement, Protocol
from rccltune.rules.decision import cost_table
from rccltune.rules.host import Host

TREE_LL = Setting.parse("tree/ll")


def sample(nbytes: int, **changes: object) -> Sample:
    """A half-row of a launch that asked for tree/ll."""
    key = CurveKey(
        collective=Collective.ALL_REDUCE,
        setting=TREE_LL,
        placement=Placement.IN_PLACE,
        scale=Scale(n_nodes=1, n_ranks=8),
    )
    return Sample(key=key, launch="a", nbytes=nbytes, time_us=1.0, **changes)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> tuple[Asked, ...]:
    """A trace that the real plugin wrote: tree/ll wanted from 0 to 4096 bytes.

    At 1024 bytes the library offers no tree; above 4096 no rule matches; 512 is never asked.
    """
    folder = tmp_path_factory.mktemp("trace")
    rules = folder / "rules.csv"
    rules.write_text("allreduce,0,4096,tree,ll,-1,1,8\n")
    try:
        host = Host(plugin.library())
    except MachineError as error:
        pytest.skip(str(error))
    ring = {(Algorithm.RING, Protocol.LL), (Algorithm.RING, Protocol.SIMPLE)}
    tree = {(Algorithm.TREE, Protocol.LL)}
    env = {
        "NCCL_TUNER_CONFIG_FILE": str(rules),
        "RCCLTUNE_TRACE": str(folder / "trace-%p.csv"),
    }
    with host.communicator(abi=5, n_nodes=1, n_ranks=8, env=env) as communicator:
        for nbytes, cells in ((8, ring | tree), (1024, ring), (8192, ring | tree)):
            communicator.ask(Collective.ALL_REDUCE, nbytes, cost_table(cells))
    (path,) = folder.glob("trace-*.csv")
    return read_trace(path.read_text(), str(path))


def test_the_real_plugins_trace_is_read(trace: tuple[Asked, ...]) -> None:
    """Cells, times, choice and answer come out as the host put them in."""
    first = trace[0]

    assert first.answer == TREE_LL
    assert dict(first.offered)[Algorithm.TREE, Protocol.LL] == 10.0
    assert (first.nbytes, first.calls, first.changed) == (8, 1, 0)
    assert trace[1].host_choice == Setting.parse("ring/ll")


@pytest.mark.parametrize(
    ("nbytes", "doubt", "executed"),
    [
        (8, None, "tree/ll"),
        (1024, Doubt.INELIGIBLE, "ring/ll"),
        (8192, Doubt.SUBSTITUTED, "tree/ll"),
        (512, Doubt.BYPASSED, None),
    ],
)
def test_only_what_ran_counts(
    trace: tuple[Asked, ...], nbytes: int, doubt: Doubt | None, executed: str | None
) -> None:
    """Answered, not offered, answered otherwise and never asked are told apart."""
    (told,) = prove([sample(nbytes)], trace, TREE_LL)

    assert told.doubt is doubt
    assert (str(told.executed) if told.executed else None) == executed


def test_a_doubt_of_the_benchmark_stays(trace: tuple[Asked, ...]) -> None:
    """Its own columns see what the library did after asking the plugin."""
    wrong = sample(8, doubt=Doubt.WRONG, n_wrong=3)

    assert prove([wrong], trace, TREE_LL) == (wrong,)


def test_ranks_that_differ_are_named(trace: tuple[Asked, ...]) -> None:
    """One rank with another answer voids a launch; equal ones do not."""
    other = trace[1:]

    assert agree({"r0": trace, "r1": trace, "r2": trace}) is None
    assert "8 bytes" in (agree({"r0": trace, "r1": other}) or "")
    told = tuple(
        Asked(**{f: getattr(row, f) for f in row.__slots__} | {"answer": None}) for row in trace
    )
    assert lacks(agree({"r0": trace, "r1": told}) or "", "tree/ll") == []


@given(st.text(max_size=300))
@example('1,"2\r3,\u20284')
def test_no_text_is_read_as_something_else(text: str) -> None:
    """A damaged trace is an error with its place, never a proof."""
    for start in ("", "#@ format 1\n", "#@ format 1\n" + ",".join(_COLUMNS) + "\n"):
        with suppress(OutputError):
            assert len(read_trace(start + text, "t")) <= text.count("\n") + 1


def test_a_trace_with_zeros_is_damaged() -> None:
    """As a machine that went down leaves a file that was not on the disk yet."""
    head = "#@ format 1\n" + ",".join(_COLUMNS) + "\n"
    with pytest.raises(OutputError, match="zero byte"):
        walk.read_walk(head + "\0" * 512 + "\n", "t")


# Lines of public logs (nv34 of the shared data) and of the sources named in tuner_of.
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
    assert library.tuner_of(line) == tuner


def test_public_logs_name_no_tuner_that_is_not_there(shared_data: Path) -> None:
    """Real INFO logs of libraries without a tuner say none."""
    log = (shared_data / "logs/nv34_4gpu_allreduce_rows_split_by_info.log").read_text(
        errors="replace"
    )

    assert library.tuner_of(log) == "none"
