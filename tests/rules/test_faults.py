"""Rule files that people wrote by mistake; right answers are those of the shared data's INDEX.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from wording import lacks

from rccltune.cli import run


@pytest.fixture
def faults(shared_data: Path) -> Path:
    """The folder of small inputs."""
    return shared_data / "faults-2026-11-29"


def test_nodes_and_ranks_that_were_swapped(
    faults: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines 3 and 4 are for 8 ranks on 32 nodes: no call can match."""
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["explain", str(faults / "explain_swapped.txt")]) == 0
    told = capsys.readouterr().out
    for line in (3, 4):
        assert (
            f"line {line}: 8 ranks cannot be on 32 nodes, so that no call can match; swapped?"
            in told
        )


def test_a_local_group_is_named_with_what_is_accepted(
    faults: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field 12 of AMD's fork: the plugin's words, which the Python reader has too."""
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["explain", str(faults / "localgroup_8.txt"), "--mode", "cpx-nps4"]) == 0
    told = capsys.readouterr().out
    assert "localGroup (field 12) is '8'" in told
    assert "only -1" in told
    assert "write -1" in told


# As test/mscclpp-test/common.cc prints it.
MSCCLPP = """\
#                                    in-place                       out-of-place
#       size         count     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144    22.39   46.83   81.95      0

# Out of bounds values : 0 OK
"""
# NCCLX's JSON and CSV (meta/tuner/README.md), Google's text protobuf, other benchmarks (those of
# tests/logs/test_forms.py), one of them as mpirun --tag-output leaves it.
FOREIGN = [
    ("allgather,[8388608,16777216],ring,ll128,-1,*,*\n", "Meta's NCCLX tuner"),
    ("# ours\nallreduce,1048576,ring,ll128,-1,2,8\n", "Meta's NCCLX tuner"),
    ("collective,bytesPerRank,algorithm,protocol,channels,nNodes,nLocalRanks\n", "NCCLX"),
    ("tuning_rules {\n  collective: ALL_REDUCE\n}\n", "Google's tuner plugin"),
    ("# OSU MPI Allreduce Latency Test v7.3\n# Size  Avg Latency(us)\n4  2.1\n", "OSU"),
    ("---- Performance of all_reduce on 8 devices ---\nSize (Bytes)  Description\n", "DeepSpeed"),
    ("\tCOMMS-RES-all_reduce-float32\t   size (B)\t num-elements\t Latency(us):p50\n", "PARAM"),
    ("TransferBench v1.62.00\n===========\n[Common]\n", "TransferBench"),
    (MSCCLPP, "mscclpp-test"),
    ("".join(f"[1,0]<stdout>:{line}\n" for line in MSCCLPP.splitlines()), "mscclpp-test"),
]


@pytest.mark.parametrize(("text", "said"), FOREIGN)
def test_files_of_other_programs_are_called_what_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    """Refused by name, with what is wanted."""
    path = tmp_path / "rules.txt"
    path.write_text(text, encoding="utf-8")
    assert run(["explain", str(path)]) == 3
    assert lacks(capsys.readouterr().err, said) == []


def test_ncclxs_json_is_called_what_it_is(faults: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes per rank and ranks per node: not one of ours."""
    assert run(["explain", str(faults / "ncclx_rules.json")]) == 3
    told = capsys.readouterr().err
    assert "NCCLX" in told
    assert "NCCLX_TUNER_CONFIG_FILE" in told


def test_rules_that_can_never_answer_are_named_with_their_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An algorithm that the collective has not, and sizes that rules above take."""
    path = tmp_path / "rules.csv"
    rows = ("0,100,pat,simple,-1,1,8", "0,90,ring,ll,-1,1,8", "10,50,ring,ll,-1,1,8")
    path.write_text("".join(f"allreduce,{row}\n" for row in rows), encoding="utf-8")
    assert run(["explain", str(path)]) == 0
    told = capsys.readouterr().out
    assert "not selectable: line 1: PAT serves all_gather and reduce_scatter only" in told
    assert "dead: line 3 can never be reached" in told
