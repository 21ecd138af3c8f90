"""Progress of a verb: one bar on a terminal, or a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rccltune.cli.console import Console, columns
from rccltune.model.reporter import Progress, Reporter
from rccltune.model.rounding import minutes

if TYPE_CHECKING:
    from rich.text import Text

# A log gets a line so often.
_PAUSE_S: Final = 30.0
# What share of a terminal's line the bar takes.
_BAR: Final = 8
# For so long the usual machine's pace counts beside this machine's own (s).
_BELIEVED_S: Final = 1.0


class Pace:
    """Estimate of what a verb takes in all, by what this machine needed so far."""

    def __init__(self) -> None:
        """Begin to count."""
        self._usual_s = self._needed_s = 0.0
        self._last: tuple[Progress, float] | None = None

    def total_s(self, step: Progress, elapsed_s: float) -> float:
        """Seconds that the whole verb will have taken.

        Args:
            step: how far it is.
            elapsed_s: seconds since it began.
        """
        last, self._last = self._last, (step, elapsed_s)
        # Between two parts what is left changes by what was not known before.
        if last is not None and (last[0].what, last[0].where) == (step.what, step.where):
            self._usual_s += max(0.0, last[0].left_s - step.left_s)
            self._needed_s += elapsed_s - last[1]
        pace = (self._needed_s + _BELIEVED_S) / (self._usual_s + _BELIEVED_S)
        return elapsed_s + pace * step.left_s


class _LogLines(Reporter):
    """Reporter of the command line that says now and then how far a verb is.

    Args:
        console: says it.
    """

    def __init__(self, console: Console) -> None:
        """Begin to count."""
        self._console = console
        self._pace = Pace()
        self._start = self._said = time.monotonic()

    def say(self, text: str) -> None:
        """Say a sentence as the command line wants it."""
        self._console.say(text)

    def detail(self, text: str) -> None:
        """Say a sentence where -v is given."""
        self._console.detail(text)

    def progress(self, step: Progress) -> None:
        """Say a line, where the last one is some time ago."""
        now = time.monotonic()
        elapsed_s = now - self._start
        total_s = self._pace.total_s(step, elapsed_s)
        if now - self._said >= _PAUSE_S:
            self._said = now
            self._console.say(f"{step}, {minutes(elapsed_s)} of about {minutes(total_s)} in all")


class ProgressBar(_LogLines):
    """One line of a terminal that says how far the verb is; it goes on between steps, too.

    Args:
        console: says all else.
    """

    def __init__(self, console: Console) -> None:
        """Begin to count."""
        super().__init__(console)
        self._what = ""
        self._share = self._total_s = 0.0

    def progress(self, step: Progress) -> None:
        """Keep how far the verb is; the terminal asks for the line by itself."""
        self._what = str(step)
        self._total_s = self._pace.total_s(step, time.monotonic() - self._start)

    def __rich__(self) -> Text:
        """The line as it is now; the bar never goes back."""
        from rich.text import Text

        elapsed_s = time.monotonic() - self._start
        total_s = max(self._total_s, elapsed_s)
        self._share = max(self._share, elapsed_s / total_s if self._total_s else 0.0)
        line = bar_line(
            columns(error=True) - 3,
            share=self._share,
            what=self._what,
            elapsed_s=elapsed_s,
            total_s=total_s,
        )
        return Text(line if self._what else "")


def bar_line(width: int, *, share: float, what: str, elapsed_s: float, total_s: float) -> str:
    """One line for a terminal: how far the verb is, what is done now, and how long all of it takes.

    Args:
        width: columns that it may take.
        share: of the verb's time that is over.
        what: is done now.
        elapsed_s: seconds since it began.
        total_s: seconds that it takes in all, as it looks.
    """
    room = width // _BAR
    filled = min(room, int(room * share))
    bar = f"{'━' * filled}{'╌' * (room - filled)}"
    line = f"{bar}  {minutes(elapsed_s)} of about {minutes(total_s)}  {what}"
    return line if len(line) <= width else f"{line[: width - 1]}…"


@contextmanager
def shown_progress(console: Console) -> Iterator[Reporter]:
    """Who is told how far a verb is: a line of a terminal, or a log."""
    if console.verbosity < 0 or console.as_json or not sys.stderr.isatty():
        yield _LogLines(console)
        return
    from rich.console import Console as RichConsole

    terminal = RichConsole(
        stderr=True,
        no_color=not console.color,
        markup=False,
        emoji=False,
        highlight=False,
        width=columns(error=True),
    )
    bar = ProgressBar(console)
    with terminal.status(bar):
        yield bar
