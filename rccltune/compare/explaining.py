"""The third side: B's library and variables, with our plugin answering what A ran.

It is measured in turns with A and B, in as many fresh starts of each, at the sizes at which these
differ and chose different settings. What it tells is in :mod:`rccltune.compare.reasons`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from rccltune.compare import judge_sizes
from rccltune.compare.judge_sizes import A, B
from rccltune.compare.reasons import (
    Reason,
    SizeReason,
    add_reasons,
    find_reason,
    find_why_not,
    judge_third_side,
    unknown,
)
from rccltune.compare.restoring import RestoredSize, restore
from rccltune.compare.results import ComparisonResult
from rccltune.compare.sides import Side
from rccltune.compare.turns import Cell, MeasuredSide, OngoingComparison
from rccltune.measure.launcher import end_leftovers
from rccltune.model.errors import LaunchError
from rccltune.model.estimate import Estimate
from rccltune.model.settings import IDLE, Setting
from rccltune.model.verdict import Verdict
from rccltune.model.vocabulary import Collective
from rccltune.ranks.plan import setting_of

if TYPE_CHECKING:
    pass

# Its runs are in a folder of their own inside the comparison's.
FOLDER: Final = "reasons"
C: Final = "c"
_BUDGET: Final = "the budget is spent"

Reasons: TypeAlias = dict[Cell, SizeReason]


def explain_differences(result: ComparisonResult, measuring: OngoingComparison) -> ComparisonResult:
    """Find the reason of each size at which the sides differ.

    Sides of one library and environment have none: who compares two settings knows them.

    Args:
        result: without reasons.
        measuring: of A and B, which has ended.

    Raises:
        SessionError: the disk refuses.
        OutputError: ranks were answered differently.
        KeyboardInterrupt: after all that was started is gone.
    """
    a, b = measuring.sides
    if a.shares == b.shares:
        return result
    rows = result.table[result.table["verdict"].isin([one.value for one in judge_sizes.DIFFERS])]
    reasons: Reasons = {}
    answers: dict[Cell, Setting] = {}
    restores: dict[Cell, RestoredSize] = {}
    verdicts: dict[Cell, Verdict] = {}
    for collective, nbytes, verdict, a_ran, b_ran in zip(
        *(rows[name] for name in ("collective", "nbytes", "verdict", "a_ran", "b_ran")),
        strict=True,
    ):
        cell = (str(collective), int(nbytes))
        reason = find_reason(a_ran, b_ran)
        if isinstance(reason, SizeReason):
            reasons[cell] = reason
        else:
            answers[cell], verdicts[cell] = reason, Verdict(verdict)
    if answers and measuring.is_over:
        reasons |= dict.fromkeys(answers, unknown(_BUDGET))
    elif answers:
        third = prepare_third_side(measuring, answers)
        reasons |= _measured(third, verdicts)
        restores = {
            cell: (answers[cell], one.gain)
            for cell, one in reasons.items()
            if one.reason is Reason.CHOICE
            and one.gain is not None
            and verdicts[cell] is Verdict.SLOWER
        }
    restored = restore(result, b, restores, measuring.scope)
    return replace(result, table=add_reasons(result.table, reasons), restored=restored)


def prepare_third_side(
    measuring: OngoingComparison, answers: Mapping[Cell, Setting]
) -> OngoingComparison:
    """A comparison of A, B and the third side that could start now.

    Args:
        measuring: of A and B, which has ended.
        answers: what the third side answers at each size.
    """
    a, b = measuring.sides
    side = MeasuredSide(
        letter=C,
        side=Side(name=f"{b.side.name} with A's settings", answer=IDLE),
        instrument=b.instrument,
        answers=answers,
    )
    sizes: dict[Collective, set[int]] = {}
    for collective, nbytes in answers:
        sizes.setdefault(Collective(collective), set()).add(nbytes)
    # Another question, after more starts say, is measured anew.
    words = " ".join(f"{cell} {setting}" for cell, setting in sorted(answers.items()))
    name = hashlib.sha256(words.encode()).hexdigest()[:12]
    return replace(
        measuring,
        folder=measuring.folder / FOLDER / name,
        sides=(a, b, side),
        scope=measuring.scope.only(sizes),
        budget_s=measuring.left_s(),
        is_refined=False,
        runs=[],
        _rows={},
    )


def _measured(third: OngoingComparison, verdicts: Mapping[Cell, Verdict]) -> Reasons:
    """Measure the third side with A and B, and say why they differ at each size."""
    end_leftovers(third.folder, third.reporter)
    third.read()
    try:
        third.measure()
    except LaunchError as error:
        return dict.fromkeys(verdicts, unknown(error.message))
    third_side = third.sides[2]
    reasons = _why_not(third)
    against_a, against_b = (_judge_third(third, letter) for letter in (A, B))
    for cell, verdict in verdicts.items():
        if cell in reasons:
            continue
        if cell not in against_a or cell not in against_b:
            reasons[cell] = unknown(
                _BUDGET if third.is_over else f"{third_side.side.name} was not timed"
            )
            continue
        against, ratio = against_a[cell]
        reasons[cell] = judge_third_side(verdict, against, ratio, _gain(*against_b[cell]))
    return reasons


def _why_not(third: OngoingComparison) -> Reasons:
    """Sizes at which B cannot be had with A's setting."""
    third_side = third.sides[2]
    reasons: Reasons = {}
    calls = third.untimed_calls(third_side)
    for collective, nbytes, ran in zip(
        calls["collective"], calls["nbytes"], calls["ran"], strict=True
    ):
        cell = (str(collective), int(nbytes))
        wanted = third_side.answers.get(cell)
        reason = None if wanted is None else find_why_not(wanted, setting_of(ran))
        if reason is not None:
            reasons[cell] = reason
    for cell in third.wrong(third_side):
        reasons[cell] = unknown(f"results of B are wrong with {third_side.answers.get(cell)}")
    for cell in third.failed_cells(C):
        reasons[cell] = unknown(f"B fails with {third_side.answers.get(cell)}")
    return reasons


def _gain(verdict: Verdict, ratio: Estimate) -> Estimate | None:
    """Gain of B by A's setting; None where that is not certainly faster."""
    if verdict is not Verdict.FASTER:
        return None
    return Estimate(value=1 / ratio.value, low=1 / ratio.high, high=1 / ratio.low, n=ratio.n)


def _judge_third(third: OngoingComparison, letter: str) -> dict[Cell, tuple[Verdict, Estimate]]:
    """Judge the third side's time over another side's, by size."""
    timings = third.timings()
    both = timings[timings["side"].isin((letter, C))].replace({"side": {letter: A, C: B}})
    table = judge_sizes.judge(both, margin=third.margin, paired=False)
    return {
        (str(row["collective"]), int(row["nbytes"])): (
            Verdict(row["verdict"]),
            Estimate(
                value=float(row["ratio"]),
                low=float(row["low"]),
                high=float(row["high"]),
                n=int(min(row["n_a"], row["n_b"])),
            ),
        )
        for row in table.to_dict("records")
    }
