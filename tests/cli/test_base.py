"""emit-config --base and what explain and verify make of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.model.errors import MachineError
from rccltune.rules import reader

EXAMPLE = "examples/mi300x-cpx-nps4/all_reduce.csv"
BASE = """\
allreduce,0,16383,tree,ll,1,1,64,-1,-1
allreduce,16384,524287,ring,ll,-1,1,8,-1,-1
allgather,0,9999,ring,simple,56,-1,-1,-1,-1
allreduce,1048576,9999999999,ring,ll,56,1,64,-1,-1
"""


@pytest.fixture(autouse=True)
def session(here: Path, repository: Path) -> Path:
    """AMD's published table as a session."""
    try:
        plugin.library()
    except MachineError as error:
        pytest.skip(str(error))
    (here / "examples").symlink_to(repository / "examples")
    assert run(["import", EXAMPLE]) == 0
    (here / "base.csv").write_text(BASE, encoding="utf-8")
    return here


def test_what_changes_is_shown(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Per collective, scale and sizes: 8 ranks and all_gather are the vendor's alone."""
    ll128 = ["--variant", "ll128-forced"]
    assert run(["emit-config", *ll128, "-o", "ours.csv"]) == 0
    assert run(["emit-config", *ll128, "--base", "base.csv", "-o", "merged.csv"]) == 0
    capsys.readouterr()
    assert run(["explain", "ours.csv", "--diff", "merged.csv", "--json"]) == 0
    changes = json.loads(capsys.readouterr().out)
    seen = {
        (c["collective"], c["scale"]["n_ranks"], c["min_nbytes"], c["max_nbytes"]) for c in changes
    }
    assert {
        ("all_reduce", 64, 0, 31),
        ("all_reduce", 64, 134217729, 9999999999),
        ("all_reduce", 8, 16384, 524287),
        ("all_gather", 8, 0, 9999),
    } <= seen
    assert run(["explain", "base.csv", "--diff", "merged.csv", "--collective", "all_reduce"]) == 0
    said = capsys.readouterr().out
    assert "64 ranks on 1 node" in said
    assert "8 ranks on 1 node" not in said
    assert "only merged.csv needs RCCL_LL128_FORCE_ENABLE=1" in said


def test_a_row_for_any_ranks_is_compared_at_the_other_files_ranks(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It answers at 64 ranks too; taking it for 8 alone would show changes that are none."""
    one, other = session / "one.csv", session / "other.csv"
    one.write_text("allreduce,0,99,ring,ll,-1,-1,-1\n", encoding="utf-8")
    other.write_text("allreduce,0,99,ring,ll,-1,1,64\n", encoding="utf-8")
    capsys.readouterr()
    assert run(["explain", str(one), "--diff", str(other), "--json"]) == 0
    [change] = json.loads(capsys.readouterr().out)
    assert (change["scale"]["n_ranks"], change["max_nbytes"]) == (8, 99)


def test_it_is_found_where_rccl_finds_it(
    session: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--base auto: below ROCM_PATH; where there is none, every place is named (exit code 4)."""
    monkeypatch.setenv("ROCM_PATH", str(session / "rocm"))
    (session / "rocm").mkdir()
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert run(["emit-config", "--base", "auto", "-o", "-"]) == 4
    said = capsys.readouterr().err
    place = session / "rocm/share/rccl/tuner/rccl_tuner_gfx942.csv"
    assert str(place) in said
    assert "--base FILE" in said
    place.parent.mkdir(parents=True)
    place.write_text(BASE, encoding="utf-8")
    assert run(["emit-config", "--base", "auto", "-o", "merged.csv"]) == 0
    assert str(place) in capsys.readouterr().err
    assert sum(r.vendor for r in reader.read_rules(Path("merged.csv").read_bytes()).rules) == 4
    # What we put there ourselves is not the vendor's.
    place.write_text(f"#@ format 1\n{BASE}#@ end 4\n", encoding="utf-8")
    assert run(["emit-config", "--base", "auto", "-o", "-"]) == 3
    assert lacks(capsys.readouterr().err, "by rccltune") == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("allreduce,0,99,Ring,ll,-1,1,8\nallreduce,9,8,ring,ll,-1,1,8\n", "base.csv:2"),
        (BASE + "allreduce,0,64K,ring,ll,-1,1,8\n", "base.csv:5"),
        ("#@ requires arch=gfx950\n" + BASE, "arch=gfx950"),
        (BASE + f"#@ needs A={'v' * 240}\n", "need of A is longer than 199 bytes"),
        (None, "cannot be read"),
    ],
    ids=["no row is left", "mistakes", "another machine", "a line that RCCL cuts", "missing"],
)
def test_a_base_that_cannot_be_one(
    session: Path, capsys: pytest.CaptureFixture[str], text: str | None, says: str
) -> None:
    """Exit code 3, and no file is written."""
    path = session / "base.csv"
    path.unlink()
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert run(["emit-config", "--base", "base.csv", "-o", "merged.csv"]) == 3
    assert says in capsys.readouterr().err
    assert not Path("merged.csv").exists()


def test_rows_for_another_mode_are_left_out_and_named(session: Path) -> None:
    """A fork's column 11: SPX rows would fire on CPX, whose file has no such column."""
    rows = (
        "allreduce,0,9,tree,ll,-1,1,64,-1,-1,spx,-1\nallreduce,0,7,ring,ll,-1,1,64,-1,-1,cpx,-1\n"
    )
    (session / "base.csv").write_text(rows, encoding="utf-8")
    assert run(["emit-config", "--base", "base.csv", "-o", "merged.csv"]) == 0
    text = Path("merged.csv").read_text(encoding="utf-8")
    assert lacks(text, "line 1", "cpx-nps4", "not written") == []
    [vendor] = [r for r in reader.read_rules(text.encode()).rules if r.vendor]
    assert (vendor.max_nbytes, vendor.only_mode) == (7, None)


def test_rows_on_which_readers_disagree_are_left_out_and_named(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line of talk for each reason; of -1,-1 newer RCCL says nothing and older ring/simple."""
    rows = (
        "colltype,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks\n"
        "allreduce,0,15,direct_a2a,ll,-1,1,64\n"
        "allreduce,0,15,-1,-1,-1,1,64\n"
        "allreduce,0,15,-1,-1,8,1,64\n"
        "allreduce,0,7,tree,ll,1,1,64\n"
    )
    (session / "base.csv").write_text(rows, encoding="utf-8")
    capsys.readouterr()
    assert run(["emit-config", "--base", "base.csv", "-o", "merged.csv"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert lacks(said, "base.csv:1") == []
    assert lacks(said, "base.csv:2", "direct_a2a", "RCCL") == []
    assert lacks(said, "base.csv:3-4") == []
    assert lacks(said, "1 rows", "base.csv") == []
    text = Path("merged.csv").read_text(encoding="utf-8")
    assert "# lines 3-4 of it are not written: it names no algorithm and no protocol" in text
    assert "# line 2 of it is not written: unknown algorithm 'direct_a2a'" in text
    read = reader.read_rules(text.encode())
    assert read.findings == ()
    assert all(rule.setting.algorithm for rule in read.rules)
    [vendor] = [rule for rule in read.rules if rule.vendor]
    assert vendor.max_nbytes == 7
    # What those rows covered nobody answers: 8 to 31 stays a stated hole.
    assert any((hole.min_nbytes, hole.max_nbytes) == (8, 31) for hole in read.holes)


def test_a_base_of_ours_is_merged_and_counted(session: Path) -> None:
    """Rows that are left out of it do not make it look cut; one that was cut is refused."""
    del session
    rows = "allreduce,0,16383,tree,ll,1,1,8,-1,-1\nalltoall,0,9,ring,ll,-1,1,8\n"
    Path("ours.csv").write_text(f"#@ format 1\n{rows}#@ end 2\n")
    assert run(["emit-config", "--base", "ours.csv", "-o", "merged.csv"]) == 0
    merged = Path("merged.csv")
    assert reader.read_rules(merged.read_bytes()).errors == ()
    assert merged.read_text("utf-8").count("#@ format ") == 1
    assert merged.read_text("utf-8").count("#@ end ") == 1
    Path("cut.csv").write_text(f"#@ format 1\n{rows}")
    assert run(["emit-config", "--base", "cut.csv", "-o", "other.csv"]) == 3


def test_writing_over_a_verified_file_is_said(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What verification cut away would come back: refused, or said and nothing lost."""
    assert run(["emit-config", "-o", "rules.csv"]) == 0
    path = Path("rules.csv")
    verified = path.read_text(encoding="utf-8") + "# verified: 2 rounds\n"
    path.write_text(verified, encoding="utf-8")
    capsys.readouterr()
    assert run(["emit-config", "--base", "base.csv", "-o", "rules.csv"]) == 2
    said = capsys.readouterr().err
    assert lacks(said, "was verified") == []
    assert "--force replaces it, keeps it as rules.csv.verified" in said
    assert path.read_text(encoding="utf-8") == verified
    assert run(["emit-config", "--base", "base.csv", "-o", "rules.csv", "--force"]) == 0
    said = capsys.readouterr().err
    assert lacks(said, "rules.csv") == []
    assert lacks(said, "rules.csv.verified") == []
    assert Path("rules.csv.verified").read_text(encoding="utf-8") == verified
    assert run(["emit-config", "--base", "base.csv", "-o", "rules.csv", "--force"]) == 0
    assert "was verified" not in capsys.readouterr().err
    assert Path("rules.csv.verified").read_text(encoding="utf-8") == verified
