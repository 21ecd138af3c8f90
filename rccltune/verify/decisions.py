"""Where the plugin's answer changes, found by asking it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rccltune.model import Setting
from rccltune.units import MAX_NBYTES
from rccltune.verify.host import Answer, Communicator
from rccltune.vocab import Algorithm, Collective, Protocol

# µs in a cell that may be chosen; any number from 0 up says so, and the plugin writes 0.
_OFFERED = 10.0
_IGNORED = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An interval of sizes with one answer; ``setting`` is None where the library decides."""

    min_nbytes: int
    max_nbytes: int
    setting: Setting | None


def cost_table(offered: Iterable[tuple[Algorithm, Protocol]]) -> tuple[tuple[float, ...], ...]:
    """A table of 7 x 3 cells, as RCCL since 2.23 passes it, in which only some may be chosen."""
    cells = set(offered)
    return tuple(
        tuple(_OFFERED if (a, p) in cells else _IGNORED for p in Protocol) for a in Algorithm
    )


def decisions(
    communicator: Communicator,
    collective: Collective,
    table: Sequence[Sequence[float]],
    hints: Iterable[int],
) -> tuple[Decision, ...]:
    """Every change of the answer between 0 and 2^63-1, exact to the byte.

    Args:
        communicator: open, of one scale.
        collective: one that asks a tuner.
        table: which cells may be chosen.
        hints: sizes near which the answer may change for a short stretch only (the bounds of
            the rules); between two asked sizes with the same answer nothing is looked for.
    """
    known: dict[int, Setting | None] = {}

    def ask(nbytes: int) -> Setting | None:
        if nbytes not in known:
            known[nbytes] = _setting(communicator.ask(collective, nbytes, table))
        return known[nbytes]

    for nbytes in sorted(_points(hints)):
        ask(nbytes)
    starts = sorted(known)
    for start, end in pairwise(starts):
        low, high = start, end
        while high - low > 1 and ask(low) != ask(high):
            middle = (low + high) // 2
            if ask(middle) == ask(low):
                low = middle
            else:
                high = middle
    return _merge(sorted(known.items()))


def _points(hints: Iterable[int]) -> set[int]:
    powers = {1 << shift for shift in range(63)}
    near = {value + offset for value in {*hints, *powers} for offset in (-1, 0, 1)}
    return {0, MAX_NBYTES} | {value for value in near if 0 <= value <= MAX_NBYTES}


def _setting(answer: Answer) -> Setting | None:
    channels = answer.channels if answer.channels > 0 else None
    if answer.cell is None:
        return None if channels is None else Setting(channels=channels)
    algorithm, protocol = answer.cell
    return Setting(
        algorithm=tuple(Algorithm)[algorithm],
        protocol=tuple(Protocol)[protocol],
        channels=channels,
    )


def _merge(asked: Sequence[tuple[int, Setting | None]]) -> tuple[Decision, ...]:
    """Join asked sizes with the same answer; differing neighbours are one byte apart by now."""
    merged: list[Decision] = []
    for nbytes, setting in asked:
        if merged and merged[-1].setting == setting:
            start = merged[-1].min_nbytes
            merged[-1] = Decision(min_nbytes=start, max_nbytes=nbytes, setting=setting)
        else:
            merged.append(Decision(min_nbytes=nbytes, max_nbytes=nbytes, setting=setting))
    return tuple(merged)
