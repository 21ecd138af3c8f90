"""Values that a shell can complete: modes, nodes, collectives, settings, variants."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Final, TypeAlias

import click

_Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]
_MODES: Final = (
    *("auto", "none", "spx-nps1", "spx-nps4", "dpx-nps1", "dpx-nps2", "tpx-nps1"),
    *("qpx-nps1", "qpx-nps4", "cpx-nps1", "cpx-nps4"),
)


def _nodes() -> Iterable[str]:
    from rccltune.simulate import shipped_nodes

    return ("mi300x", *shipped_nodes())


def _collectives() -> Iterable[str]:
    from rccltune.model import Collective

    return (one.value for one in Collective)


def _settings() -> Iterable[str]:
    from rccltune.model import Algorithm, Protocol

    found = product((Algorithm.TREE, Algorithm.RING), Protocol)
    return (f"{algorithm.value}/{protocol.value}" for algorithm, protocol in found)


def _variants() -> Iterable[str]:
    from rccltune import variants

    return (one.name for one in variants.read_catalog(None).specs)


_VALUES: Final[dict[str, Callable[[], Iterable[str]]]] = {
    "mode": lambda: _MODES,
    "simulate": _nodes,
    "collective": _collectives,
    "setting": _settings,
    "variant": _variants,
}


def completing(name: str) -> _Complete | None:
    """What completes the values of an option; None where click knows them, or nobody does."""
    values = _VALUES.get(name)
    if values is None:
        return None

    def complete(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
        return [value for value in values() if value.startswith(begun)]

    return complete
