"""``rccltune report``: what the page says is what the session has, for every kind of session."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree.ElementTree import Element

import made
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import check_alone, check_figures, check_reachable, parse, text_of
from wording import lacks

from rccltune.cli import run
from rccltune.report.session import _BOUNDS, LIMIT_NBYTES

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>'
CPX = "examples/mi300x-cpx-nps4/all_reduce.csv"


@pytest.fixture
def copied(tuned_once: Path, tmp_path: Path) -> Path:
    """A tuned session, to be spoilt."""
    return shutil.copytree(tuned_once, tmp_path / "session")


def imported(repository: Path, folder: Path, file: str = CPX, *more: str) -> Path:
    """A session of an example."""
    assert run(["import", str(repository / file), "-o", str(folder), "-q", *more]) == 0
    return folder


def reported(folder: Path) -> Element:
    """The page, checked as every page is."""
    assert run(["report", str(folder), "--force", "-q"]) == 0
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert len(html.encode()) <= LIMIT_NBYTES
    tree = parse(html)
    check_alone(tree)
    check_reachable(tree)
    return tree


def chosen(folder: Path, *more: str) -> Element:
    """The page after rules were chosen."""
    assert run(["emit-config", str(folder), "--force", "-q", *more]) == 0
    return reported(folder)


def claim(tree: Element) -> str:
    """The one sentence."""
    return text_of(next(e for e in tree.iter() if e.attrib.get("class") == "claim"))


def part(tree: Element, name: str) -> Element:
    """A section."""
    return next(e for e in tree.iter("section") if e.attrib["id"] == name)


def test_the_headline_is_what_verification_found(tuned_once: Path) -> None:
    """The rules' gains as verdict.json has them, and nothing computed anew."""
    plain = json.loads((tuned_once / "verdict.json").read_text())
    gains = [one["gain"] for one in plain["standings"] if one["state"] == "kept"]
    said = claim(parse((tuned_once / "report.html").read_text(encoding="utf-8")))
    assert said.startswith("SIMULATED: ")
    assert lacks(said, "times as fast") == []
    if len(gains) == 1:
        (gain,) = gains
        assert f"{gain['ratio']:.2f} ({gain['low']:.2f} to {gain['high']:.2f})" in said
    else:
        ratios = [one["ratio"] for one in gains]
        assert f"{min(ratios):.2f} to {max(ratios):.2f}" in said


def test_a_simulated_page_says_so_on_top_and_on_every_figure(tuned_once: Path) -> None:
    """And nowhere that it was measured."""
    tree = parse((tuned_once / "report.html").read_text(encoding="utf-8"))
    header = text_of(next(tree.iter("header")))
    assert "SIMULATED" in header
    assert "MEASURED" not in header
    assert check_figures(tree, "SIMULATED, no hardware") >= 5
    assert "Do not: these rules come from a simulated node" in text_of(part(tree, "use"))


def test_the_rules_are_those_of_the_file_with_what_each_gained(tuned_once: Path) -> None:
    """As the file has them, fallbacks last."""
    [path] = tuned_once.glob("rccl_tuner_*.csv")
    lines = [line for line in path.read_text().splitlines() if line.startswith("allreduce,")]
    tree = parse((tuned_once / "report.html").read_text(encoding="utf-8"))
    section = part(tree, "rules")
    assert len(list(next(section.iter("tbody")).iter("tr"))) == len(lines)
    assert path.read_text().splitlines()[-1] in text_of(part(tree, "use"))
    assert "–" not in [text_of(td) for td in next(section.iter("tbody"))[0]]


def test_a_verification_of_other_rules_counts_for_nothing(copied: Path) -> None:
    """A file that was written anew, or changed by hand, was not verified."""
    [path] = copied.glob("rccl_tuner_*.csv")
    lines = path.read_text().splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if line.startswith("allreduce,"))
    fields = lines[first].split(",")
    lines[first] = ",".join([*fields[:2], str(int(fields[2]) - 1), *fields[3:]])
    path.write_text("".join(lines))
    tree = reported(copied)
    assert "not verified" in claim(tree)
    assert "was of other rules than its file has now" in text_of(part(tree, "headline"))
    # 0 to 1 byte less is still a part of what is chosen; another setting is not.
    assert "would not be chosen now" not in text_of(part(tree, "headline"))
    path.write_text(path.read_text().replace("ring,simple", "ring,ll"))
    assert "would not be chosen now" in text_of(part(reported(copied), "headline"))


def test_without_a_verification_the_page_says_so(copied: Path) -> None:
    """The gains are those of the sweep."""
    (copied / "verdict.json").unlink()
    shutil.rmtree(copied / "verification")
    tree = reported(copied)
    assert "in the sweep" in claim(tree)
    assert "not verified" in claim(tree)
    assert "First: rccltune verify" in text_of(part(tree, "use")) or "SIMULATED" in claim(tree)


def marks(tree: Element) -> list[str]:
    """What every reader is told first."""
    found = (e for e in tree.iter("p") if e.attrib.get("class", "").startswith("mark"))
    return [text_of(e) for e in found]


def test_a_verification_without_a_verdict_proves_nothing(copied: Path) -> None:
    """It was interrupted, or ended before there was a file for the reason."""
    (copied / "verdict.json").unlink()
    tree = reported(copied)
    assert lacks(claim(tree), "SIMULATED") == []
    [said] = [one for one in marks(tree) if one.startswith("NOT PROVEN")]
    assert lacks(said, "A verification") == []
    assert "in the sweep" in text_of(part(tree, "headline"))


def test_a_verification_that_failed_is_said_first_and_why(copied: Path, tmp_path: Path) -> None:
    """On top, in the claim, and where it says how rules are used; until there are other rules."""
    shutil.rmtree(copied / "verification")
    fault = {"kind": "wrong", "setting": "ring/ll", "elements": 3}
    node = made.node(tmp_path / "faulty.yaml", faults=[fault])
    assert run(["verify", str(copied), "--simulate", str(node), "-q"]) == 9
    tree = reported(copied)
    assert "wrong results without rules" in claim(tree)
    [said] = [one for one in marks(tree) if one.startswith("NOT PROVEN")]
    assert "Do not use its rules" in said
    assert lacks(text_of(part(tree, "use")), "not confirm") == []
    assert run(["emit-config", str(copied), "--force", "--tolerance", "20", "-q"]) == 0
    assert not [one for one in marks(reported(copied)) if one.startswith("NOT PROVEN")]


def test_every_placements_file_is_shown_with_its_own_verdict(copied: Path) -> None:
    """Files for a placement lie beside the plain one; here a copy of it stands for one."""
    [path] = copied.glob("rccl_tuner_*.csv")
    other = path.with_name(f"{path.stem}_one-oam.csv")
    shutil.copy(path, other)
    plain = json.loads((copied / "verdict.json").read_text())
    (copied / "verdict_one-oam.json").write_text(json.dumps(plain | {"path": str(other)}))
    tree = reported(copied)
    n = len([one for one in plain["standings"] if one["state"] == "kept"])
    assert f"with {2 * n} rule" in claim(tree)
    for table in part(tree, "rules").iter("tbody"):
        assert "–" not in [text_of(td) for td in table[0]]
    names = [e.attrib["id"] for e in tree.iter() if e.attrib.get("id", "").endswith("-verified-2")]
    assert names
    # One that is of other rules leaves the other as it is.
    other.write_text(other.read_text().replace("allreduce,", "allgather,"))
    assert f"with {n} rule" in claim(reported(copied))


def test_where_nothing_is_to_be_won(tmp_path: Path) -> None:
    """The library's own choice is the fastest: the page says that the site stays as it is."""
    head = "# rccltune: collective=all_reduce nodes=1 ranks=8 mode=spx-nps1 arch=gfx942\n"
    rows = "".join(
        f"{setting},{1024 << k},{us},out,{n}\n"
        for setting, us in (("baseline", 10), ("ring/ll", 15))
        for k in range(4)
        for n in range(3)
    )
    table = tmp_path / "t.csv"
    table.write_text(f"{head}setting,nbytes,time_us,placement,repeat\n{rows}", encoding="utf-8")
    assert run(["import", str(table), "-o", str(tmp_path / "s"), "-q"]) == 0
    tree = chosen(tmp_path / "s")
    assert "Nothing is to be won here" in claim(tree)
    assert "nothing to use" in text_of(part(tree, "use"))


def test_an_import_without_a_baseline_claims_no_gain(repository: Path, tmp_path: Path) -> None:
    """AMD's published table has no untouched run."""
    tree = chosen(imported(repository, tmp_path / "s"))
    assert "gain is unknown" in claim(tree)
    header = text_of(next(tree.iter("header")))
    assert "IMPORTED" in header
    assert lacks(header, "AMD", "ROCm") == []
    assert check_figures(tree, "published by others, imported") >= 2


def test_a_named_baseline_gives_the_publications_comparison(
    repository: Path, tmp_path: Path
) -> None:
    """The table's own figures at 64 KiB and below: ring/simple against tree/ll."""
    folder = imported(repository, tmp_path / "s")
    tree = chosen(folder, "--baseline", "ring/simple")
    assert "not verified" in claim(tree)
    # The site itself was never measured, and may be faster than ring/simple.
    assert lacks(claim(tree), "ring/simple") == []
    assert "own choice" not in claim(tree)
    assert "which --baseline named" in text_of(part(tree, "headline"))
    figure = next(e for e in tree.iter("figure") if e.attrib["id"] == "figure-1-speedup")
    rows = {text_of(row[0]): [text_of(cell) for cell in row] for row in figure.iter("tr")}
    header = rows.pop("message size")
    table = [
        line.split(",")
        for line in (repository / CPX).read_text().splitlines()
        if line and not line.startswith("#")
    ]
    names = table[0]
    times = {
        (line[names.index("setting")], int(line[names.index("nbytes")])): float(
            line[names.index("time_us")]
        )
        for line in table[1:]
    }
    for nbytes, label in ((1 << 16, "64 KiB"), (1 << 20, "1 MiB")):
        if ("tree/ll", nbytes) in times:
            ratio = times["ring/simple", nbytes] / times["tree/ll", nbytes]
            assert rows[label][header.index("tree/ll")] == f"{ratio:.2f}×"


def test_a_baseline_alone_makes_a_page_without_rules(repository: Path, tmp_path: Path) -> None:
    """Figures are there; nothing was chosen, and emit-config finds nothing to choose between."""
    folder = imported(repository, tmp_path / "s", "examples/mi300x-spx-nps1/all_reduce.csv")
    assert run(["emit-config", str(folder), "-q"]) == 8
    tree = reported(folder)
    assert "how fast what was measured is, and no rule" in claim(tree)
    assert check_figures(tree, "imported") >= 2
    assert "There are no rules" in text_of(part(tree, "rules"))


def test_several_collectives_have_figures_each(repository: Path, tmp_path: Path) -> None:
    """Our own sweep of four H200, imported."""
    folder = imported(repository, tmp_path / "s", "examples/h200x4-nccl-2.28.9/sweep.csv")
    tree = reported(folder)
    titles = {text_of(e) for e in part(tree, "figures").iter("h3")}
    assert {t.partition(",")[0] for t in titles} == {
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "broadcast",
        "reduce",
    }
    assert "verify" in text_of(part(tree, "repeat")) or "emit-config" in text_of(
        part(tree, "repeat")
    )


def test_what_others_wrote_is_shown_and_not_run(copied: Path) -> None:
    """In a log, a host name, a command, a variable's value."""
    header = json.loads((copied / "session.json").read_text())
    header["fingerprint"]["hosts"] = [HOSTILE]
    header["fingerprint"]["product"] = HOSTILE
    header["command"] = HOSTILE
    (copied / "session.json").write_text(json.dumps(header))
    own = copied / "runs" / "1"
    made_of = json.loads((own / "run.json").read_text())
    made_of["argv"] = ["mpirun", HOSTILE]
    made_of["added"] = [["NAME", HOSTILE]]
    (own / "run.json").write_text(json.dumps(made_of))
    (own / "log.txt").write_bytes(HOSTILE.encode() + b"\n\xff\xfe\x00 \x1b[31m version\n" * 3)
    tree = reported(copied)
    assert len(list(tree.iter("script"))) == 1
    assert not list(tree.iter("img"))
    assert text_of(part(tree, "launches")).count(HOSTILE) >= 2
    assert HOSTILE in text_of(next(tree.iter("header")))


def test_a_file_name_of_markup_stays_a_name(repository: Path, tmp_path: Path) -> None:
    """Imported files may be called anything."""
    path = tmp_path / "<img src=x onerror=alert(1)>.csv"
    path.write_bytes((repository / CPX).read_bytes())
    assert run(["import", str(path), "-o", str(tmp_path / "s"), "-q"]) == 0
    tree = reported(tmp_path / "s")
    assert path.name in text_of(part(tree, "launches"))


def test_a_log_of_any_size_is_quoted_in_a_few_lines_and_one_that_is_gone_is_said_to_be(
    copied: Path,
) -> None:
    """First and last lines; what is between is counted and not shown."""
    log = copied / "runs" / "1" / "log.txt"
    log.write_text("RCCL version 2\n" + "".join(f"line {n}\n" for n in range(200_000)))
    entry = next(part(reported(copied), "launches").iter("details"))
    quoted = text_of(next(entry.iter("pre"))).splitlines()
    assert len(quoted) < 20
    assert "line 199999" in quoted
    assert any("bytes" in line for line in quoted)
    log.unlink()
    assert "the log cannot be read: No such file" in text_of(part(reported(copied), "launches"))


def test_the_same_session_gives_the_same_page(repository: Path, tmp_path: Path) -> None:
    """There is no date in it but the measurements' own."""
    folder = imported(repository, tmp_path / "s")
    reported(folder)
    first = (folder / "report.html").read_bytes()
    reported(folder)
    assert (folder / "report.html").read_bytes() == first


def test_a_page_that_is_there_is_not_overwritten_unasked(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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


def test_no_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 7, and what to do."""
    assert run(["report", str(tmp_path / "nowhere")]) == 7
    assert lacks(capsys.readouterr().err, "no session") == []


def test_nothing_usable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 8, and no page."""
    table = tmp_path / "t.csv"
    table.write_text("collective,setting,nbytes,time_us\nall_reduce,ring/ll,1024,0.0\n")
    assert (
        run(["import", str(table), "--ranks", "8", "--nodes", "1", "-o", str(tmp_path / "s"), "-q"])
        == 0
    )
    assert run(["report", str(tmp_path / "s")]) == 8
    assert not (tmp_path / "s" / "report.html").exists()


def test_a_spoilt_verdict_is_named(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rather than a page without it, which would look unverified."""
    (copied / "verdict.json").write_text('{"path": null}')
    assert run(["report", str(copied), "--force"]) == 7
    assert "verdict.json" in capsys.readouterr().err


def test_json(repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For programs: where it is, how large, what it claims."""
    folder = imported(repository, tmp_path / "s")
    capsys.readouterr()
    assert run(["report", str(folder), "--json", "-q"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["path"] == str(folder / "report.html")
    assert said["bytes"] == (folder / "report.html").stat().st_size
    assert said["simulated"] is False


def test_a_folder_of_several_scales_has_a_page_in_each(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no single page that mixes them."""
    for name in ("1x8", "1x64"):
        imported(repository, tmp_path / "all" / name)
    assert run(["report", str(tmp_path / "all"), "-o", str(tmp_path / "one.html")]) == 2
    assert "2 sessions" in capsys.readouterr().err
    assert run(["report", str(tmp_path / "all"), "--json", "-q"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [Path(one["path"]).parent.name for one in said] == ["1x8", "1x64"]


def test_a_page_that_would_be_too_large_shows_less_and_says_what(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every run is still listed, and nothing is cut in the middle."""
    few = (_BOUNDS[0], replace(_BOUNDS[-1], points=20))
    monkeypatch.setattr("rccltune.report.session.LIMIT_NBYTES", 90_000)
    monkeypatch.setattr("rccltune.report.session._BOUNDS", few)
    assert run(["report", str(copied), "--force"]) == 0
    assert "less of the session is shown" in capsys.readouterr().err
    tree = parse((copied / "report.html").read_text(encoding="utf-8"))
    check_reachable(tree)
    shown = text_of(part(tree, "launches"))
    for folder in copied.glob("runs/*"):
        assert f"run-{folder.name}" in shown
    assert "sizes are shown, evenly spread" in text_of(part(tree, "figures"))


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
@settings(max_examples=40)
@given(ROWS, st.sampled_from([None, "silent", "ring/ll"]))
def test_whatever_was_measured_makes_a_page(
    rows: list[tuple[str, int, float, str, str, int]], baseline: str | None
) -> None:
    """One size, one setting, one rank, times that jump: a page, or an error that says why not."""
    with TemporaryDirectory() as name:
        table = Path(name) / "t.csv"
        lines = [",".join(map(str, (*row, number))) for number, row in enumerate(rows)]
        header = "setting,nbytes,time_us,placement,collective,ranks,repeat"
        table.write_text("# rccltune: nodes=1\n" + "\n".join([header, *lines]) + "\n")
        folder = Path(name) / "s"
        assert run(["import", str(table), "-o", str(folder), "-q"]) == 0
        with (folder / "samples.csv").open() as stream:
            usable = [row for row in csv.DictReader(stream) if not row["unusable"]]
        named = baseline in {row["setting"] for row in usable}
        more = ["--baseline", baseline] if baseline and named else []
        assert run(["emit-config", str(folder), "-q", *more]) in {0, 8}
        code = run(["report", str(folder), "-q"])
        assert code == (0 if usable else 8)
        if code == 0:
            check_figures(reported(folder), "imported")
