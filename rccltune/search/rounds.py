"""One round after the other: who is measured first, who again and where, when it is enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import expm1
from typing import Final

import numpy as np

from rccltune.model.curves import Curve
from rccltune.model.defaults import REPEATS, TOLERANCE
from rccltune.model.search import Dropped, Expected, Motive, Round, Want
from rccltune.model.settings import Role, Setting
from rccltune.model.vocabulary import Collective
from rccltune.search.estimates import Array, Estimates, Prospect, estimate, prospect
from rccltune.search.sizes import coarse_sizes, looked_at

MOST_ROUNDS: Final = 2
# Expected regret that is not worth a launch: half of the default tolerance of a choice.
AIM: Final = TOLERANCE / 2
# Between the grid's sizes a boundary may move by what a choice tolerates.
_AIM_BETWEEN: Final = TOLERANCE
# The largest sizes cost nearly all of the time: there more is left open.
_DEAR: Final = 1.5
# Settings at one size, fewer where a size is dear.
AT_ONCE: Final = 6
_AT_ONCE_DEAR: Final = 3
# Part of the expected regret that measuring a few settings at a dear size must be about.
_PAYS: Final = 0.3
_HOPELESS: Final = 0.01
# Below, one channel carries all there is.
_CHANNELS_FROM: Final = 64 << 10
# Counts of channels are tried at sizes so far apart, in octaves.
_OCTAVE: Final = 1.0
# A setting with this chance of being the fastest has survived.
_SURVIVES: Final = 0.2


def first_round(arms: Mapping[Collective, Sequence[Setting]], grid: Sequence[int]) -> Round:
    """Every setting at the coarse sizes, once."""
    return Round(
        number=1,
        wants=tuple(
            Want(
                collective=collective,
                nbytes=nbytes,
                settings=tuple(arms[collective]),
                motive=Motive.COARSE,
            )
            for collective in arms
            if arms[collective]
            for nbytes in coarse_sizes(grid)
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of one collective.

    Attributes:
        curves: forced settings in every view and variant, and the baseline, since leaving a
            size to it is a choice too.
        grid: sizes that an exhaustive sweep would measure, rising.
        barred: sizes at which a setting was tried and cannot run, or can win nothing.
        first_uses: settings that ran, and of which nothing counts but a first use was seen.
        counts: channel counts to try on settings that leave channels to the library.
        n_ranks: so that sizes can be cut evenly.
        repeats: passes that a winner is to have at each of its sizes; one less where they are dear.
        cheap_nbytes: up to this size a few settings more cost little beside a launch, whatever the
            first round left out.
    """

    collective: Collective
    curves: tuple[Curve, ...]
    grid: tuple[int, ...]
    barred: Mapping[Setting, frozenset[int]] = field(default_factory=dict)
    first_uses: tuple[Setting, ...] = ()
    counts: tuple[int, ...] = ()
    n_ranks: int = 1
    repeats: int = REPEATS
    cheap_nbytes: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """The grid and a size between each two neighbours."""
        return looked_at(self.grid, self.n_ranks)


def second_round(known: Sequence[Known]) -> Round:
    """Whatever may still change the choice, often enough to be trusted.

    One round is all that follows the coarse pass: a launch costs more than the passes that a third
    round would save (docs/inside/search.md).

    Args:
        known: of each collective that is searched.
    """
    looks = [_Look(one) for one in known]
    wants = tuple(want for look in looks for want in look.wants())
    return Round(
        number=MOST_ROUNDS,
        wants=wants,
        expected=tuple(look.expected() for look in looks),
        dropped=tuple(one for look in looks for one in look.dropped(wants)),
    )


def undecided(known: Sequence[Known]) -> tuple[Expected, ...]:
    """What is still expected to be lost."""
    return tuple(_Look(one).expected() for one in known)


def _joined(first: Sequence[Want], second: Sequence[Want]) -> list[Want]:
    """Wants of both, settings of a size together, under the first one's motive."""
    found: dict[int, Want] = {}
    for want in (*first, *second):
        known = found.get(want.nbytes)
        if known is None:
            found[want.nbytes] = want
        else:
            settings = tuple(dict.fromkeys((*known.settings, *want.settings)))
            repeats = max(known.repeats, want.repeats)
            found[want.nbytes] = replace(known, settings=settings, repeats=repeats)
    return [found[nbytes] for nbytes in sorted(found)]


class _Look:
    """One collective as it looks now."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.estimates: Estimates = estimate(known.curves, known.sizes, known.barred)
        self.prospect: Prospect = prospect(self.estimates)
        self.on_grid = set(known.grid)
        is_ours = [self._is_forced(setting) for setting in self._settings]
        # The untouched site is measured everywhere; that tells nothing of ours.
        self.ours = self.estimates.repeats * np.array(is_ours, dtype=np.int64)[:, None]
        self.coarse_to = coarse_sizes(known.grid)[-1]
        self.cheap_to = max(self.coarse_to, known.cheap_nbytes)
        # The first round left them out, and nothing but a line beyond its sizes tells of them.
        self.uncharted = {
            x
            for x, nbytes in enumerate(known.sizes)
            if self.coarse_to < nbytes <= self.cheap_to
            and nbytes in self.on_grid
            and not self.ours[:, x].any()
        }
        self.brackets = self._brackets()

    @property
    def _settings(self) -> tuple[Setting, ...]:
        return self.estimates.settings

    @staticmethod
    def _is_forced(setting: Setting) -> bool:
        return setting.role is Role.FORCED

    def wants(self) -> list[Want]:
        """Sizes at which more is to be known, with the settings that may change the choice."""
        found = [self._want(x) for x in self._open_sizes()]
        rivals = _joined(self._channels(), [want for want in found if want.settings])
        return _joined(_joined(self._confirmed(), rivals), self._first_uses())

    def _aim(self, nbytes: int) -> float:
        aim = AIM if nbytes in self.on_grid else _AIM_BETWEEN
        return aim * (_DEAR if nbytes > self.cheap_to else 1)

    def _open_sizes(self) -> list[int]:
        """By size; of two dear unmeasured neighbours the one that promises more."""
        measured = self.ours.max(axis=0) > 0
        by_promise = sorted(
            (x for x, nbytes in enumerate(self.known.sizes) if self._is_open(x, nbytes)),
            key=lambda x: -float(self.prospect.expected[x]),
        )
        # The user's largest size is measured whatever is expected there, by launches of ours too.
        last = len(self.known.sizes) - 1
        taken = [] if self.ours[:, last].any() or not self._want(last).settings else [last]
        taken += self.uncharted - {last}
        for x in by_promise:
            is_dear = self.known.sizes[x] > self.cheap_to
            near = is_dear and any(abs(x - y) <= 2 and not measured[y] for y in taken)
            if x not in taken and (measured[x] or not near):
                taken.append(x)
        return sorted({*taken, *self.brackets})

    def _brackets(self) -> dict[int, tuple[int, int]]:
        """Sizes of the grid between two measured ones with different choices, and these choices.

        A step can lie anywhere between them, whatever the curves promise.
        """
        sizes = self.known.sizes
        measured = np.flatnonzero(self.ours.max(axis=0) > 0)
        found: dict[int, tuple[int, int]] = {}
        for low, high in pairwise(int(x) for x in measured):
            ends = (int(self.prospect.choice[low]), int(self.prospect.choice[high]))
            if ends[0] != ends[1] and min(ends) >= 0 and self._matters(ends, low, high):
                inner = (x for x in range(low + 1, high) if sizes[x] in self.on_grid)
                found |= dict.fromkeys(inner, ends)
        return found

    def _is_open(self, x: int, nbytes: int) -> bool:
        if nbytes not in self.on_grid:
            # Between two sizes with the same choice there is no boundary to be found.
            choice = self.prospect.choice
            if choice[x - 1] == choice[x + 1] == choice[x]:
                return False
        return float(self.prospect.expected[x]) > self._aim(nbytes)

    def _want(self, x: int) -> Want:
        nbytes = self.known.sizes[x]
        shares = self.prospect.shares[:, x]
        rest = float(self.prospect.expected[x])
        choice = int(self.prospect.choice[x])
        ends = [arm for arm in self.brackets.get(x, ()) if self._is_able(arm, x)]
        chosen = list(dict.fromkeys(arm for arm in (choice, *ends) if arm >= 0))
        is_dear = nbytes > self.cheap_to
        at_once = _AT_ONCE_DEAR if is_dear else AT_ONCE
        is_uncharted = x in self.uncharted
        for arm in np.argsort(-shares):
            is_enough = rest <= self._aim(nbytes) / 2 or shares[arm] <= 0
            if len(chosen) >= at_once or (is_enough and not is_uncharted):
                break
            if not self._is_able(arm, x):
                continue
            rest -= float(shares[arm])
            if int(arm) not in chosen:
                chosen.append(int(arm))
        saved = sum(float(shares[arm]) for arm in chosen)
        if is_dear and ends:
            chosen = ends
        elif is_dear and saved < _PAYS * float(self.prospect.expected[x]):
            # Whom it would be lost to cannot be told by measuring a few.
            is_new = x == len(self.known.sizes) - 1
            chosen = chosen[:1] if is_new and not self.ours[:, x].any() else []
        return Want(
            collective=self.known.collective,
            nbytes=nbytes,
            settings=tuple(s for arm in chosen if self._is_forced(s := self._settings[arm])),
            motive=Motive.CONTEND if nbytes in self.on_grid else Motive.CROSSOVER,
            repeats=self._repeats(nbytes),
            promise=float(self.prospect.expected[x]),
        )

    def _is_able(self, arm: int, x: int) -> bool:
        return bool(np.isfinite(self.estimates.centre[arm, :, x]).all())

    def _channels(self) -> list[Want]:
        """Counts of channels for the settings that may win, at a size an octave."""
        if any(setting.channels is not None for setting in self._settings):
            return []
        looked = {
            *coarse_sizes(self.known.grid, _OCTAVE),
            *(n for n in self.on_grid if n > self.coarse_to),
        }
        found = []
        for x, nbytes in enumerate(self.known.sizes):
            survivors = self._survivors(self.prospect.chance[:, x])
            if nbytes >= _CHANNELS_FROM and nbytes in looked and self.known.counts and survivors:
                found.append(
                    Want(
                        collective=self.known.collective,
                        nbytes=nbytes,
                        settings=tuple(
                            replace(setting, channels=n)
                            for setting in survivors
                            for n in self.known.counts
                        ),
                        motive=Motive.CHANNELS,
                        repeats=self._repeats(nbytes),
                        promise=_AIM_BETWEEN,
                    )
                )
        return found

    def _confirmed(self) -> list[Want]:
        """Winners that were not measured often enough to be trusted."""
        found = []
        for x, nbytes in enumerate(self.known.sizes):
            winners = self._winners(x)
            wanted = self._repeats(nbytes)
            thin = {s: wanted - self._n(s, x) for s in winners if self._is_forced(s)}
            settings = tuple(s for s, n in thin.items() if n > 0)
            if settings:
                found.append(
                    Want(
                        collective=self.known.collective,
                        nbytes=nbytes,
                        settings=settings,
                        motive=Motive.CONFIRM,
                        repeats=max(thin[s] for s in settings),
                        promise=float(self.prospect.expected[x]),
                    )
                )
        return found

    def _first_uses(self) -> list[Want]:
        """Settings without a time, wherever sizes are cheap: there is no round after this one.

        A benchmark that makes a pass less than it was asked for leaves its last setting so.
        """
        return [
            Want(
                collective=self.known.collective,
                nbytes=nbytes,
                settings=self.known.first_uses,
                motive=Motive.FIRST_USE,
                repeats=self._repeats(nbytes),
            )
            for nbytes in self.known.grid
            if self.known.first_uses and nbytes <= self.cheap_to
        ]

    def _beyond(self) -> list[Setting]:
        """The same settings at all sizes behind the coarse pass, where none was measured.

        A rule ends where its setting was not measured: with others at the next size what they gain
        there would be lost.
        """
        sizes = enumerate(self.known.sizes)
        there = [x for x, n in sizes if n > self.cheap_to and n in self.on_grid]
        unknown = [x for x in there if not self.ours[:, x].any()]
        return self._survivors(self.prospect.chance[:, unknown].mean(axis=1))

    def _survivors(self, chance: Array) -> list[Setting]:
        """Forced settings that may well be the fastest, the likeliest among them.

        Of ten equal ones none has much of a chance, and one is to be measured all the same.

        Args:
            chance: of each setting.
        """
        forced = [arm for arm, setting in enumerate(self._settings) if self._is_forced(setting)]
        best = max((float(chance[arm]) for arm in forced), default=0.0)
        least = min(_SURVIVES, best)
        return [self._settings[arm] for arm in forced if least > 0 and chance[arm] >= least]

    def _repeats(self, nbytes: int) -> int:
        """Passes that a size's settings are to have; nobody who asks for one wants more."""
        wanted = self.known.repeats
        return max(1, wanted - 1) if nbytes > self.cheap_to else wanted

    def _matters(self, ends: tuple[int, int], low: int, high: int) -> bool:
        """Whether a boundary at the wrong place between two sizes could lose what is not tolerated.

        Args:
            ends: the choices at the lower and at the higher size.
            low: index of the lower size.
            high: of the higher one.
        """
        centre = self.estimates.centre
        return any(
            not np.isfinite(loss) or loss > _AIM_BETWEEN
            for x, (right, wrong) in ((low, ends), (high, ends[::-1]))
            for loss in centre[wrong, :, x] - centre[right, :, x]
        )

    def _winners(self, x: int) -> list[Setting]:
        """The choice and the fastest that was measured; none where the baseline wins.

        Where a size is dear, a choice that was not measured there must promise more than what a
        rule tolerates anyway.
        """
        measured = np.flatnonzero(self.ours[:, x] > 0)
        choice = int(self.prospect.choice[x])
        if choice < 0 or not self._is_forced(self._settings[choice]):
            return []
        is_dear = self.known.sizes[x] > self.cheap_to
        if measured.size == 0:
            # The coarse pass ended below; a rule goes no further than what was measured.
            return self._beyond() if is_dear and self.known.sizes[x] in self.on_grid else []
        means = self.estimates.centre[:, :, x].mean(axis=1)
        fastest = int(measured[means[measured].argmin()])
        if is_dear and not self.ours[choice, x] and means[fastest] - means[choice] < _AIM_BETWEEN:
            return [self._settings[fastest]]
        return [self._settings[choice], self._settings[fastest]]

    def _n(self, setting: Setting, x: int) -> int:
        """Launches of a forced setting at a size."""
        if not self._is_forced(setting) or setting not in self._settings:
            return 0
        return int(self.estimates.repeats[self._settings.index(setting), x])

    def expected(self) -> Expected:
        """Over the grid and between."""
        losses = self.prospect.expected
        worst = int(losses.argmax())
        return Expected(
            collective=self.known.collective,
            mean=float(losses.mean()),
            worst=float(losses[worst]),
            at_nbytes=self.known.sizes[worst],
            open_nbytes=tuple(
                nbytes for x, nbytes in enumerate(self.known.sizes) if self._is_open(x, nbytes)
            ),
        )

    def dropped(self, wants: Sequence[Want]) -> list[Dropped]:
        """Settings that are the fastest nowhere, whatever may still be unknown."""
        wanted = {s for w in wants if w.collective is self.known.collective for s in w.settings}
        found = []
        for arm, setting in enumerate(self._settings):
            if (
                not self._is_forced(setting)
                or setting in wanted
                or float(self.prospect.chance[arm].max()) > _HOPELESS
            ):
                continue
            behind = self._least_loss(arm)
            if behind is not None and behind > 0:
                found.append(Dropped(collective=self.known.collective, setting=setting, by=behind))
        return found

    def _least_loss(self, arm: int) -> float | None:
        best = self.estimates.centre.min(axis=0)
        losses = [
            float((self.estimates.centre[arm, :, x] - best[:, x]).max())
            for x in np.flatnonzero(self.estimates.repeats[arm] > 0)
            if np.isfinite(self.estimates.centre[arm, :, x]).all()
        ]
        return expm1(min(losses)) if losses else None
