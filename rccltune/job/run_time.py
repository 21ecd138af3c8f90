"""The number that a run of a job is compared by: one it prints, its steps' time, or its duration.

A run is one number, since two runs of one command differ by more than their steps tell. Of marked
steps it is the median behind the first fifth (libraries compile, caches fill, communicators are
made), and over ranks the median again; a checkpoint now and then does not move it.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from rccltune.model.errors import CommandLineError, OutputError
from rccltune.model.vocabulary import join_lines, printable

STEPS: Final = "step time in ms"
DURATION: Final = "duration in s"
PRINTED: Final = "number that it prints"
# Finds what nccl-tests and rccl-tests print last; a pattern for --measure.
BENCHMARK: Final = "Avg bus bandwidth *: (?P<rate>[0-9.]+)"
# Share of marked steps that warm up.
_WARMUP: Final = 0.2
_MARK: Final = '"rccltune": "steps"'
# Longer lines are no result; a job's log may have any.
_LONGEST_LINE: Final = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """Number by which a run is compared, and what was read beside it.

    Attributes:
        value: number that runs are compared by.
        what: STEPS, DURATION or PRINTED.
        first_loss: of the lowest rank that says it.
        choosing: ``NAME=VALUE`` of variables that choose by themselves, as ranks had them.
    """

    value: float
    what: str
    first_loss: float | None = None
    choosing: tuple[str, ...] = ()


def pattern_of(text: str) -> re.Pattern[str]:
    """Pattern that finds a number: its first group, or all of it.

    Raises:
        CommandLineError: it is no pattern, or has several groups.
    """
    try:
        pattern = re.compile(text, re.MULTILINE)
    except re.error as error:
        raise CommandLineError(f"--measure: '{text}' is no pattern: {error}") from error
    if pattern.groups > 1:
        raise CommandLineError(
            f"--measure: '{text}' has {pattern.groups} groups",
            hint="put brackets around the number alone, or (?:…) around all else.",
        )
    return pattern


def is_rate(pattern: re.Pattern[str] | None) -> bool:
    """Whether more of the number is better: its group is named ``rate``."""
    return pattern is not None and "rate" in pattern.groupindex


def measure_run(folder: Path, pattern: re.Pattern[str] | None, seconds: float) -> RunTime:
    """Number of a run: what the pattern finds, else its marked steps, else its duration.

    Args:
        folder: of the run.
        pattern: of ``--measure``.
        seconds: that the run took.

    Raises:
        OutputError: the pattern finds no number; a line of step times is not understood.
    """
    ranks = sorted(_marks(folder), key=lambda one: int(one["rank"]))
    if pattern is not None:
        value, source = _printed(folder, pattern), PRINTED
    elif ranks:
        value, source = median(_step_ms(one) for one in ranks), STEPS
    else:
        value, source = seconds, DURATION
    losses = (one["first_loss"] for one in ranks if one["first_loss"] is not None)
    return RunTime(
        value=value,
        what=source,
        first_loss=next(losses, None),
        choosing=tuple(sorted({f"{n}={v}" for one in ranks for n, v in one["set"].items()})),
    )


def _printed(folder: Path, pattern: re.Pattern[str]) -> float:
    """Last number that the pattern finds, on stdout before stderr: jobs print better and better."""
    for path in (folder / "stdout.log", folder / "stderr.log"):
        matches = list(pattern.finditer(path.read_text(encoding="utf-8", errors="replace")))
        if matches:
            break
    else:
        raise OutputError(
            f"--measure: '{pattern.pattern}' finds nothing in what the job printed",
            where=str(folder),
            hint="look what it prints, and write the pattern with brackets around the number.",
        )
    word = matches[-1][pattern.groups]
    try:
        value = float(word.replace(",", ""))
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise OutputError(
            f"--measure: '{pattern.pattern}' finds '{printable(word)[:60]}', which is no number "
            "above 0",
            where=str(path),
            hint="put brackets around the number alone: 'time ([0-9.]+) ms'.",
        )
    return value


def _step_ms(line: dict[str, Any]) -> float:
    """Median time of a rank's steps behind its warm-up."""
    begin = math.ceil(_WARMUP * int(line["steps"]))
    kept = [ms for at, ms in zip(line["at"], line["times_ms"], strict=True) if at >= begin]
    if not kept:
        raise OutputError(
            "a rank marked no step from its beginning to its end",
            hint="put the work into 'with rccltune.torch.step():', or use --measure.",
        )
    return float(median(kept))


def _marks(folder: Path) -> list[dict[str, Any]]:
    """Step marks that ranks wrote into their files, or printed where they could not write."""
    marks: dict[tuple[str, int], dict[str, Any]] = {}
    files = [path for path in sorted(folder.glob("steps-*.json")) if path.is_file()]
    for path in (*files, folder / "stdout.log"):
        with path.open(encoding="utf-8", errors="replace") as stream:
            for text in stream:
                if _MARK in text and len(text) < _LONGEST_LINE:
                    line = _parsed(text, path)
                    marks[str(line["host"]), int(line["pid"])] = line
    return list(marks.values())


def _parsed(text: str, path: Path) -> dict[str, Any]:
    """A line of rccltune.torch, whatever a launcher puts in front of it."""
    try:
        return _checked(json.loads(text[text.index("{") :]))
    except (ValueError, KeyError, TypeError) as error:
        raise OutputError(
            join_lines(["a line of step times is not understood:", f"  {text.strip()[:120]}"]),
            where=str(path),
            hint=f"{printable(error)}; another rccltune.torch may have written it: take this one's "
            "(rccltune/torch.py).",
        ) from error


def _checked(line: dict[str, Any]) -> dict[str, Any]:
    if line["format"] != 1:
        raise ValueError("another format")
    for name in ("rank", "steps", "pid"):
        line[name] = int(line[name])
    if len(line["at"]) != len(line["times_ms"]):
        raise ValueError("times without their steps")
    if not all(math.isfinite(ms) and ms > 0 for ms in line["times_ms"]):
        raise ValueError("a time that is no time")
    if not isinstance(line["set"], dict) or "first_loss" not in line:
        raise ValueError("not all is there")
    return line
