"""Whether the ways of measuring agree, on simulated nodes where it is known whether they do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import yamls

from rccltune import plugin
from rccltune.cli import run
from rccltune.fit.session import fit_session
from rccltune.model.curves import Curve
from rccltune.model.reporter import Reporter
from rccltune.model.settings import BASELINE
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
