"""choice.json: what emit-config chose, and from what; all others read it and choose nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.choose import Choice
from rccltune.analyse.session_fit import FitResult
from rccltune.model.measurement import Notice
from rccltune.model.rounding import round_record
from rccltune.model.schema import Line, Number, Whole
from rccltune.model.settings import Setting
from rccltune.model.zone import UnselectableSetting, Zone
from rccltune.session import store

CHOICE_FILE: Final = "choice.json"
# Said where samples were added since.
OLD_CHOICE: Final = "as they were chosen before the last samples: rccltune emit-config chooses anew"
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
        baseline: setting that stands for the library, None for the library itself.
        proven: only gains that repeats prove made a rule.
        bits: name of the bits that results keep; None where rules are the fastest.
        zones: of every target, from 0 to 2^63-1: what runs where, its gain, what it rests on; or
            why it is left to the library.
        left_out: settings that were measured and can be in no rule.
        notices: what weakens it.
    """

    FORMAT: ClassVar[int] = 4

    samples_sha256: Line
    simulated: bool
    tolerance: Number
    min_gain: Number
    max_channels: Whole | None
    baseline: Setting | None
    proven: bool
    bits: Line | None = None
    zones: tuple[Zone, ...]
    left_out: tuple[UnselectableSetting, ...]
    notices: tuple[Notice, ...]


def choice_record(
    done: FitResult, choice: Choice, options: ChoiceOptions, bits: str | None = None
) -> StoredChoice:
    """Make the record of a choice.

    Args:
        done: the session that it is of.
        choice: from its samples.
        options: how it was chosen.
        bits: name of the bits that results keep.
    """
    choice_record = StoredChoice(
        samples_sha256=done.samples_sha256,
        simulated=done.session.simulated,
        tolerance=options.tolerance,
        min_gain=options.min_gain,
        max_channels=options.max_channels,
        baseline=options.baseline,
        proven=options.proven,
        bits=bits,
        zones=choice.zones,
        left_out=choice.left_out,
        notices=choice.notices,
    )
    return round_record(choice_record)


def write_choice(folder: Path, choice: StoredChoice) -> Path:
    """Write choice.json into a session."""
    return store.write_derived(folder, CHOICE_FILE, choice)


def read_choice(folder: Path) -> StoredChoice | None:
    """The choice of a session, None where nothing was chosen yet.

    Raises:
        SessionError: choice.json has another format, or values that do not fit.
    """
    return store.read_derived(folder, CHOICE_FILE, StoredChoice, hint=_HINT)
