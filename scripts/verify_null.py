"""Made-up launches for verification: what an independent program says of its intervals.

    scripts/bench verify --null 1000

Rules that mean what the library does anyway, at random ranges, on launches that differ by 40 %
where pairs agree within a few percent, as was seen on two H200. No process is started: what a
launch would have said is drawn, and the statistics of `rccltune verify` decide. At most one in a
hundred tables may keep a rule, and none may be called harmful.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rccltune.measure import preparation
from rccltune.measure.request import merge_request
from rccltune.measure.site import find_site
from rccltune.model.chosen import Rule
from rccltune.model.measured import Sweep
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Setting, Target, Variant, View
from rccltune.model.vocabulary import Collective, Placement
from rccltune.plan import launches, walks
from rccltune.plan.pairs import Pair, conditions, plan_pairs
from rccltune.rules.writer import render_rules
from rccltune.verify import looks, rounds, standing
from rccltune.verify.cells import Cell, Key, cell_of
from rccltune.verify.held import Ground, Held, Look, Swept, new_held

Gain = Callable[[int], float]
SPAN = (1 << 10, 128 << 20)
# Standard deviations below 256 KiB and from 1 MiB on: of launches, of a setting in a launch, and of
# a pass; and the share of passes that take three times as long.
LAUNCH, SETTING, PASS, STALLS = (0.4, 0.015), (0.02, 0.003), (0.03, 0.004), 0.005
_SMALL, _LARGE = 256 << 10, 1 << 20
_N_CYCLES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """How a made-up verification ended.

    Attributes:
        n_kept: rules that are left.
        harmed: sizes without a rule were called slower.
        slower: a size of a rule was.
        n_looks: that it took.
    """

    n_kept: int
    harmed: bool
    slower: bool
    n_looks: int


class MadeUp:
    """Launches that are drawn.

    Args:
        seed: of all of them.
        gain: log(time of silence / time with the rules), by size; where a rule is.
        share: of launches in which the rules are twice as slow.
        ground: as for real ones.
        cost: log(time of silence / untouched time), by size: what the rules need does.
    """

    def __init__(
        self,
        seed: int,
        gain: Gain,
        ground: Ground,
        *,
        share: float = 0.0,
        cost: Gain = lambda _: 0.0,
    ) -> None:
        """Keep all."""
        self._random = random.Random(seed)
        self._gain = gain
        self._ground = ground
        self._share = share
        self._cost = cost

    def look(self, look: Look, held: Sequence[Held]) -> None:
        """Draw every launch of a look."""
        site = self._ground.site
        on = preparation.ground_of(site)
        rules = [rule for rule in look.file.rules if not rule.vendor]
        for one in held:
            one.fresh = new_held(one.condition).evidence
            pairs = plan_pairs(
                one.condition,
                on,
                rules,
                Variant(name=looks.TUNED),
                look.number,
                n_cycles=lambda _sweep, _collective: _N_CYCLES,
                n_untouched=0 if look.missing else 8 if look.file.needs else 4,
                edges=look.edges,
                missing=look.missing,
                n_replicates=look.n_replicates,
            )
            for number, pair in enumerate(pairs):
                [collective] = pair.tuned.collectives
                if not look.is_about(collective):
                    continue
                name = f"{look.number}.{number}"
                sizes = sizes_of(pair, one.condition.sweep)
                own = [rule for rule in rules if rule.collective is collective]
                has_untouched = bool(pair.untouched)
                cells, untouched = self._drawn(sizes, own, collective, has_untouched=has_untouched)
                for evidence in (one.evidence, one.fresh):
                    evidence.add(name, cells, untouched)
                one.n_launches += len(pair.launches)

    def _drawn(
        self,
        sizes: Sequence[int],
        rules: Sequence[Rule],
        collective: Collective,
        *,
        has_untouched: bool,
    ) -> tuple[dict[Key, Cell], dict[Key, float]]:
        ours, theirs = (self._random.gauss(0, 1) for _ in range(2))
        is_slow = self._random.random() < self._share
        cells: dict[Key, Cell] = {}
        untouched: dict[Key, float] = {}
        for placement in Placement:
            for nbytes in sizes:
                key = key_of(collective, placement, nbytes, self._ground)
                usual_us = 20 + nbytes / 2e5
                launch = at(nbytes, LAUNCH)
                ruled = any(rule.min_nbytes <= nbytes <= rule.max_nbytes for rule in rules)
                gain = self._gain(nbytes) - (math.log(2) if is_slow else 0.0) if ruled else 0.0
                silent_us = usual_us * math.exp(ours * launch + self._cost(nbytes))
                cells[key] = self._cell(nbytes, silent_us, silent_us * math.exp(-gain))
                if has_untouched:
                    noise = self._random.gauss(0, at(nbytes, PASS))
                    untouched[key] = usual_us * math.exp(theirs * launch + noise)
        return cells, untouched

    def _cell(self, nbytes: int, silent_us: float, tuned_us: float) -> Cell:
        # What differs between arms of a launch silence against itself need not show.
        own, ours = (math.exp(self._random.gauss(0, at(nbytes, SETTING))) for _ in range(2))
        silent, behind = (self._passes(nbytes, silent_us * own) for _ in range(2))
        return cell_of(silent, self._passes(nbytes, tuned_us * ours), behind)

    def _passes(self, nbytes: int, usual_us: float) -> list[float]:
        sigma = at(nbytes, PASS)
        return [
            usual_us
            * math.exp(self._random.gauss(0, sigma))
            * (3.0 if self._random.random() < STALLS else 1.0)
            for _ in range(_N_CYCLES)
        ]


def at(nbytes: int, ends: tuple[float, float]) -> float:
    """A spread between the one of small sizes and that of large ones."""
    if nbytes <= _SMALL:
        return ends[0]
    if nbytes >= _LARGE:
        return ends[1]
    share = math.log(nbytes / _SMALL) / math.log(_LARGE / _SMALL)
    return (1 - share) * ends[0] + share * ends[1]


def sizes_of(pair: Pair, sweep: Sweep) -> tuple[int, ...]:
    """Sizes in bytes of a launch."""
    own = launches.over_own(sweep, pair.tuned)
    return walks.called_sizes(own, pair.tuned.collectives[0], 64)


def key_of(collective: Collective, placement: Placement, nbytes: int, ground: Ground) -> Key:
    """As it is swept."""
    target = Target(
        collective=collective,
        scale=ground.site.scale,
        rank_placement="node",
        variant=Variant(),
    )
    view = View(dtype="float", redop="sum", placement=placement, graph=False)
    return target, view, nbytes


def ground_in(folder: Path) -> Ground:
    """The shipped node, of which nothing is started."""
    request = merge_request(
        None,
        {
            "simulate": "mi300x-cpx-nps4",
            "launcher": "none",
            "collective": (Collective.ALL_REDUCE,),
            "min_bytes": SPAN[0],
            "max_bytes": SPAN[1],
        },
    )
    site = find_site(request.site)
    return Ground(
        folder=folder,
        conditions=conditions(request.sweep),
        site=site,
        swept=Swept(),
        is_paired=True,
        walks=True,
        timeout_s=None,
        reporter=Reporter(),
    )


def table_of(seed: int) -> str:
    """One to four rules at random ranges of half an octave and more, as rule files have them."""
    rng = random.Random(f"table {seed}")
    edges = sorted(rng.uniform(math.log2(SPAN[0]), math.log2(SPAN[1])) for _ in range(8))
    ranges = [
        (low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if high - low >= 0.5
    ]
    rules = [
        Rule(
            collective=Collective.ALL_REDUCE,
            min_nbytes=round(2**low),
            max_nbytes=round(2**high) - 1,
            setting=Setting.parse("ring/ll" if 2**high < _SMALL else "ring/simple"),
            n_nodes=1,
            n_ranks=64,
        )
        for low, high in ranges[: rng.randint(1, 4)] or [(12.0, 15.0)]
    ]
    return render_rules("what the library does anyway", rules)


def settled(
    seed: int, text: str, ground: Ground, gain: Gain, *, share: float = 0.0
) -> standing.Settled:
    """Verify a table on made-up launches."""
    wanted = standing.Wanted(
        where=ground.folder / "null.csv", min_gain=0.02, n_looks=3, keep_losers=False
    )
    drawn = MadeUp(seed, gain, ground, share=share)
    return rounds.settle(wanted, ground, text, looker=drawn)


def nulls(seeds: Sequence[int], folder: Path) -> list[Drawn]:
    """Verify so many tables that mean what the library does anyway."""
    ground = ground_in(folder)
    found = []
    for seed in seeds:
        done = settled(seed, table_of(seed), ground, lambda _: 0.0)
        found.append(
            Drawn(
                n_kept=sum(one.stands for one in done.standings),
                harmed=bool(done.harmed) or any("not answer" in cut.reason for cut in done.cuts),
                slower=any("slower than" in cut.reason for cut in done.cuts),
                n_looks=done.n_looks,
            )
        )
    return found
