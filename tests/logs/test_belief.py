"""The library's own table comes out of a trace as the host put it in, whatever was answered."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune import plugin
from rccltune.logs import trace
from rccltune.model.errors import MachineError, OutputError
from rccltune.model.settings import DEFAULT_VARIANT, Scale, Setting, Target
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.rules import decision
from rccltune.rules.host import Host

TARGET = Target(
    collective=Collective.ALL_REDUCE,
    scale=Scale(n_nodes=1, n_ranks=8),
    rank_placement="node",
    variant=DEFAULT_VARIANT,
)
HEAD = (
    "#@ format 1\ncomm,abi,n_nodes,n_ranks,step,setting,collective,nbytes,calls,changed,"
    "selectable,host_times_us,host_choice,answer,line\n"
)
# As docs/plugin.md has it; the last row's host has an algorithm without a name.
ROWS = (
    "c,5,1,8,0,rules,allreduce,8,12,0,tree/ll ring/ll ring/simple,9.500 8.250 20.000,ring/ll,"
    "tree/ll,3\n"
    "c,5,1,8,0,rules,allreduce,1024,10,0,ring/ll ring/simple,30.000 20.000,ring/simple,none,0\n"
    "c,5,1,8,0,rules,allreduce,4096,10,0,ring/ll algorithm7/ll,30.000 20.000,algorithm7/ll,none,0\n"
)


def shown(rows: str) -> trace.Shown:
    """What a trace of these rows shows."""
    return trace.read_beliefs(HEAD + rows, "trace.csv", TARGET)


def host() -> Host:
    """The real plugin under our host."""
    try:
        return Host(plugin.library())
    except MachineError as error:
        pytest.skip(str(error))


def asked(abi: int, sizes: list[int], cells: set[tuple[Algorithm, Protocol]], rule: str) -> str:
    """The trace of the real plugin."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rules.csv").write_text(f"allreduce,0,4096,{rule},-1,1,8\n")
        env = {
            "NCCL_TUNER_CONFIG_FILE": str(folder / "rules.csv"),
            "RCCLTUNE_TRACE": str(folder / "trace-%p.csv"),
        }
        with host().communicator(abi=abi, n_nodes=1, n_ranks=8, env=env) as communicator:
            for nbytes in sizes:
                table = decision.cost_table(cells)
                communicator.ask(Collective.ALL_REDUCE, nbytes, table)
        (path,) = folder.glob("trace-*.csv")
        return path.read_text()


@given(
    cells=st.sets(st.tuples(st.sampled_from(Algorithm), st.sampled_from(Protocol)), min_size=1),
    rule=st.sampled_from(("tree,ll", "ring,simple", "ring,ll128")),
)
def test_the_real_plugins_trace_shows_the_hosts_table(
    cells: set[tuple[Algorithm, Protocol]], rule: str
) -> None:
    """Every cell with its time, and the lowest as the choice, also where a rule answered."""
    table = decision.cost_table(cells)
    times = {(a, p): table[a.index][p.index] for a, p in cells}

    found = trace.read_beliefs(asked(5, [8, 8192], cells, rule), "t", TARGET)

    assert [belief.nbytes for belief in found.beliefs] == [8, 8192]
    for belief in found.beliefs:
        offered = {(s.algorithm, s.protocol): time for s, time in belief.offered}
        assert offered == pytest.approx(times)
        assert belief.choice is not None
        chosen = belief.choice.algorithm, belief.choice.protocol
        assert times[chosen] == min(times.values())
        assert belief.target == TARGET
    assert not found.unsteady


def test_a_host_of_version_2_shows_cells_and_no_times() -> None:
    """It asks without its table."""
    found = trace.read_beliefs(
        asked(2, [8], {(Algorithm.RING, Protocol.LL)}, "ring,ll"), "t", TARGET
    )

    (belief,) = found.beliefs
    assert belief.choice is None
    assert all(time is None for _, time in belief.offered)


def test_what_has_no_name_is_left_out() -> None:
    """Times stay with their cells."""
    first, second, third = shown(ROWS).beliefs

    assert first.predicted_us(Setting.parse("ring/ll")) == 8.25
    assert first.predicted_us(Setting.parse("tree/ll/16")) == 9.5
    assert first.choice == Setting.parse("ring/ll")
    assert second.predicted_us(Setting.parse("tree/ll")) is None
    assert [str(cell) for cell, _ in third.offered] == ["ring/ll"]
    assert third.choice is None


def test_only_rows_of_the_target_count() -> None:
    """Other communicators and collectives share a trace."""
    other = ROWS.replace(",1,8,0,", ",1,4,0,") + ROWS.replace("allreduce", "broadcast")

    assert shown(other).beliefs == ()
    target = replace(TARGET, collective=Collective.BROADCAST)
    assert len(trace.read_beliefs(HEAD + other, "t", target).beliefs) == 3


def test_a_table_that_changes_is_noticed() -> None:
    """Between steps, and between calls of one step; what was said first stays."""
    again = ROWS.replace("9.500 8.250", "9.500 9.750").replace("0,rules", "1,rules")
    found = shown(ROWS + again)
    assert found.unsteady == (8,)
    assert found.beliefs == shown(ROWS).beliefs

    assert shown(ROWS.replace("1024,10,0", "1024,10,2")).unsteady == (1024,)


@pytest.mark.parametrize(
    ("damage", "by"),
    [
        ("#@ format 1", "#@ format 2"),
        ("host_choice", "choice"),
        ("9.500 8.250 20.000", "9.500 8.250"),
        ("9.500", "soon"),
        ("tree/ll ring", "oak/ll ring"),
        (",tree/ll,3\n", "\n"),
    ],
)
def test_a_damaged_trace_is_an_error(damage: str, by: str) -> None:
    """With its name."""
    assert damage in HEAD + ROWS
    with pytest.raises(OutputError) as caught:
        trace.read_beliefs((HEAD + ROWS).replace(damage, by), "trace.csv", TARGET)
    assert "trace.csv" in str(caught.value.where)


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Nothing but OutputError."""
    for start in ("", HEAD, HEAD + ROWS[:-1]):
        with suppress(OutputError):
            trace.read_beliefs(start + text, "t", TARGET)


def test_a_cell_that_the_model_gives_no_time_has_none() -> None:
    """The real RCCL 2.27.7 says ``inf`` for tree/ll where its bandwidth is 0; that is no number of ours."""
    found = shown(
        "c,4,1,8,0,rules,allreduce,8,10,0,tree/ll ring/ll,inf 23.201,ring/ll,ring/ll,4\n"
    ).beliefs
    assert [time for _, time in found[0].offered] == [None, 23.201]
