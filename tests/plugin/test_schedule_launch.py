"""One launch of a simulated benchmark walks through all settings; every row ran what was meant.

Checked three ways that know nothing of each other: the plugin's trace, the benchmark's own columns
(-A, where it has them) and the time, which the node file gives each setting without noise.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from schedule_reader import Options, Trace, read_trace, schedule_text
from simulation import Row, Sim, Small

N_RANKS = 4
SIZES = tuple(8 * 2**i for i in range(8))
# Microseconds at 8 bytes, from the curves of tests/simulate/conftest.py; without a plugin ring/ll runs.
AT_8_BYTES = {
    "silent": 30.0,
    "tree/ll": 20.0,
    "ring/ll": 30.0,
    "tree/ll128": 25.0,
    "ring/ll128": 35.0,
    "ring/simple": 60.0,
}
OLD = ("rt24", "rtmid", "rt25")
CYCLES = {"rt24": "s", "rtmid": "s", "rt25": "s", "rtnew": "N", "nt": "N"}


@dataclass(frozen=True)
class Launched:
    """One launch's rows, cycle by cycle, and the traces of all ranks."""

    cycles: list[list[Row]]
    traces: list[Trace]


@dataclass(frozen=True)
class Bench:
    """A simulated benchmark of one family with our plugin in it."""

    sim: Sim
    node: Path
    plugin: Path
    folder: Path
    family: str
    collective: str = "all_reduce"
    np: int | None = None

    @property
    def old(self) -> bool:
        """Whether it warms the largest size up, then the smallest."""
        return self.family in OLD

    def environment(self, steps: Sequence[str], n_calls: int) -> dict[str, str]:
        """All that a rank needs."""
        schedule = self.folder / "schedule"
        text = schedule_text(steps, n_ranks=N_RANKS, n_calls=n_calls)
        schedule.write_text(text, encoding="ascii")
        return {
            "NCCL_TUNER_PLUGIN": str(self.plugin),
            "RCCLTUNE_SCHEDULE": str(schedule),
            "RCCLTUNE_TRACE": str(self.folder / "trace-%p-%c-%n.csv"),
            "RCCL_LL128_FORCE_ENABLE": "1",
        }

    def run(self, steps: Sequence[str], options: Options, *, more: str = "") -> Launched:
        """Launch with the schedule, and check what docs/inside/schedule.md tells a launcher to check."""
        lead = options.leading(old=self.old)
        n_cycles = len(steps) - lead
        one_size = len(options.sizes) == 1
        env = self.environment(steps, options.per_row if one_size else 0)
        if self.np is None:
            env["RCCLTUNE_SIM_RANKS"] = str(N_RANKS)
        ended = self.sim.run(
            self.node,
            options.arguments(n_cycles, CYCLES[self.family]) + more,
            collective=self.collective,
            np=self.np,
            **env,
        )
        assert ended.code == 0, ended.err
        rows = ended.rows
        n_sizes = len(options.sizes)
        assert [row.size for row in rows] == list(options.sizes) * n_cycles
        traces = [read_trace(path) for path in sorted(self.folder.glob("trace-*.csv"))]
        assert len(traces) == N_RANKS
        for trace in traces:
            assert trace.shared == traces[0].shared
            assert trace.begun == list(enumerate(steps))
            assert trace.end is not None
            assert trace.end["overrun-calls"] == "0"
            for step in range(len(steps)):
                assert trace.calls(step) == options.calls(step, old=self.old), step
        return Launched(
            cycles=[rows[i : i + n_sizes] for i in range(0, len(rows), n_sizes)], traces=traces
        )


@pytest.fixture
def bench(sim: Sim, small: Small, plugin_path: Path, tmp_path: Path) -> Bench:
    """The newest family; tests change what they need."""
    return make_bench(sim, small, plugin_path, tmp_path, "rtnew")


def make_bench(
    sim: Sim,
    small: Small,
    plugin: Path,
    folder: Path,
    family: str,
    *,
    rccl: str = "2.28.3",
    **more: str,
) -> Bench:
    """A bench of a family on the small node."""
    node = small(more.get("node", ""), ranks=N_RANKS, rccl=rccl, benchmark=family)
    return Bench(sim=sim, node=node, plugin=plugin, folder=folder, family=family)


@pytest.mark.parametrize("family", ["rt24", "rtmid", "rtnew", "nt"])
def test_every_row_ran_what_was_meant(
    family: str, sim: Sim, small: Small, plugin_path: Path, tmp_path: Path
) -> None:
    """Six settings, a thrown-away pass each, two interleaved repeats, eight sizes, one launch."""
    settings = list(AT_8_BYTES)
    steps = ["silent", *settings, *settings, *reversed(settings)]
    options = Options(sizes=SIZES, iters=5, warmup=2, shows_setting=family == "rtnew")
    bench = make_bench(sim, small, plugin_path, tmp_path, family)
    launched = bench.run(steps, options)
    for cycle, rows in enumerate(launched.cycles):
        step = cycle + 1
        setting = steps[step]
        for record in launched.traces[0].of_step(step):
            assert record["setting"] == setting
            assert record["answer"] == ("none" if setting == "silent" else setting)
            assert record["changed"] == "0"
        assert rows[0].time_us == rows[0].in_place_us == AT_8_BYTES[setting]
        if options.shows_setting and setting != "silent":
            assert {row.setting.rpartition("/")[0] for row in rows} == {setting}


SHAPES = {
    "one warm-up": Options(sizes=SIZES[:3], iters=3, warmup=1),
    "many warm-ups": Options(sizes=SIZES[:3], iters=3, warmup=7),
    "no warm-up": Options(sizes=SIZES[:3], iters=3, warmup=0),
    "two sizes": Options(sizes=SIZES[:2], iters=1, warmup=3),
    "unchecked": Options(sizes=SIZES[:3], iters=3, warmup=1, check=0),
    "checked twice": Options(sizes=SIZES[:3], iters=3, warmup=1, check=2),
    "in-place only": Options(sizes=SIZES[:3], iters=3, warmup=1, halves=1),
    "one size": Options(sizes=SIZES[:1], iters=3, warmup=10),
    "one size, unchecked": Options(sizes=SIZES[:1], iters=4, warmup=10, check=0),
    "one size, in-place only": Options(sizes=SIZES[:1], iters=3, warmup=10, halves=1),
    "one size, no warm-up": Options(sizes=SIZES[:1], iters=3, warmup=0),
}


# nccl-tests has no -O: it always measures both halves. And its real -w 0 is not the simulated one:
# it makes each half's first call all the same (docs/inside/schedule.md).
FAMILY_SHAPES = [
    (family, shape)
    for family in ("rt24", "rtnew", "nt")
    for shape, options in SHAPES.items()
    if family != "nt" or (options.halves == 2 and options.warmup > 0)
]


@pytest.mark.parametrize(("family", "shape"), FAMILY_SHAPES)
def test_steps_and_rows_match_whatever_the_options(
    shape: str, family: str, sim: Sim, small: Small, plugin_path: Path, tmp_path: Path
) -> None:
    """Calls per step and size are what the options imply, and the times are the settings'."""
    options = SHAPES[shape]
    bench = make_bench(sim, small, plugin_path, tmp_path, family)
    lead = options.leading(old=bench.old)
    meant = ["tree/ll", "ring/simple", "silent", "tree/ll128"]
    launched = bench.run(["silent"] * lead + meant, options)
    assert [rows[0].time_us for rows in launched.cycles] == [AT_8_BYTES[s] for s in meant]


@pytest.mark.parametrize("family", ["rt24", "rtnew", "nt"])
def test_graphs_take_the_answer_at_capture(
    family: str, sim: Sim, small: Small, plugin_path: Path, tmp_path: Path
) -> None:
    """-G asks as often as without: replays ask nobody."""
    options = Options(sizes=SIZES[:3], iters=3, warmup=1)
    bench = make_bench(sim, small, plugin_path, tmp_path, family)
    bench.run(["silent", "tree/ll", "ring/simple"], options, more=" -G 3")


@pytest.mark.parametrize("rccl", ["2.21.5", "2.22.3", "2.26.6", "2.30.4"])
def test_every_interface_version_in_a_launch(
    rccl: str, sim: Sim, small: Small, plugin_path: Path, tmp_path: Path
) -> None:
    """Versions 2, 3, 4 and 6; under 2 the unsafe setting is not given, and the trace says so."""
    options = Options(sizes=SIZES[:3], iters=3, warmup=1)
    bench = make_bench(sim, small, plugin_path, tmp_path, "rt24", rccl=rccl)
    meant = ["tree/ll", "ring/ll128", "ring/simple"]
    launched = bench.run(["silent", *meant], options)
    answers = [
        {record["answer"] for record in launched.traces[0].of_step(step)} for step in (1, 2, 3)
    ]
    given = "none" if rccl == "2.21.5" else "ring/ll128"
    assert answers == [{"tree/ll"}, {given}, {"ring/simple"}]
    assert launched.cycles[0][0].time_us == 20.0
    assert launched.cycles[2][0].time_us == 60.0


@pytest.mark.mpi
def test_one_process_per_rank(sim: Sim, small: Small, plugin_path: Path, tmp_path: Path) -> None:
    """Under mpirun, as real launches are."""
    made = make_bench(sim, small, plugin_path, tmp_path, "rtnew")
    bench = Bench(
        sim=made.sim,
        node=made.node,
        plugin=made.plugin,
        folder=made.folder,
        family="rtnew",
        np=N_RANKS,
    )
    options = Options(sizes=SIZES[:4], iters=3, warmup=2)
    launched = bench.run(["silent", "tree/ll", "ring/simple", "tree/ll"], options)
    assert [rows[0].time_us for rows in launched.cycles] == [20.0, 60.0, 20.0]


def test_too_many_cycles_are_seen(bench: Bench) -> None:
    """A schedule that is shorter than the launch ends in silence, and the trace counts the rest."""
    env = bench.environment(["silent", "tree/ll"], 0) | {"RCCLTUNE_SIM_RANKS": str(N_RANKS)}
    ended = bench.sim.run(bench.node, "-b 8 -e 16 -f 2 -n 3 -w 1 -N 3", **env)
    assert [row.time_us for row in ended.rows if row.size == 8] == [20.0, 30.0, 30.0]
    trace = read_trace(min(bench.folder.glob("trace-*.csv")))
    assert trace.end is not None
    assert trace.end["overrun-calls"] == "40"
    assert trace.begun[-1] == (2, "overrun")


def test_a_hang_has_named_its_setting(
    sim: Sim, small: Small, plugin_path: Path, tmp_path: Path
) -> None:
    """The steps before it are whole, the last line is the one that hangs."""
    fault = "faults: [{kind: hang, setting: ring/simple}]\n"
    bench = make_bench(sim, small, plugin_path, tmp_path, "rtnew", node=fault)
    steps = ["silent", "tree/ll", "ring/simple", "tree/ll128"]
    env = bench.environment(steps, 0) | {"RCCLTUNE_SIM_RANKS": str(N_RANKS)}
    process = sim.start(bench.node, "-b 8 -e 64 -f 2 -n 3 -w 1 -N 3", **env)
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not begun(bench.folder, 2):
            time.sleep(0.1)
    finally:
        process.kill()  # as a launcher's last resort: nothing is finalized
        process.communicate(timeout=30)
    traces = [read_trace(path) for path in bench.folder.glob("trace-*.csv")]
    assert len(traces) == N_RANKS
    # The rank that got furthest: one process plays all of them here, one after another.
    assert max(trace.begun[-1] for trace in traces) == (2, "ring/simple")
    for trace in traces:
        assert trace.end is None
        assert trace.calls(0) == dict.fromkeys((8, 16, 32, 64), 1)
    furthest = max(traces, key=lambda trace: trace.begun[-1])
    assert furthest.calls(1) == dict.fromkeys((8, 16, 32, 64), 10)


def begun(folder: Path, step: int) -> bool:
    """Whether a rank's trace has announced a step."""
    return any(f" step={step} " in file.read_text() for file in folder.glob("trace-*.csv"))
