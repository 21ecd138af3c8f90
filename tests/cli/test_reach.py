"""Rules reach no further than their proof, and what is emitted works; asked of shell and plugin."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from eight import RANKS, raw_node, written
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.model.vocabulary import MAX_NBYTES, Algorithm, Collective, Protocol
from rccltune.rules import decision
from rccltune.rules.host import Host

pytestmark = pytest.mark.usefixtures("stand_ins", "here", "whole")
KIB, MIB = 1024, 1 << 20
SESSION = Path("rccltune-session")
CPX = SESSION / "rccl_tuner_gfx942_cpx-nps4.csv"
QUICK = ["--launcher", "none", "--collective", "all_reduce"]
# Every cell that RCCL offers all_reduce on one node, LL128 forced.
CELLS = {
    (a, p)
    for a in (Algorithm.TREE, Algorithm.RING)
    for p in Protocol
    if (a, p) != (Algorithm.TREE, Protocol.SIMPLE)
}


def answered(environment: dict[str, str], n_ranks: int, nbytes: int) -> str | None:
    """What the real plugin makes a communicator of one node run, None where it is silent."""
    host = Host(Path(environment.get("NCCL_TUNER_PLUGIN", plugin.library())))
    env = {**environment, "RCCLTUNE_MODE": "cpx-nps4"}
    table = decision.cost_table(CELLS)
    with host.communicator(abi=4, n_nodes=1, n_ranks=n_ranks, env=env) as communicator:
        found = decision.decisions(communicator, Collective.ALL_REDUCE, table, {nbytes})
    one = next(d for d in found if d.min_nbytes <= nbytes <= d.max_nbytes)
    return None if one.setting is None else str(one.setting)


def rows(path: Path) -> list[list[str]]:
    """Data rows as any reader of ten columns sees them."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [line.split(",") for line in lines if line and not line.startswith("#")]


def sourced(path: Path) -> dict[str, str]:
    """What a plain shell exports after sourcing a file, beside what it had."""
    shell = shutil.which("dash") or "/bin/sh"
    text = f". {shlex.quote(str(path.resolve()))} && env -0"
    done = subprocess.run(
        [shell, "-c", text], check=True, capture_output=True, env={"PATH": os.environ["PATH"]}
    )
    pairs = (line.partition("=") for line in done.stdout.decode().split("\0") if line)
    return {name: value for name, _, value in pairs if name.startswith(("NCCL", "RCCL"))}


@pytest.mark.usefixtures("undrawn")
def test_a_tune_up_to_64_kib_leaves_a_mebibyte_to_the_library(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It ended in tree/ll for everything, 2.3 times as slow at 256 MiB; talk and page say why."""
    node = written(raw_node(), Path("node.yaml"))
    words = ["--mode", "cpx-nps4", "--simulate", str(node), *QUICK]
    assert run(["tune", *words, "--min-bytes", "1K", "--max-bytes", "64K", "-q"]) == 0
    said = "above 64 KiB not measured: left to the library"
    assert said in capsys.readouterr().out
    assert {row[2] for row in rows(CPX)} == {str(64 * KIB)}
    environment = sourced(CPX.with_suffix(".env"))
    assert answered(environment, RANKS, 64 * KIB) == "tree/ll"
    for nbytes in (0, 1023, 64 * KIB + 1, 256 * MIB, MAX_NBYTES):
        assert answered(environment, RANKS, nbytes) is None
    assert said in (SESSION / "report.html").read_text(encoding="utf-8")
    assert run(["explain", str(CPX)]) == 0
    assert "not measured" in capsys.readouterr().out


def test_without_a_baseline_no_rule_reaches_down_either(here: Path) -> None:
    """ring/simple, measured from 256 MiB on, was a rule from byte 0."""
    table = "collective,ranks,nodes,bytes,algorithm,protocol,time_us\n"
    for power in range(28, 33):
        for setting, factor in (("ring,simple", 1), ("ring,ll", 3)):
            table += f"all_reduce,4,1,{1 << power},{setting},{(1 << power) / 1e5 * factor}\n"
    (here / "large.csv").write_text(table, encoding="utf-8")
    assert run(["import", "large.csv", "-q"]) == 0
    assert run(["emit-config", "-o", "rules.csv", "-q"]) == 0
    assert [row[1:5] for row in rows(here / "rules.csv")] == [
        [str(1 << 28), str(1 << 32), "ring", "simple"]
    ]


@pytest.fixture(scope="module")
def swept_once(stand_ins: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three settings of the shipped node on eight ranks, from 1 KiB to 256 KiB."""
    folder = tmp_path_factory.mktemp("swept") / SESSION
    node = written(raw_node(), folder.parent / "node.yaml")
    words = ["--mode", "cpx-nps4", "--simulate", str(node), *QUICK, "--min-bytes", "1K"]
    words += ["--max-bytes", "256K", "--setting", "tree/ll", "--setting", "ring/simple"]
    assert (
        run(
            [
                "sweep",
                "--runner",
                "rccl-tests",
                *words,
                "--setting",
                "tree/ll128",
                "-o",
                str(folder),
                "-q",
            ]
        )
        == 0
    )
    return folder


@pytest.fixture
def swept(swept_once: Path, here: Path) -> Path:
    """The same as the session of the working directory."""
    return shutil.copytree(swept_once, here / SESSION)


WIDE = "allreduce,0,9223372036854775807,tree,ll,-1,1,8,-1,-1\n"


@pytest.mark.usefixtures("swept")
def test_somebody_elses_rule_for_all_sizes_ends_where_verification_did(here: Path) -> None:
    """Sizes that were not compared are a hole."""
    (here / "wide.csv").write_text(WIDE, encoding="utf-8")
    assert run(["verify", "--rules", "wide.csv", "-q"]) == 0
    left = here / SESSION / "verified-wide.csv"
    assert [row[1:3] for row in rows(left)] == [[str(KIB), str(256 * KIB)]]
    text = left.read_text(encoding="utf-8")
    assert f"#@ hole {256 * KIB + 1} {MAX_NBYTES} not measured" in text.split("\n")


@pytest.mark.usefixtures("swept")
def test_what_is_printed_to_use_it_works(capsys: pytest.CaptureFixture[str]) -> None:
    """The plugin is among it: without it NCCL, and RCCL before ROCm 7.13, read no rule."""
    assert run(["emit-config"]) == 0
    exports = CPX.with_suffix(".env")
    assert lacks(capsys.readouterr().out.rstrip(), f"source {exports.resolve()}", "source") == []
    environment = sourced(exports)
    assert environment == {
        "NCCL_TUNER_CONFIG_FILE": str(CPX.resolve()),
        "NCCL_TUNER_PLUGIN": str(plugin.library()),
    }
    assert answered(environment, RANKS, 16 * KIB) == "tree/ll"


def test_a_folder_with_odd_letters_is_quoted(here: Path, swept_once: Path) -> None:
    """Spaces, quotes and dollars in a path are the path."""
    home = here / "it's $HOME; touch `x`"
    home.mkdir()
    os.chdir(home)
    shutil.copytree(swept_once, SESSION)
    assert run(["emit-config", "-q"]) == 0
    assert sourced(CPX.with_suffix(".env"))["NCCL_TUNER_CONFIG_FILE"] == str(CPX.resolve())
    assert not (home / "x").exists()


def node(**changes: list[dict[str, Any]]) -> str:
    """The shipped node on eight ranks with these changes, beside the session."""
    raw = raw_node()
    for key, value in changes.items():
        raw[key] = [*raw.get(key, []), *value]
    return str(written(raw, Path("node.yaml")))


@pytest.mark.usefixtures("undrawn")
def test_after_a_refused_tune_there_is_nothing_to_deploy(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 9, "Nothing was written": no rule file, no exports; put there by hand, refused."""
    raw_wrong = {"kind": "wrong", "setting": "ring/ll", "elements": 3, "bytes": [100_000, 120_000]}
    words = ["--mode", "cpx-nps4", "--simulate", node(faults=[raw_wrong]), *QUICK]
    words += ["--min-bytes", "1K", "--max-bytes", "256K"]
    words += ["--setting", "tree/ll", "--setting", "ring/simple", "-q"]
    assert run(["tune", *words]) == 9
    assert list(SESSION.glob("rccl_tuner*")) == []
    page = (SESSION / "report.html").read_text(encoding="utf-8")
    assert lacks(page, "the verification") == []
    assert run(["deploy", "site"]) != 0
    [candidate] = (SESSION / "candidates").glob("*.csv")
    shutil.copy(candidate, CPX)
    capsys.readouterr()
    assert run(["deploy", "site"]) == 9
    assert lacks(capsys.readouterr().err, "the verification") == []
    assert not (here / "site").exists()


@pytest.mark.usefixtures("swept")
def test_needs_go_with_the_last_rule_that_has_them(here: Path) -> None:
    """No rule, and the file of exports still set RCCL_LL128_FORCE_ENABLE=1."""
    slow = [{"setting": "tree/ll128", "factor": 4.0}]
    rule = "allreduce,1024,262144,tree,ll128,-1,1,8,-1,-1\n"
    CPX.write_text(f"#@ needs RCCL_LL128_FORCE_ENABLE=1\n{rule}", encoding="utf-8")
    exports = CPX.with_suffix(".env")
    exports.write_text(
        "export RCCL_LL128_FORCE_ENABLE=1\n"
        f"export NCCL_TUNER_CONFIG_FILE={CPX.resolve()}\n"
        f"export NCCL_TUNER_PLUGIN={plugin.library()}\n",
        encoding="utf-8",
    )
    assert run(["verify", "--simulate", node(effects=slow), "-q"]) == 0
    assert rows(CPX) == []
    assert "#@ needs" not in CPX.read_text(encoding="utf-8")
    assert sourced(exports) == {}
    assert here == Path.cwd()


@pytest.fixture(name="two_scales")
def two_scales_fixture(repository: Path, here: Path) -> Path:
    """One scale that wants RCCL_LL128_FORCE_ENABLE=1, and one that was not measured under it."""
    words = ["--mode", "spx-nps1", "--launcher", "none", "--collective", "all_reduce"]
    words += ["--simulate", str(repository / "examples" / "nodes" / "two-hosts.yaml")]
    # Without ring/simple, which is as fast, it is LL128 that wins from 32 to 128 KiB on one host.
    words += ["--setting", "ring/ll", "--setting", "ring/ll128", "--max-bytes", "4M"]
    assert (
        run(["sweep", "--runner", "rccl-tests", *words, "--scales", "1x4,2x8", "-o", "few", "-q"])
        == 0
    )
    return here / "few"


def test_what_one_scale_needs_is_in_no_file_for_others(
    two_scales: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other scale's calls without a rule took 282 % longer under it."""
    assert run(["emit-config", "few"]) == 0
    said = capsys.readouterr()
    assert lacks(said.err, "4 ranks", "1 node", "RCCL_LL128_FORCE_ENABLE=1") == []
    [path] = two_scales.glob("*.csv")
    assert "#@ needs" not in path.read_text(encoding="utf-8")
    assert "RCCL_LL128_FORCE_ENABLE" not in sourced(path.with_suffix(".env"))
    assert {row[6] for row in rows(path)} == {"2"}
    assert "ll128" not in {row[4] for row in rows(path)}
    # By itself the scale has all that was measured for it.
    assert run(["emit-config", "few/1x4", "-o", "alone.csv", "-q"]) == 0
    assert "ll128" in {row[4] for row in rows(Path("alone.csv"))}
    assert sourced(Path("alone.env"))["RCCL_LL128_FORCE_ENABLE"] == "1"


COUNTED = (
    "#@ needs RCCL_LL128_FORCE_ENABLE=1\n"
    "allreduce,1024,16384,tree,ll,-1,1,8,-1,-1\n"
    "allreduce,16385,65536,tree,ll128,-1,1,8,-1,-1\n"
    "allreduce,16385,65536,tree,ll,-1,1,8,-1,-1\n"
)


@pytest.mark.usefixtures("swept")
def test_every_verb_counts_the_same_rules(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two rules and a fallback were 2 for one verb and 3 for the next."""
    CPX.write_text(COUNTED, encoding="utf-8")
    wanted = {"rules": 2, "fallbacks": 1}

    def plain(*words: str) -> dict[str, Any]:
        capsys.readouterr()
        assert run([*words, "--json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return {name: found[name] for name in wanted}

    assert plain("explain", str(CPX)) == wanted
    assert plain("deploy", "site") == wanted
    for words in (["explain", str(CPX)], ["deploy", "elsewhere"]):
        assert run(words) == 0
        assert "2 rules (and 1 fallback)" in capsys.readouterr().out
    assert run(["verify", "--keep-losers"]) in (0, 9)
    assert "2 rules (and 1 fallback)" in capsys.readouterr().out
    assert here == Path.cwd()


@pytest.mark.usefixtures("swept")
def test_bounds_are_inclusive_and_rounded_alike(capsys: pytest.CaptureFixture[str]) -> None:
    """1 KiB to 1722 B in one place and to 1.68 KiB in another; --json has the bytes."""
    CPX.write_text(
        "allreduce,1024,1722,tree,ll,-1,1,8,-1,-1\nallreduce,1723,1048575,ring,ll,-1,1,8,-1,-1\n",
        encoding="utf-8",
    )
    capsys.readouterr()
    assert run(["explain", str(CPX)]) == 0
    cells = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["1", "KiB", "1.68", "KiB", "tree/ll"] in [line[:5] for line in cells]
    assert ["1.68", "KiB", "1", "MiB", "ring/ll"] in [line[:5] for line in cells]
    assert run(["explain", str(CPX), "--json"]) == 0
    [part] = json.loads(capsys.readouterr().out)["parts"]
    bounds = [(s["min_nbytes"], s["max_nbytes"]) for s in part["stretches"]]
    assert bounds[1:3] == [(1024, 1722), (1723, 1048575)]
    assert run(["report", "-o", "page.html"]) == 0
    text = Path("page.html").read_text(encoding="utf-8")
    assert "1 KiB to 1.68 KiB" in text
    assert "1.68 KiB to 1 MiB" in text
