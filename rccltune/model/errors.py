"""Every error that rccltune raises on purpose, and the exit code of each.

===  ==========================  =================================================
 1   any other exception         a bug
 2   click's UsageError          bad command line
 3   InputFileError              bad sweep.yaml or rule file: all mistakes at once
 4   MachineError                no GPU, wrong mode, no rccl-tests, no launcher, no plugin
 5   LaunchError                 launches failed or timed out
 6   OutputError                 output not understood; the line is shown, the log kept
 7   SessionError                other format, other fingerprint, locked
 8   TooLittleDataError          too few good samples to fit or choose
 9   VerificationError           tuned slower, wrong results, plugin and file disagree
===  ==========================  =================================================
"""

from __future__ import annotations

from typing import ClassVar

from rccltune.model.text import JoinedLines, join_lines


class RccltuneError(Exception):
    """What happened, where, and what to do next.

    Each of them may hold data, and so is one line; more lines are put together by
    :func:`rccltune.model.text.join_lines`.

    Args:
        message: what happened, a full sentence without the place.
        where: file:line, launch id or log path.
        hint: one imperative sentence.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        """Keep the three parts apart; only the command line joins them."""
        super().__init__(message)
        self.message = join_lines([message])
        self.where = None if where is None else join_lines([where])
        self.hint = None if hint is None else join_lines([hint])

    @property
    def text(self) -> JoinedLines:
        """All three parts on lines of their own."""
        lines = [self.message]
        if self.where is not None:
            lines.append(join_lines(["  at: ", self.where], gap=""))
        if self.hint is not None:
            lines.append(join_lines(["  Hint: ", self.hint], gap=""))
        return join_lines(lines)

    def __str__(self) -> str:
        """The text."""
        return self.text


def reason_of(error: Exception) -> str:
    """Text of a system's error, without the path that the error's place names already."""
    said = error.strerror if isinstance(error, OSError) else None
    return said or str(error)


class CommandLineError(RccltuneError):
    """The command line asks for something that cannot be (exit code 2, as click's own)."""

    exit_code = 2


class BudgetError(CommandLineError):
    """The time that was allowed ended before anything was measured."""


class InputFileError(RccltuneError):
    """A sweep.yaml or a rule file has mistakes; the message lists every one of them."""

    exit_code = 3


class MachineError(RccltuneError):
    """This machine cannot do what was asked."""

    exit_code = 4


class LaunchError(RccltuneError):
    """Ranks or a benchmark failed, or ran out of time."""

    exit_code = 5


class OutputError(RccltuneError):
    """A log or results file was not understood."""

    exit_code = 6


class SessionError(RccltuneError):
    """The session folder cannot be used as it is."""

    exit_code = 7


class ReadOnlyError(SessionError):
    """A folder cannot be written by us, or not now; it can still be read."""


class TooLittleDataError(RccltuneError):
    """Not enough good samples to fit, to choose, or to decide a comparison."""

    exit_code = 8


class VerificationError(RccltuneError):
    """Rules, or B of a comparison, are slower or wrong; or the plugin disagrees with the file."""

    exit_code = 9
