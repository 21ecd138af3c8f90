"""One bar for the whole of a verb, with what is done now and an estimate that follows the pace."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from rccltune.cli import progress
from rccltune.cli.console import Console
from rccltune.cli.progress import Pace, ProgressBar, bar_line
from rccltune.model.reporter import Progress

# A verb of three parts; seconds of each at a usual machine's pace.
PARTS = (("first pass", 8.0), ("second pass", 20.0), ("verifying rules", 12.0))


def steps(n: int = 10) -> list[Progress]:
    """What a verb tells: each part step by step."""
    found = []
    for at, (what, seconds) in enumerate(PARTS):
        behind = sum(one for _, one in PARTS[at + 1 :])
        found += [
            Progress(what=what, done=k, of=n, left_s=behind + seconds * (n - k) / n)
            for k in range(n + 1)
        ]
    return found


@pytest.mark.parametrize("slower", [0.2, 1.0, 5.0])
def test_the_estimate_is_of_the_whole_verb_at_this_machines_pace(slower: float) -> None:
    """Within a third from a quarter on, however fast the machine is."""
    pace, total_s = Pace(), 40.0 * slower
    for step in steps():
        elapsed_s = (40.0 - step.left_s) * slower
        found = pace.total_s(step, elapsed_s)
        if elapsed_s > total_s / 4:
            assert found == pytest.approx(total_s, rel=1 / 3)


def test_what_becomes_known_between_parts_is_no_pace() -> None:
    """Fewer rules than were expected make no machine faster."""
    pace = Pace()
    pace.total_s(Progress(what="second pass", done=0, of=1, left_s=100.0), 0.0)
    assert pace.total_s(Progress(what="second pass", done=1, of=1, left_s=80.0), 20.0) == 100.0
    assert pace.total_s(Progress(what="verifying rules", done=0, of=9, left_s=10.0), 20.0) == 30.0


def test_time_between_parts_is_no_pace_and_moves_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are made there; a terminal that asks for the line sees that it goes on."""
    clock = {"now": 0.0}
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock["now"])
    bar = ProgressBar(Console(verbosity=0, as_json=False, color=False))
    lines = []
    for clock["now"], step in (
        (0.0, Progress(what="second pass", done=0, of=1, left_s=40.0)),
        (20.0, Progress(what="second pass", done=1, of=1, left_s=20.0)),
        (25.0, None),
        (30.0, Progress(what="verifying rules", done=0, of=9, left_s=10.0)),
    ):
        if step is not None:
            bar.progress(step)
        lines.append(str(bar.__rich__()))
    assert ["25 s of about 40 s" in lines[2], "30 s of about 40 s" in lines[3]] == [True, True]


def test_a_log_gets_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what is done now, and of what the seconds are."""
    seconds = iter((0.0, 10.0, 40.0, 41.0))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    with progress.shown_progress(Console(verbosity=0, as_json=False, color=False)) as reporter:
        for done in range(3):
            reporter.progress(
                Progress(what="verifying rules", done=done, of=9, left_s=80.0, where="ll128-forced")
            )
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("verifying rules 1/9 (ll128-forced), 40 s of about ")
    assert line.endswith(" in all")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_bar_fits_its_line(width: int) -> None:
    """What is done now is cut last."""
    line = bar_line(width, share=0.5, what="second pass 1/2", elapsed_s=5, total_s=10)
    assert cell_len(line) <= width
    assert line.count("━") == width // 16
    assert width == 40 or "5 s of about 10 s  second pass 1/2" in line
