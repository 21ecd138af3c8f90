"""How launches are shown: a bar on a terminal, a line now and then in a log, or events."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from rccltune.cli.console import Console, columns
from rccltune.model.reporter import Reporter
from rccltune.model.vocabulary import format_size, format_time, shown

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from rccltune.measure.runs import Progress

# A log gets a line when so long nothing was said, then after twice that, up to the most.
_FIRST_S: Final = 30.0
_MOST_S: Final = 600.0
# Two launches foresee the same where what the second says is so near to what the first said.
_AGREES: Final = 1.25


class ToConsole(Reporter):
    """What is said goes to the command line; how far something is, each kind shows its own way.

    Args:
        console: says it.
    """

    def __init__(self, console: Console) -> None:
        """Keep it."""
        self._console = console

    def say(self, text: str) -> None:
        """As the command line wants it."""
        self._console.say(text)

    def detail(self, text: str) -> None:
        """With -v."""
        self._console.detail(text)


class Shown(ToConsole):
    """The command line's own reporter, with a way to show a launch that ended.

    Args:
        console: says all else.
        show: shows what one launch gave.
    """

    def __init__(self, console: Console, show: Callable[[Any], None]) -> None:
        """Keep both."""
        super().__init__(console)
        self._show = show
        self._before: Progress | None = None

    def progress(self, step: object) -> None:
        """Show it, with the time left where two launches agree on that."""
        told = cast("Progress", step)
        # What times links tells of pairs, and foresees nothing.
        self._show(self._foreseen(told) if hasattr(step, "left_s") else told)

    def _foreseen(self, progress: Progress) -> Progress:
        """The same without its time left, unless the launch before foresaw nearly the same."""
        before, self._before = self._before, progress
        left_s = progress.left_s
        if before is None or before.left_s is None or left_s is None or before.of != progress.of:
            return replace(progress, left_s=None)
        expected_s = before.left_s - (progress.elapsed_s - before.elapsed_s)
        agrees = left_s / _AGREES <= expected_s <= left_s * _AGREES
        return progress if agrees else replace(progress, left_s=None)


class _Log(Shown):
    """Where nobody watches: failures at once, and now and then how far it is."""

    def __init__(self, console: Console) -> None:
        """Begin to count."""
        super().__init__(console, self._told)
        self._since = time.monotonic()
        self._pause_s = _FIRST_S

    def say(self, text: str) -> None:
        """A line that says how far it is, too."""
        self._since = time.monotonic()
        super().say(text)

    def _told(self, progress: Progress) -> None:
        self._console.warn(progress.ran.outcome.notices)
        now = time.monotonic()
        if self._console.verbosity > 0:
            self._console.say(_in_detail(progress))
        elif now - self._since >= self._pause_s:
            self._since, self._pause_s = now, min(2 * self._pause_s, _MOST_S)
            self._console.say(_in_short(progress))


@contextmanager
def progress_of(console: Console, *, n_launches: int | None = None) -> Iterator[Reporter]:
    """Who is told of each launch of a sweep or a verification.

    Args:
        console: where it is shown.
        n_launches: that are to be made, None where nobody knows yet.
    """
    if console.as_json:
        yield Shown(console, lambda progress: console.event("launch", event(progress), ""))
    elif console.verbosity < 0:
        yield Shown(console, lambda progress: console.warn(progress.ran.outcome.notices))
    elif sys.stderr.isatty():
        yield from _bar(console, n_launches)
    else:
        yield _Log(console)


def terminal_of(console: Console) -> RichConsole:
    """Where a line is drawn over the one before."""
    from rich.console import Console as RichConsole

    return RichConsole(
        stderr=True,
        no_color=not console.color,
        markup=False,
        emoji=False,
        highlight=False,
        width=columns(error=True),
    )


def event(progress: Progress) -> dict[str, Any]:
    """One launch for a program that reads along."""
    ran = progress.ran
    return {
        "number": progress.number,
        "of": progress.of,
        "id": ran.launch.id,
        "collective": ran.launch.collectives[0].value,
        "setting": _setting(progress),
        "status": ran.outcome.status.value,
        "failure": ran.outcome.failure.value if ran.outcome.failure else None,
        "samples": len(ran.samples),
        "usable": _usable(progress),
        "elapsed_s": round(progress.elapsed_s, 1),
        "left_s": None if progress.left_s is None else round(progress.left_s, 1),
        "notices": [notice.message for notice in ran.outcome.notices],
    }


def minutes(seconds: float) -> str:
    """``45 s`` or ``3 min``."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _setting(progress: Progress) -> str:
    from rccltune.session.launches import named_in

    return named_in(progress.ran.launch)


def _usable(progress: Progress) -> int:
    return sum(sample.doubt is None for sample in progress.ran.samples)


def _in_short(progress: Progress) -> str:
    """``[12/28] all_reduce ring/ll: 28 sizes, 0.7 s; about 3 min for the other 16 launches``."""
    ran = progress.ran
    sizes = {sample.nbytes for sample in ran.samples}
    others = progress.of - progress.number
    left = _left(progress)
    return (
        f"[{progress.number}/{progress.of}] {ran.launch.collectives[0].value} "
        f"{_setting(progress)}: {len(sizes)} sizes, {ran.outcome.duration_s or 0:.1f} s"
        + (f"; {left} for the other {others} launches" if left and others else "")
    )


def _in_detail(progress: Progress) -> str:
    ran = progress.ran
    return (
        f"{_in_short(progress)}; {ran.outcome.status.value}, {_usable(progress)} of "
        f"{len(ran.samples)} timings used"
    )


def _left(progress: Progress) -> str:
    return "" if progress.left_s is None else f"about {minutes(progress.left_s)}"


def _best(progress: Progress) -> str:
    """The fastest setting so far at a size in the middle of this launch's."""
    sizes = sorted({sample.nbytes for sample in progress.ran.samples if sample.nbytes})
    if not sizes:
        return ""
    key = (progress.ran.launch.collectives[0], sizes[len(sizes) // 2])
    if key not in progress.best:
        return ""
    time_us, setting = progress.best[key]
    return f"best at {format_size(key[1])}: {setting}, {format_time(time_us)}"


def _bar(console: Console, n_launches: int | None) -> Iterator[Reporter]:
    from rich.progress import Progress as Bar
    from rich.progress import ProgressColumn, SpinnerColumn, Task
    from rich.text import Text

    class Line(ProgressColumn):
        """Whatever of it the terminal has room for."""

        def render(self, task: Task) -> Text:
            """Without the spinner and the blank behind it; the last column stays free."""
            parts = [str(task.fields[name]) for name in ("left", "best")]
            done = bar_line(
                columns(error=True) - 3,
                done=int(task.completed),
                of=None if task.total is None else int(task.total),
                elapsed_s=task.elapsed or 0.0,
                what=task.description,
                more=[part for part in parts if part],
            )
            return Text(done)

    with Bar(SpinnerColumn(), Line(), console=terminal_of(console)) as bar:
        task = bar.add_task("measuring", total=n_launches, left="", best="")

        def show(progress: Progress) -> None:
            bar.update(
                task,
                completed=progress.number,
                total=progress.of,
                description=shown(
                    f"{progress.ran.launch.collectives[0].value} {_setting(progress)}"
                ),
                left=f"{_left(progress)} left" if _left(progress) else "",
                best=shown(_best(progress)),
            )
            console.warn(progress.ran.outcome.notices)

        yield Shown(console, show)


# What share of the line the bar takes.
_BAR: Final = 8


def bar_line(
    width: int, *, done: int, of: int | None, elapsed_s: float, what: str, more: Sequence[str]
) -> str:
    """One line for a terminal: how far it is and how long, then whatever has room beside it.

    Args:
        width: columns that it may take.
        done: launches made.
        of: launches to be made as far as is known.
        elapsed_s: seconds since the first began.
        what: what was measured last.
        more: what else to say, the most useful first.
    """
    room = width // _BAR
    filled = min(room, room * done // of) if of else 0
    minutes_, seconds = divmod(int(elapsed_s), 60)
    line = (
        f"{'━' * filled}{'╌' * (room - filled)}  "
        f"{done}/{'?' if of is None else of}  {minutes_}:{seconds:02}"
    )
    for part in (*more[:1], what, *more[1:]):
        if len(line) + 2 + len(part) <= width:
            line += f"  {part}"
    return line
