"""What the library predicted, from the traces of a session, and held against its curves.

Every launch that loaded the plugin shows the library's whole table, so two launches of a target
are enough to know it and to see that it does not depend on what was answered. Thousands of them
are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rccltune.logs import trace
from rccltune.model import grammar
from rccltune.model.belief import Belief
from rccltune.model.errors import OutputError
from rccltune.model.measured import Caution, Launch, Notice, Outcome, Sample, Status
from rccltune.model.settings import Role, Setting, Target
from rccltune.model.vocabulary import format_size

Ended = tuple[Launch, Outcome]
# One shows what the library believes, another one that it always does.
_ENOUGH: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Believed:
    """Predictions of a session, and where traces contradict each other."""

    beliefs: tuple[Belief, ...] = ()
    notices: tuple[Notice, ...] = ()


def gather_beliefs(folder: Path, launches: Iterable[Ended], samples: Sequence[Sample]) -> Believed:
    """Read what the library predicted about every target that was traced.

    Args:
        folder: the session.
        launches: its launches; those that ended well are looked at.
        samples: a target is read until all sizes of its settings are covered; they also say what
            the baseline ran, where its benchmark or log did.
    """
    sizes = _sizes(samples)
    readers = {target: _Reader(target, wanted) for target, wanted in sizes.items()}
    for launch, outcome in launches:
        target = _target(launch)
        if target in readers and outcome.status is Status.OK and not readers[target].is_done:
            readers[target].read(folder / "launches" / launch.id)
    if any(reader.by_size for reader in readers.values()):
        _add_ran(readers, samples)
    ordered = sorted(readers.values(), key=lambda reader: _order(reader.target, sizes))
    return Believed(
        beliefs=tuple(belief for reader in ordered for belief in reader.beliefs),
        notices=tuple(notice for reader in ordered for notice in reader.notices),
    )


def _sizes(samples: Iterable[Sample]) -> dict[Target, set[int]]:
    """In bytes, of forced settings' good samples; each key object is looked at once."""
    by_key: dict[int, set[int]] = {}
    found: dict[Target, set[int]] = {}
    for sample in samples:
        if sample.doubt is not None or sample.time_us is None:
            continue
        sizes = by_key.get(id(sample.key))
        if sizes is None:
            is_forced = sample.key.setting.role is Role.FORCED
            sizes = found.setdefault(sample.key.target, set()) if is_forced else set()
            by_key[id(sample.key)] = sizes
        sizes.add(sample.nbytes)
    return found


def _add_ran(readers: Mapping[Target, _Reader], samples: Iterable[Sample]) -> None:
    """What the baseline ran, where all that was seen of it agrees."""
    ran: dict[tuple[Target, int], set[Setting]] = {}
    for sample in samples:
        if sample.executed is None or sample.key.setting.role is not Role.BASELINE:
            continue
        if sample.doubt is None and sample.executed.is_complete:
            cell = replace(sample.executed, channels=None)
            ran.setdefault((sample.key.target, sample.nbytes), set()).add(cell)
    for (target, nbytes), settings in ran.items():
        by_size = readers[target].by_size if target in readers else {}
        if nbytes in by_size and len(settings) == 1:
            by_size[nbytes] = replace(by_size[nbytes], ran=min(settings, key=str))


def _order(target: Target, targets: Iterable[Target]) -> tuple[int, bool, str]:
    """As the curves come, the default variant before those that change something."""
    name = target.variant.name
    alike = [replace(other, variant=target.variant) == target for other in targets]
    return alike.index(True), name != "default", name


def _target(launch: Launch) -> Target | None:
    """What a launch measures, None where no tuner was asked or it is an imported file's."""
    if launch.schedule is None or launch.scale is None or not launch.collectives:
        return None
    return Target(
        collective=launch.collectives[0],
        scale=launch.scale,
        rank_placement=launch.rank_placement or "node",
        variant=launch.variant,
    )


class _Reader:
    """Reads launches of one target until they say nothing new."""

    def __init__(self, target: Target, wanted: set[int]) -> None:
        self.target = target
        self.missing = set(wanted)
        self.by_size: dict[int, Belief] = {}
        self.differing: dict[int, str] = {}
        self.unreadable: list[Notice] = []
        self.n_read = 0

    @property
    def is_done(self) -> bool:
        return self.n_read >= _ENOUGH and not self.missing

    @property
    def beliefs(self) -> list[Belief]:
        return [self.by_size[nbytes] for nbytes in sorted(self.by_size)]

    @property
    def notices(self) -> list[Notice]:
        return [*self.unreadable, *([self._differ()] if self.differing else [])]

    def read(self, own: Path) -> None:
        """Read one launch; all its ranks are alike, so its first trace of the target will do."""
        for path in sorted(own.glob("trace-*.csv")):
            try:
                text = grammar.read_text(path)
                shown = trace.read_beliefs(text, str(path), self.target)
            except (OSError, OutputError) as error:
                self.unreadable.append(
                    Notice(
                        caution=Caution.BELIEFS_DIFFER,
                        message=f"what the library predicted cannot be read: {error}",
                        remedy="nothing else depends on it.",
                        where=own.name,
                    )
                )
                return
            if shown.beliefs:
                self._add(shown, own.name)
                return

    def _add(self, shown: trace.Shown, launch: str) -> None:
        self.n_read += 1
        for nbytes in shown.unsteady:
            self.differing.setdefault(nbytes, launch)
        for belief in shown.beliefs:
            if self.by_size.setdefault(belief.nbytes, belief) != belief:
                self.differing.setdefault(belief.nbytes, launch)
        self.missing.difference_update(self.by_size)

    def _differ(self) -> Notice:
        """Where the library's table was not the same twice."""
        first = min(self.differing)
        others = len(self.differing) - 1
        more = f" and {others} other size{'s' if others > 1 else ''}" if others else ""
        return Notice(
            caution=Caution.BELIEFS_DIFFER,
            message=f"{self.target.collective.value}, {self.target.scale}, "
            f"{self.target.variant.name}: the library did not offer or predict the same twice "
            f"at {format_size(first)}{more}",
            remedy="its first prediction is shown; look for what else than "
            "the size changes between calls: registered buffers, groups of calls.",
            where=self.differing[first],
        )


OwnChoices = Mapping[Target, Mapping[int, Setting]]


def own_choices(beliefs: Iterable[Belief], *, tunerless: bool) -> OwnChoices:
    """What the library runs by itself, channels left to it, by target and size in bytes.

    Args:
        beliefs: of the site.
        tunerless: it has no tuner that answers before the library's own table does.
    """
    found: dict[Target, dict[int, Setting]] = {}
    for belief in beliefs:
        own = belief.ran or (belief.choice if tunerless else None)
        if own is not None:
            found.setdefault(belief.target, {})[belief.nbytes] = replace(own, channels=None)
    return found
