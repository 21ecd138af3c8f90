"""What the ways of measuring say about each other: silence and site, one launch and separate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rccltune import fit, session
from rccltune.model import Curve, Equivalence, Notice, Sample, Setting, Silence, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreements:
    """Both comparisons of a session; nothing where it was measured one way only."""

    silence: tuple[Silence, ...] = ()
    equivalence: tuple[Equivalence, ...] = ()

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Where they do not agree."""
        return (*fit.silence_notices(self.silence), *fit.equivalence_notices(self.equivalence))

    @property
    def lines(self) -> tuple[str, ...]:
        """A sentence for each comparison, for people, whether or not it agrees."""
        return (*_silence_lines(self.silence), *_equivalence_lines(self.equivalence))

    def as_plain(self) -> dict[str, Any]:
        """For fit.json and --json."""
        return {
            "silence": session.to_plain(self.silence),
            "equivalence": session.to_plain(self.equivalence),
        }


def agreements(samples: Sequence[Sample], curves: Sequence[Curve] | None = None) -> Agreements:
    """Compare whatever was measured in two ways.

    Args:
        samples: of a session.
        curves: fitted to them; fitted here unless given.
    """
    if curves is None:
        curves = fit.curves(samples).curves
    return Agreements(silence=fit.silences(curves), equivalence=fit.equivalences(samples))


def agreements_from_plain(plain: Mapping[str, Any], where: str) -> Agreements:
    """What :meth:`Agreements.as_plain` wrote.

    Raises:
        SessionError: it was changed.
    """
    return Agreements(
        silence=tuple(session.from_plain(Silence, s, where) for s in plain["silence"]),
        equivalence=tuple(session.from_plain(Equivalence, e, where) for e in plain["equivalence"]),
    )


def _silence_lines(found: Sequence[Silence]) -> list[str]:
    by_target: dict[Target, list[Silence]] = {}
    for one in found:
        by_target.setdefault(one.target, []).append(one)
    return [
        f"silent and the untouched site ({_place(target)}): {_usual(several)}; "
        + _verdict(sum(len(s.sizes) for one in several for s in one.stretches), several)
        for target, several in by_target.items()
    ]


def _equivalence_lines(found: Sequence[Equivalence]) -> list[str]:
    by_setting: dict[tuple[Target, Setting], list[Equivalence]] = {}
    for one in found:
        by_setting.setdefault((one.key.target, one.key.setting), []).append(one)
    return [
        f"{setting} in one launch and in launches of its own ({_place(target)}): "
        f"{_usual(several)}; "
        + _verdict(sum(len(s.sizes) for one in several for s in one.stretches), several)
        for (target, setting), several in by_setting.items()
    ]


def _place(target: Target) -> str:
    return f"{target.collective.value}, {target.scale}"


def _usual(several: Sequence[Silence] | Sequence[Equivalence]) -> str:
    ratio = median(one.median_ratio for one in several)
    return f"{100 * (ratio - 1):+.1f} % in the median"


def _verdict(n_differing: int, several: Sequence[Silence] | Sequence[Equivalence]) -> str:
    n_points = sum(one.n_sizes for one in several)
    if not n_differing:
        return f"they agree within noise at all {n_points} points"
    return f"they DIFFER beyond noise at {n_differing} of {n_points} points"
