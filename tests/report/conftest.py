"""Sessions to draw: published tables, real sweeps, and a few that are odd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import pytest
from builds import make_once
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from rccltune.cli import run
from rccltune.model.reporter import Reporter
from rccltune.report.contents import SessionContents, read_contents
from rccltune.report.tables import FigureTables, tables_of

KIB = 1024
CPX = "examples/mi300x-cpx-nps4/all_reduce.csv"
HEAD = "# rccltune: nodes=1 ranks=8 mode=spx-nps1 arch=gfx942 placement=out collective=all_reduce\n"
# Two labels may touch by so many pixels at 150 a inch: a font's box is taller than its letters.
TOUCH = 3.0


def _repeated(rows: Iterator[tuple[str, int, float]]) -> str:
    """Four repeats of (setting, nbytes, µs), a hundredth of it apart."""
    lines = [f"{s},{n},{us * (1 + k / 100):.3f},{k}" for s, n, us in rows for k in range(4)]
    return f"{HEAD}setting,nbytes,time_us,repeat\n" + "\n".join(lines) + "\n"


def _holes() -> Iterator[tuple[str, int, float]]:
    for power in (0, 1, 2, 9, 10, 11, 17, 18):
        for name, latency, rate in (("baseline", 20, 100), ("ring/ll", 10, 50)):
            yield name, KIB << power, latency + (1 << power) / rate
        if power < 10:
            yield "tree/ll128", KIB << power, 15 + (1 << power) / 150


def _one() -> Iterator[tuple[str, int, float]]:
    return (("ring/ll", KIB << power, 10.0 + power) for power in range(6))


def _nothing() -> Iterator[tuple[str, int, float]]:
    for power in range(8):
        yield "baseline", KIB << power, 10.0
        yield "ring/ll", KIB << power, 15.0


ODD = {
    "holes": _holes,
    "one setting": _one,
    "nothing to win": _nothing,
}


def _two_scales() -> str:
    rows = "".join(
        f"{collective},{ranks},{setting},{KIB << power},{us + ranks / 4 + k * 0.02:.2f},{k}\n"
        for collective in ("all_reduce", "all_gather")
        for ranks in (8, 64)
        for power in range(14)
        for setting, us in (
            ("baseline", 20 + (1 << power) / 100),
            ("ring/ll", 10 + (1 << power) / 40),
            ("ring/simple", 40 + (1 << power) / 150),
        )
        for k in range(4)
    )
    head = "# rccltune: nodes=1 mode=spx-nps1 arch=gfx942 placement=out\n"
    return f"{head}collective,ranks,setting,nbytes,time_us,repeat\n{rows}"


@pytest.fixture(scope="session")
def sessions(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A session by its name, imported and chosen; made once, and nobody may change it."""

    def session(name: str) -> Path:
        folder = make_once(
            tmp_path_factory, f"drawn {name}", lambda folder: _make(name, repository, folder)
        )
        return folder / "s"

    return session


def _make(name: str, repository: Path, folder: Path) -> None:
    table, more = folder / "table.csv", []
    if name in ODD:
        table.write_text(_repeated(ODD[name]()), encoding="utf-8")
    elif name == "two scales":
        table.write_text(_two_scales(), encoding="utf-8")
    elif name == "CPX":
        table, more = repository / CPX, ["--baseline", "ring/simple"]
    else:
        table = repository / "examples" / name / "sweep.csv"
    assert run(["import", str(table), "-o", str(folder / "s"), "-q"]) == 0
    assert run(["emit-config", str(folder / "s"), "-q", *more]) == 0


@pytest.fixture(scope="session")
def shown(sessions: Callable[[str], Path]) -> Callable[[str], SessionContents]:
    """What a session says, by its name."""
    return lambda name: read_contents(sessions(name), reporter=Reporter())


@pytest.fixture(scope="session")
def tables(shown: Callable[[str], SessionContents]) -> Callable[[str], FigureTables]:
    """Tables of a session, by its name."""
    return lambda name: tables_of(shown(name))


@pytest.fixture
def tidy() -> Callable[[Figure], None]:
    """Asserts that every text is inside its figure, and that none covers another."""
    return _assert_tidy


def _assert_tidy(figure: Figure) -> None:
    figure.set_dpi(150)  # as files are
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [*figure.texts, *(text for one in figure.legends for text in one.get_texts())]
    for axes in figure.axes:
        titles = [axes.title, axes._left_title, axes._right_title]
        texts += [*axes.texts, *titles, axes.xaxis.label, axes.yaxis.label]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            # What lies outside is not drawn.
            texts += [t.label1 for t in axis.get_major_ticks() if low <= t.get_loc() <= high]
            texts += [t.label2 for t in axis.get_major_ticks() if t.label2.get_visible()]
    boxes = [
        (text.get_text(), box)
        for text in texts
        # Not an annotation's own extent, which has its leader in it.
        if text.get_text() and (box := Text.get_window_extent(text, renderer)).width
    ]
    assert boxes
    for words, box in boxes:
        assert box.x0 >= 0, words
        assert box.y0 >= 0, words
        assert box.x1 <= figure.bbox.x1, words
        assert box.y1 <= figure.bbox.y1, words
    for (one, first), (other, second) in combinations(boxes, 2):
        wide = min(first.x1, second.x1) - max(first.x0, second.x0)
        tall = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert min(wide, tall) <= TOUCH, (one, other)
