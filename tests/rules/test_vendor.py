"""What of a vendor's table is taken: only rows that mean one thing to every reader."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from readers import RcclRow, rccl_rows
from wording import lacks

from rccltune.model.choice import Rule
from rccltune.rules import documents, reader, vendor_rules, writer

GOOD = "allreduce,0,99,ring,ll,-1,1,8,-1,-1"


def merged(text: str) -> tuple[str, dict[int, str]]:
    """A vendor's table behind no rules of ours, as a file, and (line, why) of what is left out."""
    file, left_out = vendor_rules.read_base(text.encode())
    assert file.errors == ()
    document = documents.RuleDocument(provenance=(), requires=(), needs=(), sections=())
    base = documents.VendorRules(
        name="theirs.csv", sha256="ab" * 32, rules=file.rules, left_out=left_out
    )
    return writer.render(vendor_rules.with_base(document, base)), dict(left_out)


def both(text: str) -> tuple[list[RcclRow], list[RcclRow]]:
    """RCCL's rows in its first form and in the newer one."""
    return rccl_rows(text, new=False), rccl_rows(text, new=True)


# Each with what RCCL's sources make of it: newer skips or reads otherwise than older (or than us).
@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("allreduce,0,99,-1,-1,-1,1,8,-1,-1", "newer RCCL skips such a row, older RCCL plays"),
        ("allreduce,0,99,-1,-1,8,1,8,-1,-1", "newer RCCL skips such a row, older RCCL plays"),
        ("allreduce,0,99,-1,ll,-1,1,8,-1,-1", "algorithm -1 with protocol ll"),
        ("allreduce,0,99,tree,-1,-1,1,8,-1,-1", "algorithm tree with protocol -1"),
        ("allreduce,0,99,direct_a2a,ll,-1,1,8", "unknown algorithm 'direct_a2a'; newer RCCL skips"),
        (
            "allreduce,0,99,Ring,ll,-1,1,8",
            "unknown algorithm 'Ring', the nearest is ring; newer RCCL skips",
        ),
        (
            "allreduce,0,99,ring,ll256,-1,1,8",
            "unknown protocol 'll256', the nearest is ll128; newer RCCL skips",
        ),
        (
            "all_reduce,0,99,ring,ll,-1,1,8",
            "unknown collective 'all_reduce', the nearest is allreduce; newer RCCL skips",
        ),
        ("alltoall,0,99,ring,ll,-1,1,8", "alltoall never asks a tuner"),
        ("colltype,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks", "a header row"),
        ("allgather,0,99,tree,ll,-1,1,8", "tree exists for allreduce only"),
        ("allreduce,0,99,ring,ll,-1,1", "7 fields"),
        ("allreduce,99,0,ring,ll,-1,1,8", "minbytes 99 is above maxbytes 0"),
        ("allreduce,0,99,ring,ll,-2,1,8", "channels: '-2' does not fit"),
        ("allreduce,0,99,ring,ll,-1,-2,8", "nNodes: '-2' does not fit"),
        ("allreduce,0,99,ring,ll,-1,1,8,,1", "an empty field"),
        (",allreduce,0,99,ring,ll,-1,1,8", "an empty field"),
        ("allreduce,0,99,ring,ll,-1,1,8, ,-1", "a field of blanks alone"),
        ("allreduce,0,99,ring,ll,-1,1,8,\t", "a field of blanks alone"),
        ("allreduce,0,99,ring,ll,-1,1,8 # was tree, and slow", "comment behind it has commas"),
        ("allreduce,0,99,ring,ll,-1,1,8,# why", "an empty field"),
        ("allreduce,0,99,ring\r,ll,-1,1,8", "carriage return inside"),
        (f"{GOOD} # {'x' * 220}", "longer than 255 bytes"),
        ("allreduce,0,99,ring,ll,-1,1,8,-1,-1,-1,8", "field 12 '8'"),
        ("allreduce,0,99,ring,ll,-1,1,8,-1,-1,-1,-1,7", "13 fields"),
        ("allreduce,0,99,ring,ll,-1,1,8,-1,-1,warp", "no partition mode"),
    ],
)
def test_rows_on_which_readers_disagree_are_left_out(row: str, why: str) -> None:
    """Named by line and reason in the file; the rows beside them stay."""
    before, after = "allreduce,200,299,tree,ll,4,1,8", "allgather,0,99,ring,simple,-1,2,16"
    text, left_out = merged(f"{before}\n{row}\n{after}\n")
    assert list(left_out) == [2]
    assert why in left_out[2]
    comments = " ".join(line[2:] for line in text.split("\n") if line.startswith("# "))
    assert lacks(" ".join(comments.split()), "line 2", f"{left_out[2]}", "not written") == []
    wanted = rccl_rows(f"{before}\n{after}\n", new=True)
    assert both(text) == (wanted, wanted)
    assert reader.read_rules(text.encode()).findings == ()


@pytest.mark.parametrize(
    "row",
    [
        "allreduce,0,99,ring,ll,0,1,8",
        "  allreduce , 0 , 99 , ring , ll , -1 , 1 , 8 # why",
        "allreduce,0,99,ring,ll,-1,1,8,,",
        "allreduce,0,99,ring,ll,-1,1,8\r",
        "allreduce,0,99,ring,ll,-1,1,8,4,1",
        "allreduce,0,99,ring,ll,-1,1,8,-1,-1 # commas, behind ten fields, are no fields",
        "allreduce,0,99,collnet_direct,simple,-1,-1,-1",
        "allgather,0,18446744073709551615,pat,simple,-1,4,32",
        f"{GOOD}\n# {'x' * 252} {GOOD}",
    ],
)
def test_what_every_reader_takes_alike_is_kept(row: str) -> None:
    """Channels of 0 are the library's own number to all of them, as -1 is."""
    text, left_out = merged(row + "\n")
    assert left_out == {}
    [wanted, *_] = rccl_rows(row.split("\n", maxsplit=1)[0] + "\n", new=True)
    for [found] in both(text):
        assert (found.collective, found.low, found.high, found.cell, found.filters) == (
            *(wanted.collective, wanted.low, wanted.high, wanted.cell, wanted.filters),
        )
        assert max(found.channels, 0) == max(wanted.channels, 0)


FIELDS = (
    st.sampled_from(["allreduce", "allgather", " allreduce", "alltoall", "AllReduce", "", "# a"]),
    st.sampled_from(["0", "50", " 7", "", " "]),
    st.sampled_from(["99", "9", "18446744073709551615", ""]),
    st.sampled_from(["ring", "tree", "-1", "Ring", "ring\r", "pat", ""]),
    st.sampled_from(["ll", "simple", "-1", "ll256", "simple "]),
    st.sampled_from(["-1", "0", "8", "-2", "", "2147483648"]),
    st.sampled_from(["-1", "1", "0", "-2", ""]),
    st.sampled_from(["-1", "8", "8\r", "", " ", "8 # a, b", "8 # a"]),
    st.sampled_from(["-1", "1", "", " ", "\r", "# a,b"]),
    st.sampled_from(["-1", "0", "", "\r", "-1 # a, b"]),
    st.sampled_from(["", "-1", "8", "  "]),
)


# A CR inside a number, an empty field or a comma in a comment before -1 alone: readers agree, and
# nobody looks so close.
MAY_AGREE = re.compile(r"\r(?!$)|^,|,,|#.*,")


@st.composite
def rows(draw: st.DrawFn) -> str:
    """A row of 6 to 11 fields, most of them plain."""
    fields = [
        draw(strategy) if draw(st.integers(0, 9)) == 0 else plain
        for strategy, plain in zip(FIELDS, [*GOOD.split(","), "-1"], strict=True)
    ]
    return ",".join(fields[: draw(st.sampled_from([6, 8, 8, 9, 10, 10, 10, 11]))])


@settings(max_examples=150)
@given(st.lists(rows(), max_size=6), st.sampled_from(["\n", "\r\n"]))
@example(["allreduce,0,99,ring,ll,-1,1,8 # a, b", "allreduce,0,99,ring,ll,-1,1,8,\r"], "\n")
def test_a_row_is_taken_exactly_where_every_reader_has_the_same(
    lines: list[str], ending: str
) -> None:
    """RCCL in both forms and our own reader; a row that any of them has and is not taken is named."""
    base = ending.join(lines) + ending
    file, left_out = vendor_rules.read_base(base.encode())
    assert file.errors == ()
    taken = {rule.line: as_rccl(rule) for rule in file.rules}
    assert not set(taken) & set(dict(left_out))
    for number, line in enumerate(base.split("\n"), start=1):
        old, new = ([plain(row) for row in rccl_rows(line, new=form)] for form in (False, True))
        alone = reader.read_rules(line.encode())
        ours = [as_rccl(rule) for rule in alone.rules if rule.setting.algorithm is not None]
        agreed = old == new == ours and not alone.findings
        if number in taken:
            assert agreed
            assert [taken[number]] == new
        elif number not in dict(left_out):
            assert new == ours == []
        elif not MAY_AGREE.search(line):
            assert not agreed or new == []


def as_rccl(rule: Rule) -> RcclRow:
    """A rule of ours as RCCL would keep it."""
    assert rule.setting.algorithm is not None
    assert rule.setting.protocol is not None
    counts = (rule.n_nodes, rule.n_ranks, rule.num_pipe_ops, rule.reg_buff)
    a, b, c, d = (-1 if number is None else number for number in counts)
    return RcclRow(
        collective=rule.collective.csv_name,
        low=rule.min_nbytes,
        high=rule.max_nbytes,
        cell=(rule.setting.algorithm.value, rule.setting.protocol.value),
        channels=rule.setting.channels or 0,
        filters=(a, b, c, d),
    )


def plain(row: RcclRow) -> RcclRow:
    """The row with the library's own channels as one number."""
    return replace(row, channels=max(row.channels, 0))
