"""What rules can save of a recorded job at the very most, before there are any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rccltune.job.times import Spared, Times
from rccltune.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What rules can save of a recorded job at the very most, before there are any.

    Attributes:
        spared: of all calls of a rank whose size was measured.
        known: share of the calls whose size was measured, from 0 to 1.
        seen_s: time of a rank in all of its calls as the job had it; None where no file says.
        steps: of the job, None where nobody says.
    """

    spared: Spared
    known: float
    seen_s: float | None
    steps: int | None = None

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "before_s": self.spared.before_us * 1e-6,
            "most_s": self.spared.most_us * 1e-6,
            "low_s": self.spared.low_us * 1e-6,
            "high_s": self.spared.high_us * 1e-6,
            "known": self.known,
            "seen_s": self.seen_s,
            "steps": self.steps,
        }


def ceiling_of(whole: Workload, times: Times, steps: int | None = None) -> Ceiling:
    """Calls times what the fastest measured setting spares of each.

    A rank's calls are taken one after the other: what a job overlaps is not seen. The fastest of
    many settings is chosen by the times that it is judged by, so this is a bound and no promise.

    Args:
        whole: the workload.
        times: of a session.
        steps: that the job made while it was recorded.
    """
    sums = [0.0] * 4
    known = 0
    for one in whole.counts:
        found = times.most(one.collective, one.scale, one.nbytes)
        if found is not None:
            calls = one.calls / whole.ranks_at(one.scale)
            parts = (found.before_us, found.most_us, found.low_us, found.high_us)
            sums = [total + calls * part for total, part in zip(sums, parts, strict=True)]
            known += one.calls
    return Ceiling(
        spared=Spared(before_us=sums[0], most_us=sums[1], low_us=sums[2], high_us=sums[3]),
        known=known / whole.calls if whole.calls else 0.0,
        seen_s=_seen_s(whole),
        steps=steps,
    )


def _seen_s(whole: Workload) -> float | None:
    """A rank's time in collectives as the job had it, the mean of the ranks."""
    ranks: dict[tuple[str, int, int], int] = {}
    for one in whole.recorders:
        if one.spent_us is not None:
            key = (one.host, one.pid, one.context)
            ranks[key] = ranks.get(key, 0) + one.spent_us
    return 1e-6 * sum(ranks.values()) / len(ranks) if ranks else None


def ceiling_text(found: Ceiling) -> str:
    """One line for people."""
    if not found.known:
        return "What rules can save: not known, since none of the workload's sizes was measured"
    per = 1e-3 / found.steps if found.steps else 1e-3
    each = "a step" if found.steps else "of what was recorded"
    spared = found.spared
    text = (
        f"Rules can save at most {per * spared.most_us:.3f} ms "
        f"({per * spared.low_us:.3f} to {per * spared.high_us:.3f} ms) of "
        f"{per * spared.before_us:.3f} ms {each} in collectives of a rank, one after the other"
    )
    if found.seen_s is not None:
        text += f"; the job itself had {1e6 * per * found.seen_s:.3f} ms in them, waiting included"
    if found.known < 1:
        text += f"; {100 * (1 - found.known):.1f} % of the calls were not measured"
    return text
