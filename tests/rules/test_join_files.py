"""Rule files of several scales become one, or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rccltune.model.errors import CommandLineError
from rccltune.model.settings import Scale
from rccltune.rules.join_files import join_rule_files
from rccltune.rules.rule_file import read_rules

HEAD = """#@ format 1
# verified: on this machine, {ranks} ranks on 1 node
# measured: 2026-11-30
#@ requires arch=gfx942 cus=38 compute=CPX memory=NPS4
#@ library RCCL 2.27.7
# columns: colltype,minbytes
#
"""
BODY = """#@ section allreduce nodes=1 ranks={ranks}
#@ hole 0 1023 not measured
allreduce,1024,4096,{setting},-1,1,{ranks},-1,-1
#@ hole 4097 9223372036854775807 not measured
#@ end 1
"""


def rules(ranks: int, setting: str = "tree,ll", **changed: str) -> tuple[Path, bytes]:
    """A file for so many ranks, with words in the place of others."""
    text = HEAD.format(ranks=ranks) + BODY.format(ranks=ranks, setting=setting)
    for old, new in changed.items():
        text = text.replace(old, new)
    return Path(f"{ranks}/rules.csv"), text.encode()


def test_each_scale_keeps_its_rules_its_holes_and_its_evidence() -> None:
    """What both heads say stands once; the last line counts all rows."""
    made = join_rule_files([rules(64), rules(8, "ring,ll")])
    file = read_rules(made)
    assert file.findings == ()
    said = [(str(one.setting), one.n_ranks) for one in file.rules]
    assert said == [("tree/ll", 64), ("ring/ll", 8)]
    assert [str(hole.scale) for hole in file.holes] == [
        *["64 ranks on 1 node"] * 2,
        *["8 ranks on 1 node"] * 2,
    ]
    assert file.library == "RCCL 2.27.7"
    assert dict(file.requires)["arch"] == "gfx942"
    text = made.decode()
    assert text.startswith("#@ format 1\n")
    assert text.endswith("#@ end 2\n")
    assert text.count("#@ requires") == text.count("# columns") == 1
    assert "8 ranks on 1 node" in text
    assert "64 ranks on 1 node" in text
    for scale in (8, 64):
        matching = [
            r for r in file.rules if r.matches(r.collective, 2048, Scale(n_nodes=1, n_ranks=scale))
        ]
        assert len(matching) == 1


def test_one_file_is_left_as_it_is() -> None:
    """Whoever wrote it."""
    assert join_rule_files([(Path("a.csv"), b"allreduce,1,2,tree,ll,-1,-1,-1\n")]) == (
        b"allreduce,1,2,tree,ll,-1,-1,-1\n"
    )


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (rules(64, "ring,ll"), "has rules for all_reduce with 64 ranks on 1 node too"),
        (rules(8, gfx942="gfx950"), "of another machine"),
        (rules(8, **{"RCCL 2.27.7": "RCCL 2.28.3"}), "of another library"),
        (rules(8, **{"#@ library": "#@ needs NCCL_X=1\n#@ library"}), "of another environment"),
        (rules(8, **{",1,8,": ",-1,-1,"}), "is for any number of ranks"),
        (rules(8, **{"#@ section": "# section"}), "was not written by emit-config"),
    ],
)
def test_contradictions_are_refused(other: tuple[Path, bytes], said: str) -> None:
    """A job would follow one of them, and nobody chose which."""
    with pytest.raises(CommandLineError) as caught:
        join_rule_files([rules(64), other])
    assert said in caught.value.message
    assert caught.value.where is not None
    assert str(other[0]) in caught.value.where
