"""Why sides differ: choice, kernel, path or unknown."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from comparisons import table
from wording import lacks

from rccltune.cli import run
from rccltune.compare import results
from rccltune.compare.reasons import (
    Reason,
    SizeReason,
    add_reasons,
    find_reason,
    find_why_not,
    judge_third_side,
    sentence,
    unknown,
)
from rccltune.compare.restoring import find_placement, make_zones, restore
from rccltune.measure.real_rccl import real_library
from rccltune.model.errors import MachineError
from rccltune.model.estimate import Estimate
from rccltune.model.settings import RankLocation, Scale, Setting, Target
from rccltune.model.verdict import Verdict
from rccltune.model.vocabulary import Collective
from rccltune.ranks import runs
from rccltune.ranks.plan import setting_of
from rccltune.rules.rule_file import read_rules

KIB = 1 << 10


@pytest.mark.parametrize(
    ("a_ran", "b_ran", "reason"),
    [
        ("ring/ll/16", "ring/ll/16", "kernel"),
        ("DDA (no tuner)", "ring/ll/16", "path"),
        ("ring/ll", "MSCCL (no tuner)", "path"),
        ("DDA (no tuner)", "DDA (no tuner)", "kernel"),
        ("perhaps DDA", "ring/ll/16", "unknown"),
        ("", "ring/ll/16", "unknown"),
        ("ring/ll/16", "?", "unknown"),
        # The kernels are one only where the channels are.
        ("ring/ll", "ring/ll/16", "unknown"),
        ("ring/ll", "ring/ll", "unknown"),
    ],
)
def test_what_ran_may_say_it_already(a_ran: str, b_ran: str, reason: str) -> None:
    """No third side is needed, or none would help."""
    found = find_reason(a_ran, b_ran)
    assert isinstance(found, SizeReason)
    assert found.reason.value == reason
    assert (found.because == "") == (reason != "unknown")


@pytest.mark.parametrize(
    ("a_ran", "b_ran"),
    [("tree/ll/8", "ring/ll/16"), ("tree/ll/8", "tree/ll/16"), ("tree/ll", "ring/ll/16")],
)
def test_else_b_is_told_what_a_ran(a_ran: str, b_ran: str) -> None:
    """Algorithm, protocol and channels, as far as they are known."""
    assert find_reason(a_ran, b_ran) == Setting.parse(a_ran)


@pytest.mark.parametrize(
    ("verdict", "told", "reason"),
    [
        ("slower", "equal", "choice"),
        ("slower", "faster", "choice"),
        ("slower", "slower", "kernel"),
        ("slower", "undecided", "unknown"),
        # B is faster since it chose better, though its kernels may be slower.
        ("faster", "equal", "choice"),
        ("faster", "slower", "choice"),
        ("faster", "faster", "kernel"),
    ],
)
def test_the_third_side_tells_choice_from_kernel(verdict: str, told: str, reason: str) -> None:
    """By how B is with A's setting."""
    found = judge_third_side(Verdict(verdict), Verdict(told), estimate(1.0, 0.99, 1.01))
    assert found.reason.value == reason


def estimate(value: float, low: float, high: float) -> Estimate:
    """A ratio of eight starts."""
    return Estimate(value=value, low=low, high=high, n=8)


def rows(n: int, reason: SizeReason, **columns: str | float) -> pd.DataFrame:
    """Neighbouring sizes from 64 KiB on at which B is 12 % slower."""
    own = {
        "collective": "all_reduce",
        "nbytes": [64 * KIB << i for i in range(n)],
        "verdict": "slower",
        "ratio": 1.12,
        "low": 1.10,
        "high": 1.14,
        "a_ran": "tree/ll/8",
        "b_ran": "ring/ll/16",
        **columns,
    }
    found = pd.DataFrame(own)
    cells = zip(found["collective"], found["nbytes"], strict=True)
    return add_reasons(found, dict.fromkeys(cells, reason))


def said(found: pd.DataFrame) -> str:
    """Of all rows."""
    return sentence([{str(k): v for k, v in row.items()} for row in found.to_dict("records")])


def test_a_choice_in_words() -> None:
    """As the issue has it."""
    reason = SizeReason(reason=Reason.CHOICE, told=Verdict.EQUAL, ratio=estimate(1.0, 0.99, 1.01))
    assert said(rows(3, reason)) == (
        "64 KiB to 256 KiB: 1.12x slower (1.10 to 1.14): B chose ring/ll/16 where A chose "
        "tree/ll/8; with tree/ll/8 B is equal"
    )


def test_other_reasons_in_words() -> None:
    """A kernel by how much, one that both ran, a path, and what is not known."""
    slow = SizeReason(reason=Reason.KERNEL, told=Verdict.SLOWER, ratio=estimate(1.2, 1.1, 1.3))
    assert said(rows(1, slow)).startswith("64 KiB: 1.12x slower")
    assert said(rows(1, slow)).endswith("with tree/ll/8 B is 1.20x slower (1.10 to 1.30)")
    same = rows(2, SizeReason(reason=Reason.KERNEL), b_ran="tree/ll/8")
    assert said(same).endswith(": both ran tree/ll/8")
    path = rows(2, SizeReason(reason=Reason.PATH), a_ran="DDA (no tuner)")
    assert said(path).endswith(": another path: A ran DDA (no tuner), B ring/ll/16")
    few = rows(2, SizeReason(reason=Reason.CHANNELS), a_ran="ring/ll/24")
    assert said(few).endswith("A ran ring/ll/24, B ring/ll/16, also where B is told A's setting")
    assert "not known: B fails with tree/ll/8" in said(rows(2, unknown("B fails with tree/ll/8")))


def test_faster_is_told_as_a_speed_up() -> None:
    """0.5 of the time is 2.00x faster."""
    reason = SizeReason(reason=Reason.KERNEL)
    found = rows(1, reason, verdict="faster", ratio=0.5, low=0.4, high=0.8, b_ran="tree/ll/8")
    assert said(found) == "64 KiB: 2.00x faster (1.25 to 2.50): both ran tree/ll/8"


def test_a_range_has_one_reason() -> None:
    """Slower by choice beside slower by a kernel are two."""
    both = pd.concat([rows(1, SizeReason(reason=Reason.CHOICE)), rows(2, unknown("why")).iloc[1:]])
    found = list(results.ranges_of(both))
    assert [(one.reason, one.n_sizes) for one in found] == [("choice", 1), ("unknown", 1)]


# Of B alone: ring/simple is slower from 512 KiB on.
SLOW_KERNEL = {
    "variants": [{"name": "other", "when": {"env": {"NCCL_NTHREADS": "256"}}}],
    "effects": [
        {
            "variant": "other",
            "setting": "ring/simple",
            "factor": 1.2,
            "bytes": [480 << 10, 1 << 40],
        }
    ],
}


def test_planted_changes_are_told_apart(
    compare: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """RCCL 2.27.7 takes ring/simple from 128 KiB on, 2.28.3 from 181 KiB on; and a slow kernel.

    By the node file ring/simple takes 41 µs at 128 KiB and ring/ll 98 µs.
    """
    a, b = "RCCLTUNE_SIM_RELEASE=2.27.7", "NCCL_NTHREADS=256"
    sizes = ("--min-bytes", "64K", "--max-bytes", "512K")
    assert compare(a, b, *sizes, **SLOW_KERNEL) == 9
    found = table()
    assert found.loc[128 << 10, ["verdict", "reason", "told"]].tolist() == [
        "slower",
        "choice",
        "equal",
    ]
    assert found.loc[512 << 10, ["verdict", "reason"]].tolist() == ["slower", "kernel"]
    assert found.loc[64 << 10, "reason"] == ""
    out = " ".join(capsys.readouterr().out.split())
    assert (
        lacks(out, "B chose ring/ll/", "where A chose ring/simple/", "both ran ring/simple") == []
    )
    # A, B and the third side in turns: asked first, then six starts of each.
    (folder,) = Path("c/reasons").iterdir()
    made = runs.read_runs(folder)
    assert [one.steps[0].label.purpose[-1] for one in made] == [*"abc", *"abccba" * 3]
    # The old choice is given back where that was faster on B, and bound to B's release.
    assert "restore.csv" in out
    rules = read_rules(Path("c/restore.csv").read_bytes())
    assert rules.library == "RCCL 2.28.3"
    first = rules.rules[0]
    assert (first.min_nbytes, first.setting) == (128 << 10, Setting.parse("ring/simple/8"))
    assert max(one.max_nbytes for one in rules.rules) < 181 << 10
    assert "export NCCL_TUNER_CONFIG_FILE=" in Path("c/restore.env").read_text()
    where = ("--simulate", "node.yaml", "--mode", "spx-nps1")
    assert run(["check", "--rules", "c/restore.csv", *where]) == 0
    # The same command measures nothing more.
    assert compare(a, b, *sizes, **SLOW_KERNEL) == 9
    assert len(runs.read_runs(folder)) == len(made)


@pytest.mark.long
def test_a_setting_that_b_does_not_run_explains_nothing(compare: Callable[..., int]) -> None:
    """RCCL_OVERRIDE_ALGO and _PROTO choose behind a tuner."""
    overridden = "RCCL_OVERRIDE_ALGO=tree+RCCL_OVERRIDE_PROTO=ll"
    assert compare("site", overridden, "--min-bytes", "16K", "--max-bytes", "16K") == 9
    found = table()
    assert found.loc[16 << 10, "reason"] == "unknown"
    assert "runs tree/ll" in found.loc[16 << 10, "because"]


@pytest.mark.parametrize(
    ("ran", "reason", "because"),
    [
        ("ring/ll/16", None, ""),
        ("ring/ll/8", Reason.CHANNELS, ""),
        ("tree/ll/16", Reason.UNKNOWN, "B told ring/ll/16 runs tree/ll/16"),
        ("?", Reason.UNKNOWN, "B told ring/ll/16 does not say what it ran"),
    ],
)
def test_a_bound_on_channels_is_a_reason(ran: str, reason: Reason | None, because: str) -> None:
    """NCCL_MAX_NCHANNELS=8 cuts what a tuner asks for, too: seen on 2 x H200, NCCL 2.28.9."""
    found = find_why_not(Setting.parse("ring/ll/16"), setting_of(ran))
    assert (found.reason if found else None) is reason
    assert (found.because if found else "") == because


RING = Setting.parse("ring/ll/8")
TREE = Setting.parse("tree/ll/8")
TARGET = Target(
    collective=Collective.ALL_REDUCE, scale=Scale(n_nodes=1, n_ranks=8), rank_placement="node"
)


def test_every_size_is_in_a_rule_or_left_to_the_library() -> None:
    """A rule ends at its last size, or before the next one's first."""
    gains = [Estimate(value=one, low=one - 0.1, high=one + 0.1, n=8) for one in (1.2, 1.5, 1.8)]
    chosen = {200: (RING, gains[0]), 400: (RING, gains[1]), 800: (TREE, gains[2])}
    found = list(make_zones(TARGET, [100, 200, 400, 800, 1600], chosen))
    left, more = "the old choice is not proven to be faster", "not measured"
    assert [(one.min_nbytes, one.max_nbytes, one.setting or one.reason) for one in found] == [
        (0, 99, more),
        (100, 199, left),
        (200, 799, RING),
        (800, 800, TREE),
        (801, 1600, left),
        (1601, 2**63 - 1, more),
    ]
    assert found[2].gain is not None
    assert (found[2].gain.low, found[2].gain.high) == pytest.approx((1.1, 1.6))
    assert found[2].gain.value == pytest.approx((1.2 * 1.5) ** 0.5)
    assert [one.setting for one in make_zones(TARGET, [100, 200], {})] == [None] * 3


def test_rules_are_for_the_placement_that_was_measured() -> None:
    """Unless the ranks fill the node, or can lie in no other."""
    some = Scale(n_nodes=1, n_ranks=4)
    assert find_placement(RankLocation(name="node", scale=some)) is None
    assert find_placement(RankLocation(name="one-oam", scale=some)) == "one-oam"
    both = ("one-oam", "one-per-oam")
    assert find_placement(RankLocation(name="one-oam", scale=some, equivalent=both)) == "one-oam"
    assert find_placement(RankLocation(name="one-oam", scale=some, equivalent=both[:1])) is None


def test_b_that_fails_with_the_old_setting_explains_nothing(compare: Callable[..., int]) -> None:
    """Its own choice was timed all the same."""
    other = [{"name": "other", "when": {"env": {"NCCL_NTHREADS": "256"}}}]
    crash = {"kind": "crash", "how": "segv", "rank": 1, "setting": "ring/simple"}
    faults = [{**crash, "bytes": [128 << 10, 128 << 10], "variant": "other"}]
    a, b = "RCCLTUNE_SIM_RELEASE=2.27.7", "NCCL_NTHREADS=256"
    sizes = ("--min-bytes", "128K", "--max-bytes", "128K")
    assert compare(a, b, *sizes, variants=other, faults=faults) == 9
    found = table()
    assert found.loc[128 << 10, ["verdict", "reason"]].tolist() == ["slower", "unknown"]
    assert "B fails with ring/simple/8" in found.loc[128 << 10, "because"]
    assert not Path("c/restore.csv").exists()


def test_rules_of_before_go(tmp_path: Path) -> None:
    """Where nothing is restored any more, no file may say so."""
    found = results.ComparisonResult(
        folder=tmp_path,
        a="old",
        b="new",
        table=pd.DataFrame(),
        question={},
        margin=0.03,
        repeats="starts",
        n_starts=8,
        seconds=1.0,
    )
    for name in ("restore.csv", "restore.env"):
        (tmp_path / name).write_text("")
    nothing: Any = None
    assert restore(found, nothing, {}, nothing) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_choices_of_the_real_library_are_named(compare: Callable[..., int]) -> None:
    """RCCL 2.27.7, which decides and runs no kernels, against the stand-in as 2.28.3."""
    try:
        real_library(Path("real"), os.environ)
    except MachineError as error:
        pytest.skip(f"{error}: scripts/fetch-rccl fetches it")
    sizes = ("--min-bytes", "64K", "--max-bytes", "64K")
    assert compare("real", "RCCLTUNE_SIM_RELEASE=2.28.3", *sizes) == 9
    found = table().loc[64 << 10]
    assert found["a_ran"].startswith("ring/simple/")
    assert found["b_ran"].startswith("ring/ll/")
    assert found["reason"] == "choice"
