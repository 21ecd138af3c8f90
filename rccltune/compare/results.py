"""Result of a comparison, as its files and everybody who shows it have it.

``comparison.csv`` has a row a size; its columns:

================  ================================================================
collective        ``all_reduce`` …
nbytes            size in bytes, as a tuner sees it
timing            ``graph`` or ``loop``; empty where nothing was timed
verdict           ``equal``, ``faster``, ``slower``, ``undecided``, ``wrong``, ``failed``: of B
ratio             time of B over time of A
low, high         its interval; all intervals of a comparison hold with 95 % together
a_us, b_us        µs a call
n_a, n_b          repeats behind it: starts, or communicators inside a process
a_ran, b_ran      what each side ran, or the path that asked no tuner
basis             ``starts``, ``communicators``, or why nothing was timed
reason            why B differs across processes: ``choice``, ``kernel``,
                  ``channels``, ``path``, ``unknown``
because           why that is not known
told              how B was with A's setting against A, where theirs differ
told_ratio        time of B with A's setting over time of A
told_low,         its interval; all of these hold with 95 % together
told_high
================  ================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rccltune.compare import judge_sizes, reasons
from rccltune.compare.reasons import ran_words
from rccltune.compare.restoring import RestoredRules
from rccltune.compare.sides import Side
from rccltune.model.rounding import csv_text, round_number
from rccltune.model.units import format_size
from rccltune.model.verdict import Verdict
from rccltune.session import files, store
from rccltune.variants import catalog
from rccltune.variants.catalog import Substitutions

if TYPE_CHECKING:
    import pandas as pd

FORMAT: Final = 1
JSON_FILE: Final = "comparison.json"
CSV_FILE: Final = "comparison.csv"
FIGURE_FILE: Final = "compare.png"
COLUMNS: Final = (
    *("collective", "nbytes", "timing", "verdict", "ratio", "low", "high", "a_us", "b_us"),
    *("n_a", "n_b", "a_ran", "b_ran", "basis"),
    *reasons.COLUMNS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRange:
    """Neighbouring sizes of one verdict and one reason.

    Attributes:
        least, most: of the ratios; NaN where none was timed.
        reason: see this module; empty where nobody asked why.
        why: the same as a sentence.
    """

    collective: str
    min_nbytes: int
    max_nbytes: int
    verdict: Verdict
    least: float
    most: float
    a_ran: tuple[str, ...]
    b_ran: tuple[str, ...]
    n_sizes: int
    reason: str = ""
    why: str = ""

    @property
    def ratio(self) -> str:
        """``1.09x to 1.76x``; a dash where nothing was timed."""
        if math.isnan(self.least):
            return "–"
        ends = dict.fromkeys(f"{one:.2f}x" for one in (self.least, self.most))
        return " to ".join(ends)

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        return {
            "collective": self.collective,
            "min_nbytes": self.min_nbytes,
            "max_nbytes": self.max_nbytes,
            "verdict": self.verdict,
            "ratio_min": _known(self.least),
            "ratio_max": _known(self.most),
            "a_ran": self.a_ran,
            "b_ran": self.b_ran,
            "sizes": self.n_sizes,
            "reason": self.reason,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PathBound:
    """Up to which size the path of a catalog entry gains, and what a job exports for it.

    Attributes:
        max_nbytes: None where it gains at no size from the smallest on.
    """

    name: str
    collective: str
    max_nbytes: int | None
    export: str

    def __str__(self) -> str:
        """``mscclpp gains up to 256 KiB (all_reduce): export …``."""
        if self.max_nbytes is None:
            return f"{self.name} gains at no small size of {self.collective}"
        return (
            f"{self.name} gains up to {format_size(self.max_nbytes)} ({self.collective}): "
            f"export {self.export}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult:
    """Result of a comparison.

    Attributes:
        table: by :data:`COLUMNS`.
        question: what was compared, as comparison.json keeps it.
        repeats: ``starts``, ``communicators``.
        in_turns: False of two sessions, which were not measured in turns.
        was_cut: a budget or an interruption ended it.
        remarks: sentences beside it.
        restored: rules that give B what A chose, where that is proven to be faster.
    """

    folder: Path | None
    a: str
    b: str
    table: pd.DataFrame
    question: Mapping[str, Any]
    margin: float
    repeats: str
    n_starts: int
    seconds: float
    in_turns: bool = True
    was_cut: bool = False
    simulated: bool = False
    bounds: tuple[PathBound, ...] = ()
    remarks: tuple[str, ...] = ()
    restored: RestoredRules | None = None

    @property
    def exit_code(self) -> int:
        """9, 8 or 0, see :func:`rccltune.compare.judge_sizes.exit_code`."""
        return judge_sizes.exit_code(self.table["verdict"], was_cut=self.was_cut)

    @property
    def ranges(self) -> tuple[SizeRange, ...]:
        """Neighbouring sizes of one verdict and reason, by collective."""
        return tuple(ranges_of(self.table))

    @property
    def explanations(self) -> tuple[str, ...]:
        """A sentence for each range that differs and whose reason was asked; and what helps."""
        has_several = len(set(self.table["collective"])) > 1
        return tuple(
            f"{f'{one.collective}, ' if has_several else ''}{one.why}"
            for one in self.ranges
            if one.why
        ) + (() if self.restored is None else (str(self.restored),))

    @property
    def how(self) -> str:
        """``8 starts of each in turns, 41 s``."""
        if not self.in_turns:
            return f"from two sessions' {self.repeats}, not in turns"
        if self.table["timing"].eq("").all():
            return "no size had to be timed"
        # The folder may have more than were asked for now, or fewer where the budget is spent.
        n = int(self.table[["n_a", "n_b"]].max(axis=None))
        if self.repeats == "starts":
            return f"{n} starts of each in turns, {self.seconds:.0f} s"
        return f"{n} communicators in turns, {self.seconds:.0f} s"

    def counts(self) -> dict[str, int]:
        """Sizes of each verdict."""
        n_sizes = self.table["verdict"].value_counts()
        return {one.value: int(n_sizes.get(one.value, 0)) for one in Verdict}

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json and comparison.json."""
        return {
            "format": FORMAT,
            "a": self.a,
            "b": self.b,
            "question": self.question,
            "margin": self.margin,
            "in_turns": self.in_turns,
            "was_cut": self.was_cut,
            "simulated": self.simulated,
            "repeats": self.repeats,
            "starts": self.n_starts,
            "seconds": round(self.seconds, 1),
            "exit_code": self.exit_code,
            "counts": self.counts(),
            "ranges": self.ranges,
            "bounds": list(map(str, self.bounds)),
            "remarks": self.remarks,
            "restored": None if self.restored is None else self.restored.path,
            "sizes": [
                {name: _known(row[name]) for name in COLUMNS}
                for row in self.table.to_dict("records")
            ],
        }

    def write(self) -> None:
        """Write comparison.csv and comparison.json into the folder.

        Raises:
            SessionError: the disk refuses.
        """
        if self.folder is not None:
            files.write_atomically(self.folder / CSV_FILE, csv_text(self.table))
            store.write_derived(self.folder, JSON_FILE, self)

    def markdown(self) -> str:
        """A short table for a pull request."""
        lines = [f"**B: {self.b}** against A: {self.a}{self._not_in_turns()}", ""]
        lines += ["| collective | from | to | B is | time B / A | A ran | B ran |"]
        lines += ["|---|---|---|---|---|---|---|"]
        for one in self.ranges:
            cells = (
                *(one.collective, format_size(one.min_nbytes), format_size(one.max_nbytes)),
                *(one.verdict.value, one.ratio, ran_words(one.a_ran), ran_words(one.b_ran)),
            )
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
        lines += ["", *(f"- {one}" for one in self.explanations)]
        lines += ["", *self.remarks, *map(str, self.bounds)]
        if self.simulated:
            lines.append("SIMULATED: nothing of this was measured on hardware.")
        return "\n".join(lines).rstrip() + "\n"

    def _not_in_turns(self) -> str:
        return "" if self.in_turns else ", not in turns"


def ranges_of(table: pd.DataFrame) -> Iterator[SizeRange]:
    """Neighbouring sizes of one verdict and reason."""
    for collective, part in table.groupby("collective", sort=False):
        rows = part.sort_values("nbytes")
        verdicts = rows[["verdict", "reason"]]
        runs = (verdicts != verdicts.shift()).any(axis=1).cumsum()
        for _, some in rows.groupby(runs, sort=False):
            yield SizeRange(
                collective=str(collective),
                min_nbytes=int(some["nbytes"].iloc[0]),
                max_nbytes=int(some["nbytes"].iloc[-1]),
                verdict=Verdict(some["verdict"].iloc[0]),
                least=float(some["ratio"].min()),
                most=float(some["ratio"].max()),
                a_ran=tuple(dict.fromkeys(some["a_ran"])),
                b_ran=tuple(dict.fromkeys(some["b_ran"])),
                n_sizes=len(some),
                reason=str(some["reason"].iloc[0]),
                why=reasons.sentence(some.to_dict("records")),
            )


def find_bounds(side: Side, table: pd.DataFrame, n_ranks: int) -> Iterator[PathBound]:
    """Up to which size the paths of a side's entries gain.

    Args:
        side: B of the comparison.
        table: what was found.
        n_ranks: of the communicator.
    """
    for spec, parameter in side.entries:
        if spec.threshold is None or not spec.threshold.from_above:
            continue
        for collective, part in table.groupby("collective", sort=False):
            last = _gains_up_to(part)
            where = Substitutions(max_nbytes=last or 0, n_ranks=n_ranks)
            pairs = dict(catalog.environment_of(spec, parameter, where))
            if last is not None:
                pairs[spec.threshold.variable] = str(last)
            yield PathBound(
                name=spec.name,
                collective=str(collective),
                max_nbytes=last,
                export=" ".join(f"{name}={value}" for name, value in pairs.items()),
            )


def _gains_up_to(part: pd.DataFrame) -> int | None:
    """The last size at which B is faster before it is slower, wrong or fails anywhere."""
    largest = None
    rows = part.sort_values("nbytes")
    for nbytes, verdict in zip(rows["nbytes"], rows["verdict"], strict=True):
        if Verdict(verdict) in judge_sizes.HARM:
            break
        if Verdict(verdict) is Verdict.FASTER:
            largest = int(nbytes)
    return largest


def _known(value: Any) -> Any:  # noqa: ANN401 - of a table's cell
    """A cell as JSON has it: a missing number is null."""
    if isinstance(value, float):
        return round_number(value) if math.isfinite(value) else None
    return value.item() if hasattr(value, "item") else value
