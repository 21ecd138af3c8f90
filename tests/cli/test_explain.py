"""explain and plugin: the real library's own answers, on any machine."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.model.errors import MachineError
from rccltune.rules.plugin_library import PluginLibrary


@pytest.fixture(scope="module")
def host() -> PluginLibrary:
    """The installed plugin."""
    try:
        return PluginLibrary(plugin.library())
    except MachineError as error:
        pytest.skip(str(error))


def test_the_installed_plugin_proves_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """--check answers for every version of the interface; --path and --env are absolute."""
    assert run(["plugin", "--check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("tuner interface v" in line for line in lines) == 6
    assert run(["plugin", "--path"]) == 0
    path = capsys.readouterr().out.strip()
    assert Path(path).is_absolute()
    assert run(["plugin", "--env"]) == 0
    assert capsys.readouterr().out.strip() == f"export NCCL_TUNER_PLUGIN={shlex.quote(path)}"


@pytest.mark.parametrize(
    ("text", "what", "verb"),
    [
        ("collective,size_bytes,time_us\nall_reduce,4096,25.5\n", "a table of", "import"),
        ("# Notes\n\nSee, for rules, docs/plugin.md, and others.\n", "not one of its", "import"),
        ("collective,nBytes,nRanks,nNodes,calls\nallreduce,8,8,1,3\n", "a record of", "workload"),
        ('{"version": 3, "results": []}\n', "an? nccl-tests -J", "import"),
    ],
)
def test_a_file_without_any_rule_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, what: str, verb: str
) -> None:
    """One error that says what it is and which verb reads it; no line of it is called a mistake."""
    path = tmp_path / "x.csv"
    path.write_text(text)
    assert run(["explain", str(path)]) == 3
    err = " ".join(capsys.readouterr().err.split())
    assert "this is no rule file" in err
    assert re.search(what, err)
    assert f"rccltune {verb} {path}" in err
    assert "x.csv:" not in err


def test_holes_fallbacks_and_dead_rules_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Edges to the byte, the file's own words for a hole, and what order does to a rule."""
    path = tmp_path / "rules.csv"
    path.write_text(
        "allreduce,1000,1999,ring,ll128,-1,1,64\nallreduce,1000,1999,ring,ll,-1,1,64\n"
        "allreduce,1500,1600,ring,ll,-1,1,64\nallreduce,5000,5000,nvls,simple,-1,1,64\n"
        "#@ hole 0 999 not measured\n"
    )

    assert run(["explain", str(path), "--mode", "spx-nps1"]) == 0
    out = capsys.readouterr().out
    assert "fallback: line 2" in out
    assert "dead: line 3" in out
    assert "not selectable: line 4" in out
    assert run(["explain", str(path), "--mode", "spx-nps1", "--json"]) == 0
    (part,) = json.loads(capsys.readouterr().out)["parts"]
    shown = [(x["min_nbytes"], x["setting"], x["without_ll128"]) for x in part["ranges"]]
    ll128, ll = ({"algorithm": "ring", "protocol": p} for p in ("ll128", "ll"))
    assert shown == [(0, None, None), (1000, ll128, ll), (2000, None, None)]
    assert part["ranges"][0]["reason"] == "not measured"


NVLS = "allreduce,0,4095,nvls,simple,-1,1,8\n"


@pytest.mark.parametrize(
    ("head", "is_taken"),
    [
        ("", True),
        ("# written by rccltune 0.1.0 for NVIDIA H200, mode none\n", True),
        ("# written by rccltune 0.1.0 for AMD Instinct MI355X, mode unknown\n", False),
        ("#@ requires arch=gfx942\n", False),
        ("#@ requires compute=SPX\n", False),
        ("#@ requires product=NVIDIA-H200\n", True),
        ("#@ needs RCCL_LL128_FORCE_ENABLE=1\n", False),
    ],
)
def test_a_file_is_judged_by_the_limits_of_whom_it_is_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], head: str, is_taken: bool
) -> None:
    """The real plugin takes NVLS where the host offers it, and RCCL never does."""
    path = tmp_path / "rules.csv"
    path.write_text(head + NVLS)
    assert run(["explain", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    setting = found["parts"][0]["ranges"][0]["setting"]
    assert setting == ({"algorithm": "nvls", "protocol": "simple"} if is_taken else None)
    assert bool(found["never_selectable"]) != is_taken


def test_what_a_file_is_bound_to_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The product and the library, and where only one of two files has them."""
    row = "allreduce,0,4095,ring,ll,-1,1,8\n"
    bound, free = tmp_path / "bound.csv", tmp_path / "free.csv"
    bound.write_text("#@ requires product=NVIDIA-H200\n#@ library NCCL 2.28.9\n" + row)
    free.write_text(row)
    assert run(["explain", str(bound)]) == 0
    said = capsys.readouterr().out
    assert lacks(said, "requires product=NVIDIA-H200", "measured with NCCL 2.28.9") == []
    assert run(["explain", str(bound), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["requires"], found["library"]) == ({"product": "NVIDIA-H200"}, "NCCL 2.28.9")
    assert run(["explain", str(free), "--diff", str(bound)]) == 0
    said = capsys.readouterr().out
    assert lacks(said, f"only {bound} was measured with NCCL 2.28.9") == []


@pytest.mark.parametrize(
    ("text", "said", "lines"),
    [
        ("", "Hint: copy it again", 0),
        ("allreduce,0,9,rng,ll,-1,1,8\n" * 9, "Hint: correct these lines", 1),
    ],
)
def test_a_files_mistakes_come_before_what_others_make_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str, lines: int
) -> None:
    """Of what other readers would take its lines for one is shown, and the others are counted."""
    path = tmp_path / "rules.csv"
    path.write_text(text)
    assert run(["explain", str(path)]) == 3
    err = capsys.readouterr().err
    assert said in err
    assert err.count("read otherwise") == lines
    assert err.count("the nearest is ring") == 9 * lines


def test_two_files_are_compared_to_the_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A boundary that moved by one byte is a difference of one byte."""
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("allreduce,0,4095,ring,ll,-1,1,8\n")
    two.write_text("allreduce,0,4096,ring,ll,-1,1,8\n")

    assert run(["explain", str(one), "--diff", str(two), "--json"]) == 0
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert (change["min_nbytes"], change["max_nbytes"]) == (4096, 4096)
    assert run(["explain", str(one), "--diff", str(one)]) == 0
    assert "alike" in capsys.readouterr().out


def test_a_rule_for_unregistered_buffers_answers_at_every_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ROCm 6.3 and 6.4, whose libraries cannot say it and register nothing, get its answers too."""
    path = tmp_path / "rules.csv"
    path.write_text("allreduce,0,8388608,ring,ll,-1,1,8,-1,0\n")
    assert run(["explain", str(path), "--json"]) == 0
    (part,) = json.loads(capsys.readouterr().out)["parts"]
    assert part["old_hosts"] == []
    assert part["ranges"][0]["setting"] == {"algorithm": "ring", "protocol": "ll"}
