"""Settings that the library ran where rules answered: asked once at every called size, untimed.

Builds of one release differ in what they set after a tuner (:mod:`rccltune.overwritten`), so the
library that is here is asked itself: the first communicator of a verification calls each size of a
rule once, its ends among them, and the library's log says what ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from rccltune.model.settings import RULES
from rccltune.model.vocabulary import Collective
from rccltune.ranks import plan
from rccltune.ranks.plan import NOTHING_SAID, setting_of
from rccltune.verify.verdict_file import RanAt

if TYPE_CHECKING:
    import pandas as pd

Executed: TypeAlias = Mapping[Collective, Mapping[int, RanAt]]


def read_executed(table: pd.DataFrame) -> dict[Collective, dict[int, RanAt]]:
    """Settings that ran where a rule answered, by collective and size; none where no log says.

    Args:
        table: rows of the verification's runs (see :mod:`rccltune.ranks.rows`).
    """
    looked = table[table["step"].isin((plan.CHECK, plan.CALL)) & ~table["ran"].isin(NOTHING_SAID)]
    ran_at: dict[Collective, dict[int, RanAt]] = {}
    ruled = looked[looked["setting"] == str(RULES)]
    columns = ("collective", "nbytes", "answer", "ran")
    for name, nbytes, answer, ran in zip(*(ruled[one] for one in columns), strict=True):
        setting, executed = setting_of(answer), setting_of(ran)
        if setting is not None and executed is not None:
            one = RanAt(nbytes=int(nbytes), answer=setting, ran=executed)
            ran_at.setdefault(Collective(name), {})[one.nbytes] = one
    return ran_at


def find_ends(executed: Mapping[int, RanAt], low: int, high: int) -> tuple[RanAt, ...]:
    """Settings that ran at the first and the last called size of a rule."""
    inside = sorted(nbytes for nbytes in executed if low <= nbytes <= high)
    return tuple(executed[nbytes] for nbytes in dict.fromkeys((*inside[:1], *inside[-1:])))
