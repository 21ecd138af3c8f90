"""Kinds of files by how they begin, and the verb that reads each."""

from __future__ import annotations

import re
import shlex
from enum import Enum
from pathlib import Path
from typing import Final

from rccltune.logs.columns import find_roles, is_bandwidth_header
from rccltune.model.vocabulary import Collective

_OBJECT: Final = re.compile(r"\s*\{\s*(?:\"|\}|$)")
_ARRAY: Final = re.compile(r"\s*\[\s*(?:\{|\]|$)")
_RESULTS: Final = re.compile(r'\s*\{\s*"(?:version|start_time|args|config|results)"')
# A rule, the names of its columns, or a line that only our rule files have. All files of ours
# begin with a line of their format.
_RULE: Final = re.compile(
    r"\s*[A-Za-z_]+\s*,\s*\d+\s*,\s*\d+\s*,\s*[\w-]+\s*,\s*[\w-]+\s*(?:,\s*-?\w+\s*){3,}"
    r"|coll(?:ective)?_?type\s*,\s*min_?bytes|#@ (?!format)",
    re.IGNORECASE,
)
# A row of NCCLX's: an interval, a number or any, where a rule of RCCL's has two numbers.
_NCCLX_RULE: Final = re.compile(
    r"(?:allreduce|allgather|reducescatter|broadcast|reduce)\s*,\s*(?:[\[(][^\])]*[\])]|\*|\d+)\s*,"
    r"\s*(?:tree|ring|collnet_\w+|nvls\w*|pat)\s*,|collective\s*,\s*bytesPerRank\s*,"
)
# A line of the plugin's record that names a communicator or the columns; columns of samples.csv.
_RECORD: Final = re.compile(r"#@ comm|collective,nbytes,nranks,nnodes,calls", re.IGNORECASE)
_SAMPLES: Final = re.compile("collective,n_nodes,n_ranks,rank_placement,")
_SEPARATORS: Final = ",;\t|"


# The field that every line of Inspector's has, or the line that heads it (inspector_json.cc).
INSPECTOR_FORMAT: Final = "inspector_output_format_version"


class FileKind(Enum):
    """Kinds of files; the value is what people call them."""

    TEXT = "benchmark log"
    RESULTS = "nccl-tests -J file"
    RECORDS = "rccl-tests JSON records"
    DELIMITED = "table of comma-separated values"
    RULES = "tuner rule file"
    RECORD = "record of the calls that a job asked its tuner about"
    INSPECTOR = "dump of NCCL's Inspector plugin"
    SAMPLES = "table of a session's samples"
    NCCLX = (
        "rule file of Meta's NCCLX tuner (NCCLX_TUNER_CONFIG_FILE): sizes per rank, ranks per "
        "node; RCCL, NCCL and our plugin do not read it"
    )
    GCP = (
        "configuration of Google's tuner plugin (NCCL_TUNER_CONFIG_PATH, a text protobuf); RCCL, "
        "NCCL and our plugin do not read it"
    )
    OSU = "table of OSU's benchmarks, which time MPI's collectives and not RCCL's or NCCL's"
    DEEPSPEED = "table of DeepSpeed's communication benchmarks, with times of PyTorch's calls"
    PARAM = "table of PARAM's comms benchmark, with times of PyTorch's calls"
    TRANSFERBENCH = "table of TransferBench, which copies and calls no collective"
    MSCCLPP = "table of mscclpp-test, which times MSCCL++'s kernels and not RCCL's or NCCL's"


# A line of a file of this kind; the first that fits counts.
_LINES: Final = {
    FileKind.RECORD: _RECORD,
    FileKind.SAMPLES: _SAMPLES,
    FileKind.RULES: _RULE,
    FileKind.NCCLX: _NCCLX_RULE,
}
# What only these programs print; the first lines of each are searched for it.
_FOREIGN: Final = {
    FileKind.OSU: r"^# OSU ",
    FileKind.TRANSFERBENCH: r"^TransferBench v\d|^\[?Transfer \d+",
    FileKind.DEEPSPEED: r"^Size \(Bytes\) +Description +Duration|-- Performance of \w+ on \d+ dev",
    FileKind.PARAM: r"COMMS-RES",
    FileKind.MSCCLPP: r"^#\s+in-place\s+out-of-place\s*\n#\s+size\s+count\s+time ",
}
# Its first line that is no comment opens a message. Each line is matched in one way only: with two,
# some dozen blank lines would take minutes.
_TEXTPROTO: Final = re.compile(r"(?:[^\S\n]*(?:#.*)?\n)*[^\S\n]*[a-z]\w*\s*\{\s*\n")
# A table of rccl-tests or nccl-tests is read wherever it stands, also in an article with others.
_TESTS: Final = re.compile(r"^#\s+size\s+count\s+type\b", re.MULTILINE)
_HEAD: Final = 16384


def detect_kind(head: str) -> FileKind:
    """Kind of a file that begins so."""
    start = head.lstrip()
    if start.startswith("{") and f'"{INSPECTOR_FORMAT}"' in head[:4096]:
        return FileKind.INSPECTOR
    if start.startswith("{") and '"rules"' in head[:256] and '"bytes' in head[:4096]:
        return FileKind.NCCLX
    if _OBJECT.match(head) or _ARRAY.match(head):
        return FileKind.RESULTS if _RESULTS.match(head) else FileKind.RECORDS
    if _TEXTPROTO.match(head) is not None:
        return FileKind.GCP
    if not _TESTS.search(head):
        for kind, sign in _FOREIGN.items():
            if re.search(sign, head[:_HEAD], re.MULTILINE):
                return kind
    kinds = (_kind_of_line(line) for line in head.splitlines())
    return next(filter(None, kinds), FileKind.TEXT)


def _kind_of_line(line: str) -> FileKind | None:
    """Kind of file that a line shows; None for a comment or a blank line."""
    text = line.strip().strip("|").strip()
    for kind, sign in _LINES.items():
        if sign.match(text):
            return kind
    if is_bandwidth_header(text):
        return FileKind.DELIMITED
    if not text or text.startswith("#"):
        return None
    separator = find_separator(text)
    roles = find_roles(text.split(separator)) if separator else {}
    return FileKind.DELIMITED if "nbytes" in roles and len(roles) > 1 else FileKind.TEXT


def find_separator(header: str) -> str:
    """Separator of the columns; empty where there is one column."""
    best = max(_SEPARATORS, key=header.count)
    return best if best in header else ""


_READABLE: Final = "import reads nccl-tests, rccl-tests, and a table of your own (docs/formats.md)"
_VERBS: Final = {
    FileKind.RULES: "explain",
    FileKind.RECORD: "workload",
    FileKind.INSPECTOR: "workload",
    FileKind.TRANSFERBENCH: "fit --transferbench",
    FileKind.TEXT: "import",
    FileKind.RESULTS: "import",
    FileKind.RECORDS: "import",
    FileKind.DELIMITED: "import",
}


def hint_for_kind(kind: FileKind, path: Path) -> str:
    """The verb that reads a file of this kind, with the file's name as a shell takes it."""
    if kind is FileKind.SAMPLES:
        return f"read it with: rccltune fit {shlex.quote(str(path.parent))}"
    verb = _VERBS.get(kind)
    return _READABLE if verb is None else f"read it with: rccltune {verb} {shlex.quote(str(path))}"


def detect_kind_without_rules(text: str) -> FileKind | None:
    """Kind of a file that holds no rules at all, good or bad; None where it may hold some.

    A rule file with mistakes is one: a line of it begins with a collective, or has as many commas.
    """
    lines = [line for line in text.splitlines() if line.strip(" \t\r\ufeff")]
    rows = [line for line in lines if not line.startswith("#")]
    kind = detect_kind(text)
    may_hold_rules = kind is FileKind.RULES or (
        kind is FileKind.TEXT and any(map(_may_be_rule, rows))
    )
    return kind if rows and not may_hold_rules else None


# As many columns as the shortest rule has.
_FEWEST_CELLS: Final = 6


def _may_be_rule(line: str) -> bool:
    cells = line.split(",")
    if len(cells) >= _FEWEST_CELLS:
        return True
    try:
        Collective.parse(cells[0].strip())
    except ValueError:
        return False
    return len(cells) > 1
