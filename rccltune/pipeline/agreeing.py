"""What the ways of measuring say about each other: silence and site, one launch and separate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rccltune import fit, proof, session
from rccltune.model import Curve, Equivalence, Notice, Sample, Setting, Silence, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreements:
    """Both comparisons of a session; nothing where it was measured one way only.

    Attributes:
        tuner: which one the untouched site used, by its log: ``none``, ``built-in table …``,
            ``plugin …``; None where no log says so.
    """

    silence: tuple[Silence, ...] = ()
    equivalence: tuple[Equivalence, ...] = ()
    tuner: str | None = None

    @property
    def tunerless(self) -> bool:
        """Whether silence is the untouched site itself."""
        return self.tuner == "none"

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Where they do not agree."""
        return (
            *fit.silence_notices(self.silence, tunerless=self.tunerless),
            *fit.equivalence_notices(self.equivalence),
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """A sentence for each comparison, for people, whether or not it agrees."""
        return (*_silence_lines(self.silence), *_equivalence_lines(self.equivalence))

    def as_plain(self) -> dict[str, Any]:
        """For fit.json and --json."""
        return {
            "silence": session.to_plain(self.silence),
            "equivalence": session.to_plain(self.equivalence),
            "tuner": self.tuner,
        }


def agreements(
    samples: Sequence[Sample], curves: Sequence[Curve] | None = None, *, folder: Path
) -> Agreements:
    """Compare whatever was measured in two ways.

    Args:
        samples: of a session.
        curves: fitted to them; fitted here unless given.
        folder: the session, for its logs.
    """
    if curves is None:
        curves = fit.curves(samples).curves
    return Agreements(
        silence=fit.silences(curves),
        equivalence=fit.equivalences(samples),
        tuner=tuner_of(folder),
    )


def tuner_of(folder: Path) -> str | None:
    """Which tuner the untouched site of a session used; None where no launch was asked to log."""
    logs = sorted(folder.glob("launches/*/nccl-*.log"))
    said = {proof.tuner_of(log.read_text(errors="replace")) for log in logs}
    return said.pop() if len(said) == 1 else None


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
