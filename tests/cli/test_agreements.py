"""Whether the ways of measuring agree, on simulated nodes where it is known whether they do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import yamls

from rccltune import plugin
from rccltune.analyse.options import ChoiceOptions
from rccltune.cli import run
from rccltune.fit import agreement
from rccltune.fit.session import fit_session
from rccltune.model.curves import Curve
from rccltune.model.reporter import Reporter
from rccltune.model.settings import BASELINE, DEFAULT_VARIANT
from rccltune.perf.samples import IDLE
from rccltune.rules.choices import choice_of
from rccltune.rules.reader import read_rules
from rccltune.session.samples import load_samples
from rccltune.simulate import sources

SMALL = ["--collective", "all_reduce", "--min-bytes", "1K", "--max-bytes", "512K"]
SESSION = Path("rccltune-session")
pytestmark = pytest.mark.usefixtures("stand_ins", "here", "whole")


def node(
    folder: Path,
    *,
    quiet: bool = True,
    effects: Sequence[object] = (),
) -> Path:
    """mi300x with these changes; quiet is without noise."""
    path = folder / "node.yaml"
    raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    raw["effects"] = [*raw.get("effects", []), *effects]
    if quiet:
        raw["noise"] = {"sigma": 0.0}
    path.write_text(yamls.dumped(raw), encoding="utf-8")
    return path


def sweep(path: Path, *more: str) -> int:
    """One simulated sweep in the working directory."""
    where = ["--simulate", str(path), "--mode", "cpx-nps4", "--launcher", "none"]
    return run(["sweep", "--runner", "rccl-tests", *where, *SMALL, *more])


def with_table(here: Path) -> tuple[Path, list[str]]:
    """A site that has a tuner of its own: tree/ll up to 64 KiB."""
    table = here / "site.csv"
    table.write_text("allreduce,0,65536,tree,ll,-1,1,64,-1,-1\n")
    site = {"NCCL_TUNER_PLUGIN": plugin.library(), "NCCL_TUNER_CONFIG_FILE": table}
    return node(here), [word for name in site for word in ("--env", f"{name}={site[name]}")]


def test_a_sites_own_tuner_is_told_and_gains_are_taken_against_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the library already runs tree/ll, tree/ll gains nothing, whatever it gains on silence."""
    path, told = with_table(here)
    assert sweep(path, *told) == 0
    capsys.readouterr()
    assert run(["fit", "--json", "-v"]) == 0
    said = capsys.readouterr()
    assert "slower from 1 KiB to 64 KiB" in " ".join(said.err.split())
    found = json.loads(said.out)["silence"]
    differing = [[s["nbytes"] for s in one["stretches"][0]["sizes"]] for one in found]
    assert differing == [[1024 << i for i in range(7)]] * 2

    assert run(["emit-config", "-o", "rules.csv", "-v"]) == 0
    assert "slower from 1 KiB to 64 KiB" in " ".join(capsys.readouterr().err.split())
    rules = read_rules((here / "rules.csv").read_bytes()).rules
    # The untouched library takes ring/ll from 128 KiB on, which tree/ll does beat.
    assert [str(rule.setting) for rule in rules] == ["tree/ll"]
    assert 64 << 10 < rules[0].min_nbytes < 128 << 10

    assert run(["plot", "-v"]) == 0
    assert "slower from 1 KiB to 64 KiB" in " ".join(capsys.readouterr().err.split())


def test_silence_that_is_the_site_stands_for_the_library_in_choosing(here: Path) -> None:
    """It ran in the launches of the settings; the baseline's curve is shown as it was measured."""
    assert sweep(node(here, quiet=False)) == 0
    done = fit_session(SESSION, reporter=Reporter())
    assert {one.n_sizes for one in done.agreements.silence} == {10}
    assert not done.agreements.notices
    assert all("agree within noise" in line for line in done.agreements.lines)
    assert launches_of_baseline(done.curves) == {3}

    found = choice_of(done, ChoiceOptions()).compared
    [compared] = (one for one in found if one.target.variant == DEFAULT_VARIANT)
    assert compared.standing.library is not None
    idle = compared.grid.of(compared.grid.candidates.index((IDLE, "default")))
    np.testing.assert_array_equal(compared.standing.library.log_us, idle.log_us)


def test_the_site_without_a_tuner_is_known_by_its_log(here: Path) -> None:
    """The simulated library says in its log which tuner it loads, as the real ones do."""
    assert sweep(node(here), "--communicators", "1") == 0
    assert fit_session(SESSION, reporter=Reporter()).agreements.tunerless
    path, told = with_table(here)
    assert sweep(path, *told, "--communicators", "1", "-o", "other") == 0
    found = fit_session(Path("other"), reporter=Reporter()).agreements
    assert found.tuner is not None
    assert not found.tunerless


def launches_of_baseline(curves: Sequence[Curve]) -> set[int]:
    """Behind each of its points, those that stalled included."""
    points = [p for c in curves if c.key.setting == BASELINE for p in c.points]
    return {p.n_launches + p.n_left_out for p in points}


@pytest.mark.usefixtures("per_setting")
def test_a_session_without_walks_compares_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And says nothing about it."""
    assert sweep(node(here), "--communicators", "1") == 0
    capsys.readouterr()
    assert run(["fit", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert (plain["silence"], plain["equivalence"]) == ([], [])
    assert run(["fit", "-v"]) == 0
    assert "silent" not in capsys.readouterr().out


@pytest.mark.parametrize("factor", [1.0, 1.12])
def test_walks_that_measure_something_else_are_told(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
    factor: float,
) -> None:
    """tree/ll is slow wherever its launch ran another setting before; alone it is not."""
    effect = {"setting": "tree/ll", "mixed": "launch", "factor": factor}
    path = node(here, effects=[effect])
    pair = ["--setting", "tree/ll", "--setting", "ring/simple"]
    assert sweep(path, *pair) == 0
    request.getfixturevalue("per_setting")
    assert sweep(path, *pair, "--communicators", "1") == 0
    capsys.readouterr()
    assert run(["fit", "-v"]) == 0
    said = capsys.readouterr()
    disagrees = factor > 1
    assert ("disagree for tree/ll" in said.err) is disagrees
    assert "disagree for ring/simple" not in said.err
    assert ("12 % slower from 1 KiB to 512 KiB" in said.err) is disagrees
    (line,) = [line for line in said.out.splitlines() if line.startswith("tree/ll in one launch")]
    wanted = "DIFFER beyond noise at 20 of 20" if disagrees else "agree within noise at all 20"
    assert wanted in line

    kept = json.loads((SESSION / "fit.json").read_text())["equivalence"]
    ratios = {(one["key"]["setting"]["algorithm"], round(one["median_ratio"], 2)) for one in kept}
    assert ratios == {("tree", factor), ("ring", 1.0)}
    done = fit_session(SESSION, reporter=Reporter())
    samples = load_samples(done.session, Reporter())
    assert agreement.agreements(samples, folder=SESSION) == done.agreements


@pytest.mark.parametrize("version", [{}, {"version": 1}])
def test_a_fit_from_before_there_was_a_comparison_is_made_again(
    here: Path, version: dict[str, int]
) -> None:
    """Its file is current by its samples, but of another version it lacks what is asked of it."""
    assert sweep(node(here), "--communicators", "1") == 0
    assert run(["fit", "-v"]) == 0
    written = json.loads((SESSION / "fit.json").read_text())
    gone = {"version", "silence", "equivalence", "tuner"}
    older = {k: v for k, v in written.items() if k not in gone} | version
    (SESSION / "fit.json").write_text(json.dumps(older))
    assert run(["emit-config", "-o", "-"]) == 0
    assert json.loads((SESSION / "fit.json").read_text()) == written
