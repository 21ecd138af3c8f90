"""explain and plugin: the real library's own answers, on any machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.model.choice import Rule
from rccltune.model.errors import InputFileError, MachineError
from rccltune.model.settings import SILENT, Scale, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.rules.decision import cost_table, decisions
from rccltune.rules.plugin_library import PluginCommunicator, PluginLibrary
from rccltune.rules.reader import read_rules

ALL_CELLS = cost_table((a, p) for a in Algorithm for p in Protocol)
NO_LL128 = cost_table((a, p) for a in Algorithm for p in Protocol if p is not Protocol.LL128)


@pytest.fixture(scope="module")
def host() -> PluginLibrary:
    """The installed plugin."""
    try:
        return PluginLibrary(plugin.library())
    except MachineError as error:
        pytest.skip(str(error))


def open_at(host: PluginLibrary, path: Path, scale: Scale) -> PluginCommunicator:
    """A communicator of the newest interface with a rule file."""
    return host.communicator(
        abi=6,
        n_nodes=scale.n_nodes,
        n_ranks=scale.n_ranks,
        env={"NCCL_TUNER_CONFIG_FILE": str(path)},
    )


WORDS = st.sampled_from
ROWS = st.tuples(
    WORDS(["allreduce", "allgather", "broadcast", "alltoall", "colltype", "AllReduce"]),
    WORDS(["0", "8", "100", "min_bytes", "4K"]),
    WORDS(["7", "100", "4096", "9223372036854775807", "99999999999999999999", "max_bytes"]),
    WORDS(["ring", "tree", "Ring", "-1", "algorithm"]),
    WORDS(["ll", "ll128", "simple", "-1", "LL"]),
    WORDS(["-1", "1", "16", "0", "-2", "x"]),
    WORDS(["-1", "1", "2"]),
    WORDS(["-1", "8", "64", ""]),
    WORDS(["-1", "1", ""]),
    WORDS(["-1", "0", "1"]),
    WORDS(["", "", "", "cpx", "warp"]),
).map(",".join)
LINES = st.one_of(
    ROWS,
    ROWS,
    ROWS,
    WORDS(
        ["", "# text", "  # text", "#@ format 1", "#@ format 9", "#@ needs A=1", "#@ hole 0 7 x"]
    ),
    WORDS(["allreduce,0,8", "allreduce , 0 , 99 , ring , ll , -1 , 1 , 8 # why"]),
)
GOOD = st.tuples(
    WORDS(["allreduce", "allgather"]),
    st.integers(0, 300),
    st.integers(0, 300),
    WORDS(["ring,ll", "ring,ll128", "ring,simple", "-1,-1"]),
    WORDS(["-1", "1", "16"]),
    WORDS(["-1", "1", "2"]),
    WORDS(["-1", "8", "64"]),
).map(lambda r: f"{r[0]},{min(r[1], r[2])},{max(r[1], r[2])},{r[3]},{r[4]},{r[5]},{r[6]},-1,-1")


@settings(max_examples=150)
@given(lines=st.lists(LINES, max_size=6), ending=st.sampled_from(["\n", "\r\n"]))
def test_python_and_plugin_accept_the_same_files(
    host: PluginLibrary, tmp_path_factory: pytest.TempPathFactory, lines: list[str], ending: str
) -> None:
    """emit reads a file exactly when the plugin does; codes of errors are the plugin's own."""
    content = ending.join(lines).encode()
    path = tmp_path_factory.mktemp("r") / "rules.csv"
    path.write_bytes(content)
    read = read_rules(content)
    # A row for one partition mode makes the plugin look for this machine's mode, which has none.
    if any(rule.only_mode for rule in read.rules):
        return
    scale = Scale(n_nodes=1, n_ranks=8)

    if read.errors:
        with pytest.raises(InputFileError) as caught:
            open_at(host, path, scale)
        assert read.errors[0].code in str(caught.value)
    else:
        open_at(host, path, scale).close()


@settings(max_examples=100)
@given(
    lines=st.lists(GOOD, min_size=1, max_size=8),
    n_nodes=st.sampled_from([1, 2]),
    n_ranks=st.sampled_from([8, 64]),
    with_ll128=st.booleans(),
)
def test_python_rules_and_plugin_decide_alike(
    host: PluginLibrary,
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    n_nodes: int,
    n_ranks: int,
    with_ll128: bool,
) -> None:
    """The first selectable match, at every size from 0 to 320 and around every bound."""
    path = tmp_path_factory.mktemp("r") / "rules.csv"
    path.write_text("\n".join(lines))
    rules = read_rules(path.read_bytes()).rules
    scale = Scale(n_nodes=n_nodes, n_ranks=n_ranks)
    table = ALL_CELLS if with_ll128 else NO_LL128
    hints = {bound for rule in rules for bound in (rule.min_nbytes, rule.max_nbytes)}

    with open_at(host, path, scale) as communicator:
        found = decisions(communicator, Collective.ALL_REDUCE, table, hints)

    for nbytes in range(320):
        told = next(d.setting for d in found if d.min_nbytes <= nbytes <= d.max_nbytes)
        assert told == first_selectable(rules, nbytes, scale, with_ll128)


def first_selectable(
    rules: tuple[Rule, ...], nbytes: int, scale: Scale, with_ll128: bool
) -> Setting | None:
    """The definition, written as plainly as it can be."""
    for rule in rules:
        if not rule.matches(Collective.ALL_REDUCE, nbytes, scale):
            continue
        if rule.setting == SILENT:
            return None
        if rule.setting.protocol is Protocol.LL128 and not with_ll128:
            continue
        return rule.setting
    return None


def test_the_installed_plugin_proves_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """--check answers for every version of the interface; --path and --env are absolute."""
    assert run(["plugin", "--check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("tuner interface v" in line for line in lines) == 6
    assert run(["plugin", "--path"]) == 0
    path = capsys.readouterr().out.strip()
    assert Path(path).is_absolute()
    assert run(["plugin", "--env"]) == 0
    assert capsys.readouterr().out.strip() == f"export NCCL_TUNER_PLUGIN={path}"


# What explain's exit code must be for each public file: refused files are 3, and one whose rows
# are for one partition mode asks which machine is meant.
EXPECTED = {
    "amd_ext_tuner_gfx950.conf": 0,
    "amd_sample_performance_data.csv": 3,
    "amd_test_incorrect_values_config.conf": 3,
    "amd_test_no_matching_config.conf": 0,
    "amd_test_singlenode_config.conf": 0,
    "amd_test_unsupported_algo_proto_config.conf": 0,
    "amd_test_valid_config_with_wildcards.conf": 0,
    "fork_gfx950_cpx_12fields.csv": 2,
    "gpu107_generated_n5_BROKEN.conf": 0,
    "gpu107_sc2_plus_amd.conf": 0,
    "gpu107_v4_validated.csv": 0,
    "nvidia_example_nccl_tuner.conf": 0,
    "rocm_builtin_gfx950_4rows_rccl2.30.4.csv": 0,
    "rocm_builtin_gfx950_7rows.csv": 0,
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_public_rule_files_are_explained(
    shared_data: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Every public file is explained, or refused with each mistake's line."""
    path = shared_data / "configs" / name

    assert run(["explain", str(path)]) == EXPECTED[name]
    if EXPECTED[name] == 3:
        err = capsys.readouterr().err
        assert f"{name}:" in err or f"rccltune import {path}" in err


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


def test_rows_for_one_mode_are_asked_in_that_mode(
    shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fork's CPX rows answer in CPX and not in SPX."""
    path = str(shared_data / "configs" / "fork_gfx950_cpx_12fields.csv")

    assert run(["explain", path, "--mode", "cpx-nps4", "--json"]) == 0
    cpx = json.loads(capsys.readouterr().out)
    assert run(["explain", path, "--mode", "spx-nps1", "--json"]) == 0
    spx = json.loads(capsys.readouterr().out)

    assert {p["scale"]["n_ranks"] for p in cpx["parts"]} == {8, 64}
    assert {p["scale"]["n_ranks"] for p in spx["parts"]} == {8}


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
    shown = [(x["min_nbytes"], x["setting"], x["without_ll128"]) for x in part["stretches"]]
    ll128, ll = ({"algorithm": "ring", "protocol": p} for p in ("ll128", "ll"))
    assert shown == [(0, None, None), (1000, ll128, ll), (2000, None, None)]
    assert part["stretches"][0]["reason"] == "not measured"


def test_a_file_for_another_machine_is_explained_however_its_condition_is_written(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A byte-order mark, a tab, a CR: the plugin takes all of these, and so must what asks it."""
    head = b"\xef\xbb\xbf\r #@\trequires arch=gfx950\r\n#@requires compute=SPX\n"
    (here / "rules.csv").write_bytes(head + b"# a\xe2\x80\xa8b\nallreduce,0,99,ring,ll,-1,1,8\r\n")
    capsys.readouterr()
    assert run(["explain", "rules.csv", "--json"]) == 0
    [part] = json.loads(capsys.readouterr().out)["parts"]
    assert [s["line"] for s in part["stretches"] if s["setting"]] == [4]


def test_a_mode_that_a_file_is_not_for_is_said_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its rules are shown as where it is for; in the other mode the job would stop."""
    path = tmp_path / "rules.csv"
    path.write_text("#@ requires compute=CPX memory=NPS4\nallreduce,0,99,ring,ll,-1,1,64,-1,-1\n")
    assert run(["explain", str(path), "--mode", "spx-nps1"]) == 0
    assert lacks(capsys.readouterr().err, "cpx-nps4", "in spx-nps1 the plugin refuses it") == []
    assert run(["explain", str(path), "--mode", "cpx-nps4"]) == 0
    assert "refuses" not in capsys.readouterr().err


NVLS = "allreduce,0,4095,nvls,simple,-1,1,8\n"


@pytest.mark.parametrize(
    ("head", "is_taken"),
    [
        ("", True),
        ("# written by rccltune 0.1.0 for NVIDIA H200, mode none\n", True),
        ("# written by rccltune 0.1.0 for AMD Instinct MI355X, mode unknown\n", False),
        ("#@ requires arch=gfx942\n", False),
        ("#@ requires compute=SPX\n", False),
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
    setting = found["parts"][0]["stretches"][0]["setting"]
    assert setting == ({"algorithm": "nvls", "protocol": "simple"} if is_taken else None)
    assert bool(found["never_selectable"]) != is_taken


def test_where_nothing_says_whose_gpus_explain_says_what_rccl_would_not_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, with the option that tells; none where every library would take all."""
    path = tmp_path / "rules.csv"
    path.write_text("allreduce,0,4095,tree,simple,-1,1,8\n")
    assert run(["explain", str(path)]) == 0
    out = capsys.readouterr().out
    assert "whose GPUs" in out
    assert lacks(out, "line 1", "--mode") == []
    path.write_text("allreduce,0,4095,ring,simple,-1,1,8\n")
    assert run(["explain", str(path)]) == 0
    assert "whose GPUs" not in capsys.readouterr().out


def test_two_files_are_compared_to_the_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A boundary that moved by one byte is a difference of one byte."""
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("allreduce,0,4095,ring,ll,-1,1,8\n")
    two.write_text("allreduce,0,4096,ring,ll,-1,1,8\n")

    assert run(["explain", str(one), "--diff", str(two), "--json"]) == 0
    (change,) = json.loads(capsys.readouterr().out)
    assert (change["min_nbytes"], change["max_nbytes"]) == (4096, 4096)
    assert run(["explain", str(one), "--diff", str(one)]) == 0
    assert "alike" in capsys.readouterr().out


def test_a_rule_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3, the path and the reason."""
    assert run(["explain", "/no/such/file"]) == 3
    assert "/no/such/file" in capsys.readouterr().err


def test_a_hole_speaks_of_its_own_collective_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files with several collectives say whose a hole is; two holes side by side stay two."""
    path = tmp_path / "rules.csv"
    path.write_text(
        "#@ section allgather nodes=1 ranks=8\n#@ hole 0 99 bypassed\n"
        "allgather,100,200,ring,ll,-1,1,8\n"
        "#@ section allreduce nodes=1 ranks=8\n#@ hole 0 9 not measured\n"
        "#@ hole 10 19 baseline not beaten\nallreduce,20,200,ring,ll,-1,1,8\n"
    )

    assert run(["explain", str(path), "--json"]) == 0
    parts = {p["collective"]: p for p in json.loads(capsys.readouterr().out)["parts"]}
    said = {
        name: [(s["min_nbytes"], s["reason"]) for s in part["stretches"] if s["reason"]]
        for name, part in parts.items()
    }
    assert said == {
        "all_gather": [(0, "bypassed")],
        "all_reduce": [(0, "not measured"), (10, "baseline not beaten")],
    }


def test_what_other_readers_do_beside_the_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of somebody's file it is said, of ours not; a mistake is named with the nearest word."""
    row = "allreduce,0,4095,tree,ll,-1,1,8,-1,-1\n"
    path = tmp_path / "x.csv"
    path.write_text(row, encoding="utf-8")
    assert run(["explain", str(path)]) == 0
    assert "one channel to every call that no line matches" in capsys.readouterr().out
    path.write_text(f"#@ format 1\n{row}#@ end 1\n", encoding="utf-8")
    assert run(["explain", str(path)]) == 0
    assert "one channel" not in capsys.readouterr().out
    path.write_text(row.replace("tree", "Tree2"), encoding="utf-8")
    assert run(["explain", str(path)]) == 3
    assert (
        lacks(capsys.readouterr().err, "x.csv:1: unknown algorithm 'Tree2'", "nearest is tree")
        == []
    )
    path.write_text("allreduce,0,4095,tree,ll,-1\n", encoding="utf-8")
    assert run(["explain", str(path)]) == 3
    assert lacks(capsys.readouterr().err, "nNodes,nRanks", "say nothing") == []


def test_what_old_hosts_are_not_answered_is_said_by_its_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rule above 4 MiB is for unregistered buffers, which they cannot tell."""
    path = tmp_path / "rules.csv"
    path.write_text(
        "allreduce,1024,4194304,ring,ll,-1,1,8,-1,-1\nallreduce,4194305,8388608,ring,ll,-1,1,8,-1,0\n"
    )
    assert run(["explain", str(path)]) == 0
    assert (
        "ABI 3 (ROCm 6.4, NCCL 2.22-2.23): no answer at 4 MiB to 8 MiB\n" in capsys.readouterr().out
    )
