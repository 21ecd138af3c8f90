"""How launches are shown: a bar on a terminal, a line now and then in a log, or events."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rccltune.cli.console import Console
from rccltune.model import Reporter, format_size, format_time, shown

if TYPE_CHECKING:
    from rccltune.measure import Progress

# A log gets a line when so long nothing was said, then after twice that, up to the most.
_FIRST_S: Final = 30.0
_MOST_S: Final = 600.0


class Shown(Reporter):
    """The command line's own reporter, with a way to show a launch that ended.

    Args:
        console: says all else.
        show: shows what one launch gave.
    """

    def __init__(self, console: Console, show: Callable[[Any], None]) -> None:
        """Keep both."""
        self._console = console
        self._show = show

    def say(self, text: str) -> None:
        """As the command line wants it."""
        self._console.say(text)

    def detail(self, text: str) -> None:
        """With -v."""
        self._console.detail(text)

    def progress(self, step: object) -> None:
        """Show it."""
        self._show(step)


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
def progress_of(
    console: Console, *, n_launches: int | None = None, estimate_s: float | None = None
) -> Iterator[Reporter]:
    """Who is told of each launch of a sweep or a verification.

    Args:
        console: where it is shown.
        n_launches: that are to be made, None where nobody knows yet.
        estimate_s: what they take.
    """
    if console.as_json:
        yield Shown(console, lambda progress: console.event("launch", event(progress), ""))
    elif console.verbosity < 0:
        yield Shown(console, lambda progress: console.warn(progress.ran.outcome.notices))
    elif sys.stderr.isatty():
        yield from _bar(console, n_launches, estimate_s)
    else:
        yield _Log(console)


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
    from rccltune.session import named_in

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


def _bar(console: Console, n_launches: int | None, estimate_s: float | None) -> Iterator[Reporter]:
    from rich.console import Console as RichConsole
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}  {task.fields[best]}", markup=False),
    )
    terminal = RichConsole(
        stderr=True, no_color=not console.color, markup=False, emoji=False, highlight=False
    )
    with Bar(*columns, console=terminal) as bar:
        task = bar.add_task(
            "measuring",
            total=n_launches,
            left="" if estimate_s is None else f"about {minutes(estimate_s)}",
            best="",
        )

        def show(progress: Progress) -> None:
            bar.update(
                task,
                completed=progress.number,
                total=progress.of,
                description=shown(
                    f"{progress.ran.launch.collectives[0].value} {_setting(progress)}"
                ),
                left=f"{_left(progress)} left" if progress.left_s is not None else "",
                best=shown(_best(progress)),
            )
            console.warn(progress.ran.outcome.notices)

        yield Shown(console, show)
