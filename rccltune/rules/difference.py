"""Where two rule files answer differently, asked of the real plugin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rccltune.model import MAX_NBYTES, Collective, Scale, Setting
from rccltune.rules.explanation import Explained, Explanation, Question, asked_about, explain

_Both = tuple[Setting | None, Setting | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Sizes at which two files answer differently.

    Attributes:
        one_without: the first file's answer where LL128 is not enabled.
        other_without: the second's.
    """

    collective: Collective
    scale: Scale
    min_nbytes: int
    max_nbytes: int
    one: Setting | None
    other: Setting | None
    one_without: Setting | None
    other_without: Setting | None


def compare(one: Path, other: Path, question: Question) -> tuple[Explanation, Explanation]:
    """Ask about two files at every collective and scale that either names.

    A row for any number of ranks answers at the scales of the other file's rows too.

    Raises:
        InputFileError: as :func:`explain`, for either.
    """
    named = (key for path in (one, other) for key in asked_about(path, question))
    both = tuple(dict.fromkeys(named))
    return explain(one, question, also=both), explain(other, question, also=both)


def differences(one: Explanation, other: Explanation) -> tuple[Difference, ...]:
    """Where two explanations of the same question answer differently."""
    found: list[Difference] = []
    others = {(part.collective, part.scale): part for part in other.parts}
    mine = {(part.collective, part.scale): part for part in one.parts}
    for key in {**mine, **others}:
        left, right = mine.get(key), others.get(key)
        edges = {0} | {s.min_nbytes for part in (left, right) if part for s in part.stretches}
        ends = sorted(edges)
        for low, high in zip(ends, [e - 1 for e in ends[1:]] + [MAX_NBYTES], strict=True):
            a, b = _at(left, low), _at(right, low)
            if a != b:
                _add(
                    found,
                    Difference(
                        collective=key[0],
                        scale=key[1],
                        min_nbytes=low,
                        max_nbytes=high,
                        one=a[0],
                        other=b[0],
                        one_without=a[1],
                        other_without=b[1],
                    ),
                )
    return tuple(found)


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


def _at(part: Explained | None, nbytes: int) -> _Both:
    """The answer with LL128 enabled, and without."""
    if part is None:
        return None, None
    found = next(s for s in part.stretches if s.min_nbytes <= nbytes <= s.max_nbytes)
    return found.setting, found.without_ll128
