"""Look after look, until all that is left of a rule file stands or no more is to be found out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from rccltune.measure.site import Site
from rccltune.model.chosen import Rule
from rccltune.model.defaults import LEVEL
from rccltune.model.errors import HarmError
from rccltune.model.measured import Launch
from rccltune.model.reporter import Reporter
from rccltune.model.vocabulary import Collective, format_size, format_span
from rccltune.plan.pairs import Condition
from rccltune.rules.documents import counted
from rccltune.rules.reader import RuleFile
from rccltune.rules.refusals import accepted
from rccltune.verify import cuts, harm
from rccltune.verify.cells import is_of
from rccltune.verify.cuts import Cut, without_needs, without_regions
from rccltune.verify.evidence import Judging, Weighed, weigh
from rccltune.verify.harm import Environment, EnvironmentGain, Sizes, in_words
from rccltune.verify.held import Ground, Held, Look, forget_checks, new_held
from rccltune.verify.intervals import Estimate
from rccltune.verify.looks import Looker, of_scale
from rccltune.verify.proofs import Answered, Failed, fails_with_rules, stop_where_untouched_is_wrong
from rccltune.verify.standing import (
    TOO_NARROW,
    Settled,
    Standing,
    State,
    Wanted,
    idle_parts,
    is_hopeless,
    is_too_narrow,
    leaving,
    standings,
)

# Looks beyond those that were asked for, where what was cut has to be looked at again.
_FURTHER: Final = 4


class Launching(Protocol):
    """Who makes the launches of looks."""

    def look(self, look: Look, held: Sequence[Held]) -> Failed | None:
        """As :meth:`Looker.look`."""


def settle(
    wanted: Wanted,
    ground: Ground,
    text: str,
    *,
    looker: Launching | None = None,
    alongside: Sequence[Launch] = (),
) -> Settled:
    """Look until every rule that is left stands, none is left, or nothing more is to be found out.

    Args:
        wanted: what the file is held to.
        ground: what all looks have in common.
        text: of the file.
        looker: makes the launches; None for real ones.
        alongside: combined launches of another file, as :func:`first_walks` gives them.

    Raises:
        InputFileError: the plugin refuses the file.
        RccltuneError: of launches that do not work, as :meth:`Looker.look` says.
    """
    course = _Course(wanted, ground, text, looker or Looker(ground, alongside))
    if not course.begin():
        return course.ended()
    while course.look():
        pass
    course.give_back_ends()
    return course.ended()


def first_walks(wanted: Wanted, ground: Ground, text: str) -> tuple[Launch, ...]:
    """What :func:`settle` will run first, next to the launches of the site's own file.

    Args:
        wanted: as there.
        ground: as there.
        text: of a file whose rules need an environment.

    Raises:
        InputFileError: the plugin refuses the file.
    """
    ground = replace(ground, reporter=Reporter())
    looker = Looker(ground)
    course = _Course(wanted, ground, text, looker)
    if not course.begin():
        return ()
    look = Look(file=course.file, text=course.text, number=1)
    own = next(one for one in course.held if one.condition.is_own)
    return looker.first_walks(look, own)


def ours(file: RuleFile, site: Site) -> tuple[Rule, ...]:
    """Rules of this scale that are to win; a vendor's behind them are what the site has anyway."""
    return tuple(rule for rule in of_scale(file, site) if not rule.vendor)


class _Course:
    """How far a verification is.

    Attributes:
        number: of looks so far.
        since: looks at the file as it is.
        before: sizes without a rule that looked slower in the look before.
        is_open: something is undecided about rules.
        is_environment_open: so is what the rules need.
        is_brief: nothing is missing but more launches.
        missing: rules that are to be seen in so many of them.
        open_in: collectives in which something is undecided; None for all.
        n_ranges: of sizes that may be left of rules, after what was taken from them.
    """

    def __init__(self, wanted: Wanted, ground: Ground, text: str, looker: Launching) -> None:
        self.wanted = wanted
        self.ground = ground
        self.text = text
        self.file = accepted(text.encode(), wanted.where)
        self.looker = looker
        # Sizes of each condition as they were weighed last.
        self._known: dict[Condition, tuple[Weighed, ...]] = {}
        self.held = self._nothing()
        self.cuts: list[Cut] = []
        self.lost_needs: tuple[str, ...] = ()
        self.environment: Estimate | None = None
        self.before: Sizes = {}
        self.harmed: Sizes = {}
        self.is_open = True
        self.is_environment_open = bool(self.file.needs)
        self.is_brief = False
        self.missing: tuple[tuple[Rule, int], ...] = ()
        self.open_in: frozenset[Collective] | None = None
        self.number = self.since = self.n_launches = 0
        self.n_ranges = 1

    def begin(self) -> bool:
        """Leave out what no look could judge; whether there is anything to look at."""
        narrow = [] if self.wanted.keep_losers else self._too_narrow()
        for cut in narrow:
            self._tell(cut)
        self._rewrite(narrow)
        return bool(self._ours()) or self._is_alone

    def _too_narrow(self) -> list[Cut]:
        return [cuts.whole(rule, TOO_NARROW) for rule in self._ours() if is_too_narrow(rule)]

    def look(self) -> bool:
        """Look once more; whether another look is to follow."""
        self.number, self.since = self.number + 1, self.since + 1
        again = "" if self.since == 1 else " once more, since not all is decided"
        look = Look(
            file=self.file,
            text=self.text,
            number=self.number,
            is_brief=self.is_brief,
            is_last=self._is_last,
            suspects=bool(self.before),
            edges=self.is_open,
            needs_doubted=self.is_environment_open,
            missing=self.missing,
            open_in=self.open_in,
        )
        rules = [r for r in of_scale(self.file, self.ground.site) if look.is_about(r.collective)]
        what = "the library in it and outside" if self._is_alone else "with and without them"
        named = "the environment alone" if self._is_alone else counted(rules)
        self.ground.reporter.say(f"Verifying {named}: {what} in turns{again}")
        failed = self.looker.look(look, self.held)
        self._known.clear()
        if failed is not None:
            forget_checks(self.held)
            why = f"the benchmark fails with it at {format_size(failed.nbytes)}: {failed.why}"
            self._take([cuts.whole(failed.rule, why)])
            if not self._ours() and not any(one.proven.hits for one in self.held):
                raise fails_with_rules(self.ground.folder, failed.why)
            return bool(self._ours()) and self._begin_again()
        if self.file.needs and not self._may_keep_needs():
            return self._without_needs()
        return self._judged()

    def ended(self) -> Settled:
        """What is known when no look follows; what is undecided has gone then."""
        return Settled(
            text=self.text,
            held=self.held,
            weighed=self._weighed(),
            standings=self._standings() if self._ours() else (),
            cuts=tuple(self.cuts),
            lost_needs=self.lost_needs,
            environment=self.environment,
            environment_gains=self._environment_gains(),
            harmed=self.harmed,
            n_launches=sum(one.n_launches for one in self.held) + self.n_launches,
            n_looks=self.number,
        )

    def _judged(self) -> bool:
        """What follows of the launches so far."""
        self._drop_never_asked()
        if not self._ours():
            keys = (key for one in self.held for key in one.evidence.wrong)
            if not all(cuts.is_given_back(self.cuts, key[0].collective, key[2]) for key in keys):
                why = f"wrong results with {self._needs_in_words}"
                raise HarmError(why, where=str(self.wanted.where), hint="Nothing was written.")
            return self.is_environment_open and not self._is_last
        for one in self.held:
            # What a rule that went had wrong is not the library's.
            still = [
                w
                for w in self._weighed_of(one)
                if not cuts.is_given_back(self.cuts, w.verdict.target.collective, w.verdict.nbytes)
            ]
            stop_where_untouched_is_wrong(self.ground.folder, self._answered(one), still)
        slower = self._slower()
        believed = {c: sizes & self.before.get(c, frozenset()) for c, sizes in slower.items()}
        believed = {collective: sizes for collective, sizes in believed.items() if sizes}
        self.before = slower
        if believed:
            self.harmed = {**self.harmed, **believed}
        if believed and not self.wanted.keep_losers:
            self._take(harm.cuts_for(believed, self._ours(), self.file, self.wanted.where))
        return bool(self._ours()) and self._decided(slower)

    def _decided(self, slower: Sizes) -> bool:
        """Take from rules what they lose, until the rest stands or has to be looked at again."""
        while True:
            found = self._standings()
            undecided = [one for one in found if one.state is State.UNDECIDED]
            hopeless = [one for one in undecided if self._is_hopeless(one)]
            undecided = [one for one in undecided if one not in hopeless]
            self.is_open = bool(undecided or slower)
            # What rules need holds for the whole job, and is judged over all collectives.
            doubted = frozenset({one.rule.collective for one in undecided} | slower.keys())
            self.open_in = None if self.is_environment_open else doubted
            self.missing = tuple((one.rule, one.n_missing) for one in undecided if one.n_missing)
            self.is_brief = not slower and len(self.missing) == len(undecided)
            self.missing = self.missing if self.is_brief else ()
            goes_on = self.is_open or self.is_environment_open
            if self.wanted.keep_losers:
                return goes_on and not self._is_last
            losing = [cut for one in found for cut in one.cuts]
            losing += [cuts.whole(one.rule, f"undecided: {one.gain}") for one in hopeless]
            if not losing:
                break
            self._take(losing)
            if not self._ours():
                return False
            # Sizes that rules gave back have what the rules need, and no rule.
            if self.file.needs and not self._may_keep_needs():
                return self._without_needs()
        if self._is_last:
            self._give_up(found)
            self.is_open, self.is_brief, self.missing = False, True, ()
            return bool(self._ours()) and self.is_environment_open
        if slower:
            self.ground.reporter.say(f"slower without a rule looks {in_words(slower)}")
        return goes_on

    def _is_hopeless(self, one: Standing) -> bool:
        n_more = 0 if self.wanted.keep_losers else self.wanted.n_looks - self.since
        level = LEVEL / 2 ** (self.number + n_more) / self.n_ranges / len(self._ours())
        times = 1 + n_more / self.since
        return n_more > 0 and is_hopeless(one, times, level, self.wanted.min_gain)

    def _take(self, losing: Sequence[Cut]) -> None:
        """Give sizes of rules back to the library.

        What is left of a rule keeps its launches. It was left because of them: so the chance of a
        mistake is shared out over all ranges of sizes that might have been.
        """
        for cut in losing:
            self._tell(cut)
        for rule in self._ours():
            gone = [cut for cut in losing if cuts.inside(rule, cut)]
            if not gone or not cuts.without(rule, gone):
                continue
            sizes = {k[2] for one in self.held for k in one.evidence.cells if is_of(rule, k)}
            self.n_ranges *= max(1, len(sizes) * (len(sizes) + 1) // 2) ** len(gone)
            for one in self.held:
                # There the library is to be measured now.
                one.evidence.forget(partial(cuts.is_taken, rule, gone))
        self._rewrite(losing)
        self._rewrite(self._too_narrow())

    def _begin_again(self) -> bool:
        """After a look that was not completed; whether there is one more."""
        self.is_open, self.is_brief, self.since = True, False, 0
        self.missing, self.open_in = (), None
        if self.number < self._most_looks:
            return True
        self._give_up(self._standings())
        return False

    def give_back_ends(self) -> None:
        """Leave out ends that look slower.

        All is decided by now, so this chooses nothing that would have to be shown again.
        """
        self._give_back([], () if self.wanted.keep_losers else self._standings())

    def _give_up(self, found: Iterable[Standing]) -> None:
        """Leave out what is undecided when no time is left."""
        known = {one.rule.line for one in found}
        why = "undecided: not looked at since it was narrowed"
        unknown = (r for r in self._ours() if r.line not in known and not r.fallback)
        self._give_back([cuts.whole(rule, why) for rule in unknown], found)

    def _give_back(self, losing: Sequence[Cut], found: Iterable[Standing]) -> None:
        """Leave out what is not proven, and ends that look slower, until the rest is proven.

        A size may have been sure because of one beside it that goes.
        """
        while losing := [*losing, *(cut for one in found for cut in leaving(one))]:
            for cut in losing:
                self._tell(cut)
            self._rewrite(losing)
            losing, found = self._too_narrow(), self._standings()

    def _tell(self, cut: Cut) -> None:
        where = f"{cut.collective.value} {format_span(cut.min_nbytes, cut.max_nbytes)}"
        self.ground.reporter.say(f"{where} goes back to the library: {cut.reason}")

    def _rewrite(self, losing: Sequence[Cut]) -> None:
        self.cuts += losing
        self.text = without_regions(self.text, losing, self._ours())
        self.file = accepted(self.text.encode(), self.wanted.where)
        self._known.clear()

    def _may_keep_needs(self) -> bool:
        """Whether what the rules need does no harm where they do not answer, as far as is known."""
        own = next(one for one in self.held if one.condition.is_own)
        state, self.environment = harm.environment(own.evidence, self._answered(own))
        self.is_environment_open = state is Environment.UNDECIDED
        # Rules that stand have two looks more to see that what they need does no harm.
        is_over = self.since > self.wanted.n_looks + 1 or self.number >= self._most_looks
        is_harmful = state is Environment.HARMFUL or (self.is_environment_open and is_over)
        return self.wanted.keep_losers or not is_harmful

    def _without_needs(self) -> bool:
        """Go on without what the rules ask of the environment: some are not selectable then."""
        why = f"{self._needs_in_words} may slow sizes that have no rule"
        if self.wanted.needs_stay:
            raise HarmError(why, where=str(self.wanted.where), hint="Nothing was written.")
        self.ground.reporter.say(f"{why}: the rules go on without")
        self.lost_needs = tuple(dict(self.file.needs))
        self.text = without_needs(self.text)
        self.file = accepted(self.text.encode(), self.wanted.where)
        self.n_launches += sum(one.n_launches for one in self.held)
        self._known.clear()
        self.held, self.before, self.since, self.environment = self._nothing(), {}, 0, None
        self.is_open, self.is_brief, self.is_environment_open = True, False, False
        self.missing, self.open_in = (), None
        return True

    def _environment_gains(self) -> tuple[EnvironmentGain, ...]:
        if not self.wanted.needs_stay or not self.file.needs:
            return ()
        own = next(one for one in self.held if one.condition.is_own)
        return harm.environment_gains(own.evidence, self._answered(own), self.wanted.min_gain)

    @property
    def _is_alone(self) -> bool:
        """Whether the file is for an environment, and has no rule to verify in it."""
        return self.wanted.needs_stay and bool(self.file.needs) and not self._ours()

    @property
    def _needs_in_words(self) -> str:
        return ", ".join(dict(self.file.needs))

    @property
    def _is_last(self) -> bool:
        return self.since >= self.wanted.n_looks or self.number >= self._most_looks

    @property
    def _most_looks(self) -> int:
        return self.wanted.n_looks + _FURTHER

    def _nothing(self) -> tuple[Held, ...]:
        return tuple(new_held(condition) for condition in self.ground.conditions)

    def _ours(self) -> tuple[Rule, ...]:
        return ours(self.file, self.ground.site)

    def _judging(self) -> Judging:
        return Judging(
            rules=self._ours(),
            scale=self.ground.site.scale,
            # Looks share the chance of a mistake, however many there will be.
            level=LEVEL / 2**self.number / self.n_ranges,
        )

    def _answered(self, held: Held) -> Answered:
        return Answered(of_scale(self.file, self.ground.site), held.proven)

    def _weighed_of(self, held: Held) -> tuple[Weighed, ...]:
        if held.condition not in self._known:
            self._known[held.condition] = weigh(held.evidence, self._judging())
        return self._known[held.condition]

    def _weighed(self) -> tuple[tuple[Weighed, ...], ...]:
        return tuple(self._weighed_of(one) for one in self.held)

    def _standings(self) -> tuple[Standing, ...]:
        answered = [
            (one.evidence, [w for w in self._weighed_of(one) if self._answered(one).at(w)])
            for one in self.held
        ]
        known = self._ours(), answered, self._judging(), self.ground.swept
        ends_go = not self.wanted.keep_losers
        return standings(*known, self.wanted.min_gain, ends_go=ends_go)

    def _slower(self) -> Sizes:
        """Sizes without a rule that look slower in the last look alone."""
        found: dict[Collective, frozenset[int]] = {}
        for one in self.held:
            for collective, sizes in harm.harmed(one.fresh, self._answered(one)).items():
                found[collective] = found.get(collective, frozenset()) | sizes
        return found

    def _drop_never_asked(self) -> None:
        """Leave out rules that nobody asked; one behind them that answered instead may stand."""
        while not self.wanted.keep_losers and (gone := self._never_asked()):
            for cut in gone:
                self._tell(cut)
            self._rewrite(gone)

    def _never_asked(self) -> list[Cut]:
        own = next(one for one in self.held if one.condition.is_own)
        judged = {one.rule.line for one in self._standings()}
        # What rules need may make the library choose it; a tuner of the site may choose another.
        is_null = self.ground.is_paired and (not self.file.needs or self.wanted.needs_stay)
        return [
            cut
            for rule in self._ours()
            for cut in idle_parts(rule, own, is_judged=rule.line in judged, is_null=is_null)
        ]
