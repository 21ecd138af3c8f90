"""Names of columns, in every spelling met in the wild, and the facts in ``# rccltune:`` lines."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any, Final

from rccltune.errors import OutputError
from rccltune.model import Mode, Setting
from rccltune.parse.resolve import placement_of, yes_or_no
from rccltune.vocab import Collective

# The first spelling that a table has wins, so that time_us stands before latency_us.
_SPELLINGS: Final = {
    "collective": ("collective", "name", "coll"),
    "nbytes": ("nbytes", "size_bytes", "size", "bytes", "message_size", "size(b)"),
    "count": ("count", "elements"),
    "time": ("time_us", "time", "latency_us", "time(us)"),
    "time_out": ("time_oop_us", "time_out_us", "time_oop", "out_of_place_time_us"),
    "time_in": ("time_ip_us", "time_in_us", "time_inplace_us", "time_ip", "in_place_time_us"),
    "algbw": ("algbw", "algbw_gbs", "alg_bw"),
    "busbw": ("busbw", "busbw_gbs", "bus_bw"),
    "algorithm": ("algorithm", "algo"),
    "protocol": ("protocol", "proto"),
    "channels": ("channels", "nchannels", "n_channels"),
    "setting": ("setting",),
    "variant": ("variant", "config", "arm"),
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


def folded(name: str) -> str:
    """A column's name without what people vary."""
    return name.strip().strip("\"'").strip().lower().replace(" ", "_").replace("-", "_")


def roles_of(names: Sequence[str]) -> dict[str, int]:
    """Position of each column whose name is known, by what it means."""
    position: dict[str, int] = {}
    for at, name in enumerate(names):
        position.setdefault(folded(name.lstrip("\ufeff")), at)
    return {
        role: next(position[each] for each in spellings if each in position)
        for role, spellings in _SPELLINGS.items()
        if any(each in position for each in spellings)
    }


_FACTS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "collective": ("collective", Collective.parse),
    "ranks": ("n_ranks", int),
    "nodes": ("n_nodes", int),
    "mode": ("mode", Mode.parse),
    "product": ("product", str),
    "arch": ("arch", str),
    "cus": ("cu_count", int),
    "dtype": ("dtype", str),
    "redop": ("redop", str),
    "graph": ("graph", yes_or_no),
    "placement": ("placement", placement_of),
    "rank_placement": ("rank_placement", str),
    "setting": ("setting", Setting.parse),
    "variant": ("variant", str),
    "host": ("hosts", lambda text: (text,)),
    "source": ("origin", str),
}


def facts_of(comment: str, where: str) -> dict[str, Any]:
    """Facts of one ``# rccltune: key=value …`` line, by the field that takes them.

    Raises:
        OutputError: an unknown key or an unreadable value.
    """
    found: dict[str, Any] = {}
    try:
        words = shlex.split(comment)
    except ValueError as error:
        raise OutputError(f"{error} in a '# rccltune:' line", where=where) from error
    for word in words:
        key, equals, value = word.partition("=")
        if key not in _FACTS or not equals:
            raise OutputError(
                f"'{word}' in a '# rccltune:' line is not known",
                where=where,
                hint=f"write key=value with one of {', '.join(_FACTS)}.",
            )
        name, read = _FACTS[key]
        try:
            found[name] = read(value)
        except ValueError as error:
            raise OutputError(
                f"{key}={value} cannot be read: {error}", where=where, hint="correct the line."
            ) from error
    return found
