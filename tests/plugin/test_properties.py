"""Random rules and calls: the plugin says, at every ABI version, what a plain scan says."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.vocabulary import TUNABLE, Algorithm, Collective, Protocol
from rccltune.rules.plugin_library import ABI_VERSIONS, PluginAnswer, PluginLibrary

ALGORITHMS = [a.value for a in Algorithm]
PROTOCOLS = [p.value for p in Protocol]
MAX_BYTES = 2**64 - 1
# 6x3: NCCL to 2.22. 7x3: since 2.23. 7x4 and 8x3: seen in RCCL's development branches.
SHAPES = ((6, 3), (7, 3), (7, 4), (8, 3))
# What version 2 hosts may be given unchecked (design §7).
SAFE_V2 = {("ring", "ll"), ("ring", "simple")}


@dataclass(frozen=True)
class Row:
    """A rule, in the words of the file."""

    collective: str
    low: int
    high: int
    algorithm: str
    protocol: str
    channels: int
    n_nodes: int
    n_ranks: int
    pipe_ops: int
    reg_buff: int

    def text(self) -> str:
        """The row of the CSV file."""
        return ",".join(str(getattr(self, name)) for name in self.__dataclass_fields__)


@dataclass(frozen=True)
class Call:
    """A question."""

    collective: Collective
    nbytes: int
    pipe_ops: int
    reg_buff: int
    table: tuple[tuple[float, ...], ...]


def scan(rows: Sequence[Row], call: Call, *, abi: int, n_nodes: int, n_ranks: int) -> Row | None:
    """The meaning of a rule file, as plainly as it can be put: first selectable match."""
    for row in rows:
        if row.collective != call.collective.csv_name or not row.low <= call.nbytes <= row.high:
            continue
        if row.algorithm == "tree" and row.collective != "allreduce":
            continue
        if row.n_nodes not in (-1, n_nodes) or row.n_ranks not in (-1, n_ranks):
            continue
        known_reg = call.reg_buff if abi >= 4 else 0
        if row.pipe_ops not in (-1, call.pipe_ops) or row.reg_buff not in (-1, known_reg):
            continue
        if is_selectable(row, call, abi=abi):
            return row
    return None


def is_selectable(row: Row, call: Call, *, abi: int) -> bool:
    """Whether the host lets this rule's cell be chosen in this call."""
    if row.algorithm == "-1":
        return True
    if abi == 2:
        return (row.algorithm, row.protocol) in SAFE_V2 or (
            (row.algorithm, row.protocol, row.collective) == ("tree", "ll", "allreduce")
        )
    a, p = ALGORITHMS.index(row.algorithm), PROTOCOLS.index(row.protocol)
    return a < len(call.table) and p < len(call.table[0]) and call.table[a][p] >= 0.0


def expected(
    rows: Sequence[Row], call: Call, *, abi: int, n_nodes: int, n_ranks: int
) -> PluginAnswer:
    """What must be in the host's hands after the call, the untouched cells included."""
    row = scan(rows, call, abi=abi, n_nodes=n_nodes, n_ranks=n_ranks)
    table = [list(cells) for cells in call.table]
    cell = None
    if row is not None and row.algorithm != "-1":
        a, p = ALGORITHMS.index(row.algorithm), PROTOCOLS.index(row.protocol)
        if abi == 2 or table[a][p] != 0.0:
            cell = (a, p)
        table[a][p] = 0.0
    channels = row.channels if row is not None and row.channels >= 1 else 0
    return PluginAnswer(table=tuple(map(tuple, table)), channels=channels, cell=cell)


SIZES = st.one_of(
    st.integers(0, 64), st.integers(0, 2**40), st.sampled_from([2**31, 2**32, 2**63, MAX_BYTES])
)
FILTER = st.sampled_from([-1, -1, -1, 0, 1, 2])


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """One valid row; small sizes, so that rows overlap."""
    low, high = sorted((draw(SIZES), draw(SIZES)))
    algorithm, protocol = draw(
        st.one_of(
            st.tuples(st.sampled_from(ALGORITHMS), st.sampled_from(PROTOCOLS)),
            st.just(("-1", "-1")),
        )
    )
    return Row(
        collective=draw(st.sampled_from([c.csv_name for c in TUNABLE[3:]])),
        low=low,
        high=high,
        algorithm=algorithm,
        protocol=protocol,
        channels=draw(st.sampled_from([-1, 0, 1, 16, 2**31 - 1])),
        n_nodes=draw(st.sampled_from([-1, -1, 1, 2])),
        n_ranks=draw(st.sampled_from([-1, -1, 8, 64])),
        pipe_ops=draw(FILTER),
        reg_buff=draw(FILTER),
    )


CELLS = st.sampled_from([-1024.0, -1.0, -0.5, 0.0, 0.25, 7.5, 2.0**100])


@st.composite
def calls(draw: st.DrawFn, file: Sequence[Row]) -> Call:
    """One call; its size lies on an edge of a rule, beside one, or anywhere."""
    edges = {edge for row in file for edge in (row.low, row.high)}
    near = [edge + step for edge in sorted(edges) for step in (-1, 0, 1)]
    at_edge = st.sampled_from([n for n in near if 0 <= n <= MAX_BYTES] or [0])
    n_algorithms, n_protocols = draw(st.sampled_from(SHAPES))
    cells = draw(
        st.lists(CELLS, min_size=n_algorithms * n_protocols, max_size=n_algorithms * n_protocols)
    )
    table = (cells[i : i + n_protocols] for i in range(0, len(cells), n_protocols))
    return Call(
        collective=draw(st.sampled_from(TUNABLE[2:])),
        nbytes=draw(st.one_of(at_edge, at_edge, SIZES)),
        pipe_ops=draw(st.integers(0, 2)),
        reg_buff=draw(st.integers(0, 1)),
        table=tuple(map(tuple, table)),
    )


@given(data=st.data(), file=st.lists(rows(), max_size=12), n_ranks=st.sampled_from([8, 64]))
def test_the_plugin_is_the_plain_scan(
    host: PluginLibrary, data: st.DataObject, file: list[Row], n_ranks: int
) -> None:
    """Same cell, same channels, and nothing else changed, at every version and at every edge."""
    asked = data.draw(st.lists(calls(file), min_size=1, max_size=6))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rules.csv"
        path.write_text("".join(row.text() + "\n" for row in file) or "\n", encoding="ascii")
        for abi in ABI_VERSIONS:
            scale = {"n_nodes": 1, "n_ranks": n_ranks}
            env = {"NCCL_TUNER_CONFIG_FILE": str(path)}
            with host.communicator(abi=abi, env=env, **scale) as communicator:
                for call in asked:
                    got = communicator.ask(
                        call.collective,
                        call.nbytes,
                        call.table,
                        num_pipe_ops=call.pipe_ops,
                        reg_buff=call.reg_buff,
                    )
                    assert got == expected(file, call, abi=abi, **scale)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(host: PluginLibrary, content: bytes) -> None:
    """No rule file, however broken, ends the process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rules.csv"
        path.write_bytes(content)
        env = {"NCCL_TUNER_CONFIG_FILE": str(path), "RCCLTUNE_ON_ERROR": "ignore"}
        with host.communicator(abi=5, n_nodes=1, n_ranks=8, env=env) as communicator:
            communicator.ask(Collective.ALL_REDUCE, 1024, [[1.0] * 3] * 7)
