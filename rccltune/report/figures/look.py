"""One look for one setting in every figure: colour and marker by protocol, line by algorithm.

Colours are Okabe and Ito's (jfly.uni-koeln.de/color), which people with any common colour
blindness can tell apart. Nothing depends on colour alone: in greyscale the marker still gives
the protocol, and the dashes and the marker's filling the algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rccltune.model import Algorithm, Protocol, Role, Setting

Dashes = tuple[float, ...]
BLACK: Final = "#000000"
GREY: Final = "#6b6b6b"
PALE: Final = "#d9d9d9"
VERMILLION: Final = "#D55E00"
# For things that are no settings, each with the ink of its text; black is the site's own.
PALETTE: Final = (
    (BLACK, BLACK),
    ("#0072B2", "#005b8e"),
    ("#D55E00", "#a34800"),
    ("#009E73", "#00694c"),
    ("#CC79A7", "#94457a"),
    ("#E69F00", "#8f6200"),
    ("#56B4E9", "#1f6f9e"),
)
_COLOUR: Final = {Protocol.LL: "#0072B2", Protocol.LL128: "#E69F00", Protocol.SIMPLE: "#009E73"}
# Text needs more contrast with white paper than a line does.
_INK: Final = {Protocol.LL: "#005b8e", Protocol.LL128: "#8f6200", Protocol.SIMPLE: "#00694c"}
_MARKER: Final = {Protocol.LL: "o", Protocol.LL128: "s", Protocol.SIMPLE: "^"}
_DASHES: Final[dict[Algorithm | None, Dashes]] = {
    Algorithm.RING: (),
    Algorithm.TREE: (5.0, 1.8),
    Algorithm.COLLNET_DIRECT: (7.0, 1.5, 1.2, 1.5),
    Algorithm.COLLNET_CHAIN: (7.0, 1.5, 1.2, 1.5, 1.2, 1.5),
    Algorithm.NVLS: (1.2, 1.5),
    Algorithm.NVLS_TREE: (3.0, 1.2, 1.2, 1.2),
    Algorithm.PAT: (1.2, 3.0),
    None: (),
}
_ROLE_MARKER: Final = {Role.BASELINE: "X", Role.SILENT: "P", Role.UNSTATED: "D"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How one setting is drawn.

    Attributes:
        colour: of lines and fills.
        ink: of text, dark enough to read on white.
        dashes: on and off lengths in points, empty for a solid line.
        filled: whether the marker is filled with its colour or white.
    """

    colour: str
    ink: str
    dashes: Dashes
    marker: str
    filled: bool


def look(setting: Setting, *, graph: bool = False) -> Look:
    """The look of a setting; graph-captured calls are dotted with an open diamond."""
    if setting.role is not Role.FORCED:
        colour = GREY if setting.role is Role.SILENT else BLACK
        if graph:
            return Look(colour=GREY, ink=GREY, dashes=(1.2, 1.5), marker="d", filled=False)
        marker = _ROLE_MARKER[setting.role]
        return Look(colour=colour, ink=colour, dashes=(), marker=marker, filled=True)
    protocol = setting.protocol
    return Look(
        colour=_COLOUR[protocol] if protocol else GREY,
        ink=_INK[protocol] if protocol else GREY,
        dashes=(1.2, 1.5) if graph else _DASHES[setting.algorithm],
        marker=_MARKER[protocol] if protocol else "v",
        filled=setting.algorithm is not Algorithm.TREE and not graph,
    )
