"""Public logs that were answered wrongly once; right answers are those of their INDEX.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import ask

from rccltune.why.records import AnswerKind, JobReport


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
