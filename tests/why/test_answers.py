"""Every answer that why has, on jobs of the simulated node with the real plugin."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yamls
from jobs import INFO, RULES, SIZES, Jobs, ask, at, kinds
from wording import lacks

from rccltune.model.vocabulary import Collective
from rccltune.simulate import sources
from rccltune.why.records import AnswerKind

KIB, MIB = 1024, 1024 * 1024


def test_a_hit_that_ran(jobs: Jobs) -> None:
    """The plugin answered line 3 and the library's own log says that it ran."""
    rules = jobs.rules()
    found = ask(jobs.run(env=jobs.with_plugin(rules)), rules=rules)
    hit = at(found, KIB)
    assert hit.kind is AnswerKind.HIT
    assert lacks(hit.text, "line 3", "tree/ll") == []
    assert (hit.where.n_nodes, hit.where.n_ranks) == (1, 64)


def test_a_hole_in_the_files_own_words(jobs: Jobs) -> None:
    """What the file says of its hole is what the user is told."""
    rules = jobs.rules()
    hole = at(ask(jobs.run(env=jobs.with_plugin(rules)), rules=rules), 4 * MIB)
    assert hole.kind is AnswerKind.HOLE
    assert "baseline not beaten" in hole.text


@pytest.mark.parametrize("reason", ["not faster", "baseline not beaten"])
def test_what_was_measured_and_is_not_faster_is_not_to_be_measured_again(
    jobs: Jobs, reason: str
) -> None:
    """As emit-config says it now, and as files of before do."""
    rules = jobs.rules()
    rules.write_text(rules.read_text().replace("baseline not beaten", reason))
    hole = at(ask(jobs.run(env=jobs.with_plugin(rules)), rules=rules), 4 * MIB)
    assert reason in hole.text
    assert hole.remedy is None


def test_ll128_is_not_selectable_and_what_opens_it(jobs: Jobs) -> None:
    """Stock RCCL on one node: the variable of AMD's article."""
    rules = jobs.rules()
    shut = at(ask(jobs.run(env=jobs.with_plugin(rules)), rules=rules), 256 * KIB)
    assert shut.kind is AnswerKind.NOT_SELECTABLE
    assert lacks(shut.remedy, "RCCL_LL128_FORCE_ENABLE=1") == []


def test_the_remedy_for_ll128_works(jobs: Jobs) -> None:
    """Setting what was advised turns the answer into a hit."""
    rules = jobs.rules()
    env = jobs.with_plugin(rules, RCCL_LL128_FORCE_ENABLE="1")
    assert at(ask(jobs.run(env=env), rules=rules), 256 * KIB).kind is AnswerKind.HIT


@pytest.mark.parametrize(("name", "value"), [("NCCL_PROTO", "Simple"), ("NCCL_ALGO", "Ring")])
def test_a_variable_shuts_a_rule_out(jobs: Jobs, name: str, value: str) -> None:
    """NCCL_ALGO and NCCL_PROTO blank cells before the tuner is asked."""
    rules = jobs.rules()
    env = jobs.with_plugin(rules, **{name: value})
    shut = at(ask(jobs.run(env=env), rules=rules), KIB)
    assert shut.kind is AnswerKind.NOT_SELECTABLE
    assert lacks(shut.text, f"{name}={value}", "shuts") == []
    assert lacks(shut.remedy, f"unset {name}", "unset") == []


def test_tree_simple_needs_a_patched_library(jobs: Jobs) -> None:
    """No variable of stock RCCL brings that cell back on one node (docs/variants.md)."""
    rules = jobs.rules("allreduce,0,9999999,tree,simple,-1,1,64,-1,-1\n")
    shut = at(ask(jobs.run(env=jobs.with_plugin(rules)), rules=rules), KIB)
    assert shut.kind is AnswerKind.NOT_SELECTABLE
    assert "RCCL_FORCE_TREE_SIMPLE=1" in (shut.remedy or "")


def test_a_version_2_host_is_given_three_settings(jobs: Jobs) -> None:
    """ROCm 6.3 takes an answer unchecked, so LL128 is not given there."""
    node = jobs.node(release={"rccl": "2.21.5", "benchmark": "rt24"})
    rules = jobs.rules()
    log = jobs.run(node=node, env=jobs.with_plugin(rules))
    shut = at(ask(log, rules=rules), 256 * KIB)
    assert shut.kind is AnswerKind.NOT_SELECTABLE
    assert "version 2" in shut.text


def test_what_a_file_needs_is_named(jobs: Jobs) -> None:
    """The plugin's own line names the variable; no rule file is wanted for that."""
    rules = jobs.rules(f"#@ needs RCCL_LL128_FORCE_ENABLE=1\n{RULES}")
    found = ask(jobs.run(env=jobs.with_plugin(rules)))
    remedies = [one.remedy for one in found.remarks]
    assert lacks(remedies, "RCCL_LL128_FORCE_ENABLE=1") == []


# --- around the tuner -----------------------------------------------------------------------------

AROUND = [
    (("mi300x", "cpx-nps4"), "all_gather", {}, "direct AllGather", "RCCL_DIRECT_ALLGATHER_DISABLE"),
    (("mi300x-dda", "spx-nps1"), "all_reduce", {}, "DDA", "RCCL_DDA_ENABLE=0"),
    (("mi300x-dda", "spx-nps1"), "reduce_scatter", {}, "DDA", "RCCL_DDA_ENABLE=0"),
    (("mi300x-msccl", "spx-nps1"), "all_reduce", {}, "MSCCL", "RCCL_MSCCL_ENABLE=0"),
    (
        ("mi300x-rcclx", "spx-nps1"),
        "all_reduce",
        {"RCCL_ENABLE_DDA_ALL_REDUCE": "1"},
        "DDA of RCCLX's kind",
        "RCCL_ENABLE_DDA_ALL_REDUCE=0",
    ),
]


@pytest.mark.parametrize(("node", "collective", "more", "name", "export"), AROUND)
def test_paths_before_the_tuner(
    jobs: Jobs, node: tuple[str, str], collective: str, more: dict[str, str], name: str, export: str
) -> None:
    """Each path by the release and the call, with the variable that takes it away."""
    csv = collective.replace("_", "")
    rules = jobs.rules(f"{csv},0,99999999,ring,simple,-1,-1,-1,-1,-1\n")
    log = jobs.run(
        collective=collective,
        arguments="-b 512K -e 2M -f 2 -n 1 -w 1",
        node=sources.node_path(*node),
        env=jobs.with_plugin(rules, **more),
    )
    found = ask(log, rules=rules, collective=Collective.parse(collective))
    assert set(kinds(found)) == {AnswerKind.BYPASSED}
    assert all(name in answer.text for answer in found.answers)
    assert all(export in (answer.remedy or "") for answer in found.answers)


def test_mscclpp_in_captured_graphs(jobs: Jobs) -> None:
    """AMD's figures for one OAM: MSCCL++ takes calls of captured graphs."""
    rules = jobs.rules("allreduce,0,99999999,ring,simple,-1,-1,-1,-1,-1\n")
    log = jobs.run(
        arguments="-b 512K -e 1M -f 2 -n 1 -w 1 -G 2",
        node=sources.node_path("mi300x-oam", "cpx-nps4"),
        env=jobs.with_plugin(rules, RCCLTUNE_SIM_RANKS="8"),
    )
    found = ask(log, rules=rules, collective=Collective.ALL_REDUCE)
    assert kinds(found) == [AnswerKind.BYPASSED]
    assert "MSCCL++" in found.answers[0].text


def test_the_remedy_for_a_path_works(jobs: Jobs) -> None:
    """Without the direct AllGather the same rule is hit."""
    rules = jobs.rules("allgather,0,99999999,ring,simple,-1,1,64,-1,-1\n")
    env = jobs.with_plugin(rules, RCCL_DIRECT_ALLGATHER_DISABLE="1")
    log = jobs.run(collective="all_gather", env=env)
    assert at(ask(log, rules=rules), MIB).kind is AnswerKind.HIT


def test_what_never_asks(jobs: Jobs) -> None:
    """alltoall is sends and receives in every release."""
    log = jobs.run(collective="alltoall", env=jobs.with_plugin(jobs.rules()))
    found = ask(log)
    assert set(kinds(found)) == {AnswerKind.NOT_TUNABLE}


# --- scales, placements, machines -----------------------------------------------------------------


def test_another_scale(jobs: Jobs) -> None:
    """The plugin says that it has no rule for 8 ranks; the file, which it has."""
    rules = jobs.rules()
    log = jobs.run(env=jobs.with_plugin(rules, RCCLTUNE_SIM_RANKS="8"))
    found = ask(log, rules=rules)
    assert set(kinds(found)) == {AnswerKind.OTHER_SCALE}
    assert lacks(found.answers[0].text, "8 ranks", "1 nodes", "no rule") == []
    assert "64 ranks on 1 node" in found.answers[0].text


def test_a_placement_that_was_not_declared(jobs: Jobs) -> None:
    """The export line is the file's own placement."""
    rules = jobs.rules(f"#@ requires placement=one-per-oam\n{RULES}")
    found = ask(jobs.run(env=jobs.with_plugin(rules)))
    assert set(kinds(found)) == {AnswerKind.PLACEMENT}
    assert "export RCCLTUNE_PLACEMENT=one-per-oam" in (found.answers[0].remedy or "")


@pytest.mark.parametrize(
    ("requires", "mode", "said"),
    [
        ("compute=CPX memory=NPS4", "spx-nps1", "requires another machine"),
        ("compute=CPX memory=NPS4", None, "partition mode"),
    ],
)
def test_another_machine_or_mode(
    jobs: Jobs, tmp_path: Path, requires: str, mode: str | None, said: str
) -> None:
    """Init fails there, so the job has no call at all; the message is the plugin's."""
    rules = jobs.rules(f"#@ requires {requires}\n{RULES}")
    (tmp_path / "empty").mkdir()
    more = {"RCCLTUNE_MODE": mode} if mode else {"RCCLTUNE_SYSROOT": str(tmp_path / "empty")}
    found = ask(jobs.run(env=jobs.with_plugin(rules, **more)))
    assert set(kinds(found)) == {AnswerKind.MACHINE}
    assert said in found.answers[0].text


def test_no_file_for_this_machine_in_a_directory(jobs: Jobs, tmp_path: Path) -> None:
    """RCCLTUNE_CONFIG_DIR without a fitting file leaves the plugin silent."""
    env = jobs.with_plugin(None, RCCLTUNE_CONFIG_DIR=str(tmp_path), RCCLTUNE_MODE="cpx-nps4")
    found = ask(jobs.run(env=env))
    assert set(kinds(found)) == {AnswerKind.MACHINE}


# --- loading --------------------------------------------------------------------------------------


def not_loaded(jobs: Jobs, **env: str) -> str:
    """The reason that is given, with nothing but the library's log to go by."""
    log = jobs.run(env={**INFO, "NCCL_TUNER_CONFIG_FILE": str(jobs.rules()), **env})
    found = ask(log)
    assert set(kinds(found)) == {AnswerKind.NOT_LOADED}
    assert any("export NCCL_TUNER_PLUGIN" in (a.remedy or "") for a in found.answers)
    return found.answers[0].text


def test_plugin_path_not_found(jobs: Jobs) -> None:
    """The library names the path; so does the answer."""
    assert lacks(not_loaded(jobs, NCCL_TUNER_PLUGIN="/opt/none/libx.so"), "/opt/none/libx.so") == []


def test_plugin_variable_not_set(jobs: Jobs) -> None:
    """A rule file alone does nothing before RCCL 2.30.4."""
    assert lacks(not_loaded(jobs), "NCCL_TUNER_PLUGIN") == []


def test_plugin_none(jobs: Jobs) -> None:
    """Since 2.27.6 the word switches tuners off."""
    assert "NCCL_TUNER_PLUGIN=none" in not_loaded(jobs, NCCL_TUNER_PLUGIN="none")


def test_plugin_that_dlopen_refuses(jobs: Jobs, tmp_path: Path) -> None:
    """A file that is no library: the loader's own words."""
    broken = tmp_path / "libbroken.so"
    broken.write_text("no library", encoding="utf-8")
    text = not_loaded(jobs, NCCL_TUNER_PLUGIN=str(broken))
    assert text.startswith("dlopen failed: ")
    assert "file too short" in text or "invalid ELF header" in text


@pytest.mark.parametrize("symbol", ["nothing_of_a_tuner", "ncclTunerPlugin_v9"])
def test_plugin_without_a_symbol_that_is_looked_for(
    jobs: Jobs, tmp_path: Path, symbol: str
) -> None:
    """No tuner at all, or only an interface that this release does not know."""
    source, built = tmp_path / "other.c", tmp_path / "libother.so"
    source.write_text(f"const char *{symbol}[8];\n", encoding="utf-8")
    try:
        subprocess.run(
            [shutil.which("cc") or "/proc/none/cc", "-shared", "-fPIC", "-o", built, source],
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no C compiler")
    text = not_loaded(jobs, NCCL_TUNER_PLUGIN=str(built))
    assert lacks(text, "RCCL", "2.28.3-SIMULATED") == []
    assert "ncclTunerPlugin_v5" in text


def test_a_library_before_tuners(jobs: Jobs) -> None:
    """ROCm 6.2 looks for version 1 alone."""
    node = jobs.node(release={"rccl": "2.20.5", "benchmark": "rt24"})
    found = ask(jobs.run(node=node, env=jobs.with_plugin(jobs.rules())))
    assert set(kinds(found)) == {AnswerKind.NOT_LOADED}
    assert lacks(found.answers[0].text, "RCCL", "2.20.5-SIMULATED") == []


def test_rules_that_nobody_named(jobs: Jobs) -> None:
    """The plugin is there, and has no file."""
    found = ask(jobs.run(env=jobs.with_plugin(None)))
    assert set(kinds(found)) == {AnswerKind.OFF}
    assert "export NCCL_TUNER_CONFIG_FILE" in (found.answers[0].remedy or "")


def test_the_librarys_own_table(jobs: Jobs) -> None:
    """RCCL 2.30.4 follows a rule file without any plugin, and says so (csv_tuner.cc).

    The choices are of a job with the plugin, whose lines give way to those of the library's tuner.
    """
    node = jobs.node(release={"rccl": "2.30.4"})
    rules = jobs.rules("allreduce,0,4095,tree,ll,-1,1,64,-1,-1\n")
    log = jobs.run(node=node, env=jobs.with_plugin(rules))
    own = (
        f"Using built-in CSV tuner, config: {rules}",
        f"TUNER/CsvTuner: Loaded 1 tuning configurations from {rules}",
    )
    lines = []
    for line in log.read_text(encoding="utf-8").splitlines():
        head, using, _ = line.partition("TUNER/Plugin: Using")
        if using:
            lines += [head + said for said in own]
        elif not re.search("rccltune|TUNER_PLUGIN|TUNER/Plugin", line):
            lines.append(line)
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = ask(log, rules=rules)
    assert at(found, KIB).kind is AnswerKind.HIT
    assert at(found, MIB).kind is AnswerKind.HOLE
    assert "own reader of rule files" in found.questions[0].answer
    assert str(rules) in found.questions[1].answer


# --- files, variables, schedules ------------------------------------------------------------------


def test_a_refused_file(jobs: Jobs) -> None:
    """The plugin's list of mistakes comes through."""
    rules = jobs.rules("allreduce,0,4095,tree,LL,-1,1,64,-1,-1\n")
    found = ask(jobs.run(env=jobs.with_plugin(rules)))
    assert set(kinds(found)) == {AnswerKind.REFUSED}
    assert "unknown protocol 'LL'" in found.answers[0].text


def test_a_file_that_is_not_there(jobs: Jobs) -> None:
    """The plugin stops the job, and names the file."""
    found = ask(jobs.run(env=jobs.with_plugin("/proc/none/rules.csv")))
    assert set(kinds(found)) == {AnswerKind.REFUSED}
    assert "/proc/none/rules.csv" in found.answers[0].text


def test_ranks_with_different_files(jobs: Jobs) -> None:
    """Two ranks' logs of one job name two hashes."""
    one = jobs.run("one", env=jobs.with_plugin(jobs.rules(RULES, "a.csv")))
    rest = RULES.replace("4095", "8191").replace("4096", "8192")
    other = jobs.run("other", env=jobs.with_plugin(jobs.rules(rest, "b.csv")))
    found = ask(one, other)
    assert kinds(found) == [AnswerKind.OTHER_FILE]
    assert "a.csv" in found.answers[0].text
    assert "b.csv" in found.answers[0].text


def test_another_file_than_the_one_that_is_given(jobs: Jobs) -> None:
    """The hash in the plugin's line is not that of the rule file."""
    log = jobs.run(env=jobs.with_plugin(jobs.rules(RULES.replace("4095", "2047"), "used.csv")))
    found = ask(log, rules=jobs.rules(RULES, "thought.csv"))
    assert any("is another file than" in one.text for one in found.remarks)


@pytest.mark.parametrize(
    ("name", "value"), [("RCCLTUNE_STRICT", "2"), ("RCCLTUNE_RECORD", "record-%x.csv")]
)
def test_a_variable_that_is_not_understood(jobs: Jobs, name: str, value: str) -> None:
    """The plugin stops for it and says which."""
    found = ask(jobs.run(env=jobs.with_plugin(jobs.rules(), **{name: value})))
    assert set(kinds(found)) == {AnswerKind.VARIABLE}
    assert f"unset {name}" in (found.answers[0].remedy or "")


@pytest.mark.parametrize("name", ["RCCLTUNE_SCHEDULE", "RCCLTUNE_TRACE"])
def test_a_variable_that_the_plugin_knows_no_more(jobs: Jobs, tmp_path: Path, name: str) -> None:
    """It changes nothing, and is told."""
    env = jobs.with_plugin(jobs.rules(), **{name: str(tmp_path / "file")})
    found = ask(jobs.run(env=env))
    assert AnswerKind.HIT in kinds(found)
    (told,) = (one for one in found.remarks if one.text.startswith(name))
    assert f"unset {name}" in (told.remedy or "")
    assert not (tmp_path / "file").exists()


# --- after the tuner ------------------------------------------------------------------------------


def two_nodes(jobs: Jobs, rccl: str, benchmark: str = "rtnew") -> Path:
    """Two nodes with two ranks each, whose model chooses protocols by size."""
    raw: dict[str, Any] = yamls.loaded(
        sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8")
    )
    curves = [{**c, "ranks": 4} for c in raw["curves"] if c.get("placement") == "node"]
    return jobs.node(
        scale={"ranks": 4, "nodes": 2, "devices_per_oam": 2},
        release={"rccl": rccl, "benchmark": benchmark},
        library={"tuning_model": 5},
        fill=[{"ranks": 4, "placement": "node"}],
        curves=curves,
    )


OVERWRITTEN_RULES = "allreduce,0,99999999,ring,ll,-1,2,4,-1,-1\n"


def test_the_protocol_is_set_again_on_several_nodes(jobs: Jobs) -> None:
    """ROCm 7.0: what ran, by the library's log, is not what was answered."""
    rules = jobs.rules(OVERWRITTEN_RULES)
    log = jobs.run(
        node=two_nodes(jobs, "2.26.6"), arguments="-b 4M -e 16M -f 2", env=jobs.with_plugin(rules)
    )
    found = ask(log)
    assert kinds(found) == [AnswerKind.OVERWRITTEN]
    assert "ring/simple ran" in found.answers[0].text
    assert "RCCL 2.28.3 (ROCm 7.11) or later" in (found.answers[0].remedy or "")


def test_a_release_that_obeys_on_several_nodes_gives_hits(jobs: Jobs) -> None:
    """RCCL 2.27.7 of ROCm 7.2.4 ran LL as asked up to 512 MiB (tests/simulate/recorded)."""
    node, env = two_nodes(jobs, "2.27.7"), jobs.with_plugin(jobs.rules(OVERWRITTEN_RULES))
    found = ask(jobs.run(node=node, arguments="-b 4M -e 16M -f 2", env=env))
    assert kinds(found) == [AnswerKind.HIT]


def test_overwriting_that_nobody_saw_is_said_to_be_possible(jobs: Jobs, tmp_path: Path) -> None:
    """Without the library's TUNING lines its release alone speaks."""
    log = tmp_path / "plugin.log"
    env = jobs.with_plugin(jobs.rules(OVERWRITTEN_RULES))
    env |= {"NCCL_DEBUG_SUBSYS": "INIT", "RCCLTUNE_LOG": f"decisions:{log}"}
    node = two_nodes(jobs, "2.27.7", "rt25")
    found = ask(jobs.run(node=node, arguments="-b 4M -e 16M -f 2", env=env), log)
    assert set(kinds(found)) == {AnswerKind.OVERWRITTEN}
    assert "nothing here says what ran" in found.answers[0].text


def test_a_later_release_leaves_the_answer(jobs: Jobs) -> None:
    """Change 1985."""
    rules = jobs.rules(OVERWRITTEN_RULES)
    log = jobs.run(
        node=two_nodes(jobs, "2.28.3"), arguments="-b 4M -e 16M -f 2", env=jobs.with_plugin(rules)
    )
    assert kinds(ask(log)) == [AnswerKind.HIT]


def test_an_override_is_applied_last(jobs: Jobs) -> None:
    """RCCL_OVERRIDE_PROTO stands behind the tuner."""
    rules = jobs.rules()
    env = jobs.with_plugin(rules, RCCL_OVERRIDE_ALGO="Ring")
    found = at(ask(jobs.run(env=env), rules=rules), KIB)
    assert found.kind is AnswerKind.OVERWRITTEN
    assert "unset RCCL_OVERRIDE_ALGO" in (found.remedy or "")


@pytest.mark.parametrize(
    ("measured", "is_other"),
    [
        ("RCCL 2.22.3-SIMULATED", True),
        ("RCCL 2.28.3+hip7.11", False),
        # As benchmarks print it, and as a session of several has it.
        ("2.28.3", False),
        ("2.28.9", True),
        ("2.22.3, 2.28.3-SIMULATED", False),
        ("NCCL 2.28.3", True),
        ("not recorded", False),
    ],
)
def test_another_library_than_the_rules_were_measured_with(
    jobs: Jobs, measured: str, *, is_other: bool
) -> None:
    """The rule is hit, and was measured for a release that is not the one at hand."""
    rules = jobs.rules(RULES.replace("RCCL 2.28.3-SIMULATED", measured))
    found = at(ask(jobs.run(env=jobs.with_plugin(rules)), rules=rules), KIB)
    assert found.kind is (AnswerKind.OTHER_LIBRARY if is_other else AnswerKind.HIT)
    if is_other:
        assert lacks(found.text, f"{measured}", "RCCL", "2.28.3-SIMULATED") == []


# --- what files cannot tell -----------------------------------------------------------------------


def test_the_library_alone_says_what_ran_and_not_why(jobs: Jobs) -> None:
    """Without the plugin's files: what ran is compared with the rule file where there is one."""
    env = jobs.with_plugin(rules := jobs.rules(), RCCLTUNE_LOG="off")
    log = jobs.run(env=env)
    alone = ask(log)
    assert set(kinds(alone)) == {AnswerKind.UNKNOWN}
    assert "RCCLTUNE_LOG=decisions" in (alone.answers[0].remedy or "")
    compared = ask(log, rules=rules)
    assert at(compared, KIB).kind is AnswerKind.HIT
    # The library's own model, which the log shows, has no bandwidth for it.
    assert at(compared, 256 * KIB).kind is AnswerKind.NOT_SELECTABLE
    assert at(compared, 4 * MIB).kind is AnswerKind.HOLE


def test_a_summary_alone(jobs: Jobs, tmp_path: Path) -> None:
    """It names rules and counts, and no size: the file's own sizes stand in."""
    rules = jobs.rules()
    path = tmp_path / "plugin.log"
    jobs.run(env=jobs.with_plugin(rules, RCCLTUNE_LOG=f"summary:{path}"))
    found = ask(path, rules=rules)
    hit = at(found, 0)
    assert hit.kind is AnswerKind.HIT
    assert (hit.min_nbytes, hit.max_nbytes) == (0, 4095)
    assert lacks(hit.text, "line 3", "tree/ll") == []


def test_decisions_alone(jobs: Jobs, tmp_path: Path) -> None:
    """The cells that were offered settle what is not selectable."""
    rules, log = jobs.rules(), tmp_path / "plugin.log"
    jobs.run(env=jobs.with_plugin(rules, RCCLTUNE_LOG=f"decisions:{log}"))
    found = ask(log, rules=rules)
    assert [a.kind for a in found.answers] == [
        AnswerKind.HIT,
        AnswerKind.NOT_SELECTABLE,
        AnswerKind.HOLE,
    ]
    assert lacks(found.answers[1].text, "ring/ll", "ring/simple", "tree/ll") == []


def test_sizes_are_those_of_the_benchmark(jobs: Jobs) -> None:
    """Ranges begin and end at sizes that were called, the warm-up's doubled ones among them."""
    rules = jobs.rules()
    found = ask(jobs.run(arguments=SIZES, env=jobs.with_plugin(rules)), rules=rules)
    ranges = [(a.min_nbytes, a.max_nbytes, a.n_sizes) for a in found.answers]
    assert ranges == [(KIB, 2 * KIB, 2), (4 * KIB, 512 * KIB, 8), (MIB, 4 * MIB, 3)]


def test_a_bypass_that_the_benchmarks_columns_name(jobs: Jobs) -> None:
    """RCCL 2.28.3 and later print DDA-IPC under -A; the tuner is asked for the columns alone."""
    node = sources.node_path("mi300x-dda", "spx-nps1")
    rules = jobs.rules("allreduce,0,99999999,ring,simple,-1,-1,-1,-1,-1\n")
    arguments = "-b 512K -e 2M -f 2 -n 1 -w 1 -A 1"
    found = ask(jobs.run(node=node, arguments=arguments, env=jobs.with_plugin(rules)), rules=rules)
    assert kinds(found) == [AnswerKind.BYPASSED]
    assert lacks(found.answers[0].text, "DDA") == []
    assert "RCCL_DDA_ENABLE=0" in (found.answers[0].remedy or "")


def test_releases_whose_choices_name_no_collective(jobs: Jobs) -> None:
    """RCCL 2.22.3 writes bytes, numbers and a time; the plugin's decisions say whose they are."""
    node = jobs.node(release={"rccl": "2.22.3", "benchmark": "rt24"})
    rules = jobs.rules()
    found = ask(jobs.run(node=node, env=jobs.with_plugin(rules)), rules=rules)
    assert lacks(at(found, KIB).text, "line 3", "tree/ll") == []
    assert at(found, 256 * KIB).kind is AnswerKind.NOT_SELECTABLE


def test_a_fallback_is_a_hit_of_its_own_line(jobs: Jobs) -> None:
    """Where the first rule cannot be chosen the next one answers."""
    rules = jobs.rules(
        "allreduce,0,4095,tree,ll128,-1,1,64,-1,-1\nallreduce,0,4095,tree,ll,-1,1,64,-1,-1\n"
    )
    found = at(ask(jobs.run(env=jobs.with_plugin(rules)), rules=rules), KIB)
    assert found.kind is AnswerKind.HIT
    assert lacks(found.text, "line 2", "tree/ll") == []
    assert lacks(found.text, "line 1", "tree/ll128") == []


def test_a_rule_with_conditions_of_its_own(jobs: Jobs) -> None:
    """regBuff=1 asks for registered buffers, which the benchmark's are not."""
    rules = jobs.rules("allreduce,0,4095,tree,ll,-1,1,64,-1,1\n")
    found = at(ask(jobs.run(env=jobs.with_plugin(rules)), rules=rules), KIB)
    assert found.kind is AnswerKind.HOLE
    assert "regBuff=1" in found.text


def test_a_rule_that_leaves_a_size_to_the_library(jobs: Jobs) -> None:
    """-1,-1,-1 ends the search on purpose."""
    rules = jobs.rules("allreduce,0,4095,-1,-1,-1,1,64,-1,-1\n")
    found = at(ask(jobs.run(env=jobs.with_plugin(rules)), rules=rules), KIB)
    assert found.kind is AnswerKind.HOLE
    assert lacks(found.text, "line 1", "the library") == []


def test_rules_for_channels_alone(jobs: Jobs) -> None:
    """What ran cannot contradict a rule that names no algorithm."""
    rules = jobs.rules("allreduce,0,4095,-1,-1,4,1,64,-1,-1\n")
    found = at(ask(jobs.run(env=jobs.with_plugin(rules)), rules=rules), KIB)
    assert found.kind is AnswerKind.HIT
    assert "-/-/4" in found.text


def test_errors_that_are_ignored_leave_the_plugin_silent(jobs: Jobs) -> None:
    """RCCLTUNE_ON_ERROR=ignore: the job runs, and the reason is the same."""
    rules = jobs.rules("allreduce,0,4095,tree,LL,-1,1,64,-1,-1\n")
    found = ask(jobs.run(env=jobs.with_plugin(rules, RCCLTUNE_ON_ERROR="ignore")))
    assert set(kinds(found)) == {AnswerKind.REFUSED}
    assert at(found, KIB).kind is AnswerKind.REFUSED


def test_two_libraries_in_one_job(jobs: Jobs) -> None:
    """Ranks, or jobs, with different releases are named."""
    one = jobs.run("one", env=jobs.with_plugin(jobs.rules()))
    node = jobs.node(release={"rccl": "2.30.4"})
    other = jobs.run("other", node=node, env=jobs.with_plugin(jobs.rules()))
    found = ask(one, other)
    assert any("name 2 libraries" in remark.text for remark in found.remarks)


def test_some_hosts_lack_the_plugin(jobs: Jobs) -> None:
    """One rank's library loads it, another's does not find it: that job hangs or differs."""
    one = jobs.run("one", env=jobs.with_plugin(jobs.rules()))
    other = jobs.run("other", env={**INFO, "NCCL_TUNER_PLUGIN": "/proc/none/lib.so"})
    found = ask(one, other)
    assert any("others did not" in remark.text for remark in found.remarks)


@pytest.mark.mpi
def test_processes_with_a_log_each(jobs: Jobs) -> None:
    """Real ranks under mpirun: one file each of library and plugin, together one job."""
    mpirun = Path(sys.executable).parent / "mpirun"
    if not mpirun.exists():
        pytest.skip("no mpirun")
    rules = jobs.rules("allreduce,0,4095,tree,ll,-1,1,4,-1,-1\n")
    node = jobs.node(
        scale={"ranks": 4, "devices_per_oam": 2}, fill=[{"ranks": 4, "placement": "node"}]
    )
    env = jobs.with_plugin(
        rules,
        NCCL_DEBUG_FILE=str(jobs.folder / "nccl.%h.%p"),
        RCCLTUNE_LOG=f"decisions:{jobs.folder}/plugin.%h.%p",
    )
    launcher = [str(mpirun), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    jobs.run(node=node, env=env, launcher=[*launcher, "-np", "4"])
    files = [*jobs.folder.glob("nccl.*"), *jobs.folder.glob("plugin.*")]
    assert len(files) == 8
    found = ask(*files)
    assert lacks(at(found, KIB).text, "line 1", "tree/ll") == []
    assert {(a.where.n_nodes, a.where.n_ranks) for a in found.answers} == {(1, 4)}
    assert not [one for one in found.remarks if "groups" in one.text]


def with_summary(jobs: Jobs, rules: Path, **more: str) -> Path:
    """The library's log and the plugin's summary: what most sites have."""
    return jobs.run(env=jobs.with_plugin(rules, RCCLTUNE_LOG="summary", **more))


def test_a_summary_and_what_ran(jobs: Jobs) -> None:
    """Rules and counts of the plugin, settings of the library: together they settle sizes."""
    rules = jobs.rules()
    found = ask(with_summary(jobs, rules), rules=rules)
    assert at(found, KIB).kind is AnswerKind.HIT
    assert at(found, 256 * KIB).kind is AnswerKind.NOT_SELECTABLE
    assert at(found, 4 * MIB).kind is AnswerKind.HOLE


def test_a_summary_shows_that_an_override_came_last(jobs: Jobs) -> None:
    """The rule was hit, and something else ran at its sizes."""
    rules = jobs.rules("allreduce,0,99999999,tree,ll,-1,1,64,-1,-1\n")
    log = with_summary(jobs, rules, RCCL_OVERRIDE_ALGO="Ring")
    found = ask(log, rules=rules)
    assert set(kinds(found)) == {AnswerKind.OVERWRITTEN}
    assert "unset RCCL_OVERRIDE_ALGO" in (found.answers[0].remedy or "")


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ("allreduce,0,99999999,tree,ll,-1,1,64,-1,-1", AnswerKind.HIT),
        ("allreduce,0,99999999,tree,ll128,-1,1,64,-1,-1", AnswerKind.NOT_SELECTABLE),
        ("broadcast,0,99999999,ring,ll,-1,1,64,-1,-1", AnswerKind.HOLE),
    ],
)
def test_a_summary_of_calls_that_all_went_one_way(jobs: Jobs, row: str, kind: AnswerKind) -> None:
    """Then no rule file is wanted."""
    found = ask(with_summary(jobs, jobs.rules(f"{row}\n")))
    assert set(kinds(found)) == {kind}
    assert sum(answer.n_sizes for answer in found.answers) == 13


def test_a_summary_of_mixed_calls_still_names_its_rules(jobs: Jobs) -> None:
    """Without the rule file sizes stay open, and the rules that were hit are said."""
    found = ask(with_summary(jobs, jobs.rules()))
    hit = next(a for a in found.answers if a.kind is AnswerKind.HIT)
    assert hit.collective is None
    assert lacks(hit.text, "line 3", "tree/ll") == []
    assert AnswerKind.UNKNOWN in kinds(found)


def test_a_rule_that_the_jobs_own_file_lacks(jobs: Jobs) -> None:
    """The cell was offered and nothing was answered: the job read another file than this one."""
    log = jobs.folder / "plugin.log"
    used = jobs.rules("allreduce,0,2047,tree,ll,-1,1,64,-1,-1\n", "used.csv")
    jobs.run(env=jobs.with_plugin(used, RCCLTUNE_LOG=f"decisions:{log}"))
    # Without the line that says which file was read.
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(one for one in lines if " sha256=" not in one))
    thought = jobs.rules("allreduce,0,9999999,tree,ll,-1,1,64,-1,-1\n", "thought.csv")
    found = ask(log, rules=thought)
    assert at(found, KIB).kind is AnswerKind.HIT
    assert at(found, MIB).kind is AnswerKind.OTHER_FILE


def test_ranks_of_which_some_have_no_file(jobs: Jobs) -> None:
    """A variable that was set on one host only."""
    one = jobs.run("one", env=jobs.with_plugin(jobs.rules()))
    other = jobs.run("other", env=jobs.with_plugin(None))
    found = ask(one, other)
    assert set(kinds(found)) == {AnswerKind.OTHER_FILE}
    assert "some ranks have rules and others none" in found.answers[0].text


def test_another_scale_by_the_rule_file_alone(jobs: Jobs) -> None:
    """The plugin keeps silent; the library names the communicator, the file its scales."""
    rules = jobs.rules()
    env = jobs.with_plugin(rules, RCCLTUNE_LOG="off", RCCLTUNE_SIM_RANKS="8")
    found = ask(jobs.run(env=env), rules=rules)
    assert set(kinds(found)) == {AnswerKind.OTHER_SCALE}
    assert "it has 64 ranks on 1 node" in found.answers[0].text


@pytest.mark.parametrize(
    ("setting", "export"),
    [("pat,simple", "NCCL_PAT_ENABLE=1"), ("ring,ll128", "RCCL_LL128_FORCE_ENABLE=1")],
)
def test_switches_of_cells_in_all_gather(jobs: Jobs, setting: str, export: str) -> None:
    """PAT and LL128 are there, and off."""
    rules = jobs.rules(f"allgather,0,99999999,{setting},-1,1,64,-1,-1\n")
    env = jobs.with_plugin(rules, RCCL_DIRECT_ALLGATHER_DISABLE="1")
    found = ask(jobs.run(collective="all_gather", env=env), rules=rules)
    assert set(kinds(found)) == {AnswerKind.NOT_SELECTABLE}
    assert export in (found.answers[0].remedy or "")


def test_ll128_that_is_forced_and_still_not_offered(jobs: Jobs) -> None:
    """Then some rank lacks the variable, or a pair of GPUs its link."""
    rules = jobs.rules("allgather,0,99999999,ring,ll128,-1,1,64,-1,-1\n")
    more = {"RCCL_DIRECT_ALLGATHER_DISABLE": "1", "RCCL_LL128_FORCE_ENABLE": "1"}
    node = jobs.node(library={"all_xgmi": False})
    log = jobs.run(collective="all_gather", node=node, env=jobs.with_plugin(rules, **more))
    found = ask(log, rules=rules)
    assert set(kinds(found)) == {AnswerKind.NOT_SELECTABLE}
    assert "XGMI" in found.answers[0].text


@pytest.mark.parametrize("head", ["", "#@ requires arch=gfx942\n"])
def test_a_job_whose_library_nothing_names_is_not_taken_for_amds(jobs: Jobs, head: str) -> None:
    """Only a log that names RCCL, or a file for AMD's GPUs, is given RCCL's limits and variable."""
    rules = jobs.rules(RULES)
    log = jobs.run(env=jobs.with_plugin(rules))
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
    naming = ("rccl-library", "RCCL version", "HIP version", "ROCm version")
    log.write_text("".join(x for x in lines if not any(word in x for word in naming)))
    asked = jobs.rules(head + RULES.replace("# library: RCCL 2.28.3-SIMULATED\n", ""), "asked.csv")
    shut = at(ask(log, rules=asked), 256 * KIB)
    assert shut.kind is AnswerKind.NOT_SELECTABLE
    assert ("RCCL_LL128_FORCE_ENABLE" in (shut.remedy or "")) == bool(head)
