"""Meaning of columns and cells, in every spelling met in the wild."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from math import isinf, nan
from typing import TYPE_CHECKING, Any, Final

from rccltune.model.errors import OutputError
from rccltune.model.settings import Mode, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Placement, Protocol

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

# The first spelling that a table has wins, so that time_us stands before latency_us.
_SPELLINGS: Final = {
    "collective": ("collective", "name", "coll"),
    "nbytes": ("nbytes", "size_bytes", "size", "bytes", "message_size", "msg_size"),
    "count": ("count", "elements"),
    "time": ("time_us", "time", "latency_us"),
    "time_out": ("time_oop_us", "time_out_us", "time_oop", "out_of_place_time_us"),
    "time_in": ("time_ip_us", "time_in_us", "time_inplace_us", "time_ip", "in_place_time_us"),
    "algbw": ("algbw", "algbw_gbs", "alg_bw", "algorithm_bandwidth"),
    "busbw": ("busbw", "busbw_gbs", "bus_bw", "bus_bandwidth"),
    "algorithm": ("algorithm", "algo"),
    "protocol": ("protocol", "proto"),
    "channels": ("channels", "nchannels", "n_channels"),
    "setting": ("setting",),
    "environment": ("environment", "variant", "config", "arm"),
    "dtype": ("dtype", "type", "datatype", "data_type"),
    "redop": ("redop", "op"),
    "inplace": ("inplace", "in_place"),
    "placement": ("placement",),
    "ranks": ("ranks", "n_ranks", "nranks", "num_ranks", "num_gpus", "gpus", "ngpus"),
    "per_rank": ("gpusperrank",),
    "nodes": ("nodes", "n_nodes", "nnodes", "num_nodes"),
    "wrong": ("wrong", "n_wrong", "nwrong", "#wrong"),
    "graph": ("graph",),
    "requested": ("requested",),
    "run": ("repeat", "run", "stamp", "rep"),
    "cycle": ("cycle", "numcycle"),
    "rank_placement": ("rank_placement",),
}


# A slip of a letter or two; names of other things are further off.
_NEAR: Final = 0.85
# Units that change nothing: what a column of another unit holds is not known here.
_UNIT: Final = re.compile(r"\s*[(\[](?:B|bytes?|us|µs|GB/s|GBps)[)\]]", re.IGNORECASE)


def normalise_name(name: str) -> str:
    """A column's name without what people vary."""
    plain = _UNIT.sub("", name.strip(" \t\"'"))
    return plain.strip().lower().replace(" ", "_").replace("-", "_")


def strip_units(header: str) -> str:
    """Names of columns without units and comment signs."""
    return _UNIT.sub("", header.lstrip("# "))


def find_roles(names: Sequence[str]) -> dict[str, int]:
    """Position of each column whose name is known, by what it means."""
    position: dict[str, int] = {}
    for at, name in enumerate(names):
        position.setdefault(normalise_name(name.lstrip("\ufeff")), at)
    return {
        role: next(position[each] for each in spellings if each in position)
        for role, spellings in _SPELLINGS.items()
        if any(each in position for each in spellings)
    }


def find_misspelt_columns(names: Sequence[str]) -> dict[str, str]:
    """Columns whose names are nearly one that is known and that the table lacks, with that."""
    roles = find_roles(names)
    missing = [each for role, known in _SPELLINGS.items() if role not in roles for each in known]
    known = {each for spellings in _SPELLINGS.values() for each in spellings}
    odd = [name for name in names if normalise_name(name.lstrip("\ufeff")) not in known]
    near = {
        name: get_close_matches(normalise_name(name), missing, n=1, cutoff=_NEAR) for name in odd
    }
    return {name: matches[0] for name, matches in near.items() if matches}


def is_bandwidth_header(header: str) -> bool:
    """Whether these words name sizes and bandwidths alone, as in tables that AMD shows."""
    words = _UNIT.sub("", header.lstrip("# ")).split()
    roles = find_roles(words)
    return set(roles) <= {"nbytes", "count", "algbw", "busbw"} and (
        len(roles) == len(words) and {"nbytes", "busbw"} <= set(roles)
    )


_PLACEMENTS: Final = {
    "out": Placement.OUT_OF_PLACE,
    "out-of-place": Placement.OUT_OF_PLACE,
    "in": Placement.IN_PLACE,
    "in-place": Placement.IN_PLACE,
}
_YES: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


# What people call them in tables of their own; benchmarks print the names on the right.
_DTYPES: Final = {
    "bf16": "bfloat16", "fp16": "half", "float16": "half", "fp32": "float", "float32": "float",
    "fp64": "double", "float64": "double",
}  # fmt: skip


def parse_dtype(text: str) -> str:
    """A data type by the name that benchmarks print; any other text as it is."""
    return _DTYPES.get(text.lower(), text)


def parse_placement(text: str) -> Placement:
    """Read ``in``, ``out``, ``in-place``, ``out-of-place``; ValueError for anything else."""
    placement = _PLACEMENTS.get(text.strip().lower().replace("_", "-"))
    if placement is None:
        raise ValueError(f"'{text}' is no placement: write in or out")
    return placement


def parse_yes_or_no(text: str) -> bool:
    """Read ``1``, ``0``, ``true``, ``no`` …; ValueError for anything else."""
    answer = _YES.get(text.strip().lower())
    if answer is None:
        raise ValueError(f"'{text}' is neither 0 nor 1")
    return answer


_FACTS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "collective": ("collective", Collective.parse),
    "ranks": ("n_ranks", int),
    "nodes": ("n_nodes", int),
    "mode": ("mode", Mode.parse),
    "product": ("product", str),
    "arch": ("arch", str),
    "cus": ("cu_count", int),
    "dtype": ("dtype", parse_dtype),
    "redop": ("op", str),
    "graph": ("graph", parse_yes_or_no),
    "placement": ("placement", parse_placement),
    "rank_placement": ("rank_placement", str),
    "setting": ("setting", Setting.parse),
    "host": ("hosts", lambda text: (text,)),
    "source": ("origin", str),
}


def parse_facts(comment: str, where: str) -> dict[str, Any]:
    """Facts of one ``# rccltune: key=value …`` line, by the field that takes them.

    Raises:
        OutputError: an unknown key or an unreadable value.
    """
    facts: dict[str, Any] = {}
    try:
        words = shlex.split(comment)
    except ValueError as error:
        raise OutputError(
            f"{error} in a '# rccltune:' line", where=where, hint="correct the line in the file."
        ) from error
    for word in words:
        key, equals, value = word.partition("=")
        if key not in _FACTS or not equals:
            raise OutputError(
                f"'{word}' in a '# rccltune:' line is not known",
                where=where,
                hint=f"write key=value with one of {', '.join(_FACTS)}.",
            )
        name, parse = _FACTS[key]
        try:
            facts[name] = parse(value)
        except ValueError as error:
            raise OutputError(
                f"{key}={value} cannot be read: {error}", where=where, hint="correct the line."
            ) from error
    return facts


UNCHECKED: Final = ("N/A", "n/a", "NA", "-", "")
_PERCENTILE: Final = re.compile(r"i_(?:min|max|avg|p\d+|cv%?)|p\d\d")


def is_percentile(name: str) -> bool:
    """Whether a column tells of single calls, as ``-I`` of nccl-tests and rccl-tests adds them."""
    return _PERCENTILE.fullmatch(name) is not None


def digit_weight(text: str) -> float:
    """Weight of the last printed digit: ``58.20`` → 0.01, ``1.6e+07`` → 1e6."""
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(f"1e{int(exponent or 0) - decimals}")


def digit_weights(words: Iterable[str]) -> np.ndarray[Any, Any]:
    """Weight of the last printed digit of each number; 0 for what is none."""
    import numpy as np

    return np.array([digit_weight(word) if word[-1:].isdigit() else 0.0 for word in words])


def disagree(
    nbytes: pd.Series[int],
    time_us: pd.Series[float],
    algbw: pd.Series[float],
    time_step: np.ndarray[Any, Any] | float,
    algbw_step: np.ndarray[Any, Any] | float,
) -> pd.Series[bool]:
    """Whether size and algbw × time differ by more than one unit of the last digit of both.

    One whole unit, not half of one: tools that recompute or truncate a column are common and
    harmless.
    """
    import numpy as np

    with np.errstate(all="ignore"):
        low = nbytes / ((time_us + time_step) * 1000.0) - algbw_step
        high = nbytes / ((time_us - time_step) * 1000.0) + algbw_step
        outside = (algbw < low * (1 - 1e-9)) | (algbw > high * (1 + 1e-9))
    differs: pd.Series[bool] = outside & (time_us > time_step) & (nbytes > 0)
    return differs


def parse_wrong_count(text: str) -> float:
    """The ``#wrong`` column: a count, in any notation; nan where nothing was checked.

    Raises:
        ValueError: neither a count nor one of the words for unchecked.
    """
    value = nan if text in UNCHECKED else float(text)
    if isinf(value) or (value != value and text not in UNCHECKED):  # noqa: PLR0124 - nan
        raise ValueError(text)
    return value


def parse_old_errors(words: pd.Series[str]) -> pd.Series[float]:
    """The ``error`` column of old benchmarks: the largest difference, not a count.

    Only an asterisk says that it was too large; without one the run's summary decides.
    """
    return words.str.endswith("*").astype(float).mask(words.isin(UNCHECKED))


_NOTHING: Final = frozenset(("", "-", "N/A", "NONE", "-1"))


def parse_ran_setting(algorithm: str, protocol: str, channels: str) -> tuple[Setting | None, bool]:
    """Return the setting that a row says ran; and whether that is a path no tuner can set."""
    if algorithm.upper() in _NOTHING:
        return None, False
    try:
        return Setting(
            algorithm=Algorithm.parse(algorithm),
            protocol=None if protocol.upper() in _NOTHING else Protocol.parse(protocol),
            channels=int(channels) if channels.isdigit() and int(channels) > 0 else None,
        ), False
    except ValueError:
        return None, True
