"""What is looked at under which conditions, and what sweep and launches have said of it so far.

A sweep chose its winners by the values that it saw, so they prove no gain. A slow launch of a
setting is evidence all the same, and so is that none was slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from statistics import median
from typing import Final

from rccltune.measure.site import Site
from rccltune.model.chosen import Rule
from rccltune.model.errors import SessionError
from rccltune.model.measured import Sample
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Role, Setting
from rccltune.model.vocabulary import Collective
from rccltune.plan.pairs import Condition
from rccltune.rules.reader import RuleFile
from rccltune.session import store
from rccltune.session.samples import load_samples
from rccltune.verify.evidence import Evidence
from rccltune.verify.proofs import Proven

# A launch in which a setting falls behind the others by so much was a slow one.
_SLOW: Final = log(1.25)
_FEWEST: Final = 2
_At = tuple[Collective, Setting]


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Of one session's sweep.

    Attributes:
        times: of untouched runs in µs, by collective and size.
        delays: log(time of a setting / its usual time), less that of the other settings in the same
            launch, by collective and setting, size and launch.
    """

    times: Mapping[Collective, Mapping[int, float]] = field(default_factory=dict)
    delays: Mapping[_At, Mapping[tuple[int, str], float]] = field(default_factory=dict)

    def launches_of(self, rule: Rule) -> tuple[int, int]:
        """Launches in which a rule's setting ran at sizes of the rule, and slow ones of these."""
        by_launch: dict[str, list[float]] = {}
        for (nbytes, launch), delay in self.delays.get((rule.collective, rule.setting), {}).items():
            if rule.reaches(nbytes):
                by_launch.setdefault(launch, []).append(delay)
        n_slow = sum(median(found) > _SLOW for found in by_launch.values())
        return len(by_launch), n_slow


def read_swept(folder: Path, reporter: Reporter) -> Swept:
    """What a session's samples say; nothing where there are none."""
    with suppress(SessionError):
        return swept_of(load_samples(store.open_session(folder), reporter))
    return Swept()


def swept_of(samples: Iterable[Sample]) -> Swept:
    """What samples say.

    A setting that was measured in one launch alone at a size says nothing there, nor does a launch
    in which it was alone.
    """
    times: dict[Collective, dict[int, float]] = {}
    passes: dict[tuple[Collective, int], dict[Setting, dict[str, list[float]]]] = {}
    for one in samples:
        if one.doubt is not None or not one.time_us:
            continue
        collective, setting = one.key.collective, one.key.setting
        if setting.role is Role.BASELINE:
            times.setdefault(collective, {})[one.nbytes] = one.time_us
        # Passes of one launch are named 1.0, 1.1 and so on.
        launch = one.launch.partition(".")[0]
        own = passes.setdefault((collective, one.nbytes), {}).setdefault(setting, {})
        own.setdefault(launch, []).append(log(one.time_us))
    delays: dict[_At, dict[tuple[int, str], float]] = {}
    for (collective, nbytes), arms in passes.items():
        for (setting, launch), delay in _delays(arms).items():
            delays.setdefault((collective, setting), {})[nbytes, launch] = delay
    return Swept(times=times, delays=delays)


def _delays(arms: Mapping[Setting, Mapping[str, list[float]]]) -> dict[tuple[Setting, str], float]:
    """Of one collective at one size, from logarithms of times."""
    off: dict[str, dict[Setting, float]] = {}
    for setting, by_launch in arms.items():
        if setting.role is Role.BASELINE or len(by_launch) < _FEWEST:
            continue
        own = {launch: median(found) for launch, found in by_launch.items()}
        usual = median(own.values())
        for launch, value in own.items():
            off.setdefault(launch, {})[setting] = value - usual
    return {
        (setting, launch): value - median(others)
        for launch, found in off.items()
        for setting, value in found.items()
        if (others := [each for other, each in found.items() if other != setting])
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all looks have in common.

    Attributes:
        folder: in which launches are kept.
        conditions: the sweep's own, and others in which rules must do no harm.
        swept: what the sweep saw: how long launches are to be, and in how many settings ran.
        is_paired: the idle plugin is the baseline but for the plugin, and launches can be combined.
    """

    folder: Path
    conditions: tuple[Condition, ...]
    site: Site
    swept: Swept
    is_paired: bool
    walks: bool
    timeout_s: float | None
    reporter: Reporter


@dataclass(slots=True)
class Held:
    """One condition: what its launches say, and what the plugin did in them.

    Attributes:
        evidence: of all looks at what is left of the file.
        fresh: of the last look alone.
        n_launches: made for it.
    """

    condition: Condition
    evidence: Evidence
    fresh: Evidence
    proven: Proven = field(default_factory=Proven)
    n_launches: int = 0


def new_held(condition: Condition) -> Held:
    """A condition of which nothing is known."""
    made = [Evidence(is_own=condition.is_own, words=condition.beside_words) for _ in range(2)]
    return Held(condition=condition, evidence=made[0], fresh=made[1])


def forget_checks(held: Sequence[Held]) -> None:
    """Have results checked again: launches behind one that failed checked nothing."""
    for one in held:
        one.evidence.checked.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at one state of a file.

    Attributes:
        text: of the file.
        number: from 1; those of another look are further launches.
        is_brief: all that is missing is more launches: each goes through both sides once.
        is_last: what is undecided after it is left out.
        suspects: sizes without a rule looked slower in the look before, which is to be seen again.
        edges: whether the boundaries of rules are looked at.
        needs_doubted: whether what the rules need does harm is undecided.
        missing: rules that are to be seen in so many launches more; nothing else is.
        open_in: collectives of which something is undecided; None for all.
    """

    file: RuleFile
    text: str
    number: int
    is_brief: bool = False
    is_last: bool = False
    suspects: bool = False
    edges: bool = True
    needs_doubted: bool = True
    missing: tuple[tuple[Rule, int], ...] = ()
    open_in: frozenset[Collective] | None = None

    def is_about(self, collective: Collective) -> bool:
        """Whether its launches are to be made: what is decided needs none."""
        return self.open_in is None or collective in self.open_in

    @property
    def n_replicates(self) -> int:
        """Launches of each range: where only their number is missing, one is one more.

        But what the rules need is given up after the last look, with all rules that need it.
        """
        return 1 if self.is_brief and not (self.is_last and self.needs_doubted) else 2
