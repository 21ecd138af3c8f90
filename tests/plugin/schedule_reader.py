"""Schedules and their traces as the tests see them: written, read back, and worked out naively."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


def schedule_text(steps: Sequence[str], *, n_ranks: int, n_nodes: int = 1, n_calls: int = 0) -> str:
    """A schedule file."""
    head = f"#@ format 1\n#@ nodes={n_nodes} ranks={n_ranks} calls={n_calls}\n"
    return head + "".join(f"{step}\n" for step in steps)


@dataclass(frozen=True)
class Trace:
    """A trace file: its records as dicts, and what its `#@` lines say."""

    records: list[dict[str, str]]
    begun: list[tuple[int, str]]
    end: dict[str, str] | None

    def of_step(self, step: int) -> list[dict[str, str]]:
        """Records of one step."""
        return [record for record in self.records if record["step"] == str(step)]

    @property
    def shared(self) -> tuple[object, ...]:
        """What must be the same on every rank: all but the names of contexts and communicators."""
        records = [{k: v for k, v in r.items() if k != "comm"} for r in self.records]
        end = {k: v for k, v in (self.end or {}).items() if k not in ("comm", "context")}
        return records, self.begun, end

    def calls(self, step: int) -> Counter[int]:
        """How often the plugin was asked in a step, by size."""
        found: Counter[int] = Counter()
        for record in self.of_step(step):
            found[int(record["nbytes"])] += int(record["calls"])
        return found


def read_trace(path: Path) -> Trace:
    """Read the trace of one context."""
    lines = path.read_text(encoding="ascii").splitlines()
    assert lines[0] == "#@ format 1"
    words = [dict(re.findall(r"(\S+)=(\S+)", line)) for line in lines if line.startswith("#@ ")]
    kinds = [line.split()[1] for line in lines if line.startswith("#@ ")]
    assert set(kinds) <= {"format", "begin", "end"}
    ends = [w for w, kind in zip(words, kinds, strict=True) if kind == "end"]
    return Trace(
        records=list(csv.DictReader(line for line in lines if not line.startswith("#@"))),
        begun=[
            (int(w["step"]), w["setting"])
            for w, kind in zip(words, kinds, strict=True)
            if kind == "begin"
        ],
        end=ends[-1] if ends else None,
    )


def place_calls(sizes: Sequence[int], *, n_steps: int, n_calls: int) -> list[int]:
    """The step of every call, from the sentence in docs/inside/schedule.md and nothing else.

    A pass is a longest run of calls that does not fall and has no more than ``n_calls`` of them;
    passes are steps in turn, and all that come after the last step are one.
    """
    passes: list[list[int]] = []
    for i, size in enumerate(sizes):
        n_before = len(passes) - 1
        full = n_calls and passes and n_before < n_steps and len(passes[-1]) == n_calls
        if not passes or full or size < sizes[i - 1]:
            passes.append([])
        passes[-1].append(size)
    return [min(k, n_steps) for k, run in enumerate(passes) for _ in run]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What of a benchmark's command line decides how often a tuner is asked."""

    sizes: tuple[int, ...]
    iters: int
    warmup: int
    check: int = 1
    halves: int = 2
    shows_setting: bool = False

    @property
    def per_row(self) -> int:
        """Questions in one row of the table."""
        one_half = min(1, self.warmup) + self.iters + self.check
        return self.halves * one_half + self.shows_setting

    def arguments(self, cycles: int, letter: str) -> str:
        """The command line, with -f 2."""
        words = f"-b {self.sizes[0]} -e {self.sizes[-1]} -f 2 -n {self.iters} -w {self.warmup}"
        out = "" if self.halves == 2 else " -O 0"
        shown = " -A 1" if self.shows_setting else ""
        return f"{words} -c {self.check}{out}{shown} -{letter} {cycles}"

    def leading(self, *, old: bool) -> int:
        """Steps before the table's first cycle: docs/inside/schedule.md."""
        if self.warmup == 0:
            return 0
        if len(self.sizes) > 1:
            return 1
        questions = 2 * self.warmup if old else self.warmup
        assert questions % self.per_row == 0, "one size: -w must be a multiple of a row's calls"
        return questions // self.per_row

    def calls(self, step: int, *, old: bool) -> Counter[int]:
        """Questions by size in a step."""
        lead = self.leading(old=old)
        if len(self.sizes) == 1:
            return Counter({self.sizes[0]: self.per_row})
        if step < lead:
            warmed = (self.sizes[-1],) if old else self.sizes
            return Counter(dict.fromkeys(warmed, self.warmup))
        found = Counter(dict.fromkeys(self.sizes, self.per_row))
        if old and step == lead:
            found[self.sizes[0]] += self.warmup  # the warm-up of the smallest, behind the largest's
        return found
