"""Every form of log that `rccltune why` reads, damaged: an answer or an error, never a traceback."""

from __future__ import annotations

import random
import re
from contextlib import suppress
from pathlib import Path

import pytest

from rccltune.model.errors import RccltuneError
from rccltune.why.explain_job import explain_job

# Lines as the libraries and the plugin print them, with hosts and paths replaced: RCCL 2.28.3 and
# NCCL 2.27 (src/plugin/tuner.cc, src/enqueue.cc, src/init.cc), RCCL 2.30's csv_tuner.cc,
# aws-ofi-nccl, native_plugin/src/watch.c, rccl-tests -A.
_HEAD = "node1:100:100 [0] NCCL INFO "
_INIT = (
    "node1:100:100 [0] NCCL INFO RCCL version : 2.28.3-HEAD:abc\n"
    f"{_HEAD}ncclCommInitRank comm 0xa rank 0 nranks 2 cudaDev 0 busId 1 commId 0x9 - Init COMPLETE\n"
    f"{_HEAD}comm 0xa rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0\n"
)
FORMS = {
    "plugin": _INIT
    + f"{_HEAD}TUNER/Plugin: Using rccltune (v5)\n"
    + "rccltune: comm=0x9 nodes=1 ranks=2 abi=v5 rules=2 of=2 skipped-rows=0 file=/r.csv sha256="
    + "ab" * 32
    + "\n"
    "rccltune: comm=0x9 decision collective=allreduce nbytes=1024 answer=tree/ll/4 line=3 "
    "host=ring/ll offered=ring/ll,tree/ll reason=R20 rule-hit\n"
    "rccltune: comm=0x9 decision collective=allreduce nbytes=2048 answer=none line=0 host=ring/ll "
    "reason=R22 no-rule\n"
    "rccltune: comm=0x9 summary calls=9 hits=4 misses=5 not-selectable=0 fallbacks=0\n"
    "rccltune: comm=0x9 rule line=3 setting=tree/ll channels=4 hits=4\n"
    f"{_HEAD}AllReduce: 1024 Bytes -> Algo TREE proto LL channel{{Lo..Hi}}={{0..3}}\n",
    "refused": "rccltune: error: nodes=1 ranks=2: R10 file-refused: "
    "/r.csv: refused, 1 errors\n"
    "  line 3: unknown algorithm 'teapot' [unknown-algorithm]\n",
    "own reader": _INIT
    + f"{_HEAD}NCCL_TUNER_CONFIG_FILE set by environment to /opt/my.csv\n"
    + f"{_HEAD}Using built-in CSV tuner, config: /opt/my.csv\n"
    + f"{_HEAD}TUNER/CsvTuner: Skipping line 5 with unknown algorithm: allreduce,0,9,Tree,ll,1\n"
    + f"{_HEAD}TUNER/CsvTuner: Loaded 1 tuning configurations from /opt/my.csv\n"
    + f"{_HEAD}TUNER/CsvTuner: Applied config for allreduce, bytes=1024: algo=tree, proto=ll, "
    "channels=64\n",
    "network": _INIT
    + f"{_HEAD}NET/OFI Need to force simple protocol: GDR is not supported\n"
    + f"{_HEAD}NET/OFI Adding NCCL_PROTO=simple to environment\n"
    + f"{_HEAD}NET/OFI Adding NCCL_TUNER_PLUGIN=libnccl-ofi.so to environment\n"
    + f"{_HEAD}NET/OFI The tuner plugin can not be loaded when explicitly choosing NCCL_PROTO\n",
    "not loaded": _INIT
    + f"{_HEAD}NCCL_TUNER_PLUGIN set by environment to /x.so\n"
    + f"{_HEAD}TUNER/Plugin: Plugin name set by env to /x.so\n"
    + f"{_HEAD}TUNER/Plugin: Could not find: /x.so.\n"
    + f"{_HEAD}TUNER/Plugin: Using internal tuner plugin.\n",
    "other tuners": _INIT
    + f"{_HEAD}TUNER/Plugin: Using Example (v5)\n"
    + f"{_HEAD}TUNER/ExamplePlugin: Initializing tuner for 1 nodes, 2 ranks, 1 NVL domains\n"
    + f"{_HEAD}TUNER/ExamplePlugin: Loaded config: allreduce [0-98304] tree/ll channels=-1 nodes=4 "
    "ranks=2 pipeOps=any regBuff=any\n"
    + f"{_HEAD}TUNER/ExamplePlugin: Loaded 1 tuning configurations from t.conf\n"
    + f"{_HEAD}NCCLX TUNER: matched rule for collType=4 nBytes=4096 (bytesPerRank=* nNodes=*) -> "
    "algo=0 proto=0 channels=-1\n",
    "stuck": _INIT
    + "node1:100:100 [0] NCCL WARN Error : no algorithm/protocol available for function AllReduce "
    "with datatype ncclFloat32. NCCL_ALGO was set to Tree.\n",
    "calls": _INIT
    + f"{_HEAD}AllReduce: opCount 1 sendbuff 0x1 recvbuff 0x2 acc (nil) count 256 datatype 7 op 0 "
    "root 0 comm 0xa [nranks=2] stream 0x3\n"
    + "".join(
        f"{_HEAD}{name}: opCount 2 sendbuff 0x1 recvbuff 0x2 acc (nil) count 64 datatype 7 op 0 "
        f"root {root} comm 0xa [nranks=2] stream 0x3\n"
        for root in (0, 1)
        for name in ("Send", "Recv")
    )
    + f"{_HEAD}1024 Bytes -> Algo 1 proto 0 time 12.8\n",
    "table": "# nThread 1 nGpus 2 minBytes 8 maxBytes 8 step: 2(factor) graph: 0\n"
    "# Collective test starting: all_reduce_perf\n"
    "#  Rank  0 Group  0 Pid  7 on node1 device  0 [0000:8f:00] AMD Instinct MI300X\n"
    "#  Rank  1 Group  0 Pid  8 on node1 device  1 [0000:90:00] AMD Instinct MI300X\n"
    "# out-of-place in-place\n"
    "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong algo proto "
    "nchannels\n"
    "  1024  256  float  sum  -1  28.39  0.04  0.04  0  28.07  0.04  0.04  0  RING  LL  4\n"
    "  2048  512  float  sum  -1  29.41  0.07  0.07  0  29.13  0.07  0.07  0  Direct  N/A  4\n",
}  # fmt: skip
_ODD = (b"\xff", b"\x00", b"\x1b[0m", b"-", b"9" * 30, b"\n", b" ", b"|", b"\xc3\xa9", b"None")


def damaged(data: bytes, dice: random.Random) -> bytes:
    """Data without its end or a line, with a line twice or two changed over, or with odd bytes."""
    lines = data.splitlines(keepends=True)
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    at = dice.randrange(len(data))
    match dice.randrange(5):
        case 0:
            return data[:at]
        case 1:
            del lines[one]
        case 2:
            lines.insert(other, lines[one])
        case 3:
            lines[one], lines[other] = lines[other], lines[one]
        case _:
            return data[:at] + dice.choice(_ODD) + data[at + dice.randrange(3) :]
    return b"".join(lines)


def numbers(text: str) -> set[int]:
    """Sizes that a text may mean: its numbers, as bytes or elements, of one rank or of both."""
    plain = {int(digits) for digits in re.findall(r"\d{1,19}", text)}
    return {one * factor for one in plain for factor in (1, 2, 4, 8, 16)}


@pytest.mark.parametrize("n", [30, pytest.param(300, marks=pytest.mark.long)])
@pytest.mark.parametrize("form", FORMS)
def test_damage_of_any_form_is_answered(tmp_path: Path, form: str, n: int) -> None:
    """Up to three mistakes each, the form's name is the seed: six answers, no size of none's."""
    path, dice = tmp_path / "job.log", random.Random(form)
    path.write_bytes(FORMS[form].encode())
    assert explain_job([path]).questions
    for _ in range(n):
        data = FORMS[form].encode()
        for _ in range(dice.randint(1, 3)):
            data = damaged(data, dice) or data
        path.write_bytes(data)
        with suppress(RccltuneError):
            found = explain_job([path])
            assert len(found.questions) == 6
            said = {x for one in found.answers for x in (one.min_nbytes, one.max_nbytes)}
            assert said - {None} <= numbers(data.decode("utf-8", "replace")), (form, data)


def told(tmp_path: Path, text: str, title: str) -> tuple[str, list[str]]:
    """The answer of one question, and the lines that show it."""
    path = tmp_path / "job.log"
    path.write_text(text)
    found = {one.title: one for one in explain_job([path]).questions}[title]
    return found.answer, (found.shown or "").splitlines()


def test_the_lines_of_both_ranks_show_that_they_differ(tmp_path: Path) -> None:
    """Each value with the first line that has it."""
    text = _INIT + f"{_HEAD}NCCL_ALGO set by environment to Ring\n" * 2
    text += "node2:7:7 [1] NCCL INFO NCCL_ALGO set by environment to Tree\n"
    answer, lines = told(tmp_path, text, "ranks")
    assert answer == "NCCL_ALGO differs: Ring, Tree"
    assert [line.partition("job.log:")[2] for line in lines] == [
        "4: NCCL_ALGO set by environment to Ring",
        "6: NCCL_ALGO set by environment to Tree",
    ]
