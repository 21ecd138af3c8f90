"""One number for one fact: page, tables of emit-config, explain and verify, and load() agree."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

import made
import pytest
from reading import parse, text_of

import rccltune
from rccltune.cli import run
from rccltune.model.units import format_span
from rccltune.rules.rule_file import read_rules
from rccltune.verify.verdict_store import rule_paths

EXAMPLES = (
    "mi300x-cpx-nps4/all_reduce.csv",
    "h200x2-nccl-2.28.9/sweep.csv",
    pytest.param("h200x4-nccl-2.28.9/sweep.csv", marks=pytest.mark.long),
    pytest.param("h200x2-training-loop/sweep.csv", marks=pytest.mark.long),
)
Capture = pytest.CaptureFixture[str]
# Collective, sizes, setting.
Rule = tuple[str, str, str]


def page_rules(session: Path) -> dict[Rule, tuple[str, str]]:
    """Gain and proof of each rule on the page's first screen."""
    assert run(["report", str(session), "-q", "--force"]) == 0
    tree = parse((session / "report.html").read_text(encoding="utf-8"))
    first = next(e for e in tree.iter("section") if e.attrib["id"] == "first")
    found: dict[Rule, tuple[str, str]] = {}
    for table in first.iter("table"):
        for row in table.iterfind("tbody/*"):
            cells = {td.attrib.get("data-head", "collective"): text_of(td) for td in row}
            if "(fallback)" not in cells["setting"]:
                rule = (cells["collective"], cells["sizes"], cells["setting"])
                found[rule] = (cells["times as fast"], cells["how proven"])
    return found


def table_rows(said: str, *names: str) -> Iterator[dict[str, str]]:
    """Rows of the tables that a verb printed whose heads are these, by their heads."""
    heads: list[str] = []
    for line in said.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if set(names) <= set(cells):
            heads = cells
        elif heads and not line.strip():
            heads = []
        elif heads and len(cells) >= len(names):
            yield dict(zip(heads, cells, strict=False))


def printed(said: str, *names: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Sizes, setting and row of each rule in a printed table."""
    for row in table_rows(said, "from", "to", "setting", *names):
        if "/" in row.get("setting", ""):
            low, high = row["from"], row["to"]
            span = low if low == high else f"{low} to {high}"
            yield (f"{low} and above" if high == "any" else span), row["setting"], row


def loaded_rules(session: Path) -> set[Rule]:
    """What load() says of the file for the site."""
    table = rccltune.load(session).rules
    mine = table[table["setting"].notna() & ~table["fallback"] & ~table["file"].str.contains("/")]
    return {
        (row.collective, format_span(row.min_nbytes, row.max_nbytes), row.setting)
        for row in mine.itertuples()
    }


def check(session: Path, chosen: str, capsys: Capture) -> dict[Rule, tuple[str, str]]:
    """Rules and gains of page, emit-config, explain and load() are the same; those of the page."""
    page = page_rules(session)
    assert set(page) == loaded_rules(session)
    [path] = rule_paths(session)
    capsys.readouterr()
    assert run(["explain", str(path)]) == 0
    # What only the file's fallbacks answer is another row there.
    said = {(span, setting) for span, setting, _ in printed(capsys.readouterr().out)}
    assert {(span, setting) for _, span, setting in page} <= said
    for span, setting, row in printed(chosen, "gain"):
        gain, proof = page.get((row["collective"], span, setting), ("", "verified"))
        if not proof.startswith("verified") and row["gain"] != "–":
            assert f"{round(100 * (float(gain.partition('×')[0]) - 1)):+d} %" == row["gain"]
            assert f"at {row['sizes']} size" in proof
    zones = rccltune.load(session).zones
    for zone in zones[zones["setting"].notna()].itertuples():
        rule = (zone.collective, format_span(zone.min_nbytes, zone.max_nbytes), zone.setting)
        gain, proof = page.get(rule, ("", "verified"))
        if not proof.startswith("verified") and zone.gain == zone.gain:
            low, mean, high = zone.gain_low, zone.gain, zone.gain_high
            assert gain == f"{mean:.2f}× ({low:.2f} to {high:.2f})"
    return page


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("file", EXAMPLES)
def test_an_imported_session_has_one_number_for_one_fact(
    repository: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """AMD's table, and sweeps of ours on two and four H200."""
    monkeypatch.setenv("COLUMNS", "200")
    session = tmp_path / "s"
    assert run(["import", str(repository / "examples" / file), "-o", str(session), "-q"]) == 0
    more = ["--baseline", "ring/simple"] if "cpx" in file else []
    capsys.readouterr()
    assert run(["emit-config", str(session), *more]) == 0
    page = check(session, capsys.readouterr().out, capsys)
    assert page
    assert all("not verified" in proof for _, proof in page.values())


@pytest.mark.usefixtures("undrawn")
def test_a_verified_session_prints_what_the_verdict_says(
    swept_once: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By verify, on the page and in load(); the page has range, setting, gain and interval."""
    monkeypatch.setenv("COLUMNS", "200")
    session = shutil.copytree(swept_once, tmp_path / "s")
    assert run(["emit-config", str(session), "-q"]) == 0
    capsys.readouterr()
    assert run(["verify", str(session)]) == 0
    said = capsys.readouterr().out
    page = check(session, "", capsys)
    assert page
    rows = {(row["collective"], span, s): row for span, s, row in printed(said, "faster")}
    assert set(rows) == set(page)
    for rule, (gain, proof) in page.items():
        row = rows[rule]
        assert gain == f"{row['faster'].replace('x', '×')} ({row['interval']})"
        assert f"at {row['sizes']} size" in proof
        if row["one by one"] != "as timed":
            assert row["one by one"].replace("x", "×") in proof
    verdicts = rccltune.load(session).verdicts
    assert f"{verdicts['n_replicates'].max()} communicators each" in " ".join(
        proof for _, proof in page.values()
    )


def test_the_page_has_no_rule_that_the_file_has_not(tuned_once: Path, tmp_path: Path) -> None:
    """Nor a bar of one above a figure: what verification cut is gone everywhere."""
    session = shutil.copytree(tuned_once, tmp_path / "s")
    rules = read_rules((session / made.RULES).read_bytes()).rules
    page = page_rules(session)
    assert len(page) == len([one for one in rules if not one.fallback])
    html = (session / "report.html").read_text(encoding="utf-8")
    assert _bars(parse(html)) <= {str(one.setting) for one in rules}


def _bars(tree: Element) -> set[str]:
    """Names of the bars in the first figure."""
    figure = next(tree.iter("figure"))
    words = {"".join(e.itertext()).strip() for e in figure.iter()}
    return {word for word in words if re.fullmatch(r"[a-z]+/[a-z0-9]+(/\d+)?", word)}
