"""``rccltune report``: what the page says is what the session has, in every state of a session."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree.ElementTree import Element

import made
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import check_figures, check_page, parse, text_of
from wording import lacks

from rccltune.cli import run

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>'
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


def claim(tree: Element) -> str:
    """The one sentence."""
    return text_of(next(e for e in tree.iter() if e.attrib.get("class") == "claim"))


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
    gains = [one["gain"] for one in plain["standings"] if one["state"] == "kept"]
    tree = check_page((tuned_once / "report.html").read_text(encoding="utf-8"))
    said = claim(tree)
    assert said.startswith("SIMULATED: all_reduce is ")
    assert said.endswith("verified, with and without the rules in turns.")
    assert lacks(said, *(f"{gain['ratio']:.2f}×" for gain in gains)) == []
    assert [one for one in marks(tree) if one.startswith("SIMULATED")]
    assert check_figures(tree, simulated=True) == 5
    assert lacks(first(tree), "source ", ".env", "for trying out") == []
    assert "deploy" not in first(tree)


def test_repeats_and_sizes_are_those_behind_the_number(tuned_once: Path) -> None:
    """Not all communicators of the verification, but those that a size was called in."""
    plain = json.loads((tuned_once / "verdict.json").read_text())
    kept = [one for one in plain["standings"] if one["state"] == "kept"]
    tree = parse((tuned_once / "report.html").read_text(encoding="utf-8"))
    for one in kept:
        counts = {
            v["replicates"]
            for v in plain["verdicts"]
            if one["min_nbytes"] <= v["nbytes"] <= one["max_nbytes"]
        }
        assert f"verified at {one['n_sizes']} size" in first(tree)
        assert f"{max(counts)} communicators each" in first(tree)


def test_what_is_left_to_the_library_is_said_with_its_sizes(tuned_once: Path) -> None:
    """As the rule file says it, what verification took away among it."""
    lines = (tuned_once / made.RULES).read_text(encoding="utf-8").splitlines()
    holes = [line.split(maxsplit=4) for line in lines if line.startswith("#@ hole")]
    tree = parse((tuned_once / "report.html").read_text(encoding="utf-8"))
    said = folded(tree, "left to the library")
    assert holes
    assert lacks(said, *(hole[4] for hole in holes)) == []


def test_a_verification_of_other_rules_counts_for_nothing(copied: Path) -> None:
    """A file that was written anew, or changed by hand, was not verified."""
    path = copied / made.RULES
    lines = path.read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.startswith("allreduce,"))
    fields = lines[at].split(",")
    lines[at] = ",".join([*fields[:2], str(int(fields[2]) - 1), *fields[3:]])
    path.write_text("".join(lines))
    tree = reported(copied)
    assert claim(tree).endswith("not verified.")
    assert "counts for nothing here" in first(tree)
    # What the sweep saw was of all of the zone, and is said to be.
    assert "gain and sizes are those of" in first(tree)
    # 0 to 1 byte less is still a part of what is chosen; another setting is not.
    assert "not of the stored choice" not in first(tree)
    path.write_text(path.read_text().replace("ring,simple", "ring,ll"))
    assert "not of the stored choice" in first(reported(copied))


@pytest.mark.parametrize("verb", ["report", "plot", "emit-config"])
def test_a_cut_rule_file_is_refused_and_not_called_verified(
    copied: Path, capsys: Capture, verb: str
) -> None:
    """Its last line is lost, so the plugin refuses it: no sentence about its rules is true."""
    path = copied / made.RULES
    cut = "".join(path.read_text().splitlines(keepends=True)[:-2])
    path.write_text(cut)
    before = {one: one.stat().st_mtime_ns for one in copied.rglob("*")}
    capsys.readouterr()
    assert run([verb, str(copied)]) == 3
    said = capsys.readouterr()
    assert lacks(said.err, "the plugin refuses this file", made.RULES, "--force") == []
    assert "Kept" not in said.out + said.err
    assert {one: one.stat().st_mtime_ns for one in copied.rglob("*")} == before
    # As the hint says; what was there is not lost.
    assert run(["emit-config", str(copied), "--force", "-q"]) == 0
    assert path.with_name(f"{path.name}.verified").read_text() == cut
    assert claim(reported(copied)).startswith("SIMULATED: all_reduce is ")


def test_no_line_sources_another_file_than_it_stands_beside(copied: Path) -> None:
    """Where the site's exports name the file for an environment, its own file has none."""
    exports = (copied / made.RULES).with_suffix(".env")
    beside = copied / "ll128-forced"
    beside.mkdir()
    shutil.copy(copied / made.RULES, beside)
    text = exports.read_text()
    named = next(line for line in text.splitlines() if "NCCL_TUNER_CONFIG_FILE=" in line)
    there = named.replace(made.RULES, f"ll128-forced/{made.RULES}")
    for one in (exports, beside / exports.name):
        one.write_text(text.replace(named, there))
    (rules,) = (one for one in reported(copied).iter("body"))
    said = [line for line in text_of(rules).splitlines() if line.strip().startswith("source ")]
    assert said
    assert all("/ll128-forced/" in line for line in said)


def test_without_a_verification_the_page_says_so(copied: Path) -> None:
    """The gains are those of the sweep, and verify is what comes next."""
    (copied / "verdict.json").unlink()
    shutil.rmtree(copied / "verification")
    tree = reported(copied)
    assert "as the sweep saw it; not verified" in claim(tree)
    assert "Next: rccltune verify" in first(tree)
    assert not [one for one in marks(tree) if one.startswith("NOT PROVEN")]


def test_a_verification_without_a_verdict_proves_nothing(copied: Path) -> None:
    """It was interrupted, or ended before there was a file for the reason."""
    (copied / "verdict.json").unlink()
    tree = reported(copied)
    [said] = [one for one in marks(tree) if one.startswith("NOT PROVEN")]
    assert lacks(said, "verification was begun", "no verdict") == []
    assert "not verified" in claim(tree)


def test_a_verification_that_failed_is_said_first_and_why(copied: Path, tmp_path: Path) -> None:
    """On top and in the claim; until there are other rules."""
    shutil.rmtree(copied / "verification")
    fault = {"kind": "wrong", "setting": "ring/ll", "elements": 3}
    node = made.node(tmp_path / "faulty.yaml", faults=[fault])
    assert run(["verify", str(copied), "--simulate", str(node), "-q"]) == 9
    tree = reported(copied)
    assert "wrong results without rules" in claim(tree)
    [said] = [one for one in marks(tree) if one.startswith("NOT PROVEN")]
    assert "do not use them" in said
    assert "deploy" not in first(tree)
    assert run(["emit-config", str(copied), "--force", "--tolerance", "20", "-q"]) == 0
    assert not [one for one in marks(reported(copied)) if one.startswith("NOT PROVEN")]


def test_an_interrupted_sweep_is_said_with_how_to_go_on(swept_once: Path, tmp_path: Path) -> None:
    """By its command; what there is is shown."""
    folder = shutil.copytree(swept_once, tmp_path / "s")
    last = max((folder / "runs").iterdir(), key=lambda path: int(path.name))
    assert not [one for one in marks(reported(folder)) if one.startswith("INTERRUPTED")]
    (last / "ending.json").unlink()
    tree = reported(folder)
    [said] = [one for one in marks(tree) if one.startswith("INTERRUPTED")]
    assert "The same command goes on: rccltune" in said
    assert "Next: go on with the sweep: rccltune" in first(tree)


def test_a_sweep_that_is_not_chosen_from_is_shown(swept_once: Path, tmp_path: Path) -> None:
    """And emit-config is what comes next."""
    tree = reported(shutil.copytree(swept_once, tmp_path / "s"))
    assert "Nothing was chosen yet" in claim(tree)
    assert "Next: rccltune emit-config" in first(tree)
    assert check_figures(tree, simulated=True) == 4


def test_every_placements_file_is_shown_with_its_own_verdict(copied: Path) -> None:
    """Files for a placement lie beside the plain one; here a copy of it stands for one."""
    path = copied / made.RULES
    other = path.with_name(f"{path.stem}_one-oam.csv")
    shutil.copy(path, other)
    plain = json.loads((copied / "verdict.json").read_text())
    (copied / "verdict_one-oam.json").write_text(json.dumps(plain | {"path": str(other)}))
    tree = reported(copied)
    assert first(tree).count("verified at") == 2 * len(
        [one for one in plain["standings"] if one["state"] == "kept"]
    )
    # One that is of other rules leaves the other as it is.
    other.write_text(other.read_text().replace("allreduce,", "allgather,"))
    said = first(reported(copied))
    assert "verified at" in said
    assert "not verified" in said


def test_nothing_to_win_is_said_where_settings_were_compared(tmp_path: Path) -> None:
    """The library's own choice is the fastest: the site stays as it is."""
    tree = chosen(table(tmp_path, {"baseline": 10, "ring/ll": 15}))
    assert claim(tree) == (
        "Nothing to win: at 1 KiB to 8 KiB no setting beats the library's own choice by 2 %."
    )
    assert "Next: leave the site as it is" in first(tree)
    assert "source" not in first(tree)


def test_what_is_not_proven_is_not_called_nothing(tmp_path: Path) -> None:
    """Once seen a fifth faster is no proof, and no reason to say that nothing is to be won."""
    tree = chosen(table(tmp_path, {"baseline": 12, "ring/ll": 10}, repeats=1), "--proven")
    assert lacks(claim(tree), "No gain is proven", "1 KiB to 8 KiB") == []
    assert "up to 20% faster" in folded(tree, "left to the library")


def test_ranges_that_do_not_touch_are_named_each(tmp_path: Path) -> None:
    """Nothing is won between them, and no sentence says so."""
    fast = {1024: 10, 2048: 10, 4096: 40, 8192: 40, 16384: 40, 32768: 10, 65536: 10}
    rows = [
        f"{setting},{size},{us + n / 50},{n}"
        for size, mine in fast.items()
        for setting, us in (("baseline", 20.0), ("ring/ll", mine), ("tree/ll", 40))
        for n in range(4)
    ]
    path = tmp_path / "t.csv"
    head = f"{HEAD}setting,nbytes,time_us,repeat"
    path.write_text("\n".join([head, *rows, ""]), encoding="utf-8")
    assert run(["import", str(path), "-o", str(tmp_path / "s"), "-q"]) == 0
    said = claim(chosen(tmp_path / "s"))
    # Rules end between the sizes, where their curves cross.
    assert re.search(r"from 1 KiB to [23][.\d]* KiB and [23]\d[.\d]* KiB to 64 KiB", said)


def test_without_a_baseline_the_gain_is_unknown(repository: Path, tmp_path: Path) -> None:
    """AMD's published table has no untouched run."""
    tree = chosen(imported(repository, tmp_path / "s"))
    assert lacks(claim(tree), "unknown", "no baseline was measured") == []
    header = text_of(next(tree.iter("header")))
    assert lacks(header, "IMPORTED", "AMD", "ROCm") == []
    assert "Nothing" not in claim(tree)
    assert check_figures(tree) == 3


def test_a_baseline_that_stalled_everywhere_is_no_comparison(tmp_path: Path) -> None:
    """Where settings were measured all of its times are far above what a larger size took."""
    rows = ["baseline,1024,900", "baseline,2048,950", "baseline,65536,12", "baseline,131072,14"]
    rows += [f"{name},{size},10" for name in ("ring/ll", "ring/simple") for size in (1024, 2048)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join([f"{HEAD}setting,nbytes,time_us", *rows, ""]), encoding="utf-8")
    assert run(["import", str(path), "-o", str(tmp_path / "s"), "-q"]) == 0
    tree = chosen(tmp_path / "s")
    assert claim(tree) == (
        "No rule: the library's own choice was not measured, or all of its times were left out as "
        "stalls."
    )


def test_nothing_but_a_baseline_leaves_nothing_to_choose(repository: Path, tmp_path: Path) -> None:
    """Figures are there; emit-config finds nothing to choose between."""
    folder = imported(repository, tmp_path / "s", "examples/mi300x-spx-nps1/all_reduce.csv")
    assert run(["emit-config", str(folder), "-q"]) == 8
    tree = reported(folder)
    assert "Only the library's own choice was measured" in claim(tree)
    assert "rccltune sweep measures settings" in first(tree)
    assert check_figures(tree) == 3


def test_a_named_baseline_is_named(repository: Path, tmp_path: Path) -> None:
    """The site itself was never measured, and may be faster than ring/simple."""
    tree = chosen(imported(repository, tmp_path / "s"), "--baseline", "ring/simple")
    assert "not verified" in claim(tree)
    assert "ring/simple" in claim(tree)
    assert "own choice" not in claim(tree)


def test_several_collectives_are_small_multiples(repository: Path, tmp_path: Path) -> None:
    """Our own sweep of four H200, imported: four of five have rules."""
    tree = chosen(imported(repository, tmp_path / "s", "examples/h200x4-nccl-2.28.9/sweep.csv"))
    assert check_figures(tree) == 4 + 5 * 4
    names = ("all_gather", "reduce_scatter", "broadcast", "reduce")
    assert lacks(claim(tree), *names) == []
    assert "all_reduce" not in claim(tree)


def test_what_others_wrote_is_shown_and_not_run(copied: Path) -> None:
    """A host name, a product, a command."""
    header = json.loads((copied / "session.json").read_text())
    header["fingerprint"]["hosts"] = [HOSTILE]
    header["fingerprint"]["product"] = HOSTILE
    header["command"] = HOSTILE
    (copied / "session.json").write_text(json.dumps(header))
    tree = reported(copied)
    assert not list(tree.iter("img"))
    assert text_of(tree).count(HOSTILE) >= 3


def test_the_same_session_gives_the_same_page(repository: Path, tmp_path: Path) -> None:
    """There is no date in it but the measurements' own."""
    folder = imported(repository, tmp_path / "s")
    reported(folder)
    before = (folder / "report.html").read_bytes()
    reported(folder)
    assert (folder / "report.html").read_bytes() == before


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


def test_no_session(tmp_path: Path, capsys: Capture) -> None:
    """Exit code 7, and what to do."""
    assert run(["report", str(tmp_path / "nowhere")]) == 7
    assert lacks(capsys.readouterr().err, "no session") == []


def test_nothing_usable(tmp_path: Path) -> None:
    """Exit code 8, and no page."""
    path = tmp_path / "t.csv"
    path.write_text("collective,setting,nbytes,time_us\nall_reduce,ring/ll,1024,0.0\n")
    words = ["import", str(path), "--ranks", "8", "--nodes", "1", "-o", str(tmp_path / "s"), "-q"]
    assert run(words) == 0
    assert run(["report", str(tmp_path / "s")]) == 8
    assert not (tmp_path / "s" / "report.html").exists()


def test_a_spoilt_verdict_is_named(copied: Path, capsys: Capture) -> None:
    """Rather than a page without it, which would look unverified."""
    (copied / "verdict.json").write_text('{"path": null}')
    assert run(["report", str(copied), "--force"]) == 7
    assert "verdict.json" in capsys.readouterr().err


def test_json(repository: Path, tmp_path: Path, capsys: Capture) -> None:
    """For programs: where it is, how large, what it claims."""
    folder = imported(repository, tmp_path / "s")
    capsys.readouterr()
    assert run(["report", str(folder), "--json", "-q"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["path"] == str(folder / "report.html")
    assert said["bytes"] == (folder / "report.html").stat().st_size
    assert said["simulated"] is False


def test_a_folder_of_several_scales_has_a_page_in_each(
    repository: Path, tmp_path: Path, capsys: Capture
) -> None:
    """And no single page that mixes them."""
    for name in ("1x8", "1x64"):
        imported(repository, tmp_path / "all" / name)
    assert run(["report", str(tmp_path / "all"), "-o", str(tmp_path / "one.html")]) == 2
    assert "2 sessions" in capsys.readouterr().err
    assert run(["report", str(tmp_path / "all"), "--json", "-q"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [Path(one["path"]).parent.name for one in said] == ["1x8", "1x64"]


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["baseline", "silent", "ring/ll", "ring/ll/8", "ring/ll/16", "tree/ll128"]),
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
@given(ROWS, st.sampled_from([None, "silent", "ring/ll"]))
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
