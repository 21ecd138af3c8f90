"""No line that we write is cut by a reader with a buffer of 256 bytes, whatever is put into it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from readers import rccl_rows

from rccltune.model.errors import InputFileError, VerificationError
from rccltune.model.rule import LeftToLibrary
from rccltune.model.settings import Scale, Setting, Target
from rccltune.model.units import MAX_NBYTES
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.model.zone import Zone
from rccltune.rules import line_format, rule_file, writer
from rccltune.rules.rule_document import RuleDocument

TARGET = Target(
    collective=Collective.ALL_REDUCE,
    scale=Scale(n_nodes=1, n_ranks=8),
    rank_placement=None,
)
ROW = "allreduce,0,99,ring,ll,-1,1,8,-1,-1"
# A tail that is a rule wherever a line is cut in front of it.
TRAP = st.integers(0, 300).map(lambda n: "x" * n + " " + ROW)
ANY = st.text(max_size=400) | TRAP | st.text("漢é x", min_size=100, max_size=400)
WORD = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=1
)
NAMES = st.from_regex(r"[A-Z][A-Z_0-9]{0,30}", fullmatch=True)


def fgets(content: bytes, size: int = 256) -> list[bytes]:
    """What C's fgets returns, call by call: at most size - 1 bytes, up to a line feed."""
    found = []
    while content:
        end = content.find(b"\n", 0, size - 1)
        cut = size - 1 if end < 0 else end + 1
        found.append(content[:cut])
        content = content[cut:]
    return found


def is_whole(text: str) -> bool:
    """Whether every line is short, is read in one go, and ends nowhere else for anybody."""
    content = text.encode()
    pieces = fgets(content)
    return (
        pieces == [line + b"\n" for line in content.split(b"\n")[:-1]]
        and all(len(piece) <= 200 for piece in pieces)
        and all(piece.endswith(b"\n") for piece in pieces)
    )


def has_odd(text: str) -> bool:
    """Whether some reader would take the file for binary, or end a line inside a line."""
    return any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in text.replace("\n", ""))


def zones(reasons: Sequence[str], cuts: Sequence[int]) -> list[Zone]:
    """Holes and a rule between them."""
    setting = Setting(algorithm=Algorithm.RING, protocol=Protocol.LL)
    return [
        Zone(
            target=TARGET,
            min_nbytes=low,
            max_nbytes=after - 1,
            setting=None if number % 2 else setting,
            reason=reasons[number % len(reasons)] if number % 2 else None,
        )
        for number, (low, after) in enumerate(pairwise([0, *cuts, MAX_NBYTES + 1]))
    ]


@settings(max_examples=25)
@given(
    provenance=st.lists(ANY, max_size=3),
    requires=st.lists(st.tuples(st.sampled_from(["arch", "placement", "x"]), WORD), max_size=9),
    needs=st.lists(st.tuples(NAMES, st.text(max_size=260) | TRAP), max_size=3),
    reasons=st.lists(ANY, min_size=1, max_size=2),
)
@example([], [], [("PATH_OF_ALL", "/a" * 200)], ["x"])
@example(["漢" * 300], [("x", "y" * 60)] * 9, [], ["漢" * 300])
@example(["a\u2028" + ROW, "b\x85" + ROW, "c\x0b" + ROW, "d\x1b[1m"], [], [], ["x"])
def test_no_line_of_a_rule_file_is_cut(
    provenance: list[str],
    requires: list[tuple[str, str]],
    needs: list[tuple[str, str]],
    reasons: list[str],
) -> None:
    """Either refused with the reason, or both of RCCL's readers have our rows and no others."""
    document = RuleDocument(
        provenance=tuple(provenance),
        requires=tuple(requires),
        needs=tuple(needs),
        zones=tuple(zones(reasons, [100, 200, 300])),
    )
    try:
        text = writer.render(document)
    except InputFileError:
        long = [f"#@ needs {n}={v}" for n, v in needs] + [
            f"#@ requires {k}={v}" for k, v in requires
        ]
        odd = any(has_odd(v + "\n") or "\n" in v or v != v.strip(" \t\r") for _, v in needs)
        assert odd or any(len(line.encode()) > 199 for line in long)
        return
    assert is_whole(text)
    assert not has_odd(text)
    rows = [(0, 99), (200, 299)]
    for new in (False, True):
        assert [(row.low, row.high) for row in rccl_rows(text, new=new)] == rows
    read = rule_file.read_rules(text.encode())
    assert [(rule.min_nbytes, rule.max_nbytes) for rule in read.rules or ()] in ([], rows)
    assert list(read.needs) == needs
    # Some of these words no plugin knows; what is asked is whether all of them are still there.
    said = " ".join(
        line.removeprefix("#@ requires ")
        for line in text.split("\n")
        if line.startswith("#@ requires ")
    )
    assert said == " ".join(f"{key}={value}" for key, value in requires)


@pytest.mark.parametrize(
    ("name", "value"),
    [("A", "1\nB"), ("A", "1\r"), ("A", " 1"), ("A B", "1"), ("A#", "1"), ("", "1"), ("A", "\x1b")],
)
def test_an_environment_that_would_be_read_back_as_another_is_refused(
    name: str, value: str
) -> None:
    """A line feed in a value would make a rule of its rest."""
    document = RuleDocument(provenance=(), requires=(), needs=((name, value),), zones=())
    with pytest.raises(InputFileError, match="asked"):
        writer.render(document)


def test_rules_without_a_cell_never_become_a_file() -> None:
    """Newer RCCL skips -1,-1 and older RCCL plays ring/simple: a bug upstream is found out."""
    broken = Zone(target=TARGET, min_nbytes=0, max_nbytes=MAX_NBYTES, setting=Setting(channels=8))
    document = RuleDocument(provenance=(), requires=(), needs=(), zones=(broken,))
    with pytest.raises(VerificationError, match="algorithm"):
        writer.render(document)


THEIRS = st.sampled_from(
    [
        ROW,
        f"  {ROW} # somebody's",
        "allreduce,100,200,tree,ll,8,1,8",
        "allreduce,201,300,ring,ll128,-1,1,8,-1,-1,cpx,-1\r",
        f"{ROW} # {'why ' * 80}",
        f"{' ' * 220}{ROW}",
        f"# {'x' * 260} {ROW}",
        f"# {'漢' * 90}{ROW}",
        f"# old\u2028{ROW}",
        f"# old\x85{ROW}\r",
        f"# a\r{ROW}",
        f"#@ hole 301 999 {'not measured ' * 30}",
        "#@ hole 301 999 x",
        f"#@ requires {'compute=CPX ' * 30}",
        f"#@ needs A={'v' * 150}",
        "",
        " " * 300,
    ]
)


@given(
    lines=st.lists(THEIRS, max_size=6),
    cut=st.lists(st.booleans(), min_size=6, max_size=6),
    evidence=ANY,
    reason=ANY,
    head=ANY,
)
@example(["# old\u2028" + ROW, "allreduce,100,200,tree,ll,8,1,8"], [True] * 6, "e", "r", "h")
def test_no_line_of_a_rewritten_file_is_cut(
    lines: list[str], cut: list[bool], evidence: str, reason: str, head: str
) -> None:
    """Somebody's file with some rules narrowed: the others stay, and no comment becomes one."""
    content = "\n".join(lines) + "\n"
    before = rule_file.read_rules(content.encode())
    assert before.errors == ()
    changes, wanted = {}, []
    for rule, narrow in zip(before.rules, cut, strict=False):
        low, high = rule.min_nbytes, rule.min_nbytes + 9
        part = rule_file.read_rules(f"allreduce,{low},{high},ring,ll,-1,1,8".encode()).rules
        if narrow and rule.line is not None:
            left = LeftToLibrary(min_nbytes=high + 1, max_nbytes=rule.max_nbytes, reason=reason)
            changes[rule.line] = line_format.LineChange(
                parts=part, evidence=evidence, holes=(left,)
            )
        wanted.append((low, high if narrow else rule.max_nbytes, rule.setting, rule.only_mode))
    text = line_format.rewrite_lines(content, changes, (head,))
    assert is_whole(text)
    after = rule_file.read_rules(text.encode())
    assert after.errors == ()
    found = [(r.min_nbytes, r.max_nbytes, r.setting, r.only_mode) for r in after.rules]
    assert found == wanted
    assert (after.needs, dict(after.requires)) == (before.needs, dict(before.requires))
    for new in (False, True):
        assert [(r.low, r.high) for r in rccl_rows(text, new=new)] == [w[:2] for w in wanted]


def test_what_has_evidence_of_its_own_is_unproven_no_more() -> None:
    """Verification takes the mark above the rows that it proved, and above those alone."""
    row = "allreduce,{},{},ring,ll,-1,1,8,-1,-1"
    lines = [f"# {line_format.UNPROVEN_MARK} no repeats prove the gain", row.format(0, 99)]
    lines += [f"# {line_format.UNPROVEN_MARK} no repeats prove the gain", row.format(100, 199)]
    text = "\n".join(line_format.add_frame(lines)) + "\n"
    first, second = rule_file.read_rules(text.encode()).rules
    assert first.line is not None
    proved = line_format.LineChange(parts=(first,), evidence="verified: 1.2 times as fast")
    made = line_format.rewrite_lines(text, {first.line: proved}, ())
    assert made.count(line_format.UNPROVEN_MARK) == 1
    assert (
        f"# {line_format.UNPROVEN_MARK} no repeats prove the gain\n{row.format(100, 199)}" in made
    )
    # Bounds that are cut to what will be measured prove nothing.
    narrowed = line_format.LineChange(parts=(second,), evidence="")
    assert (
        line_format.rewrite_lines(text, {second.line or 0: narrowed}, ()).count(
            line_format.UNPROVEN_MARK
        )
        == 2
    )
