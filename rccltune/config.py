"""sweep.yaml: what a user wishes for, with every mistake found at once and placed.

In comes the text of a YAML file, out come typed values under the names of the command line's own
options (``min_bytes`` for ``--min-bytes``), so that an option overrides a key of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from typing_extensions import TypedDict

from rccltune import yamlfile
from rccltune.fields import Listed, Made, Parsed, VariableName, odd_letters, one_of, whole
from rccltune.model import LONGEST_S, Mode, Scale, Setting, Sweep
from rccltune.presets import PRESETS
from rccltune.showing import shown
from rccltune.units import parse_size
from rccltune.vocab import DTYPE_BYTES, RANK_PLACEMENTS, REDOPS, Collective, RankPlacement

_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([smh]?)")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}
LAUNCHERS: Final = ("auto", "openmpi", "mpich", "intel", "srun", "torchrun", "none")
RUNNERS: Final = ("rccl-tests", "torch")
BACKENDS: Final = ("nccl", "gloo", "rcclx")
PLACEMENTS: Final = ("out", "in", "both")
METHODS: Final = ("auto", "one-launch", "per-setting")


def parse_duration(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``5m`` or ``1.5h``; ValueError otherwise."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise ValueError(f"'{text}' is no duration: write 90, 90s, 5m or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def _flag(text: str) -> bool:
    folded = text.lower()
    if folded not in ("true", "false", "yes", "no", "1", "0"):
        raise ValueError(f"'{text}' is neither true nor false")
    return folded in ("true", "yes", "1")


def _text(text: str) -> str:
    """One line; of a path, of a name."""
    if odd_letters(text):
        raise ValueError(f"'{shown(text)}' has a letter that is no plain text")
    return text


def _pairs(found: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(found.items())


def _sized(text: str) -> tuple[Collective, int]:
    """``all_reduce/1M``: the collective, and a size to measure it at."""
    collective, slash, size = text.partition("/")
    if not slash:
        raise ValueError(f"'{text}' is no collective with a size: write all_reduce/1M")
    return Collective.parse(collective), parse_size(size)


Size: TypeAlias = Annotated[int, Parsed(parse_size)]
Seconds: TypeAlias = Annotated[float, Parsed(parse_duration)]
Flag: TypeAlias = Annotated[bool, Parsed(_flag)]
Count: TypeAlias = Annotated[int, Parsed(whole(1))]
CountOrNone: TypeAlias = Annotated[int, Parsed(whole(0))]
_Pairs: TypeAlias = Annotated[dict[VariableName, Annotated[str, Parsed(_text)]], Made(_pairs)]
_T = TypeVar("_T")
_Several: TypeAlias = Annotated[tuple[_T, ...], Listed()]


class SweepFile(TypedDict, total=False):
    """The keys of sweep.yaml, by the names of the command line's options."""

    mode: Annotated[Mode | None, Parsed(Mode.parse_wish)]
    collective: _Several[Annotated[Collective, Parsed(Collective.parse)]]
    setting: _Several[Annotated[Setting, Parsed(Setting.parse)]]
    channels: _Several[Count]
    min_bytes: Size
    max_bytes: Size
    factor: Annotated[int, Parsed(whole(2))]
    step: Size
    sizes: _Several[Annotated[tuple[Collective, int], Parsed(_sized)]]
    dtype: _Several[Annotated[str, Parsed(one_of(*DTYPE_BYTES))]]
    op: Annotated[str, Parsed(one_of(*REDOPS))]
    placement: Annotated[str, Parsed(one_of(*PLACEMENTS))]
    iters: Count
    warmup: CountOrNone
    graph: CountOrNone
    check: Flag
    repeats: Count
    exhaustive: Flag
    timeout: Seconds
    budget: Seconds
    longest: Seconds
    launcher: Annotated[str, Parsed(one_of(*LAUNCHERS))]
    rccl_tests: Annotated[str, Parsed(_text)]
    librccl: Annotated[str, Parsed(_text)]
    runner: Annotated[str, Parsed(one_of(*RUNNERS))]
    python: Annotated[str, Parsed(_text)]
    backend: Annotated[str, Parsed(one_of(*BACKENDS))]
    hostfile: Annotated[str, Parsed(_text)]
    np: Count
    placement_of_ranks: Annotated[str, Parsed(one_of(*RANK_PLACEMENTS))]
    scales: _Several[Annotated[Scale, Parsed(Scale.parse)]]
    preset: Annotated[str, Parsed(one_of(*PRESETS))]
    seed: CountOrNone
    method: Annotated[str, Parsed(one_of(*METHODS))]
    simulate: Annotated[str, Parsed(_text)]
    variant: _Several[Annotated[str, Parsed(_text)]]
    variants: Annotated[str, Parsed(_text)]
    workload: Annotated[str, Parsed(_text)]
    env: _Pairs
    clear: _Several[VariableName]


def read_sweep_file(text: str, name: str) -> dict[str, Any]:
    """Typed values by option name; lists become tuples.

    Args:
        text: the file's text.
        name: its path, for messages.

    Raises:
        InputFileError: every mistake, one a line, each with line and column.
    """
    read = yamlfile.read(
        SweepFile, text, name, "see docs/sweep.md.", rename=lambda key: key.replace("-", "_")
    )
    return dict(read.value)


def dump_sweep(sweep: Sweep, site: Mapping[str, Any] | None = None) -> str:
    """A sweep as resolved, in the form that :func:`read_sweep_file` reads.

    Args:
        sweep: what is measured.
        site: what the user said about where, by the same keys, so that the session can be gone on
            with or verified without saying it again.
    """
    import yaml

    placements = [p.value for p in sweep.placements]
    # The first devices are a placement only with their number.
    is_first = sweep.rank_placement == RankPlacement.FIRST.value and sweep.scales
    plain: dict[str, Any] = {
        "mode": str(sweep.mode) if sweep.mode else None,
        "collective": [c.value for c in sweep.collectives],
        "setting": [str(s) for s in sweep.settings],
        "min_bytes": sweep.min_nbytes,
        "max_bytes": sweep.max_nbytes,
        "factor": None if sweep.step_nbytes else sweep.factor,
        "step": sweep.step_nbytes,
        "dtype": list(sweep.dtypes),
        "op": sweep.redop,
        "placement": placements[0] if len(placements) == 1 else "both",
        "placement_of_ranks": sweep.rank_placement,
        "np": sweep.scales[0].n_ranks if is_first else None,
        "iters": sweep.iterations,
        "warmup": sweep.warmup,
        "graph": sweep.graph,
        "check": sweep.check,
        "repeats": sweep.repeats,
        "seed": sweep.seed,
        "variant": list(sweep.named_variants),
        "channels": list(sweep.counts),
        "method": None if sweep.method == "auto" else sweep.method,
        "exhaustive": sweep.exhaustive or None,
        "longest": None if sweep.longest_s == LONGEST_S else f"{sweep.longest_s:g}s",
        "sizes": [f"{c.value}/{n}" for c, found in sweep.wanted for n in found],
    }
    plain |= site or {}
    said = {name: value for name, value in plain.items() if value not in (None, [], {})}
    text: str = yaml.safe_dump(said, sort_keys=False, allow_unicode=True)
    return text
