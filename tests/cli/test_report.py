"""``rccltune report``: what the page says is what the session has, in every state of a session."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree.ElementTree import Element

import made
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import check_figures, check_page, text_of
from wording import lacks

from rccltune.cli import run
from rccltune.rules.rule_file import read_rules

CPX = "examples/mi300x-cpx-nps4/all_reduce.csv"
HEAD = "# rccltune: collective=all_reduce nodes=1 ranks=8 mode=spx-nps1 arch=gfx942 placement=out\n"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def copied(tuned_once: Path, tmp_path: Path) -> Path:
    """A tuned session, to be spoilt."""
    return shutil.copytree(tuned_once, tmp_path / "session")


def imported(repository: Path, folder: Path, file: str = CPX) -> Path:
    """A session of an example."""
    assert run(["import", str(repository / file), "-o", str(folder), "-q"]) == 0
    return folder


def table(folder: Path, times: dict[str, float], repeats: int = 4, **stalls: float) -> Path:
    """A session of settings that take so many µs at four sizes."""
    rows = [
        f"{setting},{1024 << k},{stalls.get(setting, us) if n else us + n / 50},{n}\n"
        for setting, us in times.items()
        for k in range(4)
        for n in range(repeats)
    ]
    path = folder / "t.csv"
    path.write_text(f"{HEAD}setting,nbytes,time_us,repeat\n{''.join(rows)}", encoding="utf-8")
    assert run(["import", str(path), "-o", str(folder / "s"), "-q"]) == 0
    return folder / "s"


def reported(folder: Path) -> Element:
    """The page, checked as every page is."""
    assert run(["report", str(folder), "--force", "-q"]) == 0
    return check_page((folder / "report.html").read_text(encoding="utf-8"))


def chosen(folder: Path, *more: str) -> Element:
    """The page after rules were chosen."""
    assert run(["emit-config", str(folder), "--force", "-q", *more]) == 0
    return reported(folder)


def headline(tree: Element) -> str:
    """The one sentence."""
    return text_of(next(e for e in tree.iter() if e.attrib.get("class") == "headline"))


def first(tree: Element) -> str:
    """All that is not folded, but the header."""
    return " ".join(
        text_of(next(e for e in tree.iter("section") if e.attrib["id"] == "first")).split()
    )


def marks(tree: Element) -> list[str]:
    """What every reader is told first."""
    found = (e for e in tree.iter("p") if e.attrib.get("class", "").startswith("mark"))
    return [text_of(e) for e in found]


def folded(tree: Element, title: str) -> str:
    """What is under one heading."""
    return next(
        text_of(fold) for fold in tree.iter("details") if title in text_of(fold.find("summary"))
    )


def test_verified_rules_are_claimed_as_the_verdict_has_them(tuned_once: Path) -> None:
    """Their gains, and nothing computed anew; simulated ones are for trying out."""
    plain = json.loads((tuned_once / "verdict.json").read_text())
    gains = [one["gain"] for one in plain["standings"] if one["state"] == "proven"]
    tree = check_page((tuned_once / "report.html").read_text(encoding="utf-8"))
    said = headline(tree)
    assert said.startswith("SIMULATED: all_reduce is ")
    assert said.endswith("verified, with and without the rules in turns.")
    assert lacks(said, *(f"{gain['value']:.2f}×" for gain in gains)) == []
    assert [one for one in marks(tree) if one.startswith("SIMULATED")]
    assert check_figures(tree, simulated=True) == 5
    assert lacks(first(tree), "source ", ".env", "for trying out") == []
    assert "deploy" not in first(tree)
    # The day of its runs.
    header = text_of(next(tree.iter("header")))
    assert re.search(r"measured \d{4}-\d\d-\d\d", header)
    assert "imported" not in header


@pytest.mark.usefixtures("undrawn")
def test_a_verification_of_other_rules_counts_for_nothing(copied: Path) -> None:
    """A file that was written anew, or changed by hand, was not verified."""
    path = copied / made.RULES
    lines = path.read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.startswith("allreduce,"))
    fields = lines[at].split(",")
    lines[at] = ",".join([*fields[:2], str(int(fields[2]) - 1), *fields[3:]])
    path.write_text("".join(lines))
    tree = reported(copied)
    assert headline(tree).endswith("not verified.")
    assert "counts for nothing here" in first(tree)
    # What the sweep saw was of all of the zone, and is said to be.
    assert "gain and sizes are those of" in first(tree)
    # 0 to 1 byte less is still a part of what is chosen; another setting is not.
    assert "not of the stored choice" not in first(tree)
    path.write_text(path.read_text().replace("ring,simple", "ring,ll"))
    assert "not of the stored choice" in first(reported(copied))


def test_a_cut_rule_file_is_refused_and_not_called_verified(copied: Path, capsys: Capture) -> None:
    """Its last line is lost, so the plugin refuses it: no sentence about its rules is true."""
    path = copied / made.RULES
    cut = "".join(path.read_text().splitlines(keepends=True)[:-2])
    path.write_text(cut)
    before = {one: one.stat().st_mtime_ns for one in copied.rglob("*")}
    for verb in ("report", "plot", "emit-config"):
        capsys.readouterr()
        assert run([verb, str(copied)]) == 3
        said = capsys.readouterr()
        assert lacks(said.err, "the plugin refuses this file", made.RULES, "--force") == []
        assert "Kept" not in said.out + said.err
    assert {one: one.stat().st_mtime_ns for one in copied.rglob("*")} == before
    # As the hint says; what was there is not lost.
    assert run(["emit-config", str(copied), "--force", "-q"]) == 0
    assert path.with_name(f"{path.name}.verified").read_text() == cut
    assert headline(reported(copied)).startswith("SIMULATED: all_reduce is ")


@pytest.mark.usefixtures("undrawn")
def test_a_verification_that_failed_is_said_first_and_why(copied: Path, tmp_path: Path) -> None:
    """On top and in the claim; until there are other rules."""
    fault = {"kind": "wrong", "setting": "ring/ll", "elements": 3}
    node = made.node(tmp_path / "faulty.yaml", faults=[fault])
    # With the same environment what was measured for these rules would be taken as it is.
    other = ["--env", "NCCL_BUFFSIZE=1048576"]
    assert run(["verify", str(copied), "--simulate", str(node), *other, "-q"]) == 9
    tree = reported(copied)
    assert "wrong results without rules" in headline(tree)
    [said] = [one for one in marks(tree) if one.startswith("NOT PROVEN")]
    assert "do not use them" in said
    assert "deploy" not in first(tree)
    assert run(["emit-config", str(copied), "--force", "--tolerance", "20", "-q"]) == 0
    assert not [one for one in marks(reported(copied)) if one.startswith("NOT PROVEN")]


@pytest.mark.usefixtures("undrawn")
def test_every_placements_file_is_shown_with_its_own_verdict(copied: Path) -> None:
    """Files for a placement lie beside the plain one; here a copy of it stands for one."""
    path = copied / made.RULES
    other = path.with_name(f"{path.stem}_one-oam.csv")
    shutil.copy(path, other)
    plain = json.loads((copied / "verdict.json").read_text())
    (copied / "verdict_one-oam.json").write_text(json.dumps(plain | {"path": str(other)}))
    tree = reported(copied)
    assert first(tree).count("verified at") == 2 * len(
        [one for one in plain["standings"] if one["state"] == "proven"]
    )
    # One that is of other rules leaves the other as it is.
    other.write_text(other.read_text().replace("allreduce,", "allgather,"))
    said = first(reported(copied))
    assert "verified at" in said
    assert "not verified" in said


def test_without_a_baseline_the_gain_is_unknown(repository: Path, tmp_path: Path) -> None:
    """AMD's published table has no untouched run."""
    tree = chosen(imported(repository, tmp_path / "s"))
    assert lacks(headline(tree), "unknown", "no baseline was measured") == []
    header = text_of(next(tree.iter("header")))
    assert lacks(header, "IMPORTED", "NOT PROVEN", "AMD", "ROCm") == []
    assert "Nothing" not in headline(tree)
    assert check_figures(tree) == 3


@pytest.mark.usefixtures("undrawn")
def test_an_imported_session_has_no_day_of_its_own_and_rules_end_at_crossovers(
    repository: Path, tmp_path: Path
) -> None:
    """When a file was copied says nothing of when its times were measured.

    A rule ends inside at a crossover, which here is no size that was measured (2.5 and 2.75 MiB are).
    """
    log = shutil.copy(repository / "examples/h200x2-nccl-2.28.9/sweep.csv", tmp_path)
    os.utime(log, (981173106, 981173106))  # 3 February 2001
    folder = tmp_path / "s"
    assert run(["import", str(log), "-o", str(folder), "-q"]) == 0
    tree = chosen(folder)
    header = text_of(next(tree.iter("header")))
    assert "2001-02-03" not in header
    assert "measured 2" not in header
    assert ", imported" in header
    page = text_of(tree)
    ends = {rule.max_nbytes for rule in read_rules((folder / "rccl_tuner.csv").read_bytes()).rules}
    with (folder / "samples.csv").open(newline="") as stream:
        sizes = {int(row["nbytes"]) for row in csv.DictReader(stream)}
    assert ends - sizes
    assert "it ends where their times cross" in page
    assert "from the smallest to the largest size" not in page


@pytest.mark.usefixtures("undrawn")
def test_a_page_that_is_there_is_not_overwritten_unasked(
    repository: Path, tmp_path: Path, capsys: Capture
) -> None:
    """As figures and rule files are not."""
    folder = imported(repository, tmp_path / "s")
    page = tmp_path / "page.html"
    page.write_text("mine")
    assert run(["report", str(folder), "-o", str(page)]) == 2
    assert page.read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert run(["report", str(folder), "-o", str(page), "--force", "-q"]) == 0
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert run(["report", str(folder), "-o", str(tmp_path), "--force"]) == 2


@pytest.mark.usefixtures("undrawn")
def test_a_spoilt_verdict_is_named(copied: Path, capsys: Capture) -> None:
    """Rather than a page without it, which would look unverified."""
    (copied / "verdict.json").write_text('{"path": null}')
    assert run(["report", str(copied), "--force"]) == 7
    assert "verdict.json" in capsys.readouterr().err


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["baseline", "idle", "ring/ll", "ring/ll/8", "ring/ll/16", "tree/ll128"]),
        st.sampled_from([1, 8, 1024, 3000, 1 << 20, 1 << 30]),
        st.floats(0.01, 1e9, allow_nan=False),
        st.sampled_from(["in", "out"]),
        st.sampled_from(["all_reduce", "all_gather", "alltoall"]),
        st.sampled_from([1, 8, 64]),
    ),
    min_size=1,
    max_size=24,
)


@pytest.mark.long
@pytest.mark.timeout(600)
@settings(max_examples=20)
@given(ROWS, st.sampled_from([None, "idle", "ring/ll"]))
def test_whatever_was_measured_makes_a_page(
    rows: list[tuple[str, int, float, str, str, int]], baseline: str | None
) -> None:
    """One size, one setting, one rank, times that jump: a page, or an error that says why not."""
    with TemporaryDirectory() as name:
        path = Path(name) / "t.csv"
        lines = [",".join(map(str, (*row, number))) for number, row in enumerate(rows)]
        header = "setting,nbytes,time_us,placement,collective,ranks,repeat"
        path.write_text("# rccltune: nodes=1\n" + "\n".join([header, *lines]) + "\n")
        folder = Path(name) / "s"
        assert run(["import", str(path), "-o", str(folder), "-q"]) == 0
        with (folder / "samples.csv").open() as stream:
            usable = [row for row in csv.DictReader(stream) if not row["unusable"]]
        named = baseline in {row["setting"] for row in usable}
        more = ["--baseline", baseline] if baseline and named else []
        assert run(["emit-config", str(folder), "-q", *more]) in {0, 8}
        code = run(["report", str(folder), "-q"])
        assert code == (0 if usable else 8)
        if code == 0:
            check_figures(reported(folder))
