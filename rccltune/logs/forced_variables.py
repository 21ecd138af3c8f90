"""Variables that choose what runs: NCCL_ALGO and NCCL_PROTO by their grammar, channels, tuners.

The grammar is the libraries' own, ``parseList`` in NCCL 2.30.7 ``src/graph/tuning.cc:55``, 2.31
``src/tuning/cost_model.cc:32`` and RCCL 2.28.3 ``src/graph/tuning.cc``: ``[func:][^]name,name`` and
more of the like behind semicolons, in any case. Releases before 2.24 know the list alone. What it
does not read leaves rows *unstated*.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from rccltune.model.settings import Setting
from rccltune.model.vocabulary import TUNABLE, Algorithm, Collective, Protocol

T = TypeVar("T", bound=Enum)
# The first one is applied last, so that the other is not looked at.
ALGORITHM: Final = ("RCCL_OVERRIDE_ALGO", "NCCL_ALGO")
PROTOCOL: Final = ("RCCL_OVERRIDE_PROTO", "NCCL_PROTO")
_BOUNDS: Final = (
    ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
    ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"),
)
# What our own reader of the library's log adds: the tuner that it says it uses.
TUNER: Final = "tuner"
# Of NVIDIA's and RCCL's readers, Google's plugin, Meta's NCCLX, and ours.
_LOADS: Final = (
    *("NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE", "NCCL_TUNER_CONFIG_PATH"),
    *("NCCLX_TUNER_CONFIG_FILE", "RCCLTUNE_CONFIG_DIR", TUNER),
)
CHOOSING: Final = frozenset((*ALGORITHM, *PROTOCOL, *_LOADS))
# Libraries of collectives and of networks and AMD's runtime read them; logs and dumps change no
# time, and which devices are visible is the rank list's to say.
READ_VARIABLE: Final = re.compile(
    r"(?:NCCLX?|RCCL|RCCLTUNE|MSCCLPP|MSCCL|HSA|HIP|FI|UCX|TORCH_NCCL)_"
    r"(?!DEBUG|TESTS_|COMM_ID$|VISIBLE_DEVICES$|\w*DUMP)\w+"
)


def allowed_names(
    value: str, names: type[T], collective: Collective | None, *, by_name: bool = True
) -> frozenset[T] | None:
    """Names that a value of NCCL_ALGO or NCCL_PROTO leaves to a collective.

    Args:
        value: of the variable, without quotes.
        names: Algorithm or Protocol.
        collective: that is called; None where that is not known.
        by_name: the library applies ``allreduce:`` to all_reduce.

    Returns:
        None where the grammar does not read the value, or what it leaves is not known.
    """
    known = {str(one.value).replace("_", ""): one for one in names}
    allowed = frozenset(names)
    for at, entry in enumerate(one for one in value.split(";") if one):
        function, colon, listed = entry.rpartition(":")
        words = [word.lower() for word in listed.removeprefix("^").split(",") if word]
        if (at and not colon) or not words or not known.keys() >= set(words):
            return None
        if colon and (function.lower() not in _FUNCTIONS or collective is None or not by_name):
            return None
        if not colon or (collective and function.lower() == collective.csv_name):
            chosen = frozenset(known[word] for word in words)
            allowed = frozenset(names) - chosen if listed.startswith("^") else chosen
    return allowed


_FUNCTIONS: Final = frozenset(one.csv_name for one in TUNABLE)


@dataclass(frozen=True, slots=True)
class ForcedParts:
    """Parts of a setting that variables force.

    Attributes:
        algorithm: the only one that is left; None where none is forced, or several are left.
        channels: the one number that is least and most at once.
        forcing: the variables that force: ``NCCL_ALGO=Ring``.
        exclusions: those among them that leave several, with the names that they exclude.
    """

    algorithm: Algorithm | None
    protocol: Protocol | None
    channels: int | None
    forcing: tuple[str, ...]
    exclusions: tuple[tuple[str, frozenset[Algorithm | Protocol]], ...]

    @property
    def setting(self) -> Setting | None:
        """Algorithm and protocol; None without any."""
        if self.algorithm is None and self.protocol is None:
            return None
        return Setting(algorithm=self.algorithm, protocol=self.protocol)

    def excluding(self, word: Algorithm | Protocol | None) -> str | None:
        """Variable that excludes an algorithm or protocol; None where none does."""
        return next((name for name, names in self.exclusions if word in names), None)


def forced_parts(
    variables: Mapping[str, str], collective: Collective | None, *, by_name: bool = True
) -> ForcedParts:
    """Parts of a setting that variables force; for the arguments see :func:`allowed_names`."""
    forcing: list[str] = []
    exclusions: list[tuple[str, frozenset[Algorithm | Protocol]]] = []

    def find_only(candidates: Iterable[str], names: type[T]) -> T | None:
        name = next((one for one in candidates if one in variables), None)
        if name is None:
            return None
        forcing.append(f"{name}={variables[name]}")
        left = allowed_names(variables[name], names, collective, by_name=by_name)
        if left is not None and len(left) == 1:
            return next(iter(left))
        exclusions.append((forcing[-1], frozenset(names) - left if left else frozenset()))  # type: ignore[arg-type]  # T is either
        return None

    algorithm, protocol = find_only(ALGORITHM, Algorithm), find_only(PROTOCOL, Protocol)
    return ForcedParts(
        algorithm, protocol, _find_channels(variables), tuple(forcing), tuple(exclusions)
    )


def _find_channels(variables: Mapping[str, str]) -> int | None:
    """The one number of channels that variables leave."""
    pairs = [tuple(variables.get(name) for name in pair) for pair in _BOUNDS]
    bounds = {pair for pair in pairs if pair != (None, None)}
    least, most = bounds.pop() if len(bounds) == 1 else (None, None)
    return int(least) if least and least == most and least.isdigit() and int(least) else None


def name_tuner(variables: Mapping[str, str]) -> str:
    """The tuner that variables or the library's log name, in words; empty without one."""
    loading = {name: variables[name] for name in _LOADS if name in variables}
    if loading.get("NCCL_TUNER_PLUGIN", "").lower() == "none":
        loading.pop("NCCL_TUNER_PLUGIN")
        if set(loading) <= {"NCCL_TUNER_CONFIG_FILE"}:
            return ""
    return ", ".join(f"{n}={v}" if n != TUNER else v for n, v in loading.items())


def is_choice_requested(variables: Mapping[str, str]) -> bool:
    """Whether somebody asked for what chose; a plugin that the library found is the site's own."""
    ours = variables.get(TUNER, "").startswith("our plugin")
    return ours or bool(CHOOSING - {TUNER} & variables.keys())


def find_other_variables(variables: Mapping[str, str], *, channels: bool) -> dict[str, str]:
    """Variables beside the choice that may change times, by name.

    Args:
        variables: of a process.
        channels: those of channels are a part of the setting.
    """
    bounds = {name for pair in _BOUNDS for name in pair} if channels else set()
    return {
        name: value
        for name, value in sorted(variables.items())
        if name not in CHOOSING | bounds and READ_VARIABLE.fullmatch(name)
    }
