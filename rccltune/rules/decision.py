"""Changes of the plugin's answer between sizes, found by asking it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rccltune.model.settings import Setting
from rccltune.model.units import MAX_NBYTES
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.rules.plugin_library import PluginCommunicator, captured_stderr

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


def find_decisions(
    communicator: PluginCommunicator,
    collective: Collective,
    table: Sequence[Sequence[float]],
    hints: Iterable[int],
    *,
    num_pipe_ops: int = 1,
    reg_buff: int = 0,
) -> tuple[Decision, ...]:
    """Every change of the answer between 0 and 2^63-1, exact to the byte.

    Args:
        communicator: open, of one scale.
        collective: one that asks a tuner.
        table: which cells may be chosen.
        hints: sizes near which the answer may change for a short range only (the bounds of
            the rules); between two asked sizes with the same answer nothing is looked for.
        num_pipe_ops: operations in a group.
        reg_buff: whether buffers are registered, where the host can say it.
    """
    ask = communicator.asking(collective, table, num_pipe_ops=num_pipe_ops, reg_buff=reg_buff)
    sizes = sorted(_points(hints))
    # What the plugin warns of are a job's calls, and these are none.
    with captured_stderr():
        answers = [ask(nbytes) for nbytes in sizes]
        starts = [(sizes[0], answers[0])]
        for start, end, answer, last in zip(sizes, sizes[1:], answers, answers[1:], strict=False):
            low, before = start, answer
            while before != last:
                high, answer_there = end, last
                while high - low > 1:
                    middle = (low + high) // 2
                    if (there := ask(middle)) == before:
                        low = middle
                    else:
                        high, answer_there = middle, there
                starts.append((high, answer_there))
                low, before = high, answer_there
    ends = [start - 1 for start, _ in starts[1:]] + [MAX_NBYTES]
    return tuple(
        Decision(min_nbytes=start, max_nbytes=end, setting=_setting(*answer))
        for (start, answer), end in zip(starts, ends, strict=True)
    )


def _points(hints: Iterable[int]) -> set[int]:
    """Powers of two with their neighbours, and each bound with the size before it.

    Where the answer changes, a rule begins there or ends just before: the last size of every
    range is a bound or the one before a bound.
    """
    powers = {1 << shift for shift in range(63)}
    near = {power + 1 for power in powers}
    near.update(each for value in {*hints, *powers} for each in (value - 1, value))
    return {0, MAX_NBYTES} | {value for value in near if 0 <= value <= MAX_NBYTES}


@lru_cache(maxsize=1024)
def _setting(cell: tuple[int, int] | None, n_channels: int) -> Setting | None:
    channels = n_channels if n_channels > 0 else None
    if cell is None:
        return None if channels is None else Setting(channels=channels)
    algorithm, protocol = cell
    return Setting(
        algorithm=tuple(Algorithm)[algorithm],
        protocol=tuple(Protocol)[protocol],
        channels=channels,
    )
