"""Public INFO logs, as they were found: none of their jobs had a tuner of ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import ask, kinds
from wording import lacks

from rccltune.model.errors import TooLittleDataError
from rccltune.why.job_report import AnswerKind, CommunicatorScale


def test_nccl_of_four_gpus_with_info_inside_rows(shared_data: Path) -> None:
    """NCCL 2.29.2 found no libnccl-tuner.so; NVLS ran at six sizes and more."""
    found = ask(shared_data / "logs/nv34_4gpu_allreduce_rows_split_by_info.log")
    assert kinds(found) == [AnswerKind.NOT_LOADED]
    answer = found.answers[0]
    assert answer.where == CommunicatorScale(1, 4)
    assert (answer.min_nbytes, answer.max_nbytes) == (256 * 1024**2, 8 * 1024**3)
    assert answer.n_sizes == 6
    assert lacks(answer.text, "NCCL_TUNER_PLUGIN", "NCCL", "2.29.2+cuda13.1") == []
    assert lacks(answer.remedy, 'NCCL_TUNER_PLUGIN="$(rccltune', "--path") == []


def test_two_jobs_of_eight_ranks_in_one_log(shared_data: Path) -> None:
    """The file's name says 16 ranks; two hosts ran by themselves (INDEX.md's trap)."""
    found = ask(shared_data / "logs/amd10_mi35x_2n16r_allreduce_info_interleaved.log")
    assert {(a.where, a.kind) for a in found.answers} == {
        (CommunicatorScale(1, 8), AnswerKind.NOT_LOADED)
    }


def test_a_log_without_any_line_of_tuners(shared_data: Path) -> None:
    """An excerpt of a job that died: nothing is claimed."""
    with pytest.raises(TooLittleDataError):
        ask(shared_data / "logs/amd12_mi355x_8r_allreduce_shm_alloc_failed.log")


def test_no_other_log_is_claimed_to_tell_much(shared_data: Path) -> None:
    """Benchmarks without NCCL_DEBUG: unknown, one that has no tuner, or what never asks one."""
    for path in sorted((shared_data / "logs").glob("*.log")):
        if path.name.startswith(("nv34", "amd10")):
            continue
        try:
            found = ask(path)
        except TooLittleDataError:
            continue
        fair = {AnswerKind.UNKNOWN, AnswerKind.NOT_TUNABLE, AnswerKind.NOT_LOADED}
        assert set(kinds(found)) <= fair, path.name
