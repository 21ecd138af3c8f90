"""Sides as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rccltune.compare.comparison_request import are_sessions
from rccltune.compare.sides import Side, list_sides, parse_side
from rccltune.model.errors import CommandLineError, InputFileError, RccltuneError
from rccltune.model.settings import IDLE, RULES, Setting
from rccltune.model.vocabulary import Collective
from rccltune.variants.catalog import load_catalog

KNOWN = load_catalog()
MIB = 1 << 20


def side(text: str, setting: str | None = None) -> Side:
    """Read one."""
    return parse_side(text, KNOWN, None if setting is None else Setting.parse(setting))


def test_the_site_is_nothing_of_ours() -> None:
    """No library, no variable, no plugin."""
    assert side("site") == Side(name="site")
    assert not side("site").has_plugin


def test_words_are_joined_by_a_plus(tmp_path: Path) -> None:
    """A library, variables and what our plugin answers, in any order."""
    library = tmp_path / "librccl.so.1.0"
    library.write_bytes(b"")
    found = side(f"tree/ll128/16+{library}+NCCL_NTHREADS=512+RCCL_X=a=b")
    assert found.library == library
    assert found.variables == (("NCCL_NTHREADS", "512"), ("RCCL_X", "a=b"))
    assert found.answer == Setting.parse("tree/ll128/16")
    assert side("torch").library == Path("torch")
    assert side("idle").answer == IDLE


def test_a_rule_file_brings_the_variables_that_it_needs(tmp_path: Path) -> None:
    """Only those of the catalog: no file names a library to load."""
    path = tmp_path / "rules+old.csv"
    path.write_text("#@ needs RCCL_LL128_FORCE_ENABLE=1\nallreduce,0,1024,tree,ll,-1,-1,-1,-1,-1\n")
    found = side(str(path))
    assert (found.answer, len(found.digest)) == (RULES, 12)
    assert found.variables == (("RCCL_LL128_FORCE_ENABLE", "1"),)
    path.write_text("#@ needs LD_PRELOAD=/tmp/x.so\nallreduce,0,1024,tree,ll,-1,-1,-1,-1,-1\n")
    with pytest.raises(CommandLineError, match="LD_PRELOAD"):
        side(str(path))
    path.write_text("allreduce,0,1024,tree,no,-1,-1,-1,-1,-1\n")
    with pytest.raises(InputFileError):
        side(str(path))


def test_names_of_the_catalog_set_variables() -> None:
    """With the largest size of the comparison in the place of the bound."""
    assert side("channels-32").variables_for(MIB, 8) == (("NCCL_MIN_NCHANNELS", "32"),)
    mscclpp = side("mscclpp")
    assert dict(mscclpp.variables_for(256 << 10, 8)) == {
        "RCCL_MSCCLPP_ENABLE": "1",
        "RCCL_MSCCLPP_THRESHOLD": str(256 << 10),
    }
    assert mscclpp.needs_graphs
    assert side("direct-allgather").collectives == (Collective.ALL_GATHER,)


def test_what_is_typed_wins_over_the_catalog() -> None:
    """Whoever names a threshold wants that one."""
    found = side("mscclpp+RCCL_MSCCLPP_THRESHOLD=4096").variables_for(MIB, 8)
    assert dict(found)["RCCL_MSCCLPP_THRESHOLD"] == "4096"


def test_a_setting_is_forced_where_a_side_answers_nothing_else() -> None:
    """As ``--setting`` says: two libraries by one kernel."""
    assert side("torch", "ring/ll").answer == Setting.parse("ring/ll")
    assert side("idle", "ring/ll").answer == IDLE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("chanels-32", "did you mean channels"),
        ("missing.so", "no such library"),
        ("missing.csv", "no such rule file"),
        ("tree/nothing", "unknown protocol"),
        ("-/ll", "no algorithm and protocol"),
        ("idle+tree/ll", "two things"),
        ("A=1+A=2", "sets A twice"),
        ("site+", "is no side"),
        ("threads", "option of rccl-tests"),
    ],
)
def test_what_is_no_side_is_named(text: str, said: str) -> None:
    """With what is wrong of it."""
    with pytest.raises(RccltuneError) as caught:
        side(text)
    assert said in str(caught.value)


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    """It is there, and nothing that a side can be."""
    path = tmp_path / "README.md"
    path.write_text("# Notes\n")
    with pytest.raises(RccltuneError, match="is no library and no rule file"):
        side(str(path))


def test_words_win_over_folders_of_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a checkout of PyTorch ``torch`` is its library still; nothing is no folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("torch", "site", "s"):
        Path(name).mkdir()
    assert not are_sessions("site", "torch")
    assert not are_sessions("site", "")
    assert are_sessions("./torch", "s")


def test_the_list_says_what_each_needs() -> None:
    """Where nobody knows the site nothing is refused but what the rank program has not."""
    rows = {one.name: one for one in list_sides(KNOWN, None)}
    assert rows["site"].why_not is None
    assert "8 ranks on one node" in rows["mscclpp"].needs
    assert rows["mscclpp"].bound == "RCCL_MSCCLPP_THRESHOLD, 1 MiB by default"
    assert rows["channels-N"].sets == "NCCL_MIN_NCHANNELS={channels}"
    assert "rccl-tests" in str(rows["threads"].why_not)
