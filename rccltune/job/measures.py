"""What a run of a job says of its speed: step times, a number in its output, or its duration.

The unit of statistics is a run: whatever it has of steps becomes one number. Of steps the first
fifth is left out, and never fewer than two where there are more than four: libraries compile,
caches fill, communicators are made. The number is the median of the rest, over the ranks again
their median; a checkpoint now and then does not move it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from rccltune.model.errors import CommandLineError, OutputError
from rccltune.model.vocabulary import lay, shown

WALL: Final = "wall"
_STEPS: Final = "step time, ms"
_DURATION: Final = "duration, s"
_WARMUP_SHARE: Final = 0.2
_FEWEST_LEFT_OUT: Final = 2
_FEWEST: Final = 5
_MARK: Final = '"rccltune": "steps"'
# Longer lines are no result; a job's log may have any.
_LONGEST_LINE: Final = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one run says.

    Attributes:
        value: the number that runs are compared by.
        what: ``step time, ms``, ``duration, s``, or the pattern.
        n_steps: of a rank, None where nothing marks steps.
        left_out: steps taken for warm-up.
        first_loss: of rank 0 or the lowest that says it, None where none does.
        n_ranks: that said something of steps; 0 where none did.
        expected_ranks: as these ranks know it.
        choosing: variables that choose by themselves, as the ranks had them at their end.
    """

    value: float
    what: str
    n_steps: int | None = None
    left_out: int = 0
    first_loss: float | None = None
    n_ranks: int = 0
    expected_ranks: int = 0
    choosing: tuple[str, ...] = ()
    remarks: tuple[str, ...] = field(default=())


def in_words(what: str) -> str:
    """For an axis or a table's head: a pattern says nothing to who did not write it."""
    return what if what in (_STEPS, _DURATION) else "number in its output"


def pattern_of(text: str) -> re.Pattern[str]:
    """A pattern that finds a number: its first group, or all of it.

    Raises:
        CommandLineError: it is none.
    """
    try:
        made = re.compile(text, re.MULTILINE)
    except re.error as error:
        raise CommandLineError(f"--measure: '{text}' is no pattern: {error}") from error
    if made.groups > 1:
        raise CommandLineError(
            f"--measure: '{text}' has {made.groups} groups",
            hint="put brackets around the number alone, or (?:…) around all else.",
        )
    return made


def measured(folder: Path, pattern: str | None, wall_s: float) -> Measured:
    """What a run says, by what the user wants: a pattern, the duration, else steps where marked.

    Args:
        folder: of the run.
        pattern: ``--measure``; ``wall`` is the duration; None is step times, or the duration of a
            job that marks none.
        wall_s: its duration.

    Raises:
        OutputError: the pattern finds nothing, or no number; step lines that are not understood.
    """
    lines = _step_lines(folder)
    if pattern not in (None, WALL):
        return _by_steps(lines, _found(folder, pattern_of(str(pattern))), str(pattern))
    if pattern is None and lines:
        return _by_steps(lines, None, _STEPS)
    return _by_steps(lines, wall_s, _DURATION)


def _found(folder: Path, pattern: re.Pattern[str]) -> float:
    """The last number that it finds: jobs print better and better ones."""
    where = folder / "stdout.log"
    last = None
    for name in ("stdout.log", "stderr.log"):
        text = (folder / name).read_text(encoding="utf-8", errors="replace")
        for found in pattern.finditer(text):
            last, where = found, folder / name
        if last is not None:
            break
    if last is None:
        raise OutputError(
            f"--measure: '{pattern.pattern}' finds nothing in what the job printed",
            where=str(where),
            hint="look what it prints, and write the pattern with brackets around the number.",
        )
    word = last[pattern.groups]
    try:
        value = float(word.replace(",", ""))
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise OutputError(
            f"--measure: '{pattern.pattern}' finds '{shown(word)[:60]}', which is no number "
            "above 0",
            where=str(where),
            hint="put brackets around the number alone: 'time ([0-9.]+) ms'.",
        )
    return value


def _by_steps(lines: Sequence[dict[str, Any]], value: float | None, what: str) -> Measured:
    """One number of what the ranks say, or the given one with what they say beside it."""
    if not lines:
        return Measured(value=value or 0.0, what=what)
    first = min(lines, key=lambda line: int(line["rank"]))
    kept = [_kept(line) for line in lines]
    if value is None:
        if not all(times for times, _ in kept):
            raise OutputError(
                "a rank marked no step from its beginning to its end",
                hint="put the work into 'with rccltune.torch.step():', or use --measure.",
            )
        value = median(median(times) for times, _ in kept)
    losses = [line["first_loss"] for line in sorted(lines, key=lambda one: int(one["rank"]))]
    choosing = {f"{name}={word}" for line in lines for name, word in dict(line["set"]).items()}
    return Measured(
        value=value,
        what=what,
        n_steps=int(first["steps"]),
        left_out=max(left_out for _, left_out in kept),
        first_loss=next((loss for loss in losses if loss is not None), None),
        n_ranks=len(lines),
        expected_ranks=max(int(line["ranks"]) for line in lines),
        choosing=tuple(sorted(choosing)),
        remarks=tuple(_remarks(lines, kept)),
    )


def _kept(line: dict[str, Any]) -> tuple[list[float], int]:
    """Times behind the warm-up, and how many steps that is."""
    steps = int(line["steps"])
    left_out = warmup(steps)
    pairs = zip(line["at"], line["times_ms"], strict=True)
    return [float(taken) for at, taken in pairs if at >= left_out], left_out


def warmup(n_steps: int) -> int:
    """Steps that are left out at the beginning of so many."""
    if n_steps < _FEWEST:
        return min(1, n_steps - 1) if n_steps else 0
    return max(_FEWEST_LEFT_OUT, math.ceil(_WARMUP_SHARE * n_steps))


def _remarks(
    lines: Sequence[dict[str, Any]], kept: Sequence[tuple[list[float], int]]
) -> Iterable[str]:
    expected = max(int(line["ranks"]) for line in lines)
    if len(lines) != expected:
        yield f"{len(lines)} of {expected} ranks say what their steps took"
    if any(int(line["steps"]) < _FEWEST for line in lines):
        yield f"fewer than {_FEWEST} steps: most of them may be warm-up"
    if len({int(line["steps"]) for line in lines}) > 1:
        yield "ranks made different numbers of steps"
    if any(0 < len(times) < _FEWEST for times, _ in kept):
        yield "few step times are left behind the warm-up"


def _step_lines(folder: Path) -> list[dict[str, Any]]:
    """What ranks wrote into their files, or printed where they could not."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    texts = [path for path in sorted(folder.glob("steps-*.json")) if path.is_file()]
    for path in (*texts, folder / "stdout.log"):
        with path.open(encoding="utf-8", errors="replace") as stream:
            for text in stream:
                if _MARK in text and len(text) < _LONGEST_LINE:
                    line = _parsed(text, path)
                    found[str(line["host"]), int(line["pid"])] = line
    return list(found.values())


def _parsed(text: str, path: Path) -> dict[str, Any]:
    """A line of rccltune.torch, whatever a launcher puts in front of it."""
    hint = "another rccltune.torch may have written it; take this one's (rccltune/torch.py)."
    try:
        return _checked(json.loads(text[text.index("{") :]))
    except (ValueError, KeyError, TypeError) as error:
        raise OutputError(
            lay(["a line of step times is not understood:", f"  {text.strip()[:120]}"]),
            where=str(path),
            hint=f"{shown(error)}; {hint}",
        ) from error


def _checked(line: dict[str, Any]) -> dict[str, Any]:
    if line["format"] != 1:
        raise ValueError("another format")
    for name in ("rank", "ranks", "steps", "pid"):
        line[name] = int(line[name])
    if len(line["at"]) != len(line["times_ms"]):
        raise ValueError("times without their steps")
    if not all(math.isfinite(taken) and taken > 0 for taken in line["times_ms"]):
        raise ValueError("a time that is no time")
    if not isinstance(line["set"], dict) or "first_loss" not in line:
        raise ValueError("not all is there")
    return line
