"""Where the ranks of a session ran."""

from __future__ import annotations

from dataclasses import dataclass

from rccltune.fields import Line, Whole, Word
from rccltune.model.settings import Scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The devices that the ranks of a session were on.

    Attributes:
        name: of the placement: ``node``, ``one-oam`` …
        scale: of a communicator; several run side by side in sub-groups.
        devices: numbers of the devices in the order of the ranks; empty where nothing chose them.
        alike: names of all placements that a communicator of this scale can have here, this one's
            among them; empty where not every one of them has a name.
    """

    name: Word
    scale: Scale
    devices: tuple[Whole, ...] = ()
    alike: tuple[Line, ...] = ()
