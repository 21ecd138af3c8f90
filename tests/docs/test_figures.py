"""Figures of the documents are those of ``examples/``, and the same on every page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median

import draw_own_choice
import pytest
from shown import ROOT

from rccltune.cli import run

EXAMPLES = ROOT / "examples"
DOCS = ROOT / "docs"
H200X2 = EXAMPLES / "h200x2-nccl-2.28.9"
RULE = re.compile(r"^ *(allreduce,\S+)$", re.MULTILINE)
BOUND = re.compile(r"^ *(#@ (?:requires|library) .+)$", re.MULTILINE)


def page(name: str) -> str:
    """Text of a page of docs/, or of README."""
    folder = ROOT if name == "README.md" else DOCS
    return (folder / name).read_text(encoding="utf-8")


def outputs(text: str) -> list[str]:
    """Blocks of a page that show what was printed, or what a file has."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for language, block in found if not language]


def test_readme_shows_the_rules_that_were_verified() -> None:
    """The rules of the example's file, what it is bound to, and what its comments say they gain."""
    file = (H200X2 / "rccl_tuner.csv").read_text(encoding="utf-8")
    text = page("README.md")
    assert RULE.findall(text) == RULE.findall(file)
    assert BOUND.findall(text) == BOUND.findall(file) != []
    gains = sorted(re.findall(r"# verified: (\d\.\d\d)x \(", file))
    assert len(gains) == 2
    assert f"{gains[0]} to {gains[-1]} times as fast" in text
    first = RULE.findall(file)[0].split(",")
    assert f"From {first[1]} to {first[2]} bytes" in text


def test_how_it_works_shows_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each block of the page is printed by its command, or stands in a file, letter by letter."""
    text = page("how-it-works.md")
    commands = re.findall(r"^rccltune (.+)$", text, re.MULTILINE)
    (tmp_path / "examples").symlink_to(EXAMPLES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    printed = ""
    for command in commands:
        assert run(command.split()) == 0, command
        printed += "".join(capsys.readouterr())
    printed += (H200X2 / "sweep.csv").read_text(encoding="utf-8")
    printed += (tmp_path / "h200x2/rccl_tuner.csv").read_text(encoding="utf-8")
    lines = {line.rstrip() for line in printed.splitlines()}
    shown = [line for block in outputs(text) for line in block.splitlines()]
    assert len(shown) > 15
    assert [line for line in shown if line.rstrip() not in lines] == []
    # What the text says of them.
    [n_timings] = re.findall(r"^(\d+) new timings", printed, re.MULTILINE)
    assert f"{n_timings} timings" in text
    for row in outputs(text)[0].splitlines():
        assert f"{row.split(',')[8]} µs" in text


FORMS = ("linear", "segmented", "log-log")


@pytest.mark.parametrize("folder", ["h200x4-nccl-2.28.9", "mi300x-spx-nps1", "mi300x-cpx-nps4"])
def test_errors_of_curves_are_those_that_fit_finds(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/proven.md: at sizes left out, the median over all curves of the example."""
    monkeypatch.chdir(tmp_path)
    name = "sweep.csv" if folder.startswith("h200") else "all_reduce.csv"
    assert run(["import", "-q", str(EXAMPLES / folder / name)]) == 0
    assert run(["fit", "-q"]) == 0
    curves = json.loads(Path("rccltune-session/fit.json").read_text(encoding="utf-8"))["curves"]
    errors: dict[str, list[float]] = {form: [] for form in FORMS}
    taken = []
    for curve in curves:
        for fit in curve["fits"]:
            if fit["held_out_error"] is not None:
                errors[fit["model"]].append(fit["held_out_error"])
                if fit["model"] == curve["chosen"]:
                    taken.append(fit["held_out_error"])
    found = " | ".join(f"{median(one):.1%}".replace("%", " %") for one in (*errors.values(), taken))
    assert f"| `{folder}` | {len(curves)} | {found} |" in page("proven.md")


def test_what_rccl_leaves_is_what_the_picture_shows() -> None:
    """1.24 to 1.68x between 1 KiB and 4 MiB, in the words of two pages."""
    gains = draw_own_choice.gains(draw_own_choice.OFFERED)
    inside = [gain for nbytes, gain in gains.items() if 1024 <= nbytes <= 4 << 20]
    assert f"{min(inside):.2f} to {max(inside):.2f}×" in page("proven.md")
    assert f"up to {max(gains.values()):.2f}×" in page("simulated-nodes.md")


def test_records_have_the_calls_that_the_page_counts() -> None:
    """Of both ranks, and their sizes (docs/job.md)."""
    calls, sizes = 0, set()
    for file in (EXAMPLES / "h200x2-training-loop").glob("record-*.csv"):
        for line in file.read_text(encoding="utf-8").splitlines():
            if not line.startswith(("#", "collective")):
                fields = line.split(",")
                calls += int(fields[4])
                sizes.add((fields[0], fields[1]))
    text = " ".join(page("job.md").split())
    assert f"{calls:,} calls of {len(sizes)} sizes" in text


# A gain, a duration or a share with its unit, alone or as a range.
FIGURE = re.compile(r"\d[\d.]*(?: to \d[\d.]*)? ?(?:×|(?:s|MiB|%)(?!\w))")


@pytest.mark.parametrize("name", ["README.md", "getting-started.md"])
def test_figures_of_other_pages_stand_in_the_proof(name: str) -> None:
    """What README and the first page say of real GPUs is said in docs/proven.md, in the same figures."""
    text = re.sub(r"^ {4}.*$", "", page(name), flags=re.MULTILINE)
    proof = " ".join(page("proven.md").split())
    said = re.findall(r"(On two NVIDIA H200.*?)rules, which", " ".join(text.split()))
    said += re.findall(r"(On four, all_gather.*?) nccl-tests", " ".join(text.split()))
    said += re.findall(r"(Two H200 take.*?) for all", " ".join(text.split()))
    assert said
    figures = FIGURE.findall(" ".join(said))
    assert figures
    assert [figure for figure in figures if figure not in proof] == []
