"""Sizes that a benchmark can call with, held against what the simulated benchmark's table shows."""

from __future__ import annotations

import itertools
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from grounds import GROUND
from hypothesis import given
from hypothesis import strategies as st

from rccltune import plugin
from rccltune.model.errors import MachineError
from rccltune.model.measured import Sweep
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import DTYPE_BYTES, Collective
from rccltune.plan import launches, walks
from rccltune.simulate import sources

GATHER, REDUCE = Collective.ALL_GATHER, Collective.ALL_REDUCE
SHARED = (GATHER, Collective.REDUCE_SCATTER)
DTYPES = st.sampled_from(["int8", "half", "float", "double"])


def sweep(
    low: int, high: int, collective: Collective = GATHER, *, dtype: str = "float", **more: int
) -> Sweep:
    """Of one collective over a range."""
    return Sweep(
        collectives=(collective,),
        settings=(),
        min_nbytes=low,
        max_nbytes=high,
        dtypes=(dtype,),
        factor=more.get("factor", 2),
        step_nbytes=more.get("step"),
    )


def on(n_ranks: int) -> launches.Ground:
    """As many ranks."""
    return replace(GROUND, scale=Scale(n_nodes=1, n_ranks=n_ranks))


@given(
    nbytes=st.integers(1, 1 << 32),
    n_ranks=st.integers(2, 1024),
    dtype=DTYPES,
    collective=st.sampled_from([GATHER, REDUCE]),
)
def test_what_is_near_has_whole_elements_of_every_share(
    nbytes: int, n_ranks: int, dtype: str, collective: Collective
) -> None:
    """At most 2 % away, and none where half a grain is more; 16 bytes a share at least."""
    wish = sweep(nbytes, nbytes, collective, dtype=dtype)
    width = DTYPE_BYTES[dtype]
    share = n_ranks * max(16, 4 * width) if collective is GATHER else width

    found = walks.nearest(wish, collective, n_ranks, nbytes)

    lower, upper = nbytes // share * share, -(-nbytes // share) * share
    away = min(abs(one - nbytes) for one in (lower, upper) if one)
    if found is None:
        assert away > 0.02 * nbytes
    else:
        assert found % share == 0
        assert abs(found - nbytes) == away <= 0.02 * nbytes


@pytest.mark.parametrize(
    ("n_ranks", "nbytes", "expected"),
    [(2, 8, None), (2, 32, 32), (2, 48, None), (2, 1601, 1600), (64, 512, None), (64, 1024, 1024)],
)
def test_gathered_sizes_of_the_first_run_on_gpus(
    n_ranks: int, nbytes: int, expected: int | None
) -> None:
    """Two H200 called all_gather with 8 B and 16 B: 32 B is the least that rccl-tests calls."""
    assert walks.nearest(sweep(8, 8), GATHER, n_ranks, nbytes) == expected
    assert walks.nearest(sweep(8, 8, REDUCE), REDUCE, n_ranks, 68) == 68
    assert walks.nearest(sweep(8, 8, REDUCE), REDUCE, n_ranks, 66) is None
    assert walks.nearest(sweep(8, 8, dtype="half"), REDUCE, n_ranks, 66) == 66


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        (sweep(8, 16), "one size alone"),  # both are rounded down to nothing
        (sweep(512, 1024), "one size alone"),
        (sweep(1024, 1536, step=512), "one size alone"),
        (sweep(1000, 3200, step=1024), "less than its double"),  # warmed up at 1 KiB alone
        (sweep(512, 2048), None),
        (sweep(8, 1 << 20), None),
        (sweep(8, 16, REDUCE), None),
    ],
)
def test_a_walk_needs_two_sizes_that_are_called(wish: Sweep, says: str | None) -> None:
    """Of 64 ranks: 1 KiB is the least that all_gather is called with."""
    found = walks.why_no_walk(wish, on(64))
    assert found is None if says is None else says in (found or "")


@given(low=st.integers(1, 4096), factor=st.integers(2, 4), n_ranks=st.integers(2, 16))
def test_a_size_falls_where_a_walk_is_planned(low: int, factor: int, n_ranks: int) -> None:
    """Warmed up at low, twice that and so on, then the table: what falls between ends a step."""
    wish = sweep(low, low * factor**2, factor=factor)
    unit = 16 * n_ranks
    warm = [(low << k) // unit * unit for k in range(9) if low << k <= wish.max_nbytes]
    rows = [low * factor**k // unit * unit for k in range(3)]
    asked = [n for n in warm if n] + [n for n in rows if n] * 2
    falls = sum(b < a for a, b in itertools.pairwise(asked))

    can_walk = walks.why_no_walk(wish, on(n_ranks)) is None

    assert can_walk == (falls == 2)


@pytest.mark.parametrize("collective", SHARED)
@pytest.mark.parametrize("family", ["rt24", "rtnew"])
def test_the_benchmark_shows_just_these_sizes(
    tmp_path: Path, collective: Collective, family: str
) -> None:
    """The stand-in rounds as rccl-tests of 2024 and as newer ones do."""
    try:
        program = plugin.native_folder() / "sim" / collective.benchmark
    except MachineError as error:
        pytest.skip(str(error))
    if not program.is_file():
        pytest.skip("this install has no stand-in benchmarks")
    node = sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8")
    changed = tmp_path / "node.yaml"
    changed.write_text(re.sub(r"benchmark: \w+", f"benchmark: {family}", node), encoding="utf-8")
    (tmp_path / "node").write_bytes(sources.compile_node(changed))
    env = {"RCCLTUNE_SIM_NODE": str(tmp_path / "node"), "RCCLTUNE_SIM_RANKS": "8"}
    words = ["-b", "8", "-e", "300", "-i", "20", "-n", "1", "-w", "1", "-c", "0", "-d", "float"]

    done = subprocess.run(
        [str(program), *words], env=env, capture_output=True, text=True, timeout=30, check=True
    )

    shown = {
        int(line.split()[0]) for line in done.stdout.splitlines() if line.strip()[:1].isdigit()
    }
    wish = sweep(8, 300, collective, step=20)
    assert shown - {0} == set(walks.called_sizes(wish, collective, 8)) == {128, 256}
