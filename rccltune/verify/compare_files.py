"""Two verified rule files of one machine: whether the one with a variable more is the better.

Both are called in the same communicators, of ranks that have the variable: one side answers by the
rules that were verified with it, the other what the site runs without it, its rule where it has
one, else the library's own choice there. Where that is one setting nothing is called: it is the
same kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rccltune.analyse.paired_intervals import PairedRatios, level_of
from rccltune.measure import passes
from rccltune.measure.ongoing_sweep import OngoingSweep
from rccltune.model.rule import Rule
from rccltune.model.settings import BASELINE, IDLE, RULES, Setting
from rccltune.model.verdict import Verdict
from rccltune.ranks import plan
from rccltune.ranks.plan import CollectiveCall, Label, Step, setting_of
from rccltune.rules.rule_file import read_rules
from rccltune.verify.pairs import TURNS, find_rule, pair_times
from rccltune.verify.rewriting import hash_rules, select_rules, strip_comments
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
    mine = select_rules(read_rules(text.encode()), measuring.ground.place.scale)
    here, there = _library_choices(measuring.table(), IDLE), _library_choices(site, BASELINE)
    content = strip_comments(text)
    digest = hash_rules(content, [_BESIDE, *(f"{one.line} {one.setting}" for one in rules)])
    calls = {
        call: setting
        for call in measuring.scope.calls()
        if call.collective.is_tunable
        and (setting := _setting_at(call, rules, there)) is not None
        and setting != _setting_at(call, mine, here)
    }
    captured = passes.captures(measuring.table())
    communicators = {
        Label(plan.VERIFY, number, digest): passes.loops_first(
            [
                Step(plan.MEASURE, who, call, timing, plan.effort_of(call.nbytes))
                for call, setting in calls.items()
                for timing in measuring.scope.timings(call.nbytes, captures=captured)[:1]
                for who in (RULES if one == RULES else setting for one in TURNS[number % 2])
            ]
        )
        for number in range(n)
    }
    measuring.complete(passes.RunPlan(plugin=True, communicators=communicators, rules=content))
    table = measuring.table()
    pairs = pair_times(table[table["rules"] == digest])
    verdicts = {
        verdict
        for _, rows in pairs.groupby("collective", sort=False)
        for verdict in _judge_sizes(PairTable(rows).paired, level_of(len(calls)))
    }
    return Verdict.FASTER in verdicts and verdicts <= _GOOD


def _setting_at(
    call: CollectiveCall, rules: Sequence[Rule], chosen: Mapping[tuple[str, int], Setting]
) -> Setting | None:
    """Setting that a side runs: of its rule, else the library's choice; None where nobody knows."""
    rule = find_rule(rules, call.collective, call.nbytes)
    return rule.setting if rule else chosen.get((call.collective.value, call.nbytes))


def _library_choices(table: pd.DataFrame, who: Setting) -> Mapping[tuple[str, int], Setting]:
    """Settings that the library said it ran by itself, channels left to it."""
    rows = table[(table["setting"] == str(who)) & (table["ran"] != "")]
    cells = zip(rows["collective"], rows["nbytes"], rows["ran"], strict=True)
    return {
        (name, int(nbytes)): replace(setting, channels=None)
        for name, nbytes, ran in cells
        if (setting := setting_of(ran)) is not None
    }


def _judge_sizes(paired: PairedRatios, level: float) -> Iterator[Verdict]:
    """Judge each size and placement; better is what shares its chance with all others."""
    for at in range(len(paired.nbytes)):
        for view in range(len(paired.views)):
            one = paired.at(at, view)
            verdict = Verdict.UNDECIDED if one is None else verdict_at(one, level)
            is_sure = one is not None and one.low(level) > 0
            yield Verdict.NOT_SLOWER if verdict is Verdict.FASTER and not is_sure else verdict
