"""Two verified rule files of one machine: whether the one with a variable more is the better.

Both are called in the same communicators, of ranks that have the variable: one side answers by the
rules that were verified with it, the other what the site runs without it, its rule where it has
one, else the library's own choice there. Where that is one setting nothing is called: it is the
same kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rccltune.analyse.paired import level_of
from rccltune.measure import passes
from rccltune.measure.ongoing_sweep import OngoingSweep
from rccltune.model.rule import Rule
from rccltune.model.settings import BASELINE, IDLE, RULES, Setting
from rccltune.model.verdict import Verdict
from rccltune.ranks import plan
from rccltune.ranks.plan import CollectiveCall, Label, Step
from rccltune.ranks.rows import setting_of
from rccltune.rules.rule_file import read_rules
from rccltune.verify.pairs import TURNS, answering, ratios
from rccltune.verify.rewriting import of_scale
from rccltune.verify.rule_sides import bare, digest_of
from rccltune.verify.sizes import PairTable, verdict_at

if TYPE_CHECKING:
    import pandas as pd

_BESIDE: Final = "what the site runs"
_GOOD: Final = frozenset((Verdict.FASTER, Verdict.NOT_SLOWER))


def is_better(
    text: str, measuring: OngoingSweep, site: pd.DataFrame, rules: Sequence[Rule], n: int
) -> bool:
    """Whether a file is proven faster than what the site runs somewhere, and slower nowhere.

    Where noise hides a loss of 2 % at some size, nobody knows, and the file is none for everybody.

    Args:
        text: of the file.
        measuring: the sweep with the variable, whose ranks call both.
        site: rows of the site's own sweep.
        rules: that the site has, in the file's order.
        n: communicators.

    Raises:
        RccltuneError: as the rank program's runs do.
    """
    runs_there = _SideSettings(rules, _chosen(site, BASELINE))
    mine = of_scale(read_rules(text.encode()), measuring.ground.place.scale)
    runs_here = _SideSettings(mine, _chosen(measuring.table(), IDLE))
    digest = digest_of(bare(text), [_BESIDE, *(f"{one.line} {one.setting}" for one in rules)])
    calls = {
        call: setting
        for call in measuring.wanted.calls()
        if call.collective.is_tunable
        and (setting := runs_there.at(call)) is not None
        and setting != runs_here.at(call)
    }
    captured = passes.captures(measuring.table())
    communicators = {
        Label(plan.VERIFY, number, digest): passes.loops_first(
            [
                Step(plan.MEASURE, who, call, timing, plan.effort_of(call.nbytes))
                for call, setting in calls.items()
                for timing in measuring.wanted.timings(call.nbytes, captures=captured)[:1]
                for who in (RULES if one == RULES else setting for one in TURNS[number % 2])
            ]
        )
        for number in range(n)
    }
    measuring.complete(passes.RunPlan(plugin=True, communicators=communicators, rules=bare(text)))
    table = measuring.table()
    found = [
        one
        for _, own in ratios(table[table["rules"] == digest]).groupby("collective", sort=False)
        for one in _verdicts(PairTable(own), level_of(len(calls)))
    ]
    return bool(found) and set(found) <= _GOOD and Verdict.FASTER in found


def _verdicts(table: PairTable, level: float) -> list[Verdict]:
    """What is said of each size and placement; better is what shares its chance with all others."""
    paired = table.paired
    found = []
    for at in range(len(paired.nbytes)):
        for view in range(len(paired.views)):
            one = paired.at(at, view)
            if one is None:
                found.append(Verdict.UNDECIDED)
                continue
            said = verdict_at(one, level)
            if said is Verdict.FASTER and one.low(level) <= 0:
                said = Verdict.NOT_SLOWER
            found.append(said)
    return found


@dataclass(frozen=True)
class _SideSettings:
    """What a side runs: its rules, and the library's own choices by collective and size."""

    rules: Sequence[Rule]
    chosen: Mapping[tuple[str, int], Setting]

    def at(self, call: CollectiveCall) -> Setting | None:
        """The setting of a call; None where nobody knows."""
        rule = answering(self.rules, call.collective, call.nbytes)
        if rule is not None:
            return rule.setting
        return self.chosen.get((call.collective.value, call.nbytes))


def _chosen(table: pd.DataFrame, who: Setting) -> Mapping[tuple[str, int], Setting]:
    """What the library said that it ran by itself, channels left to it."""
    own = table[(table["setting"] == str(who)) & (table["ran"] != "")]
    names = zip(own["collective"], own["nbytes"], own["ran"], strict=True)
    found = ((name, int(nbytes), setting_of(ran)) for name, nbytes, ran in names)
    return {
        (name, nbytes): Setting(algorithm=ran.algorithm, protocol=ran.protocol)
        for name, nbytes, ran in found
        if ran is not None
    }
