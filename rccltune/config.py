"""sweep.yaml: what a user wishes for, with every mistake found at once and placed.

In comes the text of a YAML file, out come typed values under the names of the command line's own
options (``min_bytes`` for ``--min-bytes``), so that an option overrides a key of the same name.
PyYAML's node tree is read rather than its dicts, because nodes know their line and column and
show keys that are given twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from rccltune.errors import InputFileError
from rccltune.model import LONGEST_S, Mode, Scale, Setting, Sweep
from rccltune.presets import PRESETS
from rccltune.showing import lay
from rccltune.units import parse_size
from rccltune.vocab import DTYPE_BYTES, RANK_PLACEMENTS, REDOPS, Collective, RankPlacement

# PyYAML's stubs leave out what its nodes are made of.
Node: TypeAlias = Any
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smh]?)")
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


def _whole(minimum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]+", text) or int(text) < minimum:
            raise ValueError(f"'{text}' is no whole number from {minimum} up")
        return int(text)

    return parse


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"'{text}' is none of {', '.join(words)}")
        return text

    return parse


def _flag(text: str) -> bool:
    folded = text.lower()
    if folded not in ("true", "false", "yes", "no", "1", "0"):
        raise ValueError(f"'{text}' is neither true nor false")
    return folded in ("true", "yes", "1")


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError(f"'{text}' is no name of an environment variable")
    return text


def _sized(text: str) -> tuple[Collective, int]:
    """``all_reduce/1M``: the collective, and a size to measure it at."""
    collective, slash, size = text.partition("/")
    if not slash:
        raise ValueError(f"'{text}' is no collective with a size: write all_reduce/1M")
    return Collective.parse(collective), parse_size(size)


Parser = Callable[[str], Any]
ONE: Final[Mapping[str, Parser]] = {
    "mode": Mode.parse_wish,
    "min_bytes": parse_size,
    "max_bytes": parse_size,
    "factor": _whole(2),
    "step": parse_size,
    "op": _one_of(REDOPS),
    "placement": _one_of(PLACEMENTS),
    "iters": _whole(1),
    "warmup": _whole(0),
    "graph": _whole(0),
    "check": _flag,
    "repeats": _whole(1),
    "exhaustive": _flag,
    "timeout": parse_duration,
    "budget": parse_duration,
    "longest": parse_duration,
    "launcher": _one_of(LAUNCHERS),
    "rccl_tests": str,
    "librccl": str,
    "runner": _one_of(RUNNERS),
    "python": str,
    "backend": _one_of(BACKENDS),
    "hostfile": str,
    "np": _whole(1),
    "placement_of_ranks": _one_of(RANK_PLACEMENTS),
    "preset": _one_of(tuple(PRESETS)),
    "seed": _whole(0),
    "method": _one_of(METHODS),
    "simulate": str,
    "variants": str,
    "workload": str,
}
MANY: Final[Mapping[str, Parser]] = {
    "collective": Collective.parse,
    "setting": Setting.parse,
    "channels": _whole(1),
    "dtype": _one_of(tuple(DTYPE_BYTES)),
    "scales": Scale.parse,
    "variant": str,
    "clear": _name,
    "sizes": _sized,
}
PAIRS: Final[Mapping[str, Parser]] = {"env": _name}
KEYS: Final = (*ONE, *MANY, *PAIRS)


def read_sweep_file(text: str, name: str) -> dict[str, Any]:
    """Typed values by option name; lists become tuples.

    Args:
        text: the file's text.
        name: its path, for messages.

    Raises:
        InputFileError: every mistake, one a line, each with line and column.
    """
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise InputFileError(
            f"this is no YAML: {error.problem or error}", where=place, hint="see docs/sweep.md."
        ) from error
    except yaml.YAMLError as error:
        raise InputFileError(f"this is no YAML: {error}", where=name) from error
    if node is None:
        return {}
    reader = _Reader(name)
    if isinstance(node, yaml.MappingNode):
        reader.read(node)
    else:
        reader.say(node, "a sweep file is a list of 'key: value' lines")
    if reader.mistakes:
        count = len(reader.mistakes)
        raise InputFileError(
            lay([f"{count} mistake{'' if count == 1 else 's'}:", *reader.mistakes]),
            where=name,
            hint=f"keys are {', '.join(KEYS)}.",
        )
    return reader.values


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


class _Reader:
    """Gathers values and mistakes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[str, Any] = {}
        self.mistakes: list[str] = []

    def say(self, node: Node, what: str) -> None:
        mark = node.start_mark
        self.mistakes.append(f"  {self.name}:{mark.line + 1}:{mark.column + 1}: {what}")

    def read(self, node: Node) -> None:
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value).replace("-", "_")
            if name in seen:
                self.say(key, f"'{name}' is given twice")
            elif name in ONE:
                self.values[name] = self.scalar(value, ONE[name])
            elif name in MANY:
                self.values[name] = self.many(value, MANY[name])
            elif name in PAIRS:
                self.values[name] = self.pairs(value, PAIRS[name])
            else:
                near = get_close_matches(name, KEYS, n=1)
                meant = f", did you mean '{near[0]}'?" if near else ""
                self.say(key, f"unknown key '{key.value}'{meant}")
            seen.add(name)

    def scalar(self, node: Node, parse: Parser) -> Any:  # noqa: ANN401 - the parser's type
        if node.id != "scalar":
            self.say(node, "one value is wanted here")
            return None
        try:
            return parse(str(node.value))
        except ValueError as error:
            self.say(node, str(error))
            return None

    def many(self, node: Node, parse: Parser) -> tuple[Any, ...]:
        if node.id == "mapping":
            self.say(node, "a list is wanted here")
            return ()
        items = node.value if node.id == "sequence" else [node]
        return tuple(self.scalar(item, parse) for item in items)

    def pairs(self, node: Node, parse: Parser) -> tuple[tuple[str, str], ...]:
        if node.id != "mapping":
            self.say(node, "'NAME: value' lines are wanted here")
            return ()
        return tuple(
            (self.scalar(key, parse), self.scalar(value, str)) for key, value in node.value
        )
