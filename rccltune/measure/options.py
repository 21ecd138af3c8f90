"""The options of a sweep, each declared once: the schema of sweep.yaml and of the command line.

``min_bytes`` is ``--min-bytes``. What is made of them is in ``measure/request.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rccltune.measure.declaration import (
    COLLECTIVE,
    COUNT,
    COUNT_OR_NONE,
    FILE,
    LAUNCHERS,
    LINE,
    MODE,
    PAIRS,
    PERF,
    PLACEMENTS,
    PRESETS,
    RUNNERS,
    SCALE,
    SETTING,
    SIZE,
    SIZED,
    TIME,
    TIMINGS,
    Option,
    Pairs,
    RunnerWord,
    parse_channels,
)
from rccltune.model import defaults
from rccltune.model.schema import FromUp, Listed, OneOf, Parsed
from rccltune.model.settings import Mode, Scale, Setting, parse_scales
from rccltune.model.vocabulary import DTYPE_BYTES, RANK_PLACEMENTS, REDOPS, Collective


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """What a user may say of a sweep; empty is what rccltune takes by itself."""

    mode: Annotated[
        Mode | None,
        MODE,
        Option(
            "Mode the GPUs must be in: cpx-nps4, none, auto …",
            "What",
            is_usual=True,
        ),
    ] = None
    simulate: Annotated[
        str | None,
        LINE,
        Option(
            "Measure a simulated node instead of this machine, mi300x say; needs no GPU.",
            "What",
            is_usual=True,
            metavar="NODE",
            is_order=True,
        ),
    ] = None
    rccl_tests: Annotated[
        Path | None,
        FILE,
        Option(
            "Folder of rccl-tests or nccl-tests (all_reduce_perf …). [default: PATH and ROCm]",
            "What",
            metavar="DIR",
            is_order=True,
        ),
    ] = None
    runner: Annotated[
        str,
        Parsed(RunnerWord(RUNNERS)),
        Option(
            "Measure by our rank program (sweep does) or rccl-tests. [tune: {default}]",
            "Running",
            is_order=True,
        ),
    ] = defaults.RUNNER
    librccl: Annotated[
        Path | None,
        FILE,
        Option(
            "Library to measure: a file, 'torch' for PyTorch's own, 'real' on a simulated node.",
            "Running",
            is_usual=True,
            metavar="FILE|torch|real",
            is_order=True,
        ),
    ] = None
    launcher: Annotated[
        str,
        Parsed(OneOf(LAUNCHERS)),
        Option(
            "Program that starts the ranks. [default: the one that fits the benchmark's MPI]",
            "Running",
            is_order=True,
        ),
    ] = defaults.LAUNCHER
    hostfile: Annotated[
        Path | None,
        FILE,
        Option(
            "Hosts to run on, a file in the launcher's own form.",
            "Running",
            metavar="FILE",
            is_order=True,
        ),
    ] = None
    np: Annotated[
        int | None,
        COUNT,
        Option(
            "Number of ranks. [default: one for each GPU that a job can use]",
            "Running",
            is_usual=True,
            metavar="N",
        ),
    ] = None
    scales: Annotated[
        tuple[Annotated[Scale, SCALE], ...],
        Listed(),
        Option(
            "Several scales, N nodes with R ranks in all (1x64,2x128), each into its own session.",
            "Running",
            metavar="NxR,...",
            read=parse_scales,
        ),
    ] = ()
    rank_placement: Annotated[
        str | None,
        Parsed(OneOf(RANK_PLACEMENTS)),
        Option(
            "Devices of the ranks: node, one-oam, one-per-oam, … [default: node, or first]",
            "Running",
            metavar="PLACE",
            pinned=True,
        ),
    ] = None
    preset: Annotated[
        str | None,
        Parsed(OneOf(tuple(PRESETS))),
        Option("Start from a published set of options; other options win over it.", "What"),
    ] = None
    collective: Annotated[
        tuple[Annotated[Collective, COLLECTIVE], ...],
        Listed(),
        Option(
            "Collective to measure (repeatable). [default: the five that ask a tuner]",
            "What",
            is_usual=True,
            again=True,
        ),
    ] = ()
    setting: Annotated[
        tuple[Annotated[Setting, SETTING], ...],
        Listed(),
        Option(
            "Setting to measure, tree/ll or tree/ll/16 (repeatable). [default: all that can run]",
            "What",
            again=True,
        ),
    ] = ()
    channels: Annotated[
        tuple[Annotated[int, COUNT], ...],
        Listed(),
        Option(
            "Channel counts to try, 8,16: for each --setting, or for the fastest ones.",
            "What",
            metavar="LIST",
            read=parse_channels,
        ),
    ] = ()
    variant: Annotated[
        tuple[Annotated[str, LINE], ...],
        Listed(),
        Option(
            "Environment to measure settings in (repeatable); 'rccltune variants' lists them.",
            "What",
            is_usual=True,
            metavar="NAME",
            again=True,
        ),
    ] = ()
    variants: Annotated[
        Path | None,
        FILE,
        Option("File with variants of your own.", "What", metavar="YAML", is_order=True),
    ] = None
    min_bytes: Annotated[
        int,
        SIZE,
        Option(
            "Smallest message size. [default: {default}]",
            "Sizes",
            is_usual=True,
            is_range=True,
            pinned=True,
        ),
    ] = defaults.MIN_NBYTES
    max_bytes: Annotated[
        int,
        SIZE,
        Option(
            "Largest message size. [default: {default}, in CPX modes 128M]",
            "Sizes",
            is_usual=True,
            is_range=True,
            pinned=True,
        ),
    ] = defaults.MAX_NBYTES
    factor: Annotated[
        int,
        Parsed(FromUp(2)),
        Option(
            "Factor from one size to the next. [default: {default}]",
            "Sizes",
            metavar="N",
            is_range=True,
            pinned=True,
        ),
    ] = defaults.FACTOR
    sizes: Annotated[tuple[Annotated[tuple[Collective, int], SIZED], ...], Listed(), Option()] = ()
    workload: Annotated[
        Path | None,
        FILE,
        Option(
            "Measure only the sizes of this recorded job.", "Sizes", metavar="FILE", is_order=True
        ),
    ] = None
    dtype: Annotated[
        tuple[Annotated[str, Parsed(OneOf(tuple(DTYPE_BYTES)))], ...],
        Listed(),
        Option(
            "Data type: float, half, bfloat16, … [default: {default}]",
            "What",
            metavar="TYPE",
            pinned=True,
        ),
    ] = (defaults.DTYPE,)
    op: Annotated[
        str,
        Parsed(OneOf(REDOPS)),
        Option(
            "Reduction of all_reduce, reduce and reduce_scatter. [default: {default}]",
            "What",
            pinned=True,
        ),
    ] = defaults.REDOP
    placement: Annotated[
        str,
        Parsed(OneOf(PLACEMENTS)),
        Option(
            "Measure out-of-place, in-place or both. [default: {default}]",
            "What",
            pinned=True,
        ),
    ] = defaults.PLACEMENT
    communicators: Annotated[
        int,
        COUNT,
        Option(
            "Repetitions: communicators, or launches with rccl-tests. [default: {default}]",
            "Running",
            metavar="N",
        ),
    ] = defaults.COMMUNICATORS
    timing: Annotated[
        str,
        Parsed(OneOf(TIMINGS)),
        Option(
            "Time replayed graphs, calls launched one by one, or each where it counts (auto; with "
            "rccl-tests: loop).",
            "Running",
        ),
    ] = defaults.TIMING
    crosscheck: Annotated[
        bool | None,
        Option(
            "Measure a few sizes with rccl-tests too. [default: where they are; not simulated]",
            "Running",
            is_flag=True,
            runners=(PERF,),
        ),
    ] = None
    budget: Annotated[
        float | None,
        TIME,
        Option("Time to measure, 5m or 1h. [default: as needed]", "Running", is_usual=True),
    ] = None
    timeout: Annotated[
        float | None,
        TIME,
        Option(
            "End a launch that takes longer, or ranks of which none ends a step for so long. "
            "[default: by what others took; 1m for a step]"
        ),
    ] = None
    env: Annotated[
        Pairs,
        PAIRS,
        Option(
            "Set this variable in every launch (repeatable).",
            "Running",
            metavar="NAME=VALUE",
            again=True,
            is_order=True,
        ),
    ] = ()
    seed: Annotated[
        int,
        COUNT_OR_NONE,
        Option("Seed of the order of launches, and of simulated noise.", metavar="N", pinned=True),
    ] = 0
