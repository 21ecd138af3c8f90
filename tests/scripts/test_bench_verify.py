"""scripts/bench verify: what judges verification is itself judged, by traps with known answers."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import log2
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
import verify_nodes as nodes
import verify_truth as truth
import verify_verdicts as verdicts
from verify_nodes import TrapNode
from wording import lacks

from rccltune import plugin
from rccltune.model.choice import Rule
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import MAX_NBYTES, Collective
from rccltune.rules.writer import render_rules

if TYPE_CHECKING:
    from bench_verify import Verified, Wish

Judge = Callable[[str, str], truth.Judged]
# The bench itself is not part of scripts/test, so that its judge is held to its word in --long.
pytestmark = pytest.mark.long
KIB, MIB = 1 << 10, 1 << 20
SPAN = (8, 128 * MIB)
# verify_nodes' three settings that beat the library, written down here once more.
WINNERS = (("tree/ll", 40 * KIB), ("tree/ll128", 500 * KIB), ("ring/ll128", 5 * MIB))


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """The bench, which takes a second to import."""
    import bench_verify

    return bench_verify


def named(name: str) -> TrapNode:
    """One of the nodes."""
    return next(one for one in nodes.NODES if one.name == name)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """A judge by the node's name and the file's text."""
    folder = tmp_path_factory.mktemp("nodes")
    known: dict[str, truth.Yardstick] = {}

    def judge(name: str, text: str) -> truth.Judged:
        if name not in known:
            known[name] = truth.yardstick(named(name), folder, SPAN)
        return truth.judge(known[name], text)

    return judge


def rule(name: str, low: int, high: int, collective: Collective = Collective.ALL_REDUCE) -> Rule:
    """As emitted."""
    return Rule(
        collective=collective,
        min_nbytes=low,
        max_nbytes=high,
        setting=Setting.parse(name),
    )


def file_of(*rules: Rule) -> str:
    """A rule file; LL128 is on by default on these nodes."""
    return render_rules("a test", rules)


def winners() -> list[Rule]:
    """The rules that the nodes' times ask for."""
    ends = [end for _, end in WINNERS]
    lows = [0, *(end + 1 for end in ends)]
    return [rule(name, low, end) for (name, end), low in zip(WINNERS, lows, strict=False)]


def test_sizes_are_dense_and_mostly_not_round() -> None:
    """16 an octave and more up to the largest itself, multiples of 4 that no grid would have."""
    sizes = [n for low, high, step in truth.octaves(*SPAN) for n in range(low, high + 1, step)]
    assert sizes == sorted(set(sizes))
    assert (sizes[0], sizes[-1]) == SPAN
    assert all(n % 4 == 0 for n in sizes)
    steps = [after / n for n, after in pairwise(sizes) if n >= 64]
    assert max(steps) <= 1 + 1 / 16
    large = [n for n in sizes if n >= KIB]
    assert sum(n % 8 != 0 for n in large) > 0.4 * len(large)


@pytest.mark.parametrize("name", ["plain", "mixed", "between", "wrong", "drift", "bursts"])
def test_a_file_without_rules_loses_nothing_and_keeps_nothing(judged: Judge, name: str) -> None:
    """It is the untouched library, with our plugin in it."""
    found = judged(name, file_of())
    assert (found.n_rules, found.worst_loss, found.kept, found.n_wrong) == (0, 0, 0, 0)


@pytest.mark.parametrize("name", ["plain", "drift", "bursts", "one-rank-without", "bypass"])
def test_the_nodes_own_winners_keep_everything(judged: Judge, name: str) -> None:
    """And lose nothing, where no trap is in their way; ends are theirs to a few bytes."""
    found = judged(name, file_of(*winners()))
    assert found.n_rules == 3
    assert found.worst_loss <= 0.001
    assert found.kept == pytest.approx(1, abs=1e-3)


def test_a_rule_behind_costs_what_the_node_says(judged: Judge) -> None:
    """ring/ll128 falls behind with the fourth root of the size beyond 5 MiB."""
    found = judged("plain", file_of(rule("ring/ll128", 0, MAX_NBYTES)))
    at_the_end = (128 / 5) ** 0.25 - 1
    small = 4.0 / 1.4 - 1  # far below its sizes, four times the best
    assert found.worst_loss == pytest.approx(max(at_the_end, small), rel=1e-3)


def test_half_of_the_rules_keep_their_half(judged: Judge) -> None:
    """All three gain the same factor over about as many sizes as their ranges have octaves."""
    found = judged("plain", file_of(winners()[0]))
    whole = judged("plain", file_of(*winners()))
    assert 0 < found.kept < 0.8 * whole.kept
    assert found.worst_loss <= 0.001


@pytest.mark.parametrize("name", ["mixed", "between"])
def test_a_trap_costs_60_percent(judged: Judge, name: str) -> None:
    """Against untouched; what the other two rules gain is all that counts as available."""
    first, _, last = winners()
    # Away from its edges, where a node file's points are a quarter of an octave apart.
    inner = rule("tree/ll128", 50 * KIB, 400 * KIB)
    trapped = judged(name, file_of(first, inner, last))
    assert trapped.worst_loss == pytest.approx(0.6, rel=1e-3)
    assert 40 * KIB < trapped.worst_at < 500 * KIB
    assert trapped.worst_choice == "tree/ll128"
    without = judged(name, file_of(first, last))
    assert without.worst_loss <= 0.001
    assert without.kept == pytest.approx(1, abs=1e-3)


def test_a_setting_alone_in_its_job_is_not_mixed(judged: Judge) -> None:
    """One rule for every size: nothing else runs, so it is as fast as the sweep said."""
    found = judged("mixed", file_of(rule("tree/ll128", 0, MAX_NBYTES)))
    # At 128 MiB, four times the best, which the library has there; with the trap it were nine times.
    assert found.worst_loss == pytest.approx(3, rel=1e-3)
    assert found.worst_choice == "tree/ll128"


def test_the_rule_between_is_fine_at_every_power_of_two(tmp_path: Path) -> None:
    """So that no sweep of powers of two can see it."""
    known = truth.yardstick(named("between"), tmp_path, SPAN)
    text = tmp_path / "rules.csv"
    text.write_text(file_of(*winners()), encoding="utf-8")
    forced = truth.ran(
        known.path,
        known.collectives,
        SPAN,
        {
            "NCCL_TUNER_PLUGIN": str(plugin.library()),
            "NCCL_TUNER_CONFIG_FILE": str(text),
        },
    )
    for size in (1 << power for power in range(16, 19)):
        own, ours = (ran["all_reduce", size, False] for ran in (known.untouched, forced))
        assert (own.what, ours.what) == ("ring/ll", "tree/ll128")
        assert own.time_us / ours.time_us == pytest.approx(1.4, rel=1e-3)


def test_ranges_near_powers_of_two_are_found(judged: Judge) -> None:
    """Each of both settings has its own; the third has none."""
    first, second, third = winners()
    for bad in (second, third):
        assert judged("between-edges", file_of(first, bad)).worst_loss >= 0.599
    good = judged("between-edges", file_of(first))
    assert good.worst_loss <= 0.001
    assert good.kept == pytest.approx(1, abs=1e-3)


def test_every_collective_is_judged_by_its_own_rules(judged: Judge) -> None:
    """The trap is reduce_scatter's: the same setting stays all_reduce's."""
    own = Collective.REDUCE_SCATTER
    rules = [
        *winners(),
        rule("ring/ll128", 0, MIB, own),
        rule("ring/simple", MIB + 1, 30 * MIB, own),
    ]
    found = judged("two-collectives", file_of(*rules))
    assert (found.n_rules, found.n_idle) == (5, 0)
    assert (found.worst_collective, found.worst_choice) == ("reduce_scatter", "ring/ll128")
    assert found.worst_loss == pytest.approx(0.6, rel=1e-3)
    mended = judged("two-collectives", file_of(*winners(), rules[-1]))
    assert mended.worst_loss <= 0.001
    # Between 16 and 32 MiB the library turns to ring/simple itself.
    assert mended.kept == pytest.approx(1, abs=5e-3)
    assert judged("two-collectives", file_of(*winners())).kept < 0.95


def test_wrong_results_are_counted(judged: Judge) -> None:
    """From 98 to 124 KiB, both halves; a file that stops before has none."""
    first, second, last = winners()
    bad = judged("wrong", file_of(first, second, last))
    step = 64 * KIB // 16 - 4
    sizes = [n for n in range(64 * KIB, 128 * KIB, step) if 98 * KIB <= n <= 124 * KIB]
    assert bad.n_wrong == 2 * len(sizes) > 0
    narrowed = rule("tree/ll128", second.min_nbytes, 98 * KIB - 1)
    assert judged("wrong", file_of(first, narrowed, last)).n_wrong == 0


def test_a_setting_with_wrong_results_is_nothing_that_could_be_kept(
    judged: Judge,
) -> None:
    """Dropping it costs no gain."""
    first, _, last = winners()
    assert judged("wrong", file_of(first, last)).kept == pytest.approx(1, abs=1e-3)


def test_a_rule_inside_a_bypass_decides_nothing(judged: Judge) -> None:
    """It neither gains nor loses, and is told."""
    found = judged("bypass", file_of(rule("ring/simple", 32 * KIB, 128 * KIB)))
    assert (found.n_rules, found.n_idle, found.worst_loss, found.kept) == (1, 1, 0, 0)


def test_a_file_that_the_plugin_refuses_is_no_verdict(judged: Judge) -> None:
    """The job does not start; that is an error and not a loss."""
    with pytest.raises(subprocess.CalledProcessError):
        judged("plain", "allreduce,5,1,tree,ll,-1,-1,-1,-1,-1\n")


def test_one_rank_without_the_plugin_hangs_the_job(tmp_path: Path) -> None:
    """Only once the node is spoilt, and only where a rule answers otherwise than the library."""
    node = named("one-rank-without")
    path = nodes.write_node(node, tmp_path)
    nodes.spoil(named("plain"), path, tmp_path)
    assert not (tmp_path / nodes.NODE_FILE).exists()
    nodes.spoil(node, path, tmp_path)
    text = tmp_path / "rules.csv"
    text.write_text(file_of(winners()[0]), encoding="utf-8")

    def code(size: int) -> int:
        done = subprocess.run(
            [
                plugin.native_folder() / "sim" / "all_reduce_perf",
                *f"-b {size} -e {size} -n 1 -w 0 -c 0 -T 1".split(),
            ],
            env={
                "PATH": os.environ["PATH"],
                "RCCLTUNE_SIM_NODE": str(tmp_path / nodes.NODE_FILE),
                "RCCLTUNE_SIM_SHM_DIR": str(tmp_path),
                "NCCL_TUNER_PLUGIN": str(plugin.library()),
                "NCCL_TUNER_CONFIG_FILE": str(text),
            },
            capture_output=True,
            check=False,
        )
        return done.returncode

    timed_out = 4
    assert (code(8 * KIB), code(8 * MIB)) == (timed_out, 0)


def test_changes_are_counted_by_rule() -> None:
    """Kept or widened, narrowed, split, dropped, and replaced by another setting."""
    before = [rule("ring/ll", low, low + 99) for low in (0, 100, 200, 300, 400)]
    after = [
        rule("ring/ll", 0, 99),
        rule("ring/ll", 150, 199),
        rule("ring/ll", 200, 220),
        rule("ring/ll", 240, 299),
        rule("tree/ll", 400, 499),
    ]
    assert verdicts.changes(before, after) == (2, 2)
    assert verdicts.changes(before, []) == (5, 0)


def run(
    code: int | None,
    *,
    loss: float = 0.0,
    kept: float | None = 1.0,
    **more: float,
) -> verdicts.Run:
    """A seed as it might have ended."""
    figures = {"n_rules": 1, "n_idle": 0, "worst_at": 16, "n_wrong": 0}
    figures |= more
    mean = figures.pop("mean", 0.0)
    words = {"worst_choice": "ring/ll", "worst_collective": "all_reduce"}
    bad = truth.Judged(
        worst_loss=0.6, mean_loss=0.1, kept=0.5, **words, **(figures | {"n_wrong": 2})
    )
    good = truth.Judged(worst_loss=loss, mean_loss=mean, kept=kept, **words, **figures)
    arms = {"unverified": bad}
    if code is not None:
        arms["verified"] = good
    return verdicts.Run(node="n", seed=3, judged=arms, exit_code=code, said="words")


@pytest.mark.parametrize(
    ("code", "more", "missed"),
    [
        (0, {"loss": 0.02}, []),
        (9, {}, []),
        (None, {}, []),
        (0, {"kept": None}, []),
        (0, {"loss": 0.021}, ["worst loss"]),
        (0, {"mean": 0.006}, ["worst loss"]),
        (0, {"n_wrong": 1}, ["worst loss"]),
        (0, {"kept": 0.94}, ["gain kept"]),
        (1, {}, ["exit code"]),
        (-1, {"loss": 0.03}, ["exit code", "worst loss"]),
    ],
)
def test_goals_are_those_of_the_issue(
    code: int | None,
    more: dict[str, float | None],
    missed: Sequence[str],
) -> None:
    """Of the verified files alone: what the others lose is shown and not judged."""
    one = run(code, **more)
    found = verdicts.verdict(named("plain"), [one])
    assert found.missed == missed
    assert bool(found.complaints) == bool(missed)
    assert found.arms["unverified"].n_losing == 1


@pytest.mark.parametrize(("code", "missed"), [(0, ["exit code"]), (5, []), (9, [])])
def test_a_job_with_one_rank_without_never_passes(code: int, missed: Sequence[str]) -> None:
    """Whatever the file that is left would do where every rank has it."""
    node = named("one-rank-without")
    found = verdicts.verdict(node, [run(code, loss=1.0)])
    assert found.missed == missed


def test_a_verification_sees_what_begins_after_the_sweep(bench: ModuleType, tmp_path: Path) -> None:
    """The bench reads node files once, and this one is written again."""
    wish = bench.Wish(min_bytes=8, max_bytes=MIB, verifies=True, options=(), timeout_s=120.0)
    node = named("one-rank-no-file")
    known = truth.yardstick(node, tmp_path, (8, MIB))
    assert bench.run_once(node.name, 0, known, wish, tmp_path).exit_code in (5, 9)


def test_gain_is_the_share_of_logarithms_beyond_the_tolerance(
    judged: Judge,
) -> None:
    """A rule within 2 % of the best keeps all; one that takes half of log 1.4 less 2 % keeps half.

    Both from tree/ll128 in sizes of tree/ll: behind with the square of the distance to 40 KiB.
    """
    first, second, last = winners()
    near = int(40 * KIB / 1.02**0.5) + 4
    whole = judged(
        "plain",
        file_of(rule("tree/ll", 0, near - 1), rule("tree/ll128", near, second.max_nbytes), last),
    )
    assert whole.kept == pytest.approx(1, abs=1e-3)
    far = int(40 * KIB / 1.4**0.5) + 4
    some = judged(
        "plain",
        file_of(rule("tree/ll", 0, far - 1), rule("tree/ll128", far, second.max_nbytes), last),
    )
    lost = 1 - some.kept
    octaves = log2(1.4**0.5)
    # A triangle over these octaves, of all from 8 B to 5 MiB.
    assert lost == pytest.approx(0.5 * octaves / log2(5 * MIB / 8), rel=0.5)
    assert first.max_nbytes > far


@pytest.fixture
def wish(bench: ModuleType) -> Wish:
    """A small run."""
    return bench.Wish(min_bytes=8, max_bytes=MIB, verifies=True, options=(), timeout_s=600.0)


def test_one_seed_from_the_sweep_to_the_verdict(
    bench: ModuleType,
    wish: Wish,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a verification that knows the trap: the file before it loses and the one after does not."""

    def knowing(session: Path, _: Wish) -> Verified:
        [path] = session.glob("rccl_tuner_*.csv")
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        # What says how many rows there are goes with the rows.
        gone = (",tree,ll128,", "#@ format ", "#@ end ")
        kept = [line for line in lines if not any(one in line for one in gone)]
        path.write_text("".join(kept), encoding="utf-8")
        return bench.Verified(exit_code=0, wall_s=1.0, said="")

    monkeypatch.setattr(bench, "verify", knowing)
    known = truth.yardstick(named("between"), tmp_path, (wish.min_bytes, wish.max_bytes))
    found = bench.run_once("between", 0, known, wish, tmp_path)
    assert found.judged["unverified"].worst_loss > 0.5
    assert found.judged["verified"].worst_loss <= 0.02
    assert found.exit_code == 0
    assert found.n_dropped >= 1
    assert verdicts.verdict(named("between"), [found]).missed == []
    assert list(tmp_path.glob("between-*")) == []


def test_a_verification_that_hangs_is_an_exit_code_of_its_own(
    bench: ModuleType, wish: Wish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which no node expects."""
    monkeypatch.setattr(bench, "rccltune_main", lambda: time.sleep(60))
    done = bench.verify(tmp_path, replace(wish, timeout_s=0.5))
    assert done.exit_code == -1
    assert lacks(done.said, "still running") == []


def test_a_file_that_was_taken_away_is_none(bench: ModuleType, tmp_path: Path) -> None:
    """The first by name is what users are told to use."""
    assert bench.file_of(tmp_path) is None
    (tmp_path / "rccl_tuner_gfx942_cpx-nps4.csv").write_text("a", encoding="ascii")
    (tmp_path / "rccl_tuner_gfx942_cpx-nps4.unverified.csv").write_text("b", encoding="ascii")
    assert bench.file_of(tmp_path) == "a"
