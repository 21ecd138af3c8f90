"""Rule files against the truth of a simulated node, at 16 sizes an octave and more.

What runs under a file is asked of the stand-in itself, with the real plugin, the file's own text
and the environment that it needs; and what runs untouched, with nothing set. The node file says how
long each takes without noise (RCCLTUNE_SIM_TRUTH).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import log
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import true_times
from verify_nodes import MODE, TrapNode, settings_of, without_faults, write_node

from rccltune import plugin
from rccltune.model.rule import Rule
from rccltune.rules.rule_file import read_rules
from rccltune.simulate import compiled, sources
from rccltune.simulate.node import Fault, SimulatedNode

PER_OCTAVE = 16
# Bytes of what is called: an element; a share of each rank, which benchmarks round to.
_ELEMENT, _SHARE = 4, 16
# A gain of less than this is none to be had.
TOLERANCE = 0.02


class Key(NamedTuple):
    """A half of a row: a size in bytes, and whether in place."""

    collective: str
    nbytes: int
    in_place: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What ran in a half of a row, and the node file's µs."""

    what: str
    channels: int
    time_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """What every file of one node is judged by.

    Attributes:
        path: the compiled node without its faults.
        node: with its faults.
        collectives: those swept.
        span: smallest and largest size swept.
        untouched: what the library does by itself.
        available: natural logarithm of how many times as fast as untouched the best safe setting
            is, less the tolerance; sizes where nothing is to be had are left out.
    """

    path: Path
    node: SimulatedNode
    collectives: tuple[str, ...]
    span: tuple[int, int]
    untouched: Mapping[Key, Ran]
    available: Mapping[Key, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A file against the truth.

    Attributes:
        n_rules: that choose first somewhere.
        n_idle: rules that decide nothing at any judged size, since something else answers there.
        worst_loss: time under the file / untouched - 1, at the worst of all judged sizes, those
            outside every rule among them.
        worst_collective: where that is.
        worst_at: bytes.
        worst_choice: what ran there.
        mean_loss: over all judged sizes, what is gained elsewhere left out.
        n_wrong: judged sizes at which results would be wrong, either half.
        kept: share of the available gain; None where there is none.
    """

    n_rules: int
    n_idle: int
    worst_loss: float
    worst_collective: str
    worst_at: int
    worst_choice: str
    mean_loss: float
    n_wrong: int
    kept: float | None


def yardstick(node: TrapNode, folder: Path, span: tuple[int, int]) -> Yardstick:
    """Ask for everything about a node that does not depend on a file."""
    faulty = sources.load_node(write_node(node, folder))
    path = folder / f"{node.name}.node"
    sound = write_node(without_faults(node), folder)
    path.write_bytes(compiled.compile_node(sources.load_node(sound)))
    untouched = _in_one_job(faulty, ran(path, node.collectives, span, {}))
    return Yardstick(
        path=path,
        node=faulty,
        collectives=node.collectives,
        span=span,
        untouched=untouched,
        available=dict(_available(node, faulty, untouched)),
    )


def _available(
    node: TrapNode, truth: SimulatedNode, untouched: Mapping[Key, Ran]
) -> Iterator[tuple[Key, float]]:
    for key, own in untouched.items():
        if "/" not in own.what:
            continue  # a path that asks no tuner: nothing can be chosen
        safe = [
            _truth_us(truth, key, setting)
            for setting in settings_of(key.collective)
            if node.is_safe(key.collective, setting, key.nbytes)
        ]
        gain = log(own.time_us / min(safe, default=own.time_us)) - log(1 + TOLERANCE)
        if gain > 0:
            yield key, gain


def _truth_us(node: SimulatedNode, key: Key, what: str, *, mixed: bool = False) -> float:
    time_us = true_times.truth(
        node, key.collective, what, key.nbytes, in_place=key.in_place, mixed=mixed
    )
    if time_us is None:
        raise ValueError(f"the node file says nothing of {what} for {key}")
    return time_us


def judge(yardstick: Yardstick, text: str) -> Judged:
    """What a file costs and gains.

    Args:
        yardstick: of the node.
        text: the rule file's.

    Raises:
        subprocess.CalledProcessError: the plugin refuses the file.
    """
    said = read_rules(text.encode())
    rules = [rule for rule in said.rules if not rule.fallback]
    further = edges(rules, yardstick)
    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        environment = {
            **dict(said.needs),
            "NCCL_TUNER_PLUGIN": str(plugin.library()),
            "NCCL_TUNER_CONFIG_FILE": file.name,
            "RCCLTUNE_MODE": MODE,
        }
        alone = ran(yardstick.path, yardstick.collectives, yardstick.span, environment, further)
    tuned = _in_one_job(yardstick.node, alone)
    untouched = yardstick.untouched
    if any(further.values()):
        by_itself = ran(yardstick.path, (), yardstick.span, {}, further)
        settings = {one.what for one in untouched.values()}
        untouched = {**_in_one_job(yardstick.node, by_itself, settings), **untouched}
    losses = {key: one.time_us / untouched[key].time_us - 1 for key, one in tuned.items()}
    worst = max(losses, key=lambda key: losses[key])
    return Judged(
        n_rules=sum(
            distinct(rule for rule in rules if rule.collective is collective)
            for collective in {rule.collective for rule in rules}
        ),
        n_idle=sum(not _decides(rule, tuned) for rule in rules),
        worst_loss=losses[worst],
        worst_collective=worst.collective,
        worst_at=worst.nbytes,
        worst_choice=tuned[worst].what,
        mean_loss=fmean(max(loss, 0.0) for loss in losses.values()),
        n_wrong=sum(is_wrong(yardstick.node, key, one) for key, one in tuned.items()),
        kept=_kept(losses, yardstick.available),
    )


def _kept(losses: Mapping[Key, float], available: Mapping[Key, float]) -> float | None:
    """Whatever is lost where something is to be gained counts against it."""
    if not available:
        return None
    gained = sum(min(-log(1 + losses[key]), most) for key, most in available.items())
    return gained / sum(available.values())


def distinct(rules: Iterable[Rule]) -> int:
    """Rules that choose first; what stands behind another for the same sizes is a fallback."""
    reached, ends = 0, set()
    for rule in rules:
        if rule.min_nbytes not in ends:
            ends.add(rule.min_nbytes)
            reached += 1
    return reached


def _decides(rule: Rule, tuned: Mapping[Key, Ran]) -> bool:
    """Whether its setting runs at a size of its own; sizes between the judged ones are not seen."""
    inside = [
        one
        for key, one in tuned.items()
        if key.collective == rule.collective.value
        and rule.min_nbytes <= key.nbytes <= rule.max_nbytes
    ]
    setting = str(replace(rule.setting, channels=None))
    return not inside or any(one.what == setting for one in inside)


def is_wrong(node: SimulatedNode, key: Key, one: Ran) -> bool:
    """Whether the node file says that these results are wrong."""
    return any(fault.kind == "wrong" and _speaks_of(fault, key, one) for fault in node.faults)


def _speaks_of(fault: Fault, key: Key, one: Ran) -> bool:
    return (
        fault.where.collective in (None, key.collective)
        and fault.where.setting in (None, one.what)
        and fault.where.channels in (None, one.channels)
        and fault.where.half in (None, "in" if key.in_place else "out")
        and fault.where.min_bytes <= key.nbytes <= fault.where.max_bytes
    )


def edges(rules: Iterable[Rule], yardstick: Yardstick) -> dict[str, list[int]]:
    """The sizes that can be called on either side of every boundary of a rule, by collective.

    One byte more or less is the next of them, since a call is of whole elements.
    """
    found: dict[str, list[int]] = {}
    low, high = yardstick.span
    for rule in rules:
        name = rule.collective.value
        unit = _SHARE * yardstick.node.ranks if rule.collective.is_shared else _ELEMENT
        for edge in (rule.min_nbytes, rule.max_nbytes + 1):
            last = (edge - 1) // unit * unit
            sizes = (n for n in (last, last + unit) if low <= n <= high)
            found.setdefault(name, []).extend(sizes)
    return {name: sorted(set(sizes)) for name, sizes in found.items()}


def _in_one_job(
    node: SimulatedNode, found: Mapping[Key, Ran], settings: set[str] | None = None
) -> dict[Key, Ran]:
    """Mean times as a job sees them that calls all of these sizes again and again.

    The stand-in tells the time of each as if it ran alone, in a launch without faults.

    Args:
        node: with its faults.
        found: what runs.
        settings: all that run in the job; those of ``found`` where nobody says.
    """
    among = {one.what for one in found.values()} if settings is None else settings
    return {
        key: replace(one, time_us=one.time_us * _slowdown(node, key, one, among))
        for key, one in found.items()
    }


def _slowdown(node: SimulatedNode, key: Key, one: Ran, among: set[str]) -> float:
    """What else runs in the job slows it, and slow launches do so by their share."""
    factor = 1.0
    if any(effect.mixed or effect.after for effect in node.effects):
        alone, mixed = (
            true_times.truth(
                node,
                key.collective,
                one.what,
                key.nbytes,
                in_place=key.in_place,
                mixed=bool(others - {one.what}),
                ran_before=others,
                ran_in_pass_before=others,
            )
            for others in (set(), among)
        )
        if alone is not None and mixed is not None:
            factor = mixed / alone
    slow = [
        fault.probability * (float(fault.entry["factor"]) - 1)
        for fault in node.faults
        if fault.kind == "slow-rank" and _speaks_of(fault, key, one)
    ]
    return factor * (1 + sum(slow))


def ran(
    node: Path,
    collectives: Sequence[str],
    span: tuple[int, int],
    environment: Mapping[str, str],
    further: Mapping[str, Sequence[int]] | None = None,
) -> dict[Key, Ran]:
    """What the stand-in runs at every judged size, out of place and in place.

    Args:
        node: compiled.
        collectives: one benchmark each.
        span: smallest and largest size, powers of two.
        environment: beside what the stand-in needs itself.
        further: sizes in bytes, by collective.

    Raises:
        subprocess.CalledProcessError: it did not run.
    """
    found: dict[Key, Ran] = {}
    folder = plugin.native_folder() / "sim"
    with tempfile.TemporaryDirectory() as scratch:
        told = Path(scratch, "told")
        playing = {
            "PATH": os.environ["PATH"],
            "RCCLTUNE_SIM_NODE": str(node),
            "RCCLTUNE_SIM_STARTUP_S": "0",
            "RCCLTUNE_SIM_SHM_DIR": scratch,
            "RCCLTUNE_SIM_TRUTH": str(told),
            **environment,
        }
        ranges = [*product(collectives, octaves(*span))]
        ranges += [(name, (n, n, 4)) for name, sizes in (further or {}).items() for n in sizes]
        for name, (low, high, step) in ranges:
            program = folder / f"{name}_perf"
            sizes = ("-b", str(low), "-e", str(high), "-i", str(step))
            options = ("-n", "1", "-w", "0", "-c", "0", "-T", "20")
            subprocess.run(
                [program, *sizes, *options], env=playing, capture_output=True, check=True
            )
        for line in told.read_text(encoding="ascii").splitlines():
            name, nbytes, half, _, what, channels, _, _, time_us, _ = line.split()
            found[Key(name, int(nbytes), half == "in")] = Ran(
                what=what, channels=int(channels), time_us=float(time_us)
            )
    return found


def octaves(smallest: int, largest: int) -> Iterator[tuple[int, int, int]]:
    """First size, last size and step of each launch that asks for the judged sizes.

    At least 16 an octave (all multiples of 4 below 256), evenly spaced: one launch can step so.
    The step is an odd multiple of 4, so that sizes are not round ones.
    """
    low = smallest
    while low < largest:
        # Below 128 B every multiple of 4; one step less than a sixteenth is odd and no coarser.
        step = max(low // PER_OCTAVE - 4, 4)
        yield low, min(2 * low, largest) - 4, step
        low *= 2
    yield largest, largest, 4
