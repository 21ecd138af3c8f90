"""What verify was asked for, its file before the first look, and what it will roughly take."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final

from rccltune.fit import agreement
from rccltune.measure import preparation
from rccltune.measure.preparation import ground_of
from rccltune.measure.site import Site
from rccltune.model import defaults
from rccltune.model.chosen import NOT_MEASURED, Rule, RuleCount
from rccltune.model.errors import CommandLineError, RccltuneError
from rccltune.model.measured import Launch, Outcome, Sweep
from rccltune.model.reporter import Reporter
from rccltune.model.settings import DEFAULT_VARIANT, Setting
from rccltune.model.vocabulary import Collective
from rccltune.plan import octaves
from rccltune.plan.launches import starting_s
from rccltune.plan.pairs import Condition, conditions, plan_pairs
from rccltune.plan.walks import why_no_walk
from rccltune.rules.documents import counted
from rccltune.rules.line_format import Change, rewritten
from rccltune.rules.provenance import check_needs
from rccltune.rules.reader import RuleFile
from rccltune.rules.refusals import accepted
from rccltune.verify import cuts as cutting
from rccltune.verify.cuts import Cut, text_of
from rccltune.verify.held import Ground, read_swept
from rccltune.verify.looks import FEWEST_CYCLES, UNTOUCHED
from rccltune.verify.rounds import first_walks, ours
from rccltune.verify.standing import Wanted
from rccltune.verify.verdict_store import FOLDER

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
    start_s = starting_s(launches, known) if site.start_s is None else site.start_s
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
    walks = why_no_walk(sweep, ground) is None
    pairs = plan_pairs(
        Condition(sweep=own),
        ground,
        [rule],
        DEFAULT_VARIANT,
        1,
        n_cycles=(lambda _sweep, _collective: FEWEST_CYCLES) if walks else None,
        n_untouched=UNTOUCHED if walks else None,
    )
    return list(chain.from_iterable(pair.launches for pair in pairs))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """What verify was asked for.

    Attributes:
        folder: the session, in which launches and the verdict are kept.
        rules: the file to verify.
        output: where what stands goes.
        min_gain: what a rule must gain over its range, 0.02 for 2 %.
        n_looks: launches at each size, while something is undecided.
        dtypes: further element types under which no rule may lose.
        graphs: further numbers of graph replays, likewise; 0 is none.
        besides: collectives and sizes that run at the same time, likewise.
        keep_losers: leave the file as it is, whatever loses.
        needs_stay: the file is for what its rules need: without it nothing of it is kept.
        allowed: variables beyond the harmless ones that ranks may be given for the rules.
    """

    folder: Path
    rules: Path
    output: Path
    min_gain: float = defaults.MIN_GAIN
    n_looks: int = defaults.REPEATS
    keep_losers: bool = False
    needs_stay: bool = False
    timeout_s: float | None = None
    dtypes: tuple[str, ...] = ()
    graphs: tuple[int, ...] = ()
    besides: tuple[tuple[Collective, int], ...] = ()
    allowed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A file before its first look.

    Attributes:
        text: without what lies beyond the sweep.
        before: rules that it had for this scale.
        beyond: what of them lies there.
    """

    text: str
    before: RuleCount
    beyond: tuple[Cut, ...]
    ground: Ground
    wanted: Wanted


def begin(request: VerifyRequest, sweep: Sweep, site: Site, reporter: Reporter) -> Begun:
    """Read a file and leave out what the sweep did not reach.

    Raises:
        RccltuneError: as verify_rules says of files and options.
    """
    text = text_of(request.rules)
    file = accepted(text.encode(), request.rules)
    before = counted(ours(file, site))
    # The file of an environment is worth verifying without a rule.
    is_alone = request.needs_stay and bool(file.needs) and not before.rules
    if not file.rules and not is_alone:
        raise CommandLineError(
            "this file has no rule, so there is nothing to verify",
            where=str(request.rules),
            hint="the library chooses as it did; its comments say why at each size.",
        )
    if not before.rules and not is_alone:
        raise CommandLineError(
            f"no rule of this file is for {site.scale}",
            where=str(request.rules),
            hint="emit one first (rccltune emit-config), or start as many ranks (--np).",
        )
    # A line that cannot be written again is told now, and not when all is measured.
    rewritten(text, {}, ())
    check_needs(file.needs, request.allowed, where=str(request.rules))
    beyond: tuple[Cut, ...] = ()
    if not request.keep_losers and not is_alone:
        narrowed, beyond = _within_reach(text, file, sweep, site)
        left = ours(accepted(narrowed.encode(), request.rules), site)
        if not left:
            raise CommandLineError(
                "none of these rules is for a size that this sweep has: nothing can be verified",
                where=str(request.rules),
                hint="sweep the sizes that they are for (--min-bytes, --max-bytes).",
            )
        text = _ending_where_called(narrowed, left, sweep, site)
    walks = why_no_walk(sweep, preparation.ground_of(site)) is None
    ground = Ground(
        folder=request.folder / FOLDER,
        conditions=conditions(
            replace(sweep, rank_placement=site.seating.place.name, scales=(site.scale,)),
            dtypes=request.dtypes,
            graphs=request.graphs,
            besides=request.besides,
        ),
        site=site,
        swept=read_swept(request.folder, reporter),
        is_paired=walks and _is_silent_site(request.folder, file),
        walks=walks,
        timeout_s=request.timeout_s,
        reporter=reporter,
    )
    return Begun(
        text=text,
        before=before,
        beyond=beyond,
        ground=ground,
        wanted=Wanted(
            where=request.rules,
            min_gain=request.min_gain,
            n_looks=request.n_looks,
            keep_losers=request.keep_losers,
            needs_stay=request.needs_stay,
        ),
    )


def walks_of(
    following: VerifyRequest | None, ground: Ground, sweep: Sweep, site: Site
) -> tuple[Launch, ...]:
    """What the next file will run first; nothing where it cannot, which it says itself."""
    if following is None or not ground.is_paired:
        return ()
    with suppress(RccltuneError):
        begun = begin(following, sweep, site, Reporter())
        return first_walks(begun.wanted, begun.ground, begun.text)
    return ()


def _is_silent_site(folder: Path, file: RuleFile) -> bool:
    """Whether a plugin that answers nothing leaves the library as it is: it has no other tuner."""
    if any(rule.vendor for rule in file.rules):
        return False
    return agreement.tuner_of(folder) in (None, "none")


def _within_reach(
    text: str, file: RuleFile, sweep: Sweep, site: Site
) -> tuple[str, tuple[Cut, ...]]:
    """The file with rules that end where verification will, and what they lose."""
    rules = ours(file, site)
    n_ranks = site.scale.n_ranks
    beyond = cutting.beyond(
        {
            one: octaves.verified_sizes(sweep, one, n_ranks) if one in sweep.collectives else ()
            for one in dict.fromkeys(rule.collective for rule in rules)
        }
    )
    changes: dict[int, Change] = {}
    taken: dict[Cut, None] = {}
    said: set[tuple[Collective, int, int]] = set()
    for rule in rules:
        mine = [cut for cut in beyond if cutting.inside(rule, cut) is not None]
        if not mine or rule.line is None:
            continue
        outside = [part for cut in mine if (part := cutting.inside(rule, cut)) is not None]
        parts = cutting.without(rule, mine)
        taken |= dict.fromkeys(
            replace(cut, min_nbytes=part.min_nbytes, max_nbytes=part.max_nbytes)
            for cut, part in zip(mine, outside, strict=True)
        )
        # A fallback behind a rule has the same bounds.
        new = [p for p in outside if (p.collective, p.min_nbytes, p.max_nbytes) not in said]
        said |= {(p.collective, p.min_nbytes, p.max_nbytes) for p in new}
        holes = tuple((part.min_nbytes, part.max_nbytes, NOT_MEASURED) for part in new)
        changes[rule.line] = Change(parts=parts, evidence="", holes=holes)
    return rewritten(text, changes, ()), tuple(taken)


def _ending_where_called(text: str, rules: Sequence[Rule], sweep: Sweep, site: Site) -> str:
    """The file with rules that end at sizes which a launch of the verification calls."""
    changes = {
        rule.line: Change(parts=(new,), evidence="")
        for rule, new in zip(
            rules, octaves.ending_where_called(sweep, rules, site.scale.n_ranks), strict=True
        )
        if new != rule and rule.line is not None
    }
    return rewritten(text, changes, ())
