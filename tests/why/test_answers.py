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
from jobs import INFO, RULES, Jobs, ask, at, kinds
from wording import lacks

from rccltune.model.vocabulary import Collective
from rccltune.simulate import sources
from rccltune.why.job_report import AnswerKind
from rccltune.workload import read_workload

KIB, MIB = 1024, 1024 * 1024
ROWS = "allreduce,0,4095,tree,ll,-1,1,64,-1,-1\n"


def test_a_hit_a_hole_and_what_cannot_be_selected(jobs: Jobs) -> None:
    """Line 3 ran by the library's own log; a hole in the file's own words; LL128, and what opens it."""
    rules = jobs.rules()
    found = ask(jobs.run(env=jobs.with_plugin(rules)), rules=rules)
    hit, hole, shut = (at(found, nbytes) for nbytes in (KIB, 4 * MIB, 256 * KIB))
    assert hit.kind is AnswerKind.HIT
    assert lacks(hit.text, "line 3", "tree/ll") == []
    assert (hit.where.n_nodes, hit.where.n_ranks) == (1, 64)
    assert hole.kind is AnswerKind.HOLE
    assert "baseline not beaten" in hole.text
    assert shut.kind is AnswerKind.NOT_SELECTABLE
    assert lacks(shut.remedy, "RCCL_LL128_FORCE_ENABLE=1") == []
    # Setting what was advised turns the answer into a hit.
    env = jobs.with_plugin(rules, RCCL_LL128_FORCE_ENABLE="1")
    assert at(ask(jobs.run(env=env), rules=rules), 256 * KIB).kind is AnswerKind.HIT


def test_a_library_that_asks_three_times_a_call_gets_the_same_answers(jobs: Jobs) -> None:
    """2.30 asks once, 2.31 and 2.32 about symmetric kernels first, of which the log and the record know nothing."""
    rules = jobs.rules(RULES.replace("# library: RCCL 2.28.3-SIMULATED\n", ""))
    reports, said, counted = [], [], []
    for release in ("2.30.7", "2.31.2", "2.32.3"):
        record = jobs.folder / f"record-{release}.csv"
        env = jobs.with_plugin(rules, RCCLTUNE_RECORD=str(record))
        # Sizes of which the first is no whole KiB.
        log = jobs.run(
            release,
            arguments="-b 1000 -e 1M -f 32 -n 3 -w 1",
            node=jobs.node(release={"rccl": release}),
            env=env,
        )
        answers = ask(log, rules=rules).answers
        reports.append([(one.kind, one.min_nbytes, one.max_nbytes) for one in answers])
        lines = re.findall(r" (decision .*|summary .*|rule line.*)", log.read_text())
        said.append(sorted(set(lines)))
        counted.append(
            {(one.collective, one.min_nbytes): one.calls for one in read_workload(record).counts}
        )
    assert reports[0][0][0] is AnswerKind.HIT
    assert any("nbytes=1000 answer=tree/ll " in line for line in said[0])
    assert not any("offered=-" in line for line in said[0])
    assert reports[1:] == reports[:1] * 2
    assert said[1:] == said[:1] * 2
    assert counted[1:] == counted[:1] * 2


@pytest.mark.parametrize(("name", "value"), [("NCCL_PROTO", "Simple"), ("NCCL_ALGO", "Ring")])
def test_a_variable_shuts_a_rule_out(jobs: Jobs, name: str, value: str) -> None:
    """NCCL_ALGO and NCCL_PROTO blank cells before the tuner is asked."""
    rules = jobs.rules()
    env = jobs.with_plugin(rules, **{name: value})
    shut = at(ask(jobs.run(env=env), rules=rules), KIB)
    assert shut.kind is AnswerKind.NOT_SELECTABLE
    assert lacks(shut.text, f"{name}={value}", "shuts") == []
    assert lacks(shut.remedy, f"unset {name}", "unset") == []


def test_another_library_than_the_rules_is_said_once_and_refused_when_strict(jobs: Jobs) -> None:
    """A job of 64 ranks in one process, on RCCL 2.28.3: a warning, and what its log's reader says."""
    same, other = ("#@ library RCCL 2.28.3\n", "#@ library RCCL 2.27.7\n")
    rules = [jobs.rules(head + ROWS, f"{n}.csv") for n, head in enumerate((same, other))]
    quiet, told = (jobs.run(f"job{n}", env=jobs.with_plugin(one)) for n, one in enumerate(rules))
    assert "rccltune: warning" not in quiet.read_text()
    assert told.read_text().count("rccltune: warning: ") == 1
    found = ask(told, rules=rules[1])
    assert at(found, KIB).kind is AnswerKind.HIT
    text = "the rules were measured with RCCL 2.27.7, and the job runs RCCL 2.28.3"
    assert text in [remark.text for remark in found.remarks]
    refused = jobs.run("strict", env=jobs.with_plugin(rules[1], RCCLTUNE_STRICT="1"))
    assert lacks(refused.read_text(), "RCCL 2.27.7, and this job runs RCCL 2.28.3") == []
    assert kinds(ask(refused)) == [AnswerKind.OTHER_LIBRARY]
    # Known to be the same, it is not refused.
    assert at(
        ask(jobs.run("same", env=jobs.with_plugin(rules[0], RCCLTUNE_STRICT="1"))), KIB
    ).kind is (AnswerKind.HIT)


@pytest.mark.parametrize("more", [{}, {"RCCLTUNE_MODE": "spx-nps1"}], ids=["plain", "with a mode"])
def test_rules_of_an_h200_stop_a_job_on_a_simulated_mi300x(
    jobs: Jobs, repository: Path, more: dict[str, str]
) -> None:
    """README's own lines as they stand, and the file that they are from."""
    block = re.search(
        r"^    #@ requires(?:.*\n    )+.*$", (repository / "README.md").read_text(), re.MULTILINE
    )
    assert block is not None
    shown = jobs.rules("".join(f"{line.strip()}\n" for line in block[0].splitlines()))
    for rules in (shown, repository / "examples/h200x2-nccl-2.28.9/rccl_tuner.csv"):
        log = jobs.run(
            env=jobs.with_plugin(rules, **more), node=sources.node_path("mi300x", "spx-nps1")
        )
        assert lacks(log.read_text(), "requires another machine", "product=NVIDIA-H200") == []
        assert kinds(ask(log)) == [AnswerKind.MACHINE]


def test_a_version_2_host_is_given_three_settings(jobs: Jobs) -> None:
    """ROCm 6.3 takes an answer unchecked, so LL128 is not given there."""
    node = jobs.node(release={"rccl": "2.21.5", "benchmark": "rt24"})
    rules = jobs.rules()
    log = jobs.run(node=node, env=jobs.with_plugin(rules))
    shut = at(ask(log, rules=rules), 256 * KIB)
    assert shut.kind is AnswerKind.NOT_SELECTABLE
    assert "version 2" in shut.text


def test_a_rule_for_unregistered_buffers_is_none_for_captured_calls(jobs: Jobs) -> None:
    """Where the library says that theirs are registered; the variable that was advised gives it."""
    node = jobs.node(release={"rccl": "2.30.4", "benchmark": "rtnew"})
    rules = jobs.rules("#@ format 1\nallreduce,0,4194304,tree,ll,-1,1,64,-1,0\n#@ end 1\n")
    graphs = "-b 1K -e 1K -n 1 -w 1 -G 2"
    log = jobs.run(env=jobs.with_plugin(rules), arguments=graphs, node=node)
    found = at(ask(log, rules=rules), KIB)
    assert found.kind is AnswerKind.HOLE
    assert lacks(found.text, "line 2", "regBuff=0") == []
    assert lacks(found.remedy, "NCCL_GRAPH_REGISTER=0") == []
    env = jobs.with_plugin(rules, NCCL_GRAPH_REGISTER="0")
    log = jobs.run(env=env, arguments=graphs, node=node)
    assert at(ask(log, rules=rules), KIB).kind is AnswerKind.HIT


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


# --- scales, placements, machines -----------------------------------------------------------------


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


def test_ranks_with_different_files(jobs: Jobs) -> None:
    """Two ranks' logs of one job name two hashes."""
    one = jobs.run("one", env=jobs.with_plugin(jobs.rules(RULES, "a.csv")))
    rest = RULES.replace("4095", "8191").replace("4096", "8192")
    other = jobs.run("other", env=jobs.with_plugin(jobs.rules(rest, "b.csv")))
    found = ask(one, other)
    *hanging, other = found.answers
    # tree/ll up to 8 KiB in one; LL128, which is shut out, from 4 KiB on in the other.
    assert [one.kind for one in hanging] == [AnswerKind.RANKS_DIFFER] * len(hanging)
    assert 4 * KIB in {one.min_nbytes for one in hanging}
    assert other.kind is AnswerKind.OTHER_FILE
    assert "a.csv" in other.text
    assert "b.csv" in other.text


@pytest.mark.parametrize(
    ("name", "value"), [("RCCLTUNE_STRICT", "2"), ("RCCLTUNE_RECORD", "record-%x.csv")]
)
def test_a_variable_that_is_not_understood(jobs: Jobs, name: str, value: str) -> None:
    """The plugin stops for it and says which."""
    found = ask(jobs.run(env=jobs.with_plugin(jobs.rules(), **{name: value})))
    assert set(kinds(found)) == {AnswerKind.VARIABLE}
    assert f"unset {name}" in (found.answers[0].remedy or "")


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


def test_overwriting_that_nobody_saw_is_said_to_be_possible(jobs: Jobs, tmp_path: Path) -> None:
    """Without the library's TUNING lines its release alone speaks."""
    log = tmp_path / "plugin.log"
    env = jobs.with_plugin(jobs.rules(OVERWRITTEN_RULES))
    env |= {"NCCL_DEBUG_SUBSYS": "INIT", "RCCLTUNE_LOG": f"decisions:{log}"}
    node = two_nodes(jobs, "2.27.7", "rt25")
    found = ask(jobs.run(node=node, arguments="-b 4M -e 16M -f 2", env=env), log)
    assert set(kinds(found)) == {AnswerKind.OVERWRITTEN}
    assert "nothing here says what ran" in found.answers[0].text


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


def test_another_file_than_the_job_read_is_said_before_its_library(jobs: Jobs) -> None:
    """The library that it was measured with is not what the job lacks."""
    read = jobs.rules()
    other = jobs.rules(RULES.replace("RCCL 2.28.3-SIMULATED", "NCCL 2.28.9"), "other.csv")
    found = ask(jobs.run(env=jobs.with_plugin(read)), rules=other)
    assert kinds(found) == [AnswerKind.OTHER_FILE]
    assert lacks(found.answers[0].text, str(read), str(other)) == []
    assert not any("LD_LIBRARY_PATH" in (one.remedy or "") for one in found.remarks)


# --- what files cannot tell -----------------------------------------------------------------------


def test_the_library_alone_says_what_ran_and_not_why(jobs: Jobs) -> None:
    """Without the plugin's files: what ran is compared with the rule file where there is one."""
    env = jobs.with_plugin(rules := jobs.rules(), RCCLTUNE_LOG="off")
    log = jobs.run(env=env)
    alone = ask(log)
    assert set(kinds(alone)) == {AnswerKind.UNKNOWN}
    assert "RCCLTUNE_LOG=decisions" in (alone.answers[0].remedy or "")
    compared = ask(log, rules=rules)
    # The library may have chosen it by itself; and no line tells of a rule file.
    assert at(compared, KIB).kind is AnswerKind.AS_RULE
    assert "RCCLTUNE_LOG=decisions" in (at(compared, KIB).remedy or "")
    answers = {one.title: one.answer for one in compared.questions}
    assert answers["rules"] == "no line tells of a rule file"
    assert "ran as the rule would" in answers["sizes"]
    assert "rule hit" not in answers["sizes"]
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


def test_a_fallback_is_a_hit_of_its_own_line(jobs: Jobs) -> None:
    """Where the first rule cannot be chosen the next one answers."""
    rules = jobs.rules(
        "allreduce,0,4095,tree,ll128,-1,1,64,-1,-1\nallreduce,0,4095,tree,ll,-1,1,64,-1,-1\n"
    )
    found = at(ask(jobs.run(env=jobs.with_plugin(rules)), rules=rules), KIB)
    assert found.kind is AnswerKind.HIT
    assert lacks(found.text, "line 2", "tree/ll") == []
    assert lacks(found.text, "line 1", "tree/ll128") == []


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
