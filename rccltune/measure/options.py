"""The options of a sweep, each declared once; and presets, which are values of them.

Keys and values are those of :mod:`rccltune.measure.options`, so that a file or an option of the
same name wins; a number is the document's even where it is the default. Sources:
AMD's RCCL usage tips for CPX (``mpirun -np 64 --bind-to numa all_reduce_perf -b 8 -e 1G -f 2``;
the same with ``ROCR_VISIBLE_DEVICES=0,…,7`` and ``-np 8``; and with ``-b 32 -G 2 -w 20 -n 50``).
Ranks are bound to their NUMA sets without being asked to, where the launcher can.

The record below is the schema of sweep.yaml, makes the command line's options (``min_bytes`` is
``--min-bytes``, in the order of the help), and says what a session's own sweep.yaml keeps of each.
Presets are some of its values. What is made of them is in ``measure/request.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, get_args, get_type_hints

from rccltune.model import (
    BACKENDS,
    DTYPE_BYTES,
    RANK_PLACEMENTS,
    REDOPS,
    Collective,
    CommandLineError,
    FromUp,
    Listed,
    Made,
    Mode,
    OneOf,
    Parsed,
    RankPlacement,
    Scale,
    Setting,
    VariableName,
    defaults,
    odd_letters,
    parse_scales,
    parse_size,
    short_size,
    shown,
)

_RANGE: Final[Mapping[str, Any]] = {"min_bytes": 8, "max_bytes": 1 << 30, "factor": 2}
_ONE_OAM: Final[Mapping[str, Any]] = {
    **_RANGE,
    "placement_of_ranks": RankPlacement.ONE_OAM.value,
}
PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "cpx-64": {**_RANGE, "np": 64, "placement_of_ranks": RankPlacement.NODE.value},
    "cpx-one-oam": _ONE_OAM,
    "cpx-one-oam-graph": {
        **_ONE_OAM,
        "min_bytes": 32,
        "graph": 2,
        "warmup": 20,
        "iters": 50,
        "collective": (Collective.ALL_REDUCE,),
        # What AMD's figure for one OAM was reached with.
        "variant": ("mscclpp-read",),
    },
}
LAUNCHERS: Final = ("auto", "openmpi", "mpich", "intel", "srun", "torchrun", "none")
RUNNERS: Final = ("rccl-tests", "torch")
PLACEMENTS: Final = ("out", "in", "both")
METHODS: Final = ("auto", "one-launch", "per-setting")
_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([smh]?)")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}


def parse_duration(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``5m`` or ``1.5h``; ValueError otherwise."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise ValueError(f"'{text}' is no duration: write 90, 90s, 5m or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def _channels(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise CommandLineError(f"'{text}' is no list of channel counts", hint="write 8,16,32.")
    return tuple(int(part) for part in parts)


def _flag(text: str) -> bool:
    folded = text.lower()
    if folded not in ("true", "false", "yes", "no", "1", "0"):
        raise ValueError(f"'{text}' is neither true nor false")
    return folded in ("true", "yes", "1")


def _line(text: str) -> str:
    """One line; of a path, of a name."""
    if odd_letters(text):
        raise ValueError(f"'{shown(text)}' has a letter that is no plain text")
    return text


def _path(text: str) -> Path:
    return Path(_line(text))


def _pairs(found: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(found.items())


def _sized(text: str) -> tuple[Collective, int]:
    """``all_reduce/1M``: the collective, and a size to measure it at."""
    collective, slash, size = text.partition("/")
    if not slash:
        raise ValueError(f"'{text}' is no collective with a size: write all_reduce/1M")
    return Collective.parse(collective), parse_size(size)


@dataclass(frozen=True, slots=True)
class Option:
    """What an option is beside its type and its default.

    Attributes:
        help: of the command line, with the default where it says ``{default}``; None where only a
            file can say it.
        metavar: what the help calls the value; None where its type says it.
        words: the only ones that the command line takes, where a file takes others too.
        read: how the command line reads its one text, where a file has a list.
        again: it may be given several times.
        is_flag: it has no value on the command line.
        is_order: it names programs, files or variables, so that nobody else's session may say it.
        is_range: it says sizes, as a workload does too.
        runner: the only one that it means anything to; None for both.
        pinned: a session's sweep.yaml has it at its default too.
    """

    help: str | None = None
    _: KW_ONLY
    metavar: str | None = None
    words: tuple[str, ...] = ()
    read: Callable[[str], Any] | None = None
    again: bool = False
    is_flag: bool = False
    is_order: bool = False
    is_range: bool = False
    runner: str | None = None
    pinned: bool = False


_MODE: Final = Parsed(Mode.parse_option, what="mode", write=str)
_SETTING: Final = Parsed(Setting.parse, what="setting", write=str)
_COLLECTIVE: Final = Parsed(Collective.parse, what="collective", write=lambda one: one.value)
_SIZED: Final = Parsed(_sized, write=lambda one: f"{one[0].value}/{one[1]}")
_SCALE: Final = Parsed(Scale.parse, write=lambda one: one.short)
_SIZE: Final = Parsed(parse_size, what="size", show=short_size)
_TIME: Final = Parsed(
    parse_duration,
    what="duration",
    write=lambda seconds: f"{seconds:.12g}s",
    show=lambda seconds: f"{seconds / 60:g}m",
)
_COUNT: Final = Parsed(FromUp(1))
_COUNT_OR_NONE: Final = Parsed(FromUp(0))
_YES_OR_NO: Final = Parsed(_flag, show=lambda value: str(int(value)))
_LINE: Final = Parsed(_line, what="line")
_FILE: Final = Parsed(_path, what="file", write=str)
_PAIRS: Final = Made(_pairs, of=dict[VariableName, Annotated[str, _LINE]])
_Pairs: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """What a user may say of a sweep; empty is what rccltune takes by itself."""

    mode: Annotated[
        Mode | None, _MODE, Option("Mode of the machine: cpx-nps4, spx-nps1, …, none, or auto.")
    ] = None
    simulate: Annotated[
        str | None,
        _LINE,
        Option(
            "A simulated node instead of this machine.",
            metavar="NODE",
            is_order=True,
            runner="rccl-tests",
        ),
    ] = None
    rccl_tests: Annotated[
        Path | None, _FILE, Option("Folder of all_reduce_perf.", metavar="DIR", is_order=True)
    ] = None
    runner: Annotated[
        str, Parsed(OneOf(RUNNERS)), Option("What measures. [default: {default}]", is_order=True)
    ] = defaults.RUNNER
    python: Annotated[
        str | None,
        _LINE,
        Option(
            "With --runner torch: the Python that has torch.",
            metavar="EXE",
            is_order=True,
            runner="torch",
        ),
    ] = None
    backend: Annotated[
        str,
        Parsed(OneOf(BACKENDS)),
        Option("torch's. [default: {default}, or RCCL]", is_order=True, runner="torch"),
    ] = defaults.BACKEND
    librccl: Annotated[
        Path | None,
        _FILE,
        Option(
            "librccl.so to measure with; on a simulated node: real, the real RCCL.",
            metavar="FILE|real",
            is_order=True,
            runner="rccl-tests",
        ),
    ] = None
    launcher: Annotated[
        str,
        Parsed(OneOf(LAUNCHERS)),
        Option(
            "What starts the ranks. [default: one that fits the benchmark's MPI]", is_order=True
        ),
    ] = defaults.LAUNCHER
    hostfile: Annotated[
        Path | None,
        _FILE,
        Option("Hosts, in the launcher's own form.", metavar="FILE", is_order=True),
    ] = None
    np: Annotated[
        int | None,
        _COUNT,
        Option("Ranks. [default: one for each GPU that a job can use]", metavar="N"),
    ] = None
    scales: Annotated[
        tuple[Annotated[Scale, _SCALE], ...],
        Listed(),
        Option(
            "N nodes with R ranks in all, 1x64,2x128: each into a session of its own below -o.",
            metavar="NxR,...",
            read=parse_scales,
        ),
    ] = ()
    placement_of_ranks: Annotated[
        str | None,
        Parsed(OneOf(RANK_PLACEMENTS)),
        Option("Devices of the ranks. [default: all of the node, or the first --np]", pinned=True),
    ] = None
    preset: Annotated[
        str | None, Parsed(OneOf(tuple(PRESETS))), Option("Wishes by name; others win.")
    ] = None
    collective: Annotated[
        tuple[Annotated[Collective, _COLLECTIVE], ...],
        Listed(),
        Option("Again for each; default: five.", again=True),
    ] = ()
    setting: Annotated[
        tuple[Annotated[Setting, _SETTING], ...],
        Listed(),
        Option("A/P or A/P/CHANNELS, again for each.", again=True),
    ] = ()
    channels: Annotated[
        tuple[Annotated[int, _COUNT], ...],
        Listed(),
        Option(
            "Counts for every --setting, or for survivors: 8,16.", metavar="LIST", read=_channels
        ),
    ] = ()
    variant: Annotated[
        tuple[Annotated[str, _LINE], ...],
        Listed(),
        Option("Again for each; rccltune variants.", metavar="NAME", again=True),
    ] = ()
    variants: Annotated[
        Path | None, _FILE, Option("Variants of your own.", metavar="YAML", is_order=True)
    ] = None
    min_bytes: Annotated[
        int, _SIZE, Option("Smallest size. [default: {default}]", is_range=True, pinned=True)
    ] = defaults.MIN_NBYTES
    max_bytes: Annotated[
        int, _SIZE, Option("Largest size. [default: {default}]", is_range=True, pinned=True)
    ] = defaults.MAX_NBYTES
    factor: Annotated[
        int,
        Parsed(FromUp(2)),
        Option("Step factor. [default: {default}]", metavar="N", is_range=True, pinned=True),
    ] = defaults.FACTOR
    step: Annotated[
        int | None, _SIZE, Option("Step in bytes instead of a factor.", is_range=True)
    ] = None
    sizes: Annotated[tuple[Annotated[tuple[Collective, int], _SIZED], ...], Listed(), Option()] = ()
    workload: Annotated[
        Path | None,
        _FILE,
        Option("Just the sizes of a recorded job.", metavar="FILE", is_order=True),
    ] = None
    dtype: Annotated[
        tuple[Annotated[str, Parsed(OneOf(tuple(DTYPE_BYTES)))], ...],
        Listed(),
        Option("Data type. [default: {default}]", pinned=True),
    ] = (defaults.DTYPE,)
    op: Annotated[
        str, Parsed(OneOf(REDOPS)), Option("Operation. [default: {default}]", pinned=True)
    ] = defaults.REDOP
    placement: Annotated[
        str | None,
        Parsed(OneOf(PLACEMENTS)),
        Option("Halves of a row. [default: both; with --runner torch: in]", pinned=True),
    ] = None
    iters: Annotated[
        int, _COUNT, Option("Timed calls. [default: {default}]", metavar="N", pinned=True)
    ] = defaults.ITERATIONS
    warmup: Annotated[
        int, _COUNT_OR_NONE, Option("Others. [default: {default}]", metavar="N", pinned=True)
    ] = defaults.WARMUP
    graph: Annotated[
        int, _COUNT_OR_NONE, Option("Graph replays, -G.", metavar="N", pinned=True)
    ] = 0
    check: Annotated[
        bool,
        _YES_OR_NO,
        Option("Check results. [default: {default}]", words=("0", "1"), pinned=True),
    ] = True
    repeats: Annotated[
        int, _COUNT, Option("Launches. [default: {default}]", metavar="N", pinned=True)
    ] = defaults.REPEATS
    method: Annotated[
        str, Parsed(OneOf(METHODS)), Option("All settings in a launch, or one each.")
    ] = defaults.METHOD
    exhaustive: Annotated[
        bool, _YES_OR_NO, Option("Every setting at every size; no search.", is_flag=True)
    ] = False
    no_environment: Annotated[
        bool, _YES_OR_NO, Option("Try no channel count above the library's own.", is_flag=True)
    ] = False
    budget: Annotated[
        float | None, _TIME, Option("Wall time to spend, 5m or 1h. [default: as needed]")
    ] = None
    longest: Annotated[
        float, _TIME, Option("Plan no launch to take longer. [default: {default}]")
    ] = defaults.LONGEST_S
    timeout: Annotated[
        float | None, _TIME, Option("Longest time for one launch. [default: measured]")
    ] = None
    env: Annotated[
        _Pairs, _PAIRS, Option("Set in every arm.", metavar="NAME=VALUE", again=True, is_order=True)
    ] = ()
    clear: Annotated[
        tuple[VariableName, ...],
        Listed(),
        Option("Clear this one too.", metavar="NAME", again=True, is_order=True),
    ] = ()
    seed: Annotated[
        int, _COUNT_OR_NONE, Option("Of the order (and of simulated noise).", pinned=True)
    ] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One option, as its field says it.

    Attributes:
        parsed: how a text becomes its value, or one of its values; None where it stays a text.
        is_list: it has several values in a file; one stands for a list of one.
    """

    name: str
    default: Any
    option: Option
    parsed: Parsed | None
    is_list: bool

    @property
    def flag(self) -> str:
        """``--min-bytes``."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def help(self) -> str:
        """With the default in it."""
        text = self.option.help or ""
        if "{default}" not in text or self.parsed is None:
            return text
        value = self.default[0] if self.is_list else self.default
        return text.format(default=self.parsed.show(value))

    def plain(self, value: Any) -> Any:  # noqa: ANN401 - whatever YAML takes
        """What a file has for this value."""
        if self.parsed is None:
            return list(value) if self.is_list else dict(value)
        return (
            [self.parsed.write(one) for one in value] if self.is_list else self.parsed.write(value)
        )


@cache
def declared() -> Mapping[str, Declared]:
    """All options by name, in the order of the help."""
    hints = get_type_hints(SweepOptions, include_extras=True)
    return {
        one.name: _declared(one.name, one.default, hints[one.name]) for one in fields(SweepOptions)
    }


def _declared(name: str, default: object, hint: object) -> Declared:
    kind, *said = get_args(hint)
    is_list = any(isinstance(one, Listed) for one in said)
    # Of a list the elements are read; get_args is (element, ...).
    told = get_args(get_args(kind)[0])[1:] if is_list else said
    (option,) = (one for one in said if isinstance(one, Option))
    return Declared(
        name=name,
        default=default,
        option=option,
        parsed=next((one for one in told if isinstance(one, Parsed)), None),
        is_list=is_list,
    )


def orders() -> frozenset[str]:
    """Options that name programs, files and variables."""
    return frozenset(name for name, one in declared().items() if one.option.is_order)


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a command line that were given; click has None and () for the others."""
    said = {name: value for name, value in values.items() if value is not None and value != ()}
    return {
        name: (value,) if declared()[name].is_list and not isinstance(value, tuple) else value
        for name, value in said.items()
    }


def to_plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a session's sweep.yaml has them, without those that say nothing."""
    said = ((declared()[name], value) for name, value in values.items())
    return {
        one.name: one.plain(value)
        for one, value in said
        if value not in (None, ()) and (one.option.pinned or value != one.default)
    }
