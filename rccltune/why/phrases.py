"""The library's own phrases, each release's, and the lines that they stand in.

Texts are those of RCCL 2.18 to 2.30 and NCCL 2.18 to 2.32 (``src/init.cc``, ``src/enqueue.cc``,
``src/plugin/plugin_open.cc``, ``src/plugin/tuner.cc``, ``src/misc/tuner.cc``,
``src/include/symmetric_sched.h``, RCCL's ``src/plugin/tuner/csv_tuner.cc``). Lines of many ranks
may share one stream and be torn by that: a message counts only where all of its parts are there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from rccltune.logs import COLL_CHANNELS, LOG_HEAD, LOG_LEVELS, MODEL_ROW
from rccltune.why.records import Loading

_HEAD: Final = re.compile(rf"{LOG_HEAD}(?:{LOG_LEVELS}) ")
ENV: Final = re.compile(r"\b([A-Z][A-Z0-9_]+) set by environment to (\S+)")
OLD_ENV: Final = re.compile(r"\b(NCCL_TUNER_PLUGIN) set to (\S+)")
VERSION: Final = re.compile(r"\b([RN]CCL) version\s*:?\s*(\d+\.\d+\.\d+\S*)")
FILE: Final = re.compile(r"\bLib[rn]ccl path\s*:\s*(\S.*?)\s*$")
NODES: Final = re.compile(r"\bcomm (0x\w+) rank (\d+) nRanks (\d+) nNodes (\d+) ")
INIT: Final = re.compile(r"\bcomm (0x\w+) rank (\d+) nranks (\d+) .*?commId 0x(\w+) - Init ")
CHOICE: Final = re.compile(
    r"(?:(\w+): )?(?:opCount \w+ )?(\d{1,19}) Bytes -> Algo(?:rithm)? (\w+) "
    r"proto(?:col)? (\w+)(?=( time \S| .*channel\{| channel\{))"
)
SYMMETRIC_CALL: Final = re.compile(
    r"(\w+) \[Symmetric\]: (\d{1,19}) Bytes -> Kernel \S+ nchannels "
)
APPLIED: Final = re.compile(
    r"Applied config for (\w+), bytes=(\d{1,19}): algo=(\w+), proto=(\w+), channels=(-?\d+)"
)
CALL: Final = re.compile(
    r"(?P<name>\w+): opCount \w+ sendbuff \S+ recvbuff (?P<buffer>\S+) (?:acc \S+ )?"
    r"count (?P<count>\d{1,18}) datatype (?P<dtype>\d+) op (?P<op>\d+) root (?P<root>-?\d{1,9}) "
    r"comm (?P<comm>\S+) \[nranks=(?P<n_ranks>\d{1,9})\]"
)
MODEL: Final = re.compile(MODEL_ROW)
# Releases before 2.19 name neither function nor type.
STUCK: Final = re.compile(
    r"no algorithm/protocol available(?: for function (\w+)(?: with datatype (\w+))?)?"
)
LIMIT: Final = re.compile(r"\b(NCCL_\w+) was set to (\S+?)\.?(?=\s|$)")
CHANNELS: Final = re.compile(COLL_CHANNELS)
# Specific texts first: the first that fits says what a line means.
LOADING: Final = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        # From 2.28 on, from 2.21.5 to 2.27, and before.
        (r"TUNER/Plugin: Using (?!internal)(\S+ \(v\d+\))", Loading.USING),
        (r"TUNER/Plugin: Using tuner plugin (\S+)", Loading.USING),
        (r"Using tuner plugin: '([^']+)'", Loading.USING),
        (r"Successfully loaded external tuner plugin (\S+)", Loading.NAMED),
        (r"TUNER/Plugin: Plugin name set by env to (\S+)", Loading.NAMED),
        (r"External tuner plugin (\S+) is unsupported", Loading.UNSUPPORTED),
        (r"(ncclTunerPlugin_v1) in plugin", Loading.NO_SYMBOL),
        (r"TUNER/Plugin: Failed to find (ncclTunerPlugin_v\d+) symbol", Loading.NO_SYMBOL),
        (r"TUNER/Plugin: Could not find: (\S+?)\.?(?=\s|$)", Loading.NOT_FOUND),
        (r"Tuner: no plugin found '([^']+)'", Loading.NOT_FOUND),
        (r"TUNER/Plugin: Plugin load returned \d+ : (.+)", Loading.FAILED),
        (r"Using built-in CSV tuner, config: (\S+)", Loading.TABLE),
        (r"TUNER/CsvTuner: Loaded \d+ tuning configurations from (\S+)", Loading.TABLE),
        (r"TUNER/Plugin: (Using internal tuner)", Loading.INTERNAL),
        (r"TUNER/Plugin: ((?!Failed|Closing|Using|Could|Plugin)\S.*: .+)", Loading.FAILED),
    )
)
DTYPES: Final = (
    *("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double"),
    *("bfloat16", "fp8_e4m3", "fp8_e5m2"),
)


class Process(NamedTuple):
    """Who wrote a message."""

    host: str
    pid: int


def messages(text: str) -> Iterator[tuple[Process | None, str]]:
    """Messages of a line, each with its writer; what has no head is one message of nobody."""
    heads = list(_HEAD.finditer(text))
    if not heads:
        yield None, text
        return
    if heads[0].start() > 0:
        yield None, text[: heads[0].start()]
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=True):
        yield Process(head[1], int(head[2][:18])), text[head.end() : end]
