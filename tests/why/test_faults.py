"""Public logs that were answered wrongly once; right answers are those of their INDEX.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import ask

from rccltune.why.job_report import AnswerKind, JobReport


@pytest.fixture
def faults(shared_data: Path) -> Path:
    """The folder of small inputs."""
    return shared_data / "faults-2026-11"


def words(found: JobReport) -> str:
    """All that is said."""
    questions = [f"{one.answer} {one.shown or ''} {one.remedy or ''}" for one in found.questions]
    answers = [f"{one.text} {one.remedy or ''}" for one in found.answers]
    remarks = [f"{one.text} {one.remedy or ''}" for one in found.remarks]
    return "\n".join([*questions, *answers, *remarks])


def test_the_built_in_reader_with_the_users_file(faults: Path) -> None:
    """128 KiB: its rule; 448 KiB: no rule of it; it is not the library's own table."""
    found = ask(faults / "ours.log")
    kinds = {one.min_nbytes: one.kind for one in found.answers}
    assert kinds == {131072: AnswerKind.HIT, 458752: AnswerKind.HOLE}
    hit = next(one for one in found.answers if one.kind is AnswerKind.HIT)
    assert "tree/ll/64" in hit.text
    assert "own table" not in words(found)
    assert "embedded" not in words(found)
    assert "/data/rccltune-session/rccl_tuner_gfx942_cpx-nps4.csv" in found.questions[1].answer
    assert "ours.log:3" in str(found.questions[1].shown)


def test_a_skipped_line_leaves_no_rule(faults: Path) -> None:
    """Line 5 of /opt/my.csv names an unknown algorithm, and nothing was loaded."""
    found = ask(faults / "skip.log")
    assert {one.kind for one in found.answers} == {AnswerKind.REFUSED}
    said = found.questions[1]
    assert "line 5 of /opt/my.csv names an unknown algorithm" in said.answer
    assert "no rule was loaded" in said.answer
    assert "skip.log:5" in str(said.shown)
    assert "tree" in str(said.remedy)


def test_a_users_file_that_the_library_did_not_take(faults: Path) -> None:
    """The variable names a file, the library took its embedded table."""
    found = ask(faults / "ignored-userfile.log")
    said = found.questions[1]
    assert "/opt/typo.csv" in said.answer
    assert "was not used" in said.answer
    assert "embedded" in said.answer
    assert "ignored-userfile.log:3" in str(said.shown)
    assert "embedded table" in found.answers[0].text


def test_a_network_plugin_that_sets_the_protocol(faults: Path) -> None:
    """aws-ofi-nccl asked for its tuner and for Simple, which must stay."""
    found = ask(faults / "netplugin-sets-proto.log")
    assert "unset NCCL_PROTO" not in words(found)
    tuner, overwritten = found.questions[0], found.questions[3]
    assert "nccl_ofi_tuner" in tuner.answer
    assert "network plugin" in tuner.answer
    assert "NCCL_PROTO=simple" in overwritten.answer
    assert "aws-ofi-nccl" in overwritten.answer
    assert "GDR not supported" in overwritten.answer
    assert "netplugin-sets-proto.log:3" in str(overwritten.shown)


# --- faults-2026-11-29 ----------------------------------------------------------------------------


@pytest.fixture
def later(shared_data: Path) -> Path:
    """The folder of what was found later."""
    return shared_data / "faults-2026-11-29"


def test_nvidias_example_says_which_rules_it_read(later: Path) -> None:
    """Two of a file, of which one is for 8 ranks on 32 nodes: no communicator can match it."""
    found = ask(later / "why_example_loaded.txt")
    assert [str(one.where) for one in found.answers] == ["32 ranks on 4 nodes"]
    assert AnswerKind.NOT_LOADED not in {one.kind for one in found.answers}
    tuner, rules = found.questions[:2]
    assert "Example is loaded" in tuner.answer
    assert "my_tunings.conf is in force, 2 rules" in rules.answer
    (never,) = [one.text for one in found.remarks if "never matches" in one.text]
    assert "from 96 KiB" in never
    assert "for 8 ranks on 32 nodes" in never
    assert "swapped?" in never
    assert "why_example_loaded.txt:5" in never


def test_ranks_that_chose_differently_are_said_first_of_all(later: Path) -> None:
    """Ranks 0 and 8 of one communicator, one call of 256 KiB."""
    found = ask(later / "why_ranks_differ.txt")
    assert found.answers[0].kind is AnswerKind.RANKS_DIFFER
    first = found.questions[0]
    assert first.title == "ranks"
    for word in ("rank 0 (node-a", "tree/ll", "rank 8 (node-b", "ring/ll", "256 KiB", "0xabc123"):
        assert word in first.answer
    assert [line.split(": ")[0][-2:] for line in (first.shown or "").splitlines()] == [":6", ":7"]


def test_a_choice_in_numbers_without_a_collective(later: Path) -> None:
    """NCCL_PROTO=Simple asks for what ran; which collective it was no line says."""
    (answer,) = ask(later / "why_numeric_choice.txt").answers
    assert answer.min_nbytes == 768 * 1024**2
    assert "ring/simple, as NCCL_PROTO=Simple asks" in answer.text
    assert "which collective is not told" in answer.text


def test_msccl_before_the_tuner_is_named(later: Path) -> None:
    """MSCCL is initialised, which takes calls without a line."""
    found = ask(later / "why_mscc_init_only.txt")
    assert [one.min_nbytes for one in found.answers] == [1024**2]
    (remark,) = [one for one in found.remarks if "MSCCL is initialised" in one.text]
    assert "RCCL_MSCCL_ENABLE=0" in str(remark.remedy)
    assert "why_mscc_init_only.txt:3" in remark.text


def test_a_local_size_is_no_number_of_ranks(faults: Path) -> None:
    """RCCL 2.20 prints one behind its communicator's id: 4 ranks."""
    assert {one.where.n_ranks for one in ask(faults / "localsize.log").answers} == {4}


# --- lines of other tuners, as their sources print them -------------------------------------------

HEAD = "h:7:7 [0] NCCL INFO "
COMM = f"{HEAD}comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0"
RAN = f"{HEAD}AllReduce: 4096 Bytes -> Algo TREE proto LL channel{{Lo..Hi}}={{0..3}}"


def ask_lines(path: Path, *lines: str) -> JobReport:
    """Ask about a log of some lines."""
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ask(path)


@pytest.mark.parametrize(
    ("lines", "name", "file"),
    [
        # NCCL 2.30.7 plugins/tuner/example/plugin.c.
        (
            [
                f"{HEAD}TUNER/Plugin: Using Example (v5)",
                f"{HEAD}TUNER/ExamplePlugin: Loaded 3 tuning configurations from /opt/t.conf",
                (
                    f"{HEAD}TUNER/ExamplePlugin: Applied config for collType=allreduce, bytes=4096, "
                    "pipeOps=1, regBuff=0: algo=tree, proto=ll, channels=default (nodes=1, ranks=8)"
                ),
            ],
            "Example",
            "/opt/t.conf",
        ),
        # NCCLX v2.30 meta/tuner/MetaTuner.cc.
        (
            [
                f"{HEAD}NCCLX TUNER: using built-in tuner",
                f"{HEAD}NCCLX TUNER: loaded 3 tuning rule(s) from '/opt/t.csv'",
                (
                    f"{HEAD}NCCLX TUNER: matched rule for collType=4 nBytes=4096 (bytesPerRank=* "
                    "nNodes=* nLocalRanks=*) -> algo=0 proto=0 channels=-1"
                ),
            ],
            "NCCLX",
            "/opt/t.csv",
        ),
    ],
)
def test_rules_of_other_tuners(tmp_path: Path, lines: list[str], name: str, file: str) -> None:
    """At 4 KiB its rule asks for tree/ll, and that ran; at 8 KiB it has none."""
    other = RAN.replace("4096", "8192").replace("TREE", "RING")
    found = ask_lines(tmp_path / "job.log", COMM, *lines, RAN, other)
    hit, hole = found.answers
    assert (hit.kind, hit.min_nbytes, hit.channels) == (AnswerKind.HIT, 4096, (4, 4))
    assert "answered tree/ll, and that ran" in hit.text
    assert (hole.kind, hole.min_nbytes) == (AnswerKind.HOLE, 8192)
    assert name in found.questions[0].answer
    assert f"{file} is in force, 3 rules" in found.questions[1].answer


# --- ranks that differ ----------------------------------------------------------------------------

START = "rccltune: comm=00000000000000ab nodes=1 ranks=8 abi=v5 rules=1 of=1 skipped-rows=0 file=/r.csv sha256="
DECISION = (
    "rccltune: comm=00000000000000ab decision collective=allreduce nbytes=4096 answer={} line={} "
    "host=ring/ll reason={}"
)


@pytest.mark.parametrize(
    ("its", "is_apart"),
    [
        (("tree/ll/16", 3, "R20 rule-hit"), False),
        (("tree/ll128/16", 3, "R20 rule-hit"), True),
        # The library's own choice there.
        (("none", 0, "R22 no-rule"), True),
        (("tree/ll/8", 4, "R20 rule-hit"), True),
    ],
)
@pytest.mark.parametrize("is_labelled", [True, False])
def test_decisions_of_ranks_are_compared(
    tmp_path: Path, its: tuple[str, int, str], *, is_apart: bool, is_labelled: bool
) -> None:
    """One file each, or one stream with a launcher's names of ranks."""
    texts = [DECISION.format("tree/ll/16", 3, "R20 rule-hit"), DECISION.format(*its)]
    begin = START + "0" * 64
    paths = [tmp_path / "all.log"] if is_labelled else [tmp_path / "a.log", tmp_path / "b.log"]
    lines = [[f"[1,{n}]<stderr>:{one}" for one in (begin, text)] for n, text in enumerate(texts)]
    if is_labelled:
        paths[0].write_text("\n".join([*lines[0], *lines[1]]) + "\n", encoding="utf-8")
    else:
        for path, text in zip(paths, texts, strict=True):
            path.write_text(f"{begin}\n{text}\n", encoding="utf-8")
    found = ask(*paths)
    assert (found.answers[0].kind is AnswerKind.RANKS_DIFFER) is is_apart
    if is_apart and is_labelled:
        assert "rank 0 took tree/ll/16 and rank 1" in found.answers[0].text


def test_what_only_rank_0_tells_is_not_known_of_others(tmp_path: Path) -> None:
    """Stock libraries write rank 0's choices alone; the plugin's variable makes every rank tell."""
    for lines, known in (((COMM, RAN), "only one rank's choices are"), ((COMM,), "no choice is")):
        found = ask_lines(tmp_path / "job.log", *lines, f"{HEAD}NCCL version 2.28.9+cuda13.0")
        (ranks,) = [one for one in found.questions if one.title == "ranks"]
        assert ranks.answer.startswith(f"not known: {known} here")
        assert "RCCLTUNE_LOG=decisions:/path/plugin.%h.%p" in ranks.answer


SUMMED = "rccltune: comm=00000000000000ab summary calls=9 hits={} misses={} not-selectable={} fallbacks=0"


@pytest.mark.parametrize(
    ("sums", "kind"),
    [
        ((9, 0, 0), AnswerKind.HIT),
        ((4, 5, 0), AnswerKind.HOLE),
        ((0, 9, 0), AnswerKind.HOLE),
        ((4, 0, 5), AnswerKind.NOT_SELECTABLE),
        # Of which sizes the one or the other is true the plugin's sums do not say.
        ((4, 2, 3), AnswerKind.UNKNOWN),
    ],
)
def test_sums_alone(tmp_path: Path, sums: tuple[int, int, int], kind: AnswerKind) -> None:
    """RCCLTUNE_LOG=summary without the rule file: calls by how they were answered."""
    (answer,) = ask_lines(tmp_path / "job.log", START + "0" * 64, SUMMED.format(*sums)).answers
    assert (answer.kind, answer.min_nbytes, str(answer.where)) == (kind, None, "8 ranks on 1 node")
    assert all(str(n) in answer.text for n in sums[1:] if n and kind is not AnswerKind.HIT)
    assert (answer.remedy is None) == (kind is AnswerKind.HIT)


def test_no_question_at_all_is_a_path_before_the_tuner(tmp_path: Path) -> None:
    """A summary of no calls."""
    none = SUMMED.format(0, 0, 0).replace("calls=9", "calls=0")
    (answer,) = ask_lines(tmp_path / "job.log", START + "0" * 64, none).answers
    assert answer.kind is AnswerKind.BYPASSED


def test_a_rule_that_leaves_a_size_to_the_library(tmp_path: Path) -> None:
    """As native_plugin/src/watch.c writes -1 for algorithm and protocol."""
    said = DECISION.format("-1/-1", 7, "R24 left-to-library")
    (answer,) = ask_lines(tmp_path / "job.log", START + "0" * 64, said).answers
    assert answer.kind is AnswerKind.HOLE
    assert "rule of line 7 leaves this size" in answer.text


def test_symmetric_kernels_are_named(tmp_path: Path) -> None:
    """NCCL 2.27 on says so itself (src/include/symmetric_sched.h): a rank's share, of eight."""
    line = f"{HEAD}AllGather [Symmetric]: 512 Bytes -> Kernel AllGather_LL nchannels 4 nthreads 512"
    (answer,) = ask_lines(tmp_path / "job.log", COMM, line).answers
    assert (answer.kind, answer.min_nbytes) == (AnswerKind.BYPASSED, 4096)
    assert "symmetric kernels" in answer.text
    assert "symmetric windows" in str(answer.remedy)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("TUNER/Plugin: Using rccltune (v5)", "TUNER/Plugin: Using Example (v5)"), "tuners"),
        (("NCCL version 2.28.9+cuda13.0", "NCCL version 2.27.7+cuda12.9"), "libraries"),
    ],
)
def test_what_ranks_load_differently(tmp_path: Path, lines: tuple[str, str], said: str) -> None:
    """Both lines show it."""
    found = ask_lines(tmp_path / "job.log", COMM, *(HEAD + line for line in lines), RAN)
    (ranks,) = [one for one in found.questions if one.title == "ranks"]
    assert ranks.answer.startswith(f"ranks load different {said}: ")
    assert [one.split(": ")[0][-2:] for one in (ranks.shown or "").splitlines()] == [":2", ":3"]


def test_a_line_of_several_messages_is_cut(tmp_path: Path) -> None:
    """Only the last one is whole, and they are counted."""
    torn = f"{HEAD}NCCL_ALGO set by environment to Ri{HEAD}NCCL_ALGO set by environment to Ring"
    found = ask_lines(tmp_path / "job.log", COMM, torn, RAN)
    assert "NCCL_ALGO=Ring shuts" in next(
        one.answer for one in found.questions if one.title == "overwritten"
    )
    assert [one.text for one in found.remarks if "1 lines hold messages" in one.text]
