"""Options of a sweep: one record that the command line fills and sweep.yaml keeps to.

``min_bytes`` is ``--min-bytes``. A field has its values, their range, its default and its help;
what is made of them stands in ``measure/request.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from rccltune.model import defaults
from rccltune.model.schema import Line, OneOf, VariableName, WholeNumberFrom, odd_letters, read_by
from rccltune.model.settings import Mode, Setting
from rccltune.model.text import printable
from rccltune.model.units import parse_duration, parse_size, short_size
from rccltune.model.vocabulary import (
    DTYPE_BYTES,
    RANK_PLACEMENTS,
    REDOPS,
    Collective,
    RankPlacement,
)

PERF: Final = "perf"
RUNNERS: Final = (PERF, "rccl-tests")
LAUNCHERS: Final = ("auto", "local", "openmpi", "mpich", "intel", "srun", "torchrun", "none")
PLACEMENTS: Final = ("out", "in", "both")
TIMINGS: Final = ("auto", "graph", "loop")
# That the rank program takes (perf/plan.c).
MOST_CHANNELS: Final = 1024


def _path(text: str) -> Path:
    """A path that a message can show."""
    if odd_letters(text):
        raise ValueError(f"'{printable(text)}' has a letter that is no plain text")
    return Path(text)


def _sized(text: str) -> tuple[Collective, int]:
    """``all_reduce/1M``: the collective, and a size to measure it at."""
    collective, slash, size = text.partition("/")
    if not slash:
        raise ValueError(f"'{text}' is no collective with a size: write all_reduce/1M")
    return Collective.parse(collective), parse_size(size)


def _check_channels(channels: int) -> int:
    """The number itself; ValueError where the rank program takes none as large."""
    if channels > MOST_CHANNELS:
        raise ValueError(f"{channels} channels are too many: at most {MOST_CHANNELS} are measured")
    return channels


def parse_measured_setting(text: str) -> Setting:
    """Read a setting that the rank program is to measure.

    Raises:
        ValueError: it is none, or has more channels than the rank program takes.
    """
    setting = Setting.parse(text)
    _check_channels(setting.channels or 0)
    return setting


def _separate(value: object) -> object:
    """The words of ``8,16,32``; a list stays."""
    return [one.strip() for one in value.split(",")] if isinstance(value, str) else value


_Several: Final = BeforeValidator(_separate)
_ModeWord: TypeAlias = Annotated[Mode | None, read_by(Mode.parse_option), PlainSerializer(str)]
_CollectiveWord: TypeAlias = Annotated[
    Collective, read_by(Collective.parse), PlainSerializer(lambda one: one.value, return_type=str)
]
_SettingWord: TypeAlias = Annotated[Setting, read_by(parse_measured_setting), PlainSerializer(str)]
_SizedWord: TypeAlias = Annotated[
    tuple[Collective, int],
    read_by(_sized),
    PlainSerializer(lambda one: f"{one[0].value}/{one[1]}", return_type=str),
]
_Size: TypeAlias = Annotated[int, read_by(parse_size)]
_Count: TypeAlias = Annotated[int, read_by(WholeNumberFrom(1))]
_Channels: TypeAlias = Annotated[
    int, read_by(lambda text: _check_channels(WholeNumberFrom(1)(text)))
]
_Seconds: TypeAlias = Annotated[
    float,
    read_by(parse_duration),
    PlainSerializer(lambda seconds: f"{seconds:.12g}s", return_type=str),
]
_File: TypeAlias = Annotated[Path, read_by(_path), PlainSerializer(str)]
_Dtype: TypeAlias = Annotated[str, read_by(OneOf(tuple(DTYPE_BYTES)))]

# Published ways to measure, as values of the options; what a file or a command line says wins. From
# AMD's RCCL usage tips for CPX: mpirun -np 64 --bind-to numa all_reduce_perf -b 8 -e 1G -f 2; the
# same with ROCR_VISIBLE_DEVICES=0,…,7 and -np 8; and with -b 32 -G 2 -w 20 -n 50. For MI350X and
# MI355X they name DPX with NPS2.
_RANGE: Final[Mapping[str, Any]] = {"min_bytes": 8, "max_bytes": 1 << 30, "factor": 2}
_ONE_OAM: Final[Mapping[str, Any]] = {**_RANGE, "rank_placement": RankPlacement.ONE_OAM.value}
PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "cpx-64": {**_RANGE, "np": 64, "rank_placement": RankPlacement.NODE.value},
    "dpx-16": {**_RANGE, "np": 16, "rank_placement": RankPlacement.NODE.value},
    "cpx-one-oam": _ONE_OAM,
    "cpx-one-oam-graph": {
        **_ONE_OAM,
        "min_bytes": 32,
        "timing": "graph",
        "collective": (Collective.ALL_REDUCE,),
        # What AMD's figure for one OAM was reached with (mscclpp-read in data/variants.yaml).
        "env": {
            "HIP_FORCE_DEV_KERNARG": "1",
            "MSCCLPP_READ_ALLRED": "1",
            "RCCL_MSCCLPP_ENABLE": "1",
            "RCCL_MSCCLPP_THRESHOLD": str(1 << 30),
        },
    },
}


def _option(
    default: object,
    text: str | None,
    group: str = "Advanced",
    *,
    usual: bool = False,
    metavar: str | None = None,
) -> Any:  # noqa: ANN401 - pydantic's own way
    """A field with what the help says of it.

    Args:
        default: of the field.
        text: the help; None where only a file can say it.
        group: heading in the whole help.
        usual: whether the short help shows it.
        metavar: name of the value, where its words do not stand for themselves.
    """
    place: dict[str, Any] = {"group": group, "usual": usual, "metavar": metavar}
    return Field(default, description=text, json_schema_extra=place)


class SweepOptions(BaseModel):
    """Options of a sweep."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: _ModeWord = _option(
        None,
        "Mode the GPUs must be in: cpx-nps4, none, auto …",
        "What",
        usual=True,
        metavar="MODE",
    )
    simulate: Line | None = _option(
        None,
        "Measure a simulated node instead of this machine, mi300x say; needs no GPU.",
        "What",
        usual=True,
        metavar="NODE",
    )
    rccl_tests: _File | None = _option(
        None,
        "Folder of rccl-tests. [default: PATH and ROCm]",
        "What",
        metavar="DIR",
    )
    runner: Annotated[str, read_by(OneOf(RUNNERS))] = _option(
        defaults.RUNNER,
        f"Measure by our rank program or by rccl-tests. [default: {defaults.SWEEP_RUNNER}]",
        "Running",
        metavar="|".join(RUNNERS),
    )
    librccl: _File | None = _option(
        None,
        "Library to measure: a file, 'torch' for PyTorch's own, 'real' on a simulated node.",
        "Running",
        usual=True,
        metavar="FILE|torch|real",
    )
    launcher: Annotated[str, read_by(OneOf(LAUNCHERS))] = _option(
        defaults.LAUNCHER,
        "Program that starts the ranks. [default: auto]",
        "Running",
        metavar="|".join(LAUNCHERS),
    )
    hostfile: _File | None = _option(
        None, "Hosts to run on, in the launcher's own form.", "Running", metavar="FILE"
    )
    np: _Count | None = _option(
        None,
        "Number of ranks. [default: one for each GPU that a job can use]",
        "Running",
        usual=True,
        metavar="N",
    )
    rank_placement: Annotated[str, read_by(OneOf(RANK_PLACEMENTS))] | None = _option(
        None,
        "Devices of the ranks: node, one-oam, one-per-oam, … [default: node, or first]",
        "Running",
        metavar="PLACE",
    )
    preset: Annotated[str, read_by(OneOf(tuple(PRESETS)))] | None = _option(
        None,
        "Start from a published set of options; other options win over it.",
        "What",
        metavar="|".join(PRESETS),
    )
    collective: Annotated[tuple[_CollectiveWord, ...], _Several] = _option(
        (),
        "Collective to measure. [default: the five that ask a tuner]",
        "What",
        usual=True,
        metavar="COLLECTIVE",
    )
    setting: Annotated[tuple[_SettingWord, ...], _Several] = _option(
        (),
        "Setting to measure, tree/ll/16 say. [default: all]",
        "What",
        metavar="SETTING",
    )
    channels: Annotated[tuple[_Channels, ...], _Several] = _option(
        (),
        "Channel counts to try, 8,16: for each --setting, or for the fastest ones.",
        "What",
        metavar="LIST",
    )
    min_bytes: _Size = _option(
        defaults.MIN_NBYTES,
        f"Smallest message size. [default: {short_size(defaults.MIN_NBYTES)}]",
        "Sizes",
        usual=True,
        metavar="SIZE",
    )
    max_bytes: _Size = _option(
        defaults.MAX_NBYTES,
        f"Largest message size. [default: {short_size(defaults.MAX_NBYTES)}, in CPX modes "
        f"{short_size(defaults.MAX_NBYTES_CPX)}]",
        "Sizes",
        usual=True,
        metavar="SIZE",
    )
    factor: Annotated[int, read_by(WholeNumberFrom(2))] = _option(
        defaults.FACTOR,
        f"Factor from one size to the next. [default: {defaults.FACTOR}]",
        "Sizes",
        metavar="N",
    )
    sizes: Annotated[tuple[_SizedWord, ...], _Several] = _option((), None)
    workload: _File | None = _option(
        None, "Measure only the sizes of this recorded job.", "Sizes", metavar="FILE"
    )
    dtype: Annotated[tuple[_Dtype, ...], _Several] = _option(
        (defaults.DTYPE,),
        f"Data type: float, half, bfloat16, … [default: {defaults.DTYPE}]",
        "What",
        metavar="TYPE",
    )
    op: Annotated[str, read_by(OneOf(REDOPS))] = _option(
        defaults.OP,
        f"Reduction of all_reduce, reduce and reduce_scatter. [default: {defaults.OP}]",
        "What",
        metavar="|".join(REDOPS),
    )
    placement: Annotated[str, read_by(OneOf(PLACEMENTS))] = _option(
        defaults.PLACEMENT,
        f"Measure out-of-place, in-place or both. [default: {defaults.PLACEMENT}]",
        "What",
        metavar="|".join(PLACEMENTS),
    )
    same_bits: bool = _option(
        default=False,
        text="Probe the order in which settings add, for rules that keep results' bits.",
        group="What",
    )
    communicators: _Count = _option(
        defaults.COMMUNICATORS,
        f"In how many to time what could win. [default: {defaults.COMMUNICATORS}]",
        "Running",
        metavar="N",
    )
    timing: Annotated[str, read_by(OneOf(TIMINGS))] = _option(
        defaults.TIMING,
        "Time replayed graphs, calls launched one by one, or each where it counts (auto).",
        "Running",
        metavar="|".join(TIMINGS),
    )
    budget: _Seconds | None = _option(
        None,
        "Time to measure, 5m or 1h. [default: as needed]",
        "Running",
        usual=True,
        metavar="DURATION",
    )
    timeout: _Seconds | None = _option(
        None,
        "End ranks that stand still for so long. [default: 1m; of a launch, by others]",
        metavar="DURATION",
    )
    env: dict[VariableName, Line] = _option(
        {},
        "Set this variable in every rank (repeatable); a session has one environment.",
        "What",
        usual=True,
        metavar="NAME=VALUE",
    )
    seed: Annotated[int, read_by(WholeNumberFrom(0))] = _option(
        0, "Seed of the order of launches, and of simulated noise.", metavar="N"
    )


def default_of(name: str) -> Any:  # noqa: ANN401 - of whatever type the option is
    """Default of an option."""
    return SweepOptions.model_fields[name].default


def flag(name: str) -> str:
    """``--min-bytes``."""
    return f"--{name.replace('_', '-')}"
