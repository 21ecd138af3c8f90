"""Reasons for which two sides differ at a size: another setting, kernel or path past the tuner.

Where they chose different settings, a third side tells: B's library and variables, with our plugin
answering what A ran. The functions here are pure: from what ran and what was timed to words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from rccltune.compare.judge_sizes import DIFFERS
from rccltune.model.estimate import Estimate
from rccltune.model.settings import Setting
from rccltune.model.units import format_size
from rccltune.model.verdict import Verdict
from rccltune.ranks.plan import setting_of

if TYPE_CHECKING:
    import pandas as pd

# As tables have a path that asks no tuner, surely or perhaps.
NO_TUNER: Final = " (no tuner)"
PERHAPS: Final = "perhaps "
COLUMNS: Final = ("reason", "because", "told", "told_ratio", "told_low", "told_high")
# Cells of a size at which B was not timed with A's setting.
_NOT_TOLD: Final = ("", math.nan, math.nan, math.nan)
_SHOWN: Final = 3


class Reason(str, Enum):
    """Reason for which B is slower or faster.

    CHOICE: it chose another setting, and with A's it is equal. KERNEL: with A's setting it is
    slower, or faster, all the same. CHANNELS: told A's setting it runs that with another number of
    channels, as a variable or the site has it. PATH: one of both took the call past the tuner.
    """

    CHOICE = "choice"
    KERNEL = "kernel"
    CHANNELS = "channels"
    PATH = "path"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeReason:
    """Reason for which the sides differ at a size, and what was timed to find it.

    Attributes:
        because: why it is unknown; empty otherwise.
        told: how B was with A's setting against A; None where that was not timed.
        ratio: time of B with A's setting over time of A; None where that was not timed.
        gain: time of B by itself over its time with A's setting, where that is certainly faster.
    """

    reason: Reason
    because: str = ""
    told: Verdict | None = None
    ratio: Estimate | None = None
    gain: Estimate | None = None

    @property
    def cells(self) -> tuple[object, ...]:
        """By :data:`COLUMNS`."""
        if self.told is None or self.ratio is None:
            return (self.reason.value, self.because, *_NOT_TOLD)
        ratio = self.ratio
        words = (self.reason.value, self.because, self.told.value)
        return (*words, ratio.value, ratio.low, ratio.high)


def unknown(because: str) -> SizeReason:
    """A reason that is not known.

    Args:
        because: why not.
    """
    return SizeReason(reason=Reason.UNKNOWN, because=because)


def find_reason(a_ran: str, b_ran: str) -> SizeReason | Setting:
    """The reason, where what ran says it already; else A's setting, which B is to be told.

    Args:
        a_ran: as a table of a comparison has it.
        b_ran: the same of B.
    """
    for letter, ran in (("A", a_ran), ("B", b_ran)):
        if ran.startswith(PERHAPS):
            return unknown(f"{letter} took {ran.removeprefix(PERHAPS)} perhaps")
    if NO_TUNER in a_ran or NO_TUNER in b_ran:
        return SizeReason(reason=Reason.KERNEL if a_ran == b_ran else Reason.PATH)
    a, b = setting_of(a_ran), setting_of(b_ran)
    if a is None or b is None:
        return unknown(f"nothing says what {'A' if a is None else 'B'} ran")
    if (a.algorithm, a.protocol) == (b.algorithm, b.protocol):
        if a.channels is None or b.channels is None:
            return unknown("the log names no channels")
        if a.channels == b.channels:
            return SizeReason(reason=Reason.KERNEL)
    return a


def find_why_not(answer: Setting, executed: Setting | None) -> SizeReason | None:
    """The reason, where B did not run what it was told; None where it did.

    Args:
        answer: A's setting.
        executed: what B then ran, None where it did not say that.
    """
    if executed is None:
        return unknown(f"B told {answer} does not say what it ran")
    if not answer.contradicts(executed):
        return None
    if (answer.algorithm, answer.protocol) == (executed.algorithm, executed.protocol):
        return SizeReason(reason=Reason.CHANNELS)
    return unknown(f"B told {answer} runs {executed}")


def judge_third_side(
    verdict: Verdict,
    told: Verdict,
    ratio: Estimate,
    gain: Estimate | None = None,
) -> SizeReason:
    """The reason where B was told A's setting, and both were timed beside A.

    Args:
        verdict: of B by itself: slower or faster.
        told: of B with A's setting, against A.
        ratio: time of B with A's setting over time of A.
        gain: time of B by itself over its time with A's setting, where that is certainly faster.
    """
    if told is Verdict.UNDECIDED:
        reason = unknown("whether B with A's setting is equal to A is undecided")
    else:
        reason = SizeReason(reason=Reason.KERNEL if told is verdict else Reason.CHOICE)
    return replace(reason, told=told, ratio=ratio, gain=gain)


def add_reasons(table: pd.DataFrame, reasons: Mapping[tuple[str, int], SizeReason]) -> pd.DataFrame:
    """A table of a comparison with the columns of reasons, which are empty where none is known.

    Args:
        table: columns collective and nbytes among others.
        reasons: by collective and size in bytes.
    """
    nothing = ("", "", *_NOT_TOLD)
    cells = zip(table["collective"], table["nbytes"], strict=True)
    rows = [reasons[cell].cells if cell in reasons else nothing for cell in cells]
    columns = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
    explained: pd.DataFrame = table.assign(**dict(zip(COLUMNS, map(list, columns), strict=True)))
    return explained


def sentence(rows: Sequence[Mapping[str, Any]]) -> str:
    """Reason for which B differs in a range; empty where it does not, or nobody asked why.

    ``64 KiB to 256 KiB: 1.12x slower (1.10 to 1.14): B chose ring/ll/16 where A chose tree/ll/8;
    with tree/ll/8 B is equal``.

    Args:
        rows: of a table, neighbours of one verdict and reason.
    """
    first = rows[0]
    if not first["reason"] or Verdict(first["verdict"]) not in DIFFERS:
        return ""
    ends = dict.fromkeys(format_size(one["nbytes"]) for one in (first, rows[-1]))
    how = times_words(Verdict(first["verdict"]), rows, ("ratio", "low", "high"))
    return f"{' to '.join(ends)}: {how}: {_because(Reason(first['reason']), rows)}"


def _because(reason: Reason, rows: Sequence[Mapping[str, Any]]) -> str:
    judged_rows = [one for one in rows if one["told"]]
    counted_rows = judged_rows or rows
    a, b = (ran_words([one[name] for one in counted_rows]) for name in ("a_ran", "b_ran"))
    if reason is Reason.UNKNOWN:
        a, b = (ran_words([one[name] for one in rows]) for name in ("a_ran", "b_ran"))
        why = "; ".join(dict.fromkeys(one["because"] for one in rows))
        return f"why is not known: {why} (A ran {a}, B {b})"
    if reason is Reason.PATH:
        return f"another path: A ran {a}, B {b}"
    if reason is Reason.CHANNELS:
        return f"channels: A ran {a}, B {b}, also where B is told A's setting"
    if not judged_rows:
        return f"both ran {a}"
    by_verdict: dict[str, list[Mapping[str, Any]]] = {}
    for one in judged_rows:
        by_verdict.setdefault(one["told"], []).append(one)
    names = ("told_ratio", "told_low", "told_high")
    with_it = " or ".join(
        times_words(Verdict(word), some, names) for word, some in by_verdict.items()
    )
    same = [one["a_ran"] for one in rows if not one["told"]]
    rest = f"; elsewhere both ran {ran_words(same)}" if same else ""
    return f"B chose {b} where A chose {a}; with {a} B is {with_it}{rest}"


def times_words(
    verdict: Verdict, rows: Sequence[Mapping[str, Any]], names: tuple[str, str, str]
) -> str:
    """``1.12x slower (1.10 to 1.14)``, ``equal``.

    Args:
        verdict: of all rows.
        rows: of neighbouring sizes.
        names: columns of a ratio and of its interval's ends.
    """
    if verdict not in DIFFERS:
        return verdict.value
    value, low, high = ([float(one[name]) for one in rows] for name in names)
    ratio, ends = math.exp(sum(map(math.log, value)) / len(value)), (min(low), max(high))
    if verdict is Verdict.FASTER:
        ratio, ends = 1 / ratio, (1 / ends[1], 1 / ends[0])
    return f"{ratio:.2f}x {verdict.value} ({ends[0]:.2f} to {ends[1]:.2f})"


def ran_words(ran: Iterable[str]) -> str:
    """``ring/ll/1-16, ring/simple/32``: channels together, the first few."""
    channels: dict[str, list[int]] = {}
    for word in dict.fromkeys(ran):
        setting, _, n = word.rpartition("/")
        is_counted = n.isdecimal() and "/" in setting
        channels.setdefault(setting if is_counted else word or "not said", []).extend(
            [int(n)] if is_counted else []
        )
    words = [
        f"{setting}/{'-'.join(map(str, dict.fromkeys((min(numbers), max(numbers)))))}"
        if numbers
        else setting
        for setting, numbers in channels.items()
    ]
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + f" and {more} more" * (more > 0)
