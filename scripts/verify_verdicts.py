"""Rule files against the truth of a simulated node, at 16 sizes an octave and more.

What runs under a file is asked of the stand-in itself, with the real plugin, the file's own text
and the environment that it needs; and what runs untouched, with nothing set. The node file says how
long each takes without noise (RCCLTUNE_SIM_TRUTH).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, log
from pathlib import Path
from typing import NamedTuple

from search_nodes import MODE
from search_verdicts import distinct
from verify_nodes import TrapNode, settings_of, without_faults, write_node

from rccltune import emit, plugin, simnode
from rccltune.model import Rule
from rccltune.units import approximate_size, format_size

PER_OCTAVE = 16
# What the issue asks: no rule above this much slower, and this share of the gain within tolerance.
WORST_LOSS, KEPT_SHARE = 0.01, 0.95
TOLERANCE = 0.02
# With --vendors the vendors' file goes through verification as well.
VENDORS_VERIFIED = "vendors, verified"
ARMS = ("vendors", VENDORS_VERIFIED, "unverified", "verified")
# "At most 1 %" is met by 1 %, whatever its floating point says.
_EXACT = 1e-6


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
    node: simnode.SimulatedNode
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
        n_wrong: judged sizes at which results would be wrong, either half.
        kept: share of the available gain; None where there is none.
    """

    n_rules: int
    n_idle: int
    worst_loss: float
    worst_collective: str
    worst_at: int
    worst_choice: str
    n_wrong: int
    kept: float | None


def yardstick(node: TrapNode, folder: Path, span: tuple[int, int]) -> Yardstick:
    """Ask for everything about a node that does not depend on a file."""
    faulty = simnode.load_node(write_node(node, folder))
    path = folder / f"{node.name}.node"
    sound = write_node(without_faults(node), folder)
    path.write_bytes(simnode.compile_node(sound))
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
    node: TrapNode, truth: simnode.SimulatedNode, untouched: Mapping[Key, Ran]
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


def _truth_us(node: simnode.SimulatedNode, key: Key, what: str, *, mixed: bool = False) -> float:
    time_us = simnode.truth(
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
    said = emit.read_rules(text.encode())
    rules = [rule for rule in said.rules if not rule.fallback]
    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        environment = {
            **dict(said.needs),
            "NCCL_TUNER_PLUGIN": str(plugin.library()),
            "NCCL_TUNER_CONFIG_FILE": file.name,
            "RCCLTUNE_MODE": MODE,
        }
        alone = ran(yardstick.path, yardstick.collectives, yardstick.span, environment)
    tuned = _in_one_job(yardstick.node, alone)
    losses = {key: one.time_us / yardstick.untouched[key].time_us - 1 for key, one in tuned.items()}
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
        n_wrong=sum(is_wrong(yardstick.node, key, one) for key, one in tuned.items()),
        kept=_kept(losses, yardstick.available),
    )


def _kept(losses: Mapping[Key, float], available: Mapping[Key, float]) -> float | None:
    """Whatever is lost where something is to be gained counts against it."""
    if not available:
        return None
    gained = sum(min(-log(1 + losses[key]), most) for key, most in available.items())
    return gained / sum(available.values())


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


def is_wrong(node: simnode.SimulatedNode, key: Key, one: Ran) -> bool:
    """Whether the node file says that these results are wrong."""
    return any(
        fault.kind == "wrong"
        and fault.where.collective in (None, key.collective)
        and fault.where.setting in (None, one.what)
        and fault.where.channels in (None, one.channels)
        and fault.where.half in (None, "in" if key.in_place else "out")
        and fault.where.min_bytes <= key.nbytes <= fault.where.max_bytes
        for fault in node.faults
    )


def _in_one_job(node: simnode.SimulatedNode, found: Mapping[Key, Ran]) -> dict[Key, Ran]:
    """Times as a job sees them that calls all of these sizes: what else runs in it may slow them.

    The stand-in tells the time of each as if it ran alone.
    """
    is_mixed = len({one.what for one in found.values()}) > 1
    if not is_mixed or not any(effect.mixed for effect in node.effects):
        return dict(found)
    return {
        key: replace(one, time_us=one.time_us * _slowdown(node, key, one.what))
        for key, one in found.items()
    }


def _slowdown(node: simnode.SimulatedNode, key: Key, what: str) -> float:
    alone, among = (_truth_us(node, key, what, mixed=mixed) for mixed in (False, True))
    return among / alone


def ran(
    node: Path,
    collectives: Sequence[str],
    span: tuple[int, int],
    environment: Mapping[str, str],
) -> dict[Key, Ran]:
    """What the stand-in runs at every judged size, out of place and in place.

    Args:
        node: compiled.
        collectives: one benchmark each.
        span: smallest and largest size, powers of two.
        environment: beside what the stand-in needs itself.

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
        for name, (low, high, step) in product(collectives, octaves(*span)):
            program = folder / f"{name}_perf"
            sizes = ("-b", str(low), "-e", str(high), "-i", str(step))
            options = ("-n", "1", "-w", "0", "-c", "0", "-T", "20")
            subprocess.run(
                [program, *sizes, *options], env=playing, capture_output=True, check=True
            )
        for line in told.read_text(encoding="ascii").splitlines():
            name, nbytes, half, _, what, channels, _, _, time_us = line.split()
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One seed.

    Attributes:
        judged: by arm; without "verified" where verification left no file or does not exist yet.
        exit_code: of verification, None where it does not exist yet.
        n_launches: of verification.
        wall_s: of verification.
        clock_s: simulated seconds of verification's collectives.
        n_dropped: rules of whose setting nothing is left where they were.
        n_narrowed: rules of which something is left.
        said: the end of what verification said, where its exit code is unexpected.
    """

    node: str
    seed: int
    judged: Mapping[str, Judged]
    exit_code: int | None = None
    n_launches: int = 0
    wall_s: float = 0.0
    clock_s: float = 0.0
    n_dropped: int = 0
    n_narrowed: int = 0
    said: str = ""


def changes(before: Iterable[Rule], after: Sequence[Rule]) -> tuple[int, int]:
    """How many rules were dropped, and how many narrowed or split."""
    dropped = narrowed = 0
    for rule in before:
        left = [
            one
            for one in after
            if one.collective is rule.collective
            and one.setting == rule.setting
            and one.min_nbytes <= rule.max_nbytes
            and one.max_nbytes >= rule.min_nbytes
        ]
        dropped += not left
        narrowed += bool(left) and not any(
            one.min_nbytes <= rule.min_nbytes and one.max_nbytes >= rule.max_nbytes for one in left
        )
    return dropped, narrowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One arm's files over all seeds.

    Attributes:
        worst_loss: of the worst seed.
        n_losing: seeds whose file loses more than is allowed, or gives wrong results.
        n_wrong: seeds with wrong results.
        kept: mean share of the available gain, None where there is none.
        least_kept: of the worst seed.
    """

    n_seeds: int
    rules: list[int]
    n_idle: int
    worst_loss: float
    n_losing: int
    n_wrong: int
    kept: float | None
    least_kept: float | None

    @classmethod
    def of(cls, found: Sequence[Judged]) -> Summary:
        """Sum up."""
        kept = [one.kept for one in found if one.kept is not None]
        return cls(
            n_seeds=len(found),
            rules=sorted({one.n_rules for one in found}),
            n_idle=sum(one.n_idle for one in found),
            worst_loss=max((one.worst_loss for one in found), default=-inf),
            n_losing=sum(loses(one) for one in found),
            n_wrong=sum(one.n_wrong > 0 for one in found),
            kept=statistics.fmean(kept) if kept else None,
            least_kept=min(kept) if kept else None,
        )


def loses(one: Judged) -> bool:
    """Whether a file must not stand."""
    return one.n_wrong > 0 or one.worst_loss > WORST_LOSS + _EXACT


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A node's figures over its seeds, and the goals that were missed.

    Attributes:
        arms: of those that there are.
        exit_codes: of verification, with how often.
        n_launches: mean; wall_s, clock_s, n_dropped and n_narrowed are means too.
        complaints: what is wrong with single seeds.
    """

    node: str
    trap: str
    arms: dict[str, Summary]
    exit_codes: dict[int, int]
    n_launches: float
    wall_s: float
    clock_s: float
    n_dropped: float
    n_narrowed: float
    complaints: list[str]
    missed: list[str]


def verdict(node: TrapNode, runs: Sequence[Run]) -> Verdict:
    """One node's runs, at least one."""
    arms = {
        arm: Summary.of([run.judged[arm] for run in runs if arm in run.judged])
        for arm in ARMS
        if any(arm in run.judged for run in runs)
    }
    codes = sorted(run.exit_code for run in runs if run.exit_code is not None)
    means = {
        name: statistics.fmean(getattr(run, name) for run in runs)
        for name in ("n_launches", "wall_s", "clock_s", "n_dropped", "n_narrowed")
    }
    return Verdict(
        node=node.name,
        trap=node.trap,
        arms=arms,
        exit_codes={code: codes.count(code) for code in codes},
        complaints=[f"seed {run.seed}: {why}" for run in runs for why in complaints(node, run)],
        missed=list(_missed(node, runs, arms.get("verified"))),
        **means,
    )


def _missed(node: TrapNode, runs: Sequence[Run], verified: Summary | None) -> Iterator[str]:
    asked = [run for run in runs if run.exit_code is not None]
    if any(run.exit_code not in expected_codes(node) for run in asked):
        yield "exit code"
    if node.must_refuse or not asked:
        return
    if verified is None or verified.n_seeds < len(asked):
        yield "no file was left"
        return
    if verified.n_losing:
        yield "worst loss"
    if verified.kept is not None and verified.kept < KEPT_SHARE - _EXACT:
        yield "gain kept"


def expected_codes(node: TrapNode) -> tuple[int, ...]:
    """0 where everything is well or was mended; 9 where something is refused; 5 as launches hang."""
    return (5, 9) if node.must_refuse else (0, 9)


def complaints(node: TrapNode, run: Run) -> Iterator[str]:
    """What is wrong with one seed's verification."""
    if run.exit_code is None:
        return
    if run.exit_code not in expected_codes(node):
        yield f"exit code {run.exit_code}: {run.said}"
    one = run.judged.get("verified")
    if one is None or node.must_refuse:
        return
    if one.n_wrong:
        yield f"wrong results at {one.n_wrong} sizes"
    if one.worst_loss > WORST_LOSS + _EXACT:
        size = f"{format_size(one.worst_at)} ({approximate_size(one.worst_at)})"
        where = f"{one.worst_collective} {one.worst_choice} at {size}"
        yield f"{where} is {100 * one.worst_loss:.1f} % slower than untouched"
    if one.kept is not None and one.kept < KEPT_SHARE - _EXACT:
        yield f"{100 * one.kept:.0f} % of the gain is kept"
