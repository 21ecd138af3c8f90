"""What readers without our plugin make of a line: libc's own functions say it."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.rules.other_readers import READERS, find_misread, read_line
from rccltune.rules.rule_file import read_rules

LIBC = ctypes.CDLL(None)
LIBC.strtok.restype = ctypes.c_char_p
LIBC.strtoull.restype = ctypes.c_ulonglong
FIRST, NEWEST, EXAMPLE = READERS
ROW = "allreduce,0,4096,ring,ll,-1,1,8"


def said(*lines: str) -> dict[int, str]:
    """Lines that are read otherwise, by number."""
    content = ("\n".join(lines) + "\n").encode()
    file = read_rules(content)
    assert not file.errors
    return {one.line: one.said for one in find_misread(content, file)}


def test_what_emit_config_writes_is_read_alike_by_all() -> None:
    """Ten fields, comments in column 0, lower case, no header row."""
    assert said("# columns: a", f"{ROW},-1,-1", "", "#@ hole 0 1 not faster") == {}


@pytest.mark.parametrize(
    ("line", "first", "newest"),
    [
        # A comment with blanks before it is a row to who looks at column 0.
        (f"  # {ROW}", "allreduce 0 B to 4 KiB ring/ll", None),
        # Nobody leaves both names to the library.
        ("allreduce,0,4096,-1,-1,4,1,8", "allreduce 0 B to 4 KiB ring/simple/4", None),
        # A field with nothing in it is none: regBuff becomes numPipeOps.
        (f"{ROW},,1", "numPipeOps 1", "numPipeOps 1"),
        # A mode is no field of theirs.
        (f"{ROW},-1,-1,cpx", "ring/ll", "ring/ll"),
        # An unknown collective is allreduce.
        ("alltoall,0,4096,ring,ll,-1,1,8", "allreduce 0 B to 4 KiB ring/ll", None),
    ],
)
def test_lines_that_are_read_otherwise(line: str, first: str, newest: str | None) -> None:
    """The forms that people write by hand; what each makes of it, and that the plugin differs."""
    found = said("# a comment", line)
    assert list(found) == [2]
    parts = dict(reversed(part.split(": ", 1)) for part in found[2].split("; "))
    by_reader = {name: words for words, names in parts.items() for name in _names(names)}
    assert first in by_reader["RCCL's first CSV tuner"]
    assert by_reader["RCCL's first CSV tuner"] == by_reader["NVIDIA's example plugin"]
    assert (newest or "nothing") in by_reader["RCCL's newest CSV tuner"]
    assert by_reader["our plugin"] != by_reader["RCCL's first CSV tuner"]


def _names(text: str) -> list[str]:
    return text.replace(" and ", ", ").split(", ")


fields = st.text(st.sampled_from("01248-+ K\tx"), max_size=5)


@given(st.lists(fields, min_size=8, max_size=12))
def test_numbers_and_fields_are_those_of_libc(parts: list[str]) -> None:
    """strtok parts the line, strtoull and atoi read its numbers."""
    line = ",".join(["allreduce", *parts[:2], "ring", "ll", *parts[2:]])
    tokens = []
    buffer = ctypes.create_string_buffer(line.encode())
    token = LIBC.strtok(buffer, b",")
    while token is not None and len(tokens) < 10:
        tokens.append(token.decode().strip(" \t").encode())
        token = LIBC.strtok(None, b",")
    found = read_line(line, EXAMPLE)
    if len(tokens) < 8:
        assert found == []
        return
    low, high = (LIBC.strtoull(one, None, 10) for one in tokens[1:3])
    nodes, ranks = (LIBC.atoi(one) for one in tokens[6:8])
    if low > high or 0 in (nodes, ranks) or nodes < -1 or ranks < -1:
        assert found == []
        return
    (rule,) = found
    assert (rule.min_nbytes, rule.max_nbytes) == (low, high)
    assert (rule.n_nodes or -1, rule.n_ranks or -1) == (nodes, ranks)


def test_files_that_people_published(shared_data: Path) -> None:
    """Modes in field 11 of a fork are read by nobody else; AMD's and NVIDIA's rows alike by all."""
    found = {}
    for path in sorted((shared_data / "configs").iterdir()):
        content = path.read_bytes()
        found[path.name] = len(find_misread(content, read_rules(content)))
    assert found.pop("fork_gfx950_cpx_12fields.csv") == 9
    # Refused by the plugin: 5 algorithms, 5 protocols and a collective are guessed by others, and
    # 5 rows of sizes that are words are of 0 bytes (INDEX.md counts them).
    assert found.pop("amd_test_incorrect_values_config.conf") == 5 + 5 + 1 + 5
    assert {name for name, n in found.items() if n} == set()


@given(
    st.sampled_from(("allreduce", "broadcast", "reduce", "allgather", "reducescatter")),
    st.lists(st.integers(0, 10**18 - 1), min_size=2, max_size=2).map(sorted),
    st.sampled_from(("ring,ll", "ring,ll128", "ring,simple", "nvls,simple", "pat,simple")),
    st.lists(st.sampled_from((-1, 1, 8, 64, 65536)), min_size=3, max_size=4),
    st.sampled_from(((), (-1,), (0,), (1,))),
)
def test_a_plain_row_is_one_rule_to_every_reader(
    collective: str, bounds: list[int], cell: str, counts: list[int], last: tuple[int, ...]
) -> None:
    """Most rows of a long file are such, and are not read by each reader's rules."""
    numbers = (*counts, *(last if len(counts) == 4 else ()))
    line = ",".join(map(str, (collective, *bounds, cell, *numbers)))
    (ours,) = read_rules(f"{line}\n".encode()).rules
    assert said(line) == {}
    for reader in READERS:
        (theirs,) = read_line(line, reader)
        assert replace(ours, line=None) == theirs
