"""What a verification will roughly take, before there are rules to verify."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from rccltune import plan
from rccltune.measure import Site, ground_of
from rccltune.model import DEFAULT_VARIANT, Collective, Launch, Outcome, Rule, Setting, Sweep
from rccltune.verify.looks import FEWEST_CYCLES, UNTOUCHED

# Any setting has as many launches, and every collective that asks a tuner can run this one.
_SETTING: Final = Setting.parse("ring/simple")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Launches of a first look at one rule for each collective, and the seconds to start them."""

    n_launches: int
    starts_s: float


def outlook(sweep: Sweep, site: Site, finished: tuple[Outcome, ...] = ()) -> Outlook:
    """The least that it takes: a first look at one rule for all sizes of each collective.

    Nothing is started or written.

    Args:
        sweep: what is measured.
        site: where.
        finished: launches that have ended, to estimate by.
    """
    collectives = [one for one in sweep.collectives if one.is_tunable]
    launches = [one for each in collectives for one in _launches(sweep, site, each)]
    known = [one.duration_s for one in finished if one.duration_s is not None]
    start_s = plan.starting_s(launches, known) if site.start_s is None else site.start_s
    return Outlook(n_launches=len(launches), starts_s=len(launches) * start_s)


def _launches(sweep: Sweep, site: Site, collective: Collective) -> list[Launch]:
    """Those of a first look at one rule; more follow where it does not settle everything."""
    rule = Rule(
        collective=collective,
        min_nbytes=sweep.min_nbytes,
        max_nbytes=sweep.max_nbytes,
        setting=_SETTING,
    )
    own = replace(sweep, rank_placement=site.seating.place.name, scales=(site.scale,))
    ground = ground_of(site)
    walks = plan.why_no_walk(sweep, ground) is None
    pairs = plan.plan_pairs(
        plan.Condition(sweep=own),
        ground,
        [rule],
        DEFAULT_VARIANT,
        1,
        n_cycles=(lambda _sweep, _collective: FEWEST_CYCLES) if walks else None,
        n_untouched=UNTOUCHED if walks else None,
    )
    return list(chain.from_iterable(pair.launches for pair in pairs))
