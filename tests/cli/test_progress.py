"""How far a run is: the bar fits, time left is said where two launches agree, counts at the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from rccltune.cli.console import Console
from rccltune.cli.progress import bar_line, progress_of
from rccltune.measure.runs import Progress
from rccltune.model.measured import Caution, Notice, Outcome, Status

MORE = ["about 12 min left", "best at 512 KiB: ring/simple/32, 1.45 ms"]


@pytest.mark.parametrize("width", [20, 57, 77, 117])
@pytest.mark.parametrize(("done", "of"), [(0, None), (7, 12), (1999, 2000), (9, 8)])
def test_a_bar_fits_and_keeps_its_counts(width: int, done: int, of: int | None) -> None:
    """Whatever else has no room; first goes what is the least useful."""
    line = bar_line(
        width, done=done, of=of, elapsed_s=3671.0, what="all_reduce 3 settings", more=MORE
    )
    assert len(line) <= width
    assert f"{done}/{of or '?'}" in line
    assert "61:11" in line
    assert MORE[0] in line or width < 57
    assert MORE[1] not in line or MORE[0] in line


def step(number: int, elapsed_s: float, left_s: float | None, of: int = 10) -> Progress:
    """What is told after a launch of which nothing but its times matters."""
    ran = SimpleNamespace(
        launch=SimpleNamespace(
            id="x", schedule=None, variant=SimpleNamespace(widens=None, name="default")
        ),
        outcome=Outcome(launch="x", status=Status.OK, exit_code=0),
        samples=(),
    )
    return cast(
        "Progress",
        Progress(
            number=number,
            of=of,
            ran=cast("object", ran),
            elapsed_s=elapsed_s,
            left_s=left_s,
            best={},
        ),
    )


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        # 80 s after 10 s, and 70 s after 20 s, are the same end.
        (step(1, 10, 80), step(2, 20, 70), 70),
        (step(1, 10, 80), step(2, 20, 140), None),
        (step(1, 10, 80), step(2, 20, 20), None),
        (step(1, 10, None), step(2, 20, 70), None),
        # More launches are wanted than the first knew of.
        (step(1, 10, 80), step(2, 20, 70, of=20), None),
    ],
)
def test_time_left_is_said_where_two_launches_foresee_the_same(
    first: Progress, second: Progress, said: float | None
) -> None:
    """Else no number is better than a wrong one."""
    from rccltune.cli.progress import Shown

    heard: list[Progress] = []
    shown = Shown(Console(verbosity=0, as_json=False, color=False), heard.append)
    for one in (first, second):
        shown.progress(one)
    assert [one.left_s for one in heard] == [None, said]


def notice(caution: Caution, where: str | None, count: int, message: str = "m") -> Notice:
    """A warning of so many timings of a launch."""
    return Notice(caution=caution, message=message, remedy="r", where=where, count=count)


def test_what_was_left_out_is_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Two launches of 2 and 1; a later verb looks at both again and finds the same three."""
    console = Console(verbosity=0, as_json=False, color=False)
    console.warn([notice(Caution.BURST, "one", 2), notice(Caution.BURST, "two", 1)])
    console.warn([notice(Caution.BURST, "one", 1, "a"), notice(Caution.BURST, "one", 1, "b")])
    console.warn([notice(Caution.DOUBTED_SAMPLES, "one", 4)])
    console.warn([notice(Caution.DOUBTED_SAMPLES, None, 7)])
    console.close()
    console.close()
    err = capsys.readouterr().err
    assert Caution.BURST.remark(3) in err
    assert Caution.DOUBTED_SAMPLES.remark(7) in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("caution", [one for one in Caution if one.can_wait])
def test_one_and_several_are_told_apart(caution: Caution) -> None:
    """``1 timing``, ``2 timings``; what has no number says none."""
    one, two = caution.remark(1), caution.remark(2)
    assert (one == two) == (not one[0].isdigit())
    assert one[0].isdigit() == one.startswith("1 ")


def test_a_program_that_reads_along_needs_no_terminal() -> None:
    """With --json each launch is an event, whatever stderr is."""
    console = Console(verbosity=0, as_json=True, color=False)
    with progress_of(console) as reporter:
        assert reporter is not console
