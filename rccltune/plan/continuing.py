"""What is left of a walk that failed, and a launch for one of its settings alone.

A walk that hangs or crashes has measured whatever came before. What it did not reach is walked
again without the setting at fault, as often as settings fail; each of those then has a launch of
its own. Everything follows from the planned walk and from how far its launches came, so that an
interrupted sweep goes on with the launches that an uninterrupted one makes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace
from itertools import islice

from rccltune.model import Launch, Role, Schedule, Setting
from rccltune.plan.launches import REPEATING

# A launch of a walk, and the steps of it that are proven, from its first one.
Walked = tuple[Launch, int]


def continuation(walk: Launch, walked: Sequence[Walked], barred: Container[Setting]) -> Launch:
    """The walk as it is still to be made.

    The warm-up's steps stay, and every setting that is left has its first pass thrown away again:
    a new communicator connects anew. The repeats that are left come in their planned order.

    Args:
        walk: as planned.
        walked: what was made of it so far.
        barred: settings that it must leave out.

    Returns:
        The walk itself where nothing of it was made and nothing is barred. Ids, attempts and what
        it is a part of are the caller's.

    Raises:
        ValueError: nothing is left (:func:`is_walked`), or it walks through nothing.
    """
    leading, steps = _parts(walk)
    left = _left(walk, walked, barred)
    if not _is_worth(left, steps):
        raise ValueError("nothing of this walk is left")
    turn = [setting for setting in dict.fromkeys(steps) if left[setting]]
    done = Counter(steps)
    done.subtract(Counter(turn))
    done.subtract(left)
    rest: list[Setting] = []
    skipped: Counter[Setting] = Counter()
    for setting in islice(steps, len(set(steps)), None):
        skipped[setting] += 1
        if left[setting] and skipped[setting] > done[setting]:
            rest.append(setting)
    return _walking(walk, (*leading, *turn, *rest))


def is_walked(walk: Launch, walked: Sequence[Walked], barred: Container[Setting]) -> bool:
    """Whether every setting that is not barred was kept as often as planned.

    Silence walks along to be compared with; what is left of a walk is not made for it alone.
    """
    return not _is_worth(_left(walk, walked, barred), _parts(walk)[1])


def n_kept(walk: Launch, walked: Sequence[Walked], setting: Setting) -> tuple[int, int]:
    """How many passes of a setting were kept, and how many were planned."""
    planned = _kept(walk, None)[setting]
    return sum(_kept(one, n)[setting] for one, n in walked), planned


def alone(walk: Launch, setting: Setting) -> Launch:
    """A launch of one setting of a walk, as it is made where each setting has its own.

    Ids, attempts and the environment that chooses are the caller's.
    """
    at = _cycles_at(walk)
    return replace(
        walk,
        argv=(*walk.argv[:at], *walk.argv[at + 2 :]),
        schedule=Schedule(settings=(setting,), scale=walk.scale),
    )


def _parts(walk: Launch) -> tuple[tuple[Setting, ...], tuple[Setting, ...]]:
    """The warm-up's steps and the table's."""
    if walk.schedule is None or walk.schedule.questions is None:
        raise ValueError("this launch walks through nothing")
    n = walk.schedule.questions.leading
    return walk.schedule.settings[:n], walk.schedule.settings[n:]


def _kept(walk: Launch, n_steps: int | None) -> Counter[Setting]:
    """Passes of each setting behind its first one, among the first steps of a launch."""
    leading, steps = _parts(walk)
    whole = steps if n_steps is None else steps[: max(0, n_steps - len(leading))]
    return Counter({setting: n - 1 for setting, n in Counter(whole).items()})


def _left(walk: Launch, walked: Sequence[Walked], barred: Container[Setting]) -> Counter[Setting]:
    """Passes that are still to be kept."""
    left = _kept(walk, None)
    for one, n_steps in walked:
        left.subtract(_kept(one, n_steps))
    return Counter({s: n for s, n in left.items() if n > 0 and s not in barred})


def _is_worth(left: Counter[Setting], steps: Sequence[Setting]) -> bool:
    if all(setting.role is not Role.FORCED for setting in steps):
        return bool(left)
    return any(setting.role is Role.FORCED for setting in left)


def _walking(walk: Launch, steps: tuple[Setting, ...]) -> Launch:
    if walk.schedule is None or steps == walk.schedule.settings:
        return walk
    at = _cycles_at(walk)
    n_cycles = len(steps) - len(_parts(walk)[0])
    return replace(
        walk,
        argv=(*walk.argv[: at + 1], str(n_cycles), *walk.argv[at + 2 :]),
        schedule=replace(walk.schedule, settings=steps),
    )


def _cycles_at(walk: Launch) -> int:
    """Where the command line says how often the table is repeated; the last one counts."""
    return max(at for at, word in enumerate(walk.argv) if word in REPEATING)
