"""``sweep --scales``: each scale a session of its own, and all of them one folder afterwards."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yamls

from rccltune import plugin
from rccltune.cli import run
from rccltune.session import store
from rccltune.simulate import sources

SMALL = (
    *("--collective", "all_reduce", "--min-bytes", "4K", "--max-bytes", "16K"),
    *("--setting", "ring/ll", "--setting", "ring/simple"),
    *("--launcher", "none"),
)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hosts with two devices each, where ring/ll is far better at both scales."""
    if not (plugin.native_folder() / "sim" / "all_reduce_perf").is_file():
        pytest.skip("this install has no stand-in benchmarks")
    monkeypatch.chdir(tmp_path)
    raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    raw["scale"] |= {"ranks": 4, "nodes": 2, "devices_per_oam": 2}
    del raw["scale"]["devices_per_iod"]
    places = ((4, "node"), (2, "one-oam"))
    raw["fill"] = [{"ranks": n_ranks, "placement": name} for n_ranks, name in places]
    whole = [curve for curve in raw["curves"] if curve.get("placement") == "node"]
    raw["curves"] = [_quick(curve, *place) for place in places for curve in whole]
    path = tmp_path / "node.yaml"
    path.write_text(yamls.dumped(raw), encoding="utf-8")
    return path


def _quick(curve: dict[str, Any], n_ranks: int, placement: str) -> dict[str, Any]:
    better = 4 if (curve["collective"], curve["setting"]) == ("all_reduce", "ring/ll") else 1
    points = [[nbytes, time_us / better] for nbytes, time_us in curve["points"]]
    return {**curve, "ranks": n_ranks, "placement": placement, "points": points}


def sweep(node: Path, *more: str) -> int:
    """With a folder for all of them."""
    where = ("--mode", "cpx-nps4", "--simulate", str(node), "-o", "all")
    return run(["sweep", "--runner", "rccl-tests", *where, *SMALL, *more])


def scales_of(folder: Path) -> set[tuple[int, int]]:
    """Nodes and ranks of what a session holds."""
    found = store.stored_samples(store.open_session(folder))
    assert found is not None
    return set(zip(found["n_nodes"], found["n_ranks"], strict=True))


def test_each_scale_has_its_session_and_its_rules(
    node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two nodes' rules are not one node's; the folder stands for both sessions."""
    assert sweep(node, "--scales", "2x4,1x2") == 0
    assert scales_of(Path("all/1x2")) == {(1, 2)}
    assert scales_of(Path("all/2x4")) == {(2, 4)}
    capsys.readouterr()

    assert run(["emit-config", "all", "--json"]) == 0
    # Beside the sessions, since it is of all of them.
    (file,) = Path("all").glob("*.csv")
    text = file.read_text()
    assert "#@ section allreduce nodes=1 ranks=2\n" in text
    assert re.findall(r"^allreduce,.*,ring,ll,-1,(\d+),(\d+)", text, re.MULTILINE)[-1] == ("2", "4")
    capsys.readouterr()
    assert run(["fit", "all", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["sessions"]) == 2
    # What each keeps of the wish is of its own scale: a second sweep needs no more.
    first = {path.name for path in Path("all/1x2/runs").iterdir()}
    assert sweep(node, "--scales", "1x2") == 0
    assert {path.name for path in Path("all/1x2/runs").iterdir()} == first
    capsys.readouterr()

    again = ("-c", "all/1x2/sweep.yaml", "-o", "all/1x2", "--plan", "--json")
    assert run(["sweep", "--runner", "rccl-tests", *again]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--scales", "1x2", "--np", "2"], "--np and --scales both say how many ranks"),
        (["--scales", "2x3"], "3 ranks are not the same number on each of 2 nodes"),
        (["--scales", "2"], "'2' is no scale: write 2x128"),
        (["--scales", "4x2"], "2 ranks on 4 nodes is no scale"),
        (["--scales", "1x2,2x2"], "--scales 2x2 cannot be had here"),
    ],
)
def test_scales_that_cannot_be(
    node: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    """Exit code 2, with the one that is wrong."""
    assert sweep(node, *more, "--plan") == 2
    assert said in capsys.readouterr().err


def test_fit_splits_latency_over_the_scales_of_a_folder(
    node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RCCL's closed form for ring/ll, 12 + 2(n-1) x 0.9 us; nothing over other numbers of nodes."""
    for n_ranks in (16, 32, 64):
        times = ((2**n, 12 + 2 * (n_ranks - 1) * 0.9 + 2**n / 2e4) for n in range(5, 24))
        rows = "".join(f"all_reduce,{n_ranks},1,{n},ring,ll,{us}\n" for n, us in times)
        table = Path(f"{n_ranks}.csv")
        table.write_text(f"collective,ranks,nodes,bytes,algorithm,protocol,time_us\n{rows}")
        assert run(["import", str(table), "-o", f"all/1x{n_ranks}", "-q"]) == 0
    capsys.readouterr()
    assert run(["fit", "all"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "16, 32, 64" in line)
    assert "12 µs" in row
    assert "0.9 µs" in row
    assert "30, 62, 126" in row
    assert run(["fit", "all", "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["separations"]
    assert (round(found["base_us"], 3), round(found["per_step_us"], 3)) == (12, 0.9)
    for name, table in (("1x2", "2,1"), ("2x4", "4,2")):
        Path("one.csv").write_text(
            "collective,ranks,nodes,bytes,algorithm,protocol,time_us\n"
            f"all_reduce,{table},1024,ring,ll,20\nall_reduce,{table},4096,ring,ll,30\n"
        )
        assert run(["import", "one.csv", "-o", f"two/{name}", "-q"]) == 0
    capsys.readouterr()
    assert run(["fit", "two"]) == 0
    assert "have no two" in " ".join(capsys.readouterr().out.split())
