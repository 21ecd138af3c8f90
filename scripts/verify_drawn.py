"""Operating characteristics of a verification: rule files whose truth is known, on drawn times.

Times are drawn as communicators of two H200 and two H100 were seen to differ (docs/proven.md,
docs/verify.md): each communicator has a mood that its sizes share, each timing noise of its own, some
timings stand still. By graphs up to 4 MiB and by loops above, or by loops alone, where graphs cannot be
captured. What judges is the product's own code; what was narrowed is drawn and judged a second time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, log1p, log2

import numpy as np
import pandas as pd

from rccltune.analyse.intervals import STALL
from rccltune.model.rule import Rule, RuleState
from rccltune.model.settings import Scale, Setting
from rccltune.model.units import KIB
from rccltune.model.vocabulary import Collective
from rccltune.ranks.plan import GRAPH, GRAPH_UP_TO, LOOP
from rccltune.verify.judge_rules import judge
from rccltune.verify.pairs import SizesToCall, choose_sizes

MIB = KIB * KIB
SETTING = Setting.parse("ring/ll128")
SWEPT = tuple(int(KIB * 2**k) for k in range(18))
SCALE = Scale(n_nodes=1, n_ranks=2)
# Rules of a file: two small ones, a narrow one, two wide ones.
SPANS = (
    (8 * KIB, 45 * KIB),
    (128 * KIB, 420 * KIB),
    (MIB, 1.4 * MIB),
    (2.4 * MIB, 8 * MIB),
    (16 * MIB, 54 * MIB),
)
# A communicator's mood, and a timing's own noise, in logs.
MOODS = {GRAPH: 0.003, LOOP: 0.004}
OWN = {GRAPH: 0.006, LOOP: 0.006}
# A loop below 512 KiB tells how fast the host launches.
HOST_MOOD, HOST_OWN = 0.035, 0.10
STALLED = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is true of every rule of a file.

    Attributes:
        gain: 0.05 is 5 % faster.
        window: gain within ``width`` octaves in the midst of each rule, instead.
        slow: share of communicators in which the rules are 30 % slower.
        left: what the rules leave for the library's next timing, as a loss of it.
        drift: over the turns of a size.
        stalls: share of timings with the rules that take three times as long.
        times: noise, as a multiple of the usual.
    """

    name: str
    gain: float = 0.0
    window: float | None = None
    width: float = 0.25
    slow: float = 0.0
    left: float = 0.0
    drift: float = 0.0
    stalls: float = 0.0
    times: float = 1.0


CASES = (
    Case(name="null"),
    Case(name="null, noise x 2", times=2.0),
    Case(name="null, drift of 5 %", drift=0.05),
    Case(name="null, 3 % of heat left behind", left=0.03),
    *(Case(name=f"gain {n} %", gain=n / 100) for n in (3, 5, 10)),
    *(Case(name=f"loss {n} %", gain=-n / 100) for n in (1, 3, 10)),
    Case(name="gain 10 %, -10 % in a quarter octave", gain=0.1, window=-0.1),
    Case(name="gain 10 %, -10 % in an eighth octave", gain=0.1, window=-0.1, width=0.125),
    Case(name="gain 10 %, -3 % in half an octave", gain=0.1, window=-0.03, width=0.5),
    *(
        Case(name=f"gain 5 %, slow in {n} % of communicators", gain=0.05, slow=n / 100)
        for n in (10, 20, 30)
    ),
    Case(name="gain 5 %, a tenth of timings stall", gain=0.05, stalls=0.1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What became of a file.

    Attributes:
        kept: rules of which something is kept.
        worst: largest loss at a size of what is kept, 0 without one.
        slower: sizes that were called slower.
    """

    kept: tuple[bool, ...]
    worst: float
    slower: int


def rules() -> list[Rule]:
    """The file's rules."""
    return [
        Rule(
            collective=Collective.ALL_REDUCE,
            min_nbytes=round(low),
            max_nbytes=round(high),
            setting=SETTING,
            line=number,
        )
        for number, (low, high) in enumerate(SPANS, start=1)
    ]


def verified(case: Case, n: int, *, loops: bool, rng: np.random.Generator) -> Found:
    """One file, drawn and judged, and what was narrowed once more."""
    own = rules()
    called = choose_sizes(own, Collective.ALL_REDUCE, SWEPT, (), SCALE)
    first = judge(drawn(case, called, own, n, loops=loops, rng=rng), own, min_gain=0.02)
    kept = [one for one in first.rules if one.state is RuleState.PROVEN]
    again = [one.rule for one in first.rules if one.state is RuleState.NOT_PROVEN]
    if again:
        sizes = choose_sizes(again, Collective.ALL_REDUCE, (), (), SCALE)
        pairs = drawn(case, sizes, again, n, loops=loops, rng=rng)
        second = judge(pairs, again, min_gain=0.02, only=again, n_rules=len(own))
        kept += [one for one in second.rules if one.state is RuleState.PROVEN]
    truths = [
        true_gain(case, own, size)
        for one in kept
        for size in np.geomspace(one.min_nbytes, one.max_nbytes, 200)
    ]
    return Found(
        kept=tuple(any(rule.line == one.line for rule in kept) for one in own),
        worst=max(0.0, *(-gain for gain in truths)) if truths else 0.0,
        slower=sum(one.state is RuleState.SLOWER for one in first.rules),
    )


def true_gain(case: Case, own: list[Rule], nbytes: float) -> float:
    """What is true at a size, 0.05 for 5 % faster."""
    if case.window is not None:
        for one in own:
            middle = (one.min_nbytes * one.max_nbytes) ** 0.5
            inside = one.min_nbytes <= nbytes <= one.max_nbytes
            if inside and abs(log2(nbytes / middle)) < case.width / 2:
                return case.window
    return case.gain


def drawn(
    case: Case,
    called: SizesToCall,
    own: list[Rule],
    n: int,
    *,
    loops: bool,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Pairs as :func:`rccltune.verify.pairs.pair_times` makes them."""
    every = rules()
    rows = list(_rows(case, called, every, n, loops=loops, rng=rng))
    table = pd.DataFrame(rows)
    ruled = [any(one.reaches(int(nbytes)) for one in own) for nbytes in table["nbytes"]]
    made: pd.DataFrame = table.assign(
        collective="all_reduce",
        dtype="float",
        library_us=10.0,
        rules_us=10.0,
        answer=np.where(ruled, str(SETTING), "none"),
        is_asked=True,
        is_equivalent=[not one for one in ruled],
    )
    return made


def _rows(
    case: Case,
    called: SizesToCall,
    every: list[Rule],
    n: int,
    *,
    loops: bool,
    rng: np.random.Generator,
) -> Iterator[dict[str, object]]:
    normal = rng.standard_normal
    for replicate in range(n):
        moods = {timing: case.times * mood * normal() for timing, mood in MOODS.items()}
        host = case.times * HOST_MOOD * normal()
        slow = log(1.3) if rng.random() < case.slow else 0.0
        for nbytes in (*called.ruled, *called.others):
            is_ruled = nbytes in called.ruled
            main = LOOP if loops or nbytes > GRAPH_UP_TO else GRAPH
            timings = {main} | ({LOOP} if nbytes in called.looped else set())
            true = log1p(true_gain(case, every, nbytes)) - slow if is_ruled else 0.0
            for timing in sorted(timings):
                is_host = timing == LOOP and nbytes < 512 * KIB
                sd = case.times * (HOST_OWN if is_host else OWN[timing])
                mood = (moods[timing] + (host if is_host else 0.0)) if is_ruled else 0.0
                for placement in ("in", "out"):
                    # Library, rules, rules, library: minus is the library's side.
                    times = sd * normal(4) + np.log1p(case.drift) * np.arange(4) / 4
                    times[1:3] -= true + mood
                    times[3] += case.left if is_ruled else 0.0
                    stalled = rng.random(4) < np.array(
                        [STALLED, *(2 * [max(STALLED, case.stalls if is_ruled else 0)]), STALLED]
                    )
                    times = times + log(3) * stalled
                    good = times < np.median(times) + log(STALL)
                    library, ruling = times[[0, 3]][good[[0, 3]]], times[1:3][good[1:3]]
                    if not len(library) or not len(ruling):
                        continue
                    yield {
                        "placement": placement,
                        "nbytes": nbytes,
                        "timing": timing,
                        "replicate": str(replicate),
                        "gain": library.mean() - ruling.mean(),
                        "left_over": (times[3] - times[0]) - (times[1] - times[2])
                        if good.all()
                        else np.nan,
                        "stalls_library": int(2 - good[[0, 3]].sum()),
                        "stalls_rules": int(2 - good[1:3].sum()),
                        "n_library": 2,
                        "n_rules": 2,
                    }
