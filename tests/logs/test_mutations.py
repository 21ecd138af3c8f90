"""Every form of input with one letter changed: an error that says where, or no other value.

A changed digit inside a number is another number, which nobody can see; so letters are changed
that stand between numbers, in names and labels, or lines are cut, doubled or swapped.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from sample_rows import samples_of

from rccltune.logs.parsed_log import read_log
from rccltune.model.errors import RccltuneError
from rccltune.model.measurement import Caution, StatedFacts
from rccltune.model.vocabulary import Collective

ROWS = """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 20
#  Rank  0 Group  0 Pid   7774 on nodeA device  0 [0000:8f:00] NVIDIA H200
#  Rank  1 Group  0 Pid   7775 on nodeA device  1 [0000:8f:00] NVIDIA H200
#                            out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
        1024           256     float     sum      -1    28.39    0.04    0.04      0    28.07    0.04    0.04      0
        2048           512     float     sum      -1    29.41    0.07    0.07      0    29.13    0.07    0.07      0
        4096          1024     float     sum      -1    31.55    0.13    0.13      0    31.17    0.13    0.13      0
# Out of bounds values : 0 OK
"""
LIBRARY = """\
nodeA:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Ring
nodeA:1:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1 commId 0xa - Init COMPLETE
"""
FORMS = {
    "table": ROWS,
    "labelled": "".join(f"[default0]:{line}" for line in ROWS.splitlines(keepends=True)),
    "commands": "$ mpirun -x NCCL_ALGO=Ring -x NCCL_PROTO=LL ./all_reduce_perf\n" + ROWS,
    "docker": "".join(
        json.dumps({"log": line, "stream": "stdout"}) + "\n"
        for line in ROWS.splitlines(keepends=True)
    ),
    "library": LIBRARY + ROWS,
    # Old nccl-tests, rows that somebody cut out with grep, rccl-tests -Z csv: 13 names, 14 values.
    "old": (
        "#  Rank  0 Pid 7 on n device  0 [0x00] NVIDIA H200\n"
        "#  Rank  1 Pid 7 on n device  1 [0x00] NVIDIA H200\n"
        "#                                                     out-of-place                       in-place\n"
        "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "        1024           256   float     sum    28.39    0.04    0.04  5e-07    28.07    0.04    0.04  5e-07\n"
        "     1048576        262144   float     sum    78.39   13.38   13.38  5e-07    78.07   13.43   13.43  5e-07\n"
    ),
    "markers": (
        "### ALGO=Ring size=1048576\n"
        "     1048576        262144     float     sum      -1    78.39   13.38   13.38      0    78.07   13.43   13.43      0\n"
        "# Avg bus bandwidth    : 13.4\n"
        "### ALGO=Ring size=2097152\n"
        "     2097152        524288     float     sum      -1    99.39   21.10   21.10      0    99.07   21.17   21.17      0\n"
    ),
    "rccl csv": (
        "numCycle,collective,ranks,rankspernode,gpusperrank,size,type,redop,inplace,time,algbw,busbw,#wrong\n"
        '0,"AllReduce",1,2,2,1,4096,"float","sum",0,15.903506,0.257553,0.257553,"0"\n'
        '0,"AllReduce",1,2,2,1,4096,"float","sum",1,13.450975,0.304513,0.304513,"0"\n'
    ),
    "csv": "nbytes,time_us,algbw,busbw\n1024,28.39,0.04,0.04\n2048,29.41,0.07,0.07\n",
    "busbw": "# size busbw\n1048576 73.40\n2097152 91.75\n",
    "json": (
        '[{"numCycle": 0, "name": "AllReduce", "nodes": 1, "ranks": 2, "size": 1024, "type": '
        '"float", "redop": "sum", "inPlace": 0, "time": 28.39, "algBw": 0.04, "busBw": 0.04, '
        '"wrong": "0"},\n{"numCycle": 0, "name": "AllReduce", "nodes": 1, "ranks": 2, "size": '
        '2048, "type": "float", "redop": "sum", "inPlace": 0, "time": 29.41, "algBw": 0.07, '
        '"busBw": 0.07, "wrong": "0"}]\n'
    ),
    "nccl json": (
        '{"version": 3, "args": ["all_reduce_perf"], "env": ["A=b"], "config": {}, "results": '
        '[{"size": 1024, "count": 256, "type": "float", "redop": "sum", "root": "-1", '
        '"out_of_place": {"time": 28.39, "alg_bw": 0.036069, "bus_bw": 0.036069, "nwrong": 0}, '
        '"in_place": null, "tuning": {"implementation": "x", "algo": "RING", "proto": "LL", '
        '"#channels": 2}}]}\n'
    ),
}  # fmt: skip


def changed(text: str, dice: random.Random) -> str:
    """The text with one harmless-looking mistake."""
    lines = text.splitlines(keepends=True)
    at = dice.randrange(len(text))
    match dice.randrange(5):
        case 0:  # the end is lost
            return text[:at]
        case 1:  # a letter that is no digit becomes another
            while text[at] in "0123456789.\n":
                at = dice.randrange(len(text))
            return text[:at] + dice.choice("xX#[]{}:,;|\"' \t\x1b\u00e9") + text[at + 1 :]
        case 2:  # a letter is put in where no number is
            while text[at] in "0123456789." or text[at - 1] in "0123456789.":
                at = dice.randrange(len(text))
            return text[:at] + dice.choice("xX#[]{}:,;|\"' \t\n") + text[at:]
        case 3:  # a line is lost
            del lines[dice.randrange(len(lines))]
            return "".join(lines)
        case _:  # two lines change places
            one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
            lines[one], lines[other] = lines[other], lines[one]
            return "".join(lines)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("n", [8, pytest.param(300, marks=pytest.mark.long)])
@pytest.mark.parametrize("form", FORMS)
def test_no_mutation_gives_a_traceback_or_another_value(tmp_path: Path, form: str, n: int) -> None:
    """What is read are sizes and times that stand in one row of the file."""
    text, dice = FORMS[form], random.Random(form)
    path = tmp_path / "x.log"
    stated = StatedFacts(collective=Collective.ALL_REDUCE, n_ranks=2, n_nodes=1)
    path.write_text(text)
    honest = {(s.nbytes, s.time_us) for s in samples_of(read_log(path, stated, "L"))}
    assert honest
    read_well = 0
    for number in range(n):
        bad = changed(text, dice)
        path.write_text(bad)
        try:
            reading = read_log(path, stated, "L")
        except RccltuneError as error:
            if error.where is None and "--" not in error.message:
                pytest.fail(bad)
            continue
        derived = Caution.DERIVED_TIME in {one.caution for one in reading.notices}
        if form != "busbw" and derived:
            # It is said that the times were worked out.
            continue
        samples = [s for s in samples_of(reading) if s.doubt is None]
        if form in ("csv", "busbw") and not bad.endswith("\n"):
            # A number that lost its end is another number; a file may end without a line end.
            samples = samples[:-1]
        found = {(s.nbytes, s.time_us) for s in samples}
        assert found <= honest, (number, bad)
        read_well += 1
    assert read_well > n / 10
