"""What loading the plugin changes, on simulated nodes where it is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import yamls

from rccltune import plugin
from rccltune.analyse.fit import fit_session
from rccltune.analyse.options import ChoiceOptions
from rccltune.cli import run
from rccltune.model.curves import Curve
from rccltune.model.reporter import Reporter
from rccltune.model.settings import BASELINE, DEFAULT_VARIANT
from rccltune.perf.samples import IDLE
from rccltune.rules.choices import choice_of
from rccltune.rules.reader import read_rules
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
    changes = [(one["target"], one["changes"]) for one in json.loads(said.out)["idle"]]
    [(_, [change])] = [one for one in changes if one[0]["variant"] == {}]
    assert (change["min_nbytes"], change["max_nbytes"]) == (1024, 64 << 10)

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
    assert {one.n_sizes for one in done.idle} == {10}
    assert all(not one.changes for one in done.idle)
    assert launches_of_baseline(done.curves) == {3}

    found = choice_of(done, ChoiceOptions()).compared
    [compared] = (one for one in found if one.target.variant == DEFAULT_VARIANT)
    assert compared.standing.library is not None
    idle = compared.grid.of(compared.grid.candidates.index((IDLE, "default")))
    np.testing.assert_array_equal(compared.standing.library.log_us, idle.log_us)


def launches_of_baseline(curves: Sequence[Curve]) -> set[int]:
    """Behind each of its points, those that stalled included."""
    points = [p for c in curves if c.key.setting == BASELINE for p in c.points]
    return {p.n_communicators + p.n_left_out for p in points}


@pytest.mark.parametrize("version", [{}, {"version": 2}])
def test_a_fit_from_before_there_was_a_comparison_is_made_again(
    here: Path, version: dict[str, int]
) -> None:
    """Its file is current by its samples, but of another version it lacks what is asked of it."""
    assert sweep(node(here), "--communicators", "1") == 0
    assert run(["fit", "-v"]) == 0
    written = json.loads((SESSION / "fit.json").read_text())
    gone = {"version", "idle", "own"}
    older = {k: v for k, v in written.items() if k not in gone} | version
    (SESSION / "fit.json").write_text(json.dumps(older))
    assert run(["emit-config", "-o", "-"]) == 0
    assert json.loads((SESSION / "fit.json").read_text()) == written
