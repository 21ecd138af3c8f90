"""choice.json: what emit-config chose, and from what; all others read it and choose nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rccltune.analyse.choice import Choice
from rccltune.analyse.fit import FitResult
from rccltune.analyse.options import ChoiceOptions
from rccltune.model import schema
from rccltune.model.choice import ExportedVariant, UnselectableSetting, Zone
from rccltune.model.measurement import Notice
from rccltune.model.rounding import rounded_record
from rccltune.model.schema import Line, Number, Whole
from rccltune.model.settings import Setting
from rccltune.rules.choices import zones_in
from rccltune.session import store

CHOICE_FILE: Final = "choice.json"
# Said where samples were added since.
OLD_CHOICE: Final = "as they were chosen before the last samples: rccltune emit-config chooses anew"
_FORMAT: Final = 1
_HINT: Final = "delete it; rccltune emit-config chooses again."


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChoice:
    """Choice of a session as choice.json keeps it.

    Attributes:
        samples_sha256: of the samples.csv that it was chosen from.
        simulated: nothing of it was measured on hardware.
        tolerance: time over the best measured, minus 1, that saves a rule.
        min_gain: by how much a rule must beat the library.
        max_channels: of a rule, None without a limit.
        baseline: setting or variant that stands for the library, None for the library itself.
        proven: only gains that repeats prove made a rule.
        variant: the variant that the rules are for, None for the site as it is.
        zones: of every target, from 0 to 2^63-1: what runs where, its gain, what it rests on; or
            why it is left to the library.
        environments: variants, with what they gain and lose against the site's zones.
        left_out: settings that were measured and can be in no rule.
        notices: what weakens it.
        widened: zones of the site with settings too that need a variable, such as LL128's; their
            rules have a file of their own. Empty where that needs nothing more.
    """

    samples_sha256: Line
    simulated: bool
    tolerance: Number
    min_gain: Number
    max_channels: Whole | None
    baseline: Line | None
    proven: bool
    variant: Line | None
    zones: tuple[Zone, ...]
    environments: tuple[ExportedVariant, ...]
    left_out: tuple[UnselectableSetting, ...]
    notices: tuple[Notice, ...]
    widened: tuple[Zone, ...] = ()

    def zones_of(self, folder: str) -> tuple[Zone, ...]:
        """What the rules of a file came from, by the folder of its environment; "" is the site."""
        if not folder:
            return zones_in(self.zones, self.environments)
        if any(zone.setting and zone.variant.name == folder for zone in self.widened):
            return self.widened
        named = [
            replace(one, chosen=True) for one in self.environments if one.variant.name == folder
        ]
        return zones_in(self.zones, named) if named else ()

    @property
    def named_baseline(self) -> Setting | str | None:
        """The baseline that was named, as a setting where it is one."""
        if self.baseline is None:
            return None
        try:
            return Setting.parse(self.baseline)
        except ValueError:
            return self.baseline


def choice_record(
    done: FitResult,
    choice: Choice,
    environments: tuple[ExportedVariant, ...],
    options: ChoiceOptions,
    widened: tuple[Zone, ...] = (),
) -> StoredChoice:
    """Make the record of a choice.

    Args:
        done: the session that it is of.
        choice: from its samples.
        environments: its variants, judged.
        options: how it was chosen.
        widened: zones of the site with what needs a variable, where those of the choice have not.
    """
    made = StoredChoice(
        samples_sha256=done.samples_sha256,
        simulated=done.session.simulated,
        tolerance=options.tolerance,
        min_gain=options.min_gain,
        max_channels=options.max_channels,
        baseline=None if options.baseline is None else str(options.baseline),
        proven=options.proven,
        variant=options.variant,
        zones=choice.zones,
        environments=environments,
        left_out=choice.left_out,
        notices=choice.notices,
        widened=widened,
    )
    return rounded_record(made)


def write_choice(folder: Path, choice: StoredChoice) -> Path:
    """Write choice.json into a session."""
    plain = {"format": _FORMAT, **schema.to_plain(choice)}
    return store.write_derived(folder, CHOICE_FILE, plain)


def read_choice(folder: Path) -> StoredChoice | None:
    """The choice of a session, None where nothing was chosen yet.

    Raises:
        SessionError: choice.json has another format, or values that do not fit.
    """
    return store.read_derived(folder, CHOICE_FILE, StoredChoice, number=_FORMAT, hint=_HINT)
