"""Rules on a library that registers the buffers of captured calls, and is slower with them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yamls
from builds import make_session_once

from rccltune.cli import run
from rccltune.model.defaults import SESSION
from rccltune.model.units import format_size
from rccltune.rules.rule_file import read_rules

NODE = Path(__file__).resolve().parents[2] / "examples/nodes/smallest.yaml"
MIB = 1 << 20
ADVICE = (
    "these rules apply to unregistered buffers only. With captured graphs, set "
    "NCCL_GRAPH_REGISTER=0 to get them.\n"
)


@pytest.fixture(scope="session")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As two H200: above 1 MiB ring/simple wins, and not with registered buffers."""
    raw = yamls.loaded(NODE.read_text(encoding="utf-8"))
    raw["release"]["rccl"] = "2.30.4"
    # So that the library takes ring/ll up to 2 MiB.
    raw["library"]["graph"] = {
        name: {"channels": 32, "bw_intra": 100.0} for name in ("ring", "tree")
    }
    raw["variants"] = [{"name": "registered", "when": {"registered": True}}]
    slower = {"setting": "ring/simple", "variant": "registered"}
    raw["effects"] = [{**slower, "points": [[MIB, 1.0], [2 * MIB, 40.0]]}]

    def choose(folder: Path) -> None:
        (folder / "node.yaml").write_text(yamls.dumped(raw), encoding="utf-8")
        made, node = str(folder / SESSION), str(folder / "node.yaml")
        words = ["--simulate", node, "--mode", "spx-nps1", "--collective", "all_reduce"]
        sizes = ["--min-bytes", "16K", "--max-bytes", "8M", "--communicators", "2", "--np", "2"]
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("NCCL_GRAPH_REGISTER", raising=False)
            if run(["sweep", *words, *sizes, "-o", made, "-q"]) == 4:
                pytest.skip("this install has no rank program")
        assert run(["emit-config", made, "-q"]) == 0

    return make_session_once(tmp_path_factory, "registered", choose)


@pytest.fixture
def session(chosen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("NCCL_GRAPH_REGISTER", raising=False)
    return shutil.copytree(chosen, tmp_path / "s")


def test_a_rule_is_for_unregistered_buffers_where_registered_ones_are_slower(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And there alone; its file goes on working when it is verified again, as files of before do."""
    (path,) = session.glob("rccl_tuner*.csv")
    (before,) = read_rules(path.read_bytes()).rules
    capsys.readouterr()
    assert run(["verify", "s", "--no-confirm"]) == 0
    below, above = read_rules(path.read_bytes()).rules
    assert (below.reg_buff, above.reg_buff) == (None, 0)
    assert MIB <= below.max_nbytes < above.min_nbytes == below.max_nbytes + 1 < 2 * MIB
    assert (below.min_nbytes, above.max_nbytes) == (before.min_nbytes, before.max_nbytes)
    said = capsys.readouterr().out
    assert f"Above {format_size(above.min_nbytes)} {ADVICE}" in said
    assert "2 rules of 2 stand" in said
    text = path.read_text()
    unwrapped = text.replace("\n# verified: ", " ")
    assert "; for unregistered buffers only\n" in unwrapped
    assert "; with registered buffers 0." in unwrapped
    # ROCm 6.3 and 6.4 have nothing else, and get both.
    assert run(["explain", str(path)]) == 0
    assert "hosts of tuner ABI" not in capsys.readouterr().out

    Path("before.csv").write_text(
        "".join(f"{line}\n" for line in text.splitlines() if line[0] != "#")
    )
    assert (
        run(["verify", "s", "--rules", "before.csv", "--communicators", "4", "--no-confirm"]) == 0
    )
    assert read_rules((session / "verified-before.csv").read_bytes()).rules[1].reg_buff == 0
    assert ADVICE in capsys.readouterr().out


def test_where_the_site_registers_nothing_a_rule_is_for_all_calls(
    session: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not timed slower is not said to be."""
    monkeypatch.setenv("NCCL_GRAPH_REGISTER", "0")
    capsys.readouterr()
    assert run(["verify", "s", "--no-confirm"]) == 0
    (path,) = session.glob("rccl_tuner*.csv")
    (rule,) = read_rules(path.read_bytes()).rules
    assert rule.reg_buff is None
    assert "registered" not in capsys.readouterr().out
