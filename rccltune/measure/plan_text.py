"""A plan as programs get it."""

from __future__ import annotations

from typing import Any

from rccltune import model
from rccltune.measure.preparation import Prepared


def plan_as_plain(prepared: Prepared) -> dict[str, Any]:
    """A plan for --json."""
    return {
        "launches": [
            {"id": one.id, "argv": list(one.argv), "environment": dict(one.environment)}
            for one in prepared.left
        ],
        "impossible": model.to_plain(prepared.plan.impossible),
        "quarantined": model.to_plain(prepared.quarantined),
        "refused": list(prepared.refused),
        "left_out": list(prepared.left_out),
        "cleared": dict(prepared.cleared),
        "passed": dict(prepared.passed),
        "hidden": [list(item) for item in prepared.filled],
        "estimate_s": prepared.estimate_s,
        "most_following_rounds": prepared.most_following,
        "most_s": prepared.most_s,
        "simulated": prepared.site.node is not None,
    }
