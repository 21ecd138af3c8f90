"""Notices of what weakens a choice, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rccltune.analyse.candidates import Candidates
from rccltune.model.measurement import Caution, Notice


def choice_notices(candidates: Candidates) -> Iterable[Notice]:
    """Notices of what weakens the choice of a target."""
    not_selectable = candidates.not_selectable
    if not_selectable:
        listed = "; ".join(f"{b.setting}: {b.reason}" for b in not_selectable)
        yield Notice(
            caution=Caution.NOT_SELECTABLE,
            message=f"measured, but in no rule: {listed}",
            remedy="they stay in fit and plots for comparison.",
            where=candidates.where,
            count=len(not_selectable),
        )
    if candidates.gains.rows:
        yield from _weak(candidates)


def _weak(candidates: Candidates) -> Iterable[Notice]:
    if candidates.gains.library is None:
        left_out = candidates.baseline_left_out
        was = f"measured and left out ({left_out})" if left_out else "not measured"
        yield Notice(
            caution=Caution.NO_BASELINE,
            message=f"the library's own choice was {was}: rules say which setting is the fastest "
            "of those measured, not that it beats what runs today",
            remedy="measure it (rccltune sweep does by itself), or name it with --baseline.",
            where=candidates.where,
        )
    if candidates.grid.times.n.max(initial=0) < 2:
        gain = "no gain is proven, and " if candidates.gains.library is not None else ""
        yield Notice(
            caution=Caution.ONE_RUN,
            message=f"every setting was measured once: {gain}differences of a few percent are "
            "noise",
            remedy="measure again: a sweep by rccltune makes several communicators, and of logs "
            "several can be imported.",
            where=candidates.where,
        )
    missing = np.isnan(candidates.gains.regret[: len(candidates.gains.rows)]).sum(1)
    named = [f"{n} at {k}" for n, k in zip(candidates.gains.names, missing, strict=True) if k]
    if named:
        yield Notice(
            caution=Caution.MISSING_VIEW,
            message="not chosen where they were not measured in every type and placement that "
            f"another setting was: {', '.join(named)} of {len(candidates.grid.nbytes)} sizes",
            remedy="measure all settings with the same sizes, types and placements.",
            where=candidates.where,
        )
