"""A rule file is taken whole or not at all, by the plugin and by Python alike."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.errors import InputFileError
from rccltune.model.settings import Scale, Setting, Target
from rccltune.model.units import MAX_NBYTES
from rccltune.model.vocabulary import Collective
from rccltune.model.zone import Zone
from rccltune.rules import line_format, writer
from rccltune.rules.plugin_library import PluginLibrary
from rccltune.rules.rule_document import RuleDocument
from rccltune.rules.rule_file import read_rules
from rccltune.session import files

SCALE = Scale(n_nodes=1, n_ranks=8)
TARGET = Target(collective=Collective.ALL_REDUCE, scale=SCALE, rank_placement=None)
ROW = "allreduce,0,1024,ring,ll,-1,1,8,-1,-1"


def emitted(bounds: list[int], settings: list[str | None]) -> str:
    """What emit-config writes of such zones."""
    edges = [0, *sorted(bounds), MAX_NBYTES + 1]
    zones = [
        Zone(
            target=TARGET,
            min_nbytes=low,
            max_nbytes=after - 1,
            setting=Setting.parse(name) if name else None,
            reason=None if name else "not measured",
        )
        for (low, after), name in zip(pairwise(edges), settings, strict=False)
    ]
    made = RuleDocument(
        provenance=("measured by a test",),
        requires=(("placement", "node"),),
        needs=(("A_NAME", "1"),),
        zones=tuple(zones),
    )
    return writer.render(made)


def refusal(host: PluginLibrary, path: Path) -> str | None:
    """What the plugin says of a file that it refuses."""
    try:
        host.communicator(
            abi=6, n_nodes=1, n_ranks=8, env={"NCCL_TUNER_CONFIG_FILE": str(path)}
        ).close()
    except InputFileError as error:
        return str(error)
    return None


@pytest.mark.parametrize("names", [["ring/ll", None, "tree/ll128/16"], [None, None, None]])
def test_every_cut_of_an_emitted_file_is_refused(
    host: PluginLibrary, tmp_path: Path, names: list[str | None]
) -> None:
    """At any byte, by both readers; only the last line feed may be missing."""
    text = emitted([4096, 1 << 20], names).encode()
    path = tmp_path / "rules.csv"
    for size in range(len(text) + 1):
        path.write_bytes(text[:size])
        whole = size >= len(text) - 1
        assert (refusal(host, path) is None) == whole
        assert (read_rules(text[:size]).errors == ()) == whole


LINES = st.sampled_from(
    [
        *(ROW, f"  {ROW} # why", "alltoall,0,9,ring,ll,-1,1,8", "# one", "", "#@ hole 0 9 x"),
        *("#@ format 1", "#@format 1", "#@ end", "#@\tend\t1"),
        *("#@ end 0", "#@ end 1", "#@ end 02", "#@ end 1\r", "#@ end 1 1"),
        "#@ end 18446744073709551617",
    ]
)


@given(st.lists(LINES, min_size=1, max_size=6), st.sampled_from(["", "\n"]))
def test_both_readers_count_alike(
    host: PluginLibrary, tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str
) -> None:
    """Whatever is said, however often and wherever: refused or not, and in the same words."""
    path = tmp_path_factory.mktemp("whole") / "rules.csv"
    path.write_text("\n".join(lines) + end, encoding="ascii", newline="")
    errors = read_rules(path.read_bytes()).errors
    said = refusal(host, path)
    assert (said is None) == (errors == ())
    for one in errors:
        assert f"line {one.line}: {one.message} [{one.code}]" in (said or "")


def test_a_rewritten_file_is_counted_anew() -> None:
    """Rules narrowed to two parts, and rules that go; a file that said nothing is ours then."""
    text = emitted([4096], ["ring/ll", None])
    [rule] = read_rules(text.encode()).rules
    thrice = {rule.line or 0: line_format.LineChange(parts=(rule, rule, rule), evidence="thrice")}
    gone = {rule.line or 0: line_format.LineChange(parts=(), evidence="")}
    for before in (text, text.replace("#@ format", "# format").replace("#@ end", "# end")):
        for changes, n in ((thrice, 3), (gone, 0)):
            made = line_format.rewrite_lines(before, changes, ())
            assert made.startswith("#@ format 1\n")
            assert made.endswith(f"\n#@ end {n}\n")
            assert read_rules(made.encode()).errors == ()


@pytest.mark.parametrize("kind", ["empty", "folder", "pipe", "/dev/fd", "/dev/null"])
def test_what_is_no_file_of_rules_is_refused(
    host: PluginLibrary, tmp_path: Path, kind: str
) -> None:
    """Without a wait, and never as a file without rules."""
    path = tmp_path / "rules.csv"
    ends = os.pipe()
    if kind == "empty":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "/dev/fd":
        os.write(ends[1], f"{ROW}\n".encode())
        path = Path(f"/dev/fd/{ends[0]}")
    else:
        path.symlink_to("/dev/null")
    said = refusal(host, path) or ""
    for end in ends:
        os.close(end)
    assert ("the file is empty" if kind == "empty" else "no regular file") in said


def test_who_reads_while_a_file_is_replaced_reads_one_of_both(tmp_path: Path) -> None:
    """What is written takes the place of the old file; who has that open has all of it."""
    path = tmp_path / "rules.csv"
    old, new = emitted([4096], ["ring/ll", None]), emitted([], ["ring/ll128"])
    files.write_atomically(path, old)
    before = path.stat().st_ino
    with path.open(encoding="ascii") as reader:
        begun = reader.read(10)
        files.write_atomically(path, new)
        assert begun + reader.read() == old
    assert path.stat().st_ino != before
    assert path.read_text(encoding="ascii") == new
