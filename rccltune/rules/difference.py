"""Where two rule files answer differently, asked of the real plugin."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rccltune.model import MAX_NBYTES, Collective, Scale, Setting
from rccltune.rules.answers import USUAL, Call, Explained
from rccltune.rules.explanation import Explanation, Question, asked_about, explain

_Both = tuple[Setting | None, Setting | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Sizes at which two files answer differently.

    Attributes:
        one_without: the first file's answer where LL128 is not enabled.
        other_without: the second's.
        call: for which they do.
    """

    collective: Collective
    scale: Scale
    min_nbytes: int
    max_nbytes: int
    one: Setting | None
    other: Setting | None
    one_without: Setting | None
    other_without: Setting | None
    call: Call = USUAL


def compare(one: Path, other: Path, question: Question) -> tuple[Explanation, Explanation]:
    """Ask about two files at every collective and scale that either names.

    A row for any number of ranks answers at the scales of the other file's rows too.

    Raises:
        InputFileError: as :func:`explain`, for either.
    """
    asked = [asked_about(path, question) for path in (one, other)]
    both = tuple(dict.fromkeys(key for named, _ in asked for key in named))
    calls = tuple(dict.fromkeys(call for _, mine in asked for call in mine))
    return explain(one, question, both, calls), explain(other, question, both, calls)


def differences(one: Explanation, other: Explanation) -> tuple[Difference, ...]:
    """Where two explanations of the same question answer differently.

    Other calls than the usual one have differences of their own only where the usual one's are
    other ones.
    """
    found: list[Difference] = []
    others = {(part.collective, part.scale): part for part in other.parts}
    mine = {(part.collective, part.scale): part for part in one.parts}
    for key in {**mine, **others}:
        left, right = mine.get(key), others.get(key)
        usual = _differences(left, right, USUAL)
        found += usual
        calls = {call for part in (left, right) if part for call, _ in part.calls}
        for call in sorted(calls, key=str):
            own = _differences(left, right, call)
            if [replace(each, call=USUAL) for each in own] != usual:
                found += own
    return tuple(found)


def _differences(left: Explained | None, right: Explained | None, call: Call) -> list[Difference]:
    found: list[Difference] = []
    part = left or right
    if part is None:
        return found
    edges = {0} | {s.min_nbytes for each in (left, right) if each for s in each.of(call)}
    starts = sorted(edges)
    ends = [edge - 1 for edge in starts[1:]] + [MAX_NBYTES]
    ours, theirs = _at(left, call, starts), _at(right, call, starts)
    for low, high, a, b in zip(starts, ends, ours, theirs, strict=True):
        if a != b:
            _add(
                found,
                Difference(
                    collective=part.collective,
                    scale=part.scale,
                    min_nbytes=low,
                    max_nbytes=high,
                    one=a[0],
                    other=b[0],
                    one_without=a[1],
                    other_without=b[1],
                    call=call,
                ),
            )
    return found


def _add(found: list[Difference], one: Difference) -> None:
    """As a range of its own, or as the rest of the one before: lines of files are no borders."""
    last = found[-1] if found else None
    touches = last is not None and last.max_nbytes + 1 == one.min_nbytes
    if (
        last is not None
        and touches
        and replace(one, min_nbytes=last.min_nbytes) == replace(last, max_nbytes=one.max_nbytes)
    ):
        found[-1] = replace(last, max_nbytes=one.max_nbytes)
    else:
        found.append(one)


def _at(part: Explained | None, call: Call, starts: Sequence[int]) -> list[_Both]:
    """The answers with LL128 enabled, and without."""
    if part is None:
        return [(None, None)] * len(starts)
    stretches = part.of(call)
    begins = [each.min_nbytes for each in stretches]
    found = (stretches[bisect_right(begins, start) - 1] for start in starts)
    return [(each.setting, each.without_ll128) for each in found]
