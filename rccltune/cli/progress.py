"""Progress of launches: a bar on a terminal, or a line now and then in a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rccltune.cli.console import Console, columns
from rccltune.model.reporter import Reporter

if TYPE_CHECKING:
    from rich.console import Console as RichConsole


class ConsoleReporter(Reporter):
    """Reporter that talks on the command line; each kind shows its own progress.

    Args:
        console: says it.
    """

    def __init__(self, console: Console) -> None:
        """Keep it."""
        self._console = console

    def say(self, text: str) -> None:
        """Say a sentence as the command line wants it."""
        self._console.say(text)

    def detail(self, text: str) -> None:
        """Say a sentence where -v is given."""
        self._console.detail(text)


def terminal_of(console: Console) -> RichConsole:
    """Make the terminal on which a line is drawn over the one before."""
    from rich.console import Console as RichConsole

    return RichConsole(
        stderr=True,
        no_color=not console.color,
        markup=False,
        emoji=False,
        highlight=False,
        width=columns(error=True),
    )


def minutes(seconds: float) -> str:
    """``45 s`` or ``3 min``."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


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
