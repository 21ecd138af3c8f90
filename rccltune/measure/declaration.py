"""What an option of a sweep is, and published ways to measure as values of such options.

Keys and values are those of :mod:`rccltune.measure.options`, so that a file or an option of the
same name wins; a number is the document's even where it is the default. Sources:
AMD's RCCL usage tips for CPX (``mpirun -np 64 --bind-to numa all_reduce_perf -b 8 -e 1G -f 2``;
the same with ``ROCR_VISIBLE_DEVICES=0,…,7`` and ``-np 8``; and with ``-b 32 -G 2 -w 20 -n 50``).
Ranks are bound to their NUMA sets without being asked to, where the launcher can.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, get_args

from rccltune.model.errors import CommandLineError
from rccltune.model.schema import FromUp, Listed, Made, OneOf, Parsed, VariableName, odd_letters
from rccltune.model.settings import Mode, Scale, Setting
from rccltune.model.vocabulary import Collective, RankPlacement, parse_size, short_size, shown

_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([smh]?)")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}


def parse_duration(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``5m`` or ``1.5h``; ValueError otherwise."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise ValueError(f"'{text}' is no duration: write 90, 90s, 5m or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def parse_channels(text: str) -> tuple[int, ...]:
    """``8,16,32``; CommandLineError otherwise."""
    parts = text.split(",")
    if not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise CommandLineError(f"'{text}' is no list of channel counts", hint="write 8,16,32.")
    return tuple(int(part) for part in parts)


@dataclass(frozen=True, slots=True)
class RunnerWord(OneOf):
    """A reader of what measures."""

    def __call__(self, text: str) -> str:
        """The word itself; ValueError for any other, and for the one that went."""
        if text == "torch":
            raise ValueError(WENT_WITH_TORCH)
        # slots=True makes another class of this one, which super() alone would not find.
        return OneOf.__call__(self, text)


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
        group: heading that it stands under in the whole help.
        is_usual: the short help shows it too.
        metavar: what the help calls the value; None where its type says it.
        read: how the command line reads its one text, where a file has a list.
        again: it may be given several times.
        is_flag: it has no value on the command line.
        is_order: it names programs, files or variables, so that nobody else's session may say it.
        is_range: it says sizes, as a workload does too.
        runners: to which it means anything; empty for all.
        pinned: a session's sweep.yaml has it at its default too.
    """

    help: str | None = None
    group: str = "Advanced"
    _: KW_ONLY
    is_usual: bool = False
    metavar: str | None = None
    read: Callable[[str], Any] | None = None
    again: bool = False
    is_flag: bool = False
    is_order: bool = False
    is_range: bool = False
    runners: tuple[str, ...] = ()
    pinned: bool = False


LAUNCHERS: Final = ("auto", "local", "openmpi", "mpich", "intel", "srun", "torchrun", "none")
PERF: Final = "perf"
RUNNERS: Final = (PERF, "rccl-tests")
# What 0.1.0's files may say of it, and a session that was measured so.
WENT_WITH_TORCH: Final = (
    "nothing measures through PyTorch's calls any more, and rccltune 0.1.0 alone goes on with a "
    "session that was measured so: write librccl: torch, or import what "
    "examples/torch_all_reduce.py prints"
)
TIMINGS: Final = ("auto", "graph", "loop")
PLACEMENTS: Final = ("out", "in", "both")

MODE: Final = Parsed(Mode.parse_option, what="mode", write=str)
SETTING: Final = Parsed(Setting.parse, what="setting", write=str)
COLLECTIVE: Final = Parsed(Collective.parse, what="collective", write=lambda one: one.value)
SIZED: Final = Parsed(_sized, write=lambda one: f"{one[0].value}/{one[1]}")
SCALE: Final = Parsed(Scale.parse, write=lambda one: one.short)
SIZE: Final = Parsed(parse_size, what="size", show=short_size)
TIME: Final = Parsed(
    parse_duration,
    what="duration",
    write=lambda seconds: f"{seconds:.12g}s",
    show=lambda seconds: f"{seconds / 60:g}m",
)
COUNT: Final = Parsed(FromUp(1))
COUNT_OR_NONE: Final = Parsed(FromUp(0))
LINE: Final = Parsed(_line, what="line")
FILE: Final = Parsed(_path, what="file", write=str)
PAIRS: Final = Made(_pairs, of=dict[VariableName, Annotated[str, LINE]])
Pairs: TypeAlias = tuple[tuple[str, str], ...]


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

    @classmethod
    def of(cls, name: str, default: object, hint: object) -> Declared:
        """From a field's name, default and annotation."""
        kind, *said = get_args(hint)
        is_list = any(isinstance(one, Listed) for one in said)
        # Of a list the elements are read; get_args is (element, ...).
        told = get_args(get_args(kind)[0])[1:] if is_list else said
        (option,) = (one for one in said if isinstance(one, Option))
        parsed = next((one for one in told if isinstance(one, Parsed)), None)
        return cls(name=name, default=default, option=option, parsed=parsed, is_list=is_list)

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
        if self.option.is_flag:
            return value
        if self.parsed is None:
            if isinstance(value, bool):
                return value
            return list(value) if self.is_list else dict(value)
        return (
            [self.parsed.write(one) for one in value] if self.is_list else self.parsed.write(value)
        )


_RANGE: Final[Mapping[str, Any]] = {"min_bytes": 8, "max_bytes": 1 << 30, "factor": 2}
_ONE_OAM: Final[Mapping[str, Any]] = {
    **_RANGE,
    "rank_placement": RankPlacement.ONE_OAM.value,
}
PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "cpx-64": {**_RANGE, "np": 64, "rank_placement": RankPlacement.NODE.value},
    "cpx-one-oam": _ONE_OAM,
    "cpx-one-oam-graph": {
        **_ONE_OAM,
        "min_bytes": 32,
        "timing": "graph",
        "collective": (Collective.ALL_REDUCE,),
        # What AMD's figure for one OAM was reached with.
        "variant": ("mscclpp-read",),
    },
}
