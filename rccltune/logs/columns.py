"""What cells and columns mean, in every spelling met in the wild; and what two bandwidths tell.

busbw over algbw is a number that each collective has at each number of ranks
(:func:`rccltune.model.busbw_factor`). Both are printed with few decimals, so it is known between
two ends, which lie close together where a bandwidth is large and far apart where it is small.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil, floor, inf, isfinite
from typing import Any, Final

from rccltune.logs.drafts import Run, dtype_named, placement_of, yes_or_no
from rccltune.model.errors import OutputError
from rccltune.model.settings import Mode, Setting
from rccltune.model.vocabulary import MAX_NBYTES, Collective, Doubt, busbw_factor

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
    plain = _UNIT.sub("", name.strip(" \t\"'"))
    return plain.strip().lower().replace(" ", "_").replace("-", "_")


def without_units(header: str) -> str:
    """Names of columns without units and comment signs."""
    return _UNIT.sub("", header.lstrip("# "))


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
    "dtype": ("dtype", dtype_named),
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
        name, read = _FACTS[key]
        try:
            found[name] = read(value)
        except ValueError as error:
            raise OutputError(
                f"{key}={value} cannot be read: {error}", where=where, hint="correct the line."
            ) from error
    return found


_OBJECT: Final = re.compile(r"\s*\{\s*(?:\"|\}|$)")
_ARRAY: Final = re.compile(r"\s*\[\s*(?:\{|\]|$)")
_RESULTS: Final = re.compile(r"\s*\{\s*\"(?:version|start_time|args|config|results)\"")
_RULE: Final = re.compile(
    r"\s*[A-Za-z_]+\s*,\s*\d+\s*,\s*\d+\s*,\s*[\w-]+\s*,\s*[\w-]+\s*(?:,\s*-?\w+\s*){3,}"
)
_RULE_HEADER: Final = re.compile(r"\s*coll(?:ective)?_?type\s*,\s*min_?bytes", re.IGNORECASE)
_SEPARATORS: Final = ",;\t|"
# Units that change nothing: what a column of another unit holds is not known here.
_UNIT: Final = re.compile(r"\s*[(\[](?:B|bytes?|us|µs|GB/s|GBps)[)\]]", re.IGNORECASE)


# The field that every line of Inspector's has (inspector_json.cc).
INSPECTOR_FORMAT: Final = "inspector_output_format_version"


class Form(Enum):
    """Kinds of files; the value is what people call them."""

    TEXT = "benchmark log"
    RESULTS = "nccl-tests -J file"
    RECORDS = "rccl-tests JSON records"
    DELIMITED = "table of comma-separated values"
    RULES = "tuner rule file"


def form_of(head: str) -> Form:
    """Kind of a file that begins so."""
    if _RESULTS.match(head):
        return Form.RESULTS
    if _OBJECT.match(head) or _ARRAY.match(head):
        return Form.RECORDS
    return next(filter(None, map(_form_of_line, head.splitlines())), Form.TEXT)


def _form_of_line(line: str) -> Form | None:
    """What a file's line makes of it; None for a comment or a blank line."""
    text = line.strip().strip("|").strip()
    if text.startswith("#@ "):
        return Form.RULES
    if is_bandwidths(text):
        return Form.DELIMITED
    if not text or text.startswith("#"):
        return None
    if _RULE.match(text) or _RULE_HEADER.match(text):
        return Form.RULES
    separator = separator_of(text)
    roles = roles_of(text.split(separator)) if separator else {}
    return Form.DELIMITED if "nbytes" in roles and len(roles) > 1 else Form.TEXT


def is_bandwidths(header: str) -> bool:
    """Whether these words name sizes and bandwidths alone, as in tables that AMD shows."""
    words = _UNIT.sub("", header.lstrip("# ")).split()
    roles = roles_of(words)
    return set(roles) <= {"nbytes", "count", "algbw", "busbw"} and (
        len(roles) == len(words) and {"nbytes", "busbw"} <= set(roles)
    )


def is_inspector(head: str) -> bool:
    """Whether a file that begins so is a dump of the Inspector plugin that NCCL and RCCL ship."""
    return head.lstrip().startswith("{") and f'"{INSPECTOR_FORMAT}"' in head[:4096]


def separator_of(header: str) -> str:
    """What stands between the columns; empty where there is one column."""
    best = max(_SEPARATORS, key=header.count)
    return best if best in header else ""


UNCHECKED = frozenset(("N/A", "n/a", "NA", "-", ""))


def step(text: str) -> float:
    """Weight of the last printed digit: ``58.20`` → 0.01, ``1.6e+07`` → 1e6."""
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(f"1e{int(exponent or 0) - decimals}")


def agree(nbytes: int, time_us: float, algbw: float, time_step: float, algbw_step: float) -> bool:
    """Whether size = algbw × time within one unit of the last digit of both.

    One whole unit, not half of one: tools that recompute or truncate a column are common and
    harmless.
    """
    if time_us <= time_step:
        return True
    low = nbytes / ((time_us + time_step) * 1000.0) - algbw_step
    high = nbytes / ((time_us - time_step) * 1000.0) + algbw_step
    return low * (1 - 1e-9) <= algbw <= high * (1 + 1e-9)


def wrong(text: str) -> int | None:
    """The ``#wrong`` column: a count, in any notation, or None where nothing was checked.

    Raises:
        ValueError: neither a count nor one of the words for unchecked.
    """
    if text in UNCHECKED:
        return None
    value = float(text)
    if not isfinite(value):
        raise ValueError(text)
    # A fraction of an element would still be a wrong element.
    return int(value) + (value > int(value))


def old_error(text: str) -> int | None:
    """The ``error`` column of old benchmarks: the largest difference, not a count.

    Only an asterisk says that it was too large; without one the run's summary decides.

    Raises:
        ValueError: no number.
    """
    if text in UNCHECKED:
        return None
    if text.endswith("*"):
        return 1
    float(text)
    return 0


def size(text: str) -> int:
    """A size or a count in bytes or elements.

    Raises:
        ValueError: not a whole number of at most 2^63-1.
    """
    value = int(text)
    if not 0 <= value <= MAX_NBYTES:
        raise ValueError(text)
    return value


def doubt_of(nbytes: int, time_us: float | None, n_wrong: int | None) -> Doubt | None:
    """The gravest reason not to use a timing, from its own numbers."""
    if n_wrong:
        return Doubt.WRONG
    if nbytes == 0:
        return Doubt.ZERO_BYTES
    if time_us is None:
        return Doubt.NO_TIME
    return None


_NONE: Final = "none"
_ROOTED: Final = frozenset(
    each for each in Collective if each.value in ("broadcast", "reduce", "gather", "scatter")
)
# More ranks than any table names are not proposed.
_MOST_RANKS: Final = 1 << 20
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one run tells.

    Attributes:
        low: least busbw / algbw that the printed digits allow; 0 where there are none.
        high: largest.
        ratio: as printed; None where there are no bandwidths.
        redops: operations that its rows name.
        rooted: whether its rows name a root; None where the table has no column for it.
        line: of the row with the largest bandwidth.
    """

    low: float = 0.0
    high: float = inf
    ratio: float | None = None
    redops: frozenset[str] = frozenset()
    rooted: bool | None = None
    line: int = 0

    def allows(self, collective: Collective) -> bool:
        """Whether the operation can be this collective's.

        Benchmarks of what computes nothing print ``none``; sendrecv prints an operation.
        """
        if self.rooted is not None and self.rooted != (collective in _ROOTED):
            return False
        if not self.redops or collective.has_own_algbw:
            # Benchmarks leave the operation's column out only where there is none.
            return self.rooted is None or bool(self.redops) or not collective.reduces
        if self.redops == {_NONE}:
            return not collective.reduces
        return collective.reduces or collective is Collective.SENDRECV

    def fits(self, collective: Collective, n_ranks: int) -> bool:
        """Whether operation and bandwidths can be those of this collective on so many ranks."""
        return self.allows(collective) and (
            collective.has_own_algbw or self.low <= busbw_factor(collective, n_ranks) <= self.high
        )

    def ranks_of(self, collective: Collective) -> tuple[int, int] | None:
        """Fewest and most ranks that fit; None where none do. A factor of 1 fits any number."""
        if not self.allows(collective):
            return None
        if busbw_factor(collective, 2) == busbw_factor(collective, 3):
            return (2, _MOST_RANKS) if self.fits(collective, 2) else None
        # A factor is k (n - 1) / n, so that n is 1 / (1 - factor / k).
        k = 2 * busbw_factor(collective, 2)
        if self.low >= k:
            return None
        few, many = (min(_ranks_at(end / k), _MOST_RANKS) for end in (self.low, self.high))
        few, many = max(2, ceil(few - 1e-6)), floor(many + 1e-6)
        return (few, many) if few <= many else None

    @property
    def shown(self) -> str:
        """As a user reads it."""
        parts = [] if self.ratio is None else [f"busbw is {self.ratio:.4g} × algbw"]
        if self.redops:
            parts.append(f"the operation is '{', '.join(sorted(self.redops))}'")
        return " and ".join(parts)


def _ranks_at(share: float) -> float:
    """The n of a share (n - 1) / n."""
    return 1 / (1 - share) if share < 1 else inf


# A missing bandwidth tells nothing.
UNKNOWN: Final = Evidence()


def evidence_of(run: Run) -> Evidence:
    """What the rows of one run tell."""
    algbw, busbw, line = run.peak
    redops = {said.redop for said in {draft[8] for draft in run.drafts}}
    named = frozenset(each.lower() for each in redops if each)
    # One whole unit, since some tools truncate; below one unit nothing is told.
    unit = run.unit
    if algbw <= 2 * unit:
        return Evidence(redops=named, rooted=run.rooted, line=line)
    return Evidence(
        low=max(0.0, busbw - unit) / (algbw + unit),
        high=(busbw + unit) / (algbw - unit),
        ratio=busbw / algbw,
        redops=named,
        rooted=run.rooted,
        line=line,
    )


def proposed(evidence: Evidence, collective: Collective | None, n_ranks: int | None) -> str:
    """Options that fit what a run tells, of those that are still to be said; empty without any.

    Args:
        evidence: of the run.
        collective: where it is known.
        n_ranks: where it is known.
    """
    if evidence is UNKNOWN or not evidence.shown:
        return ""
    listed = list(_options(evidence, collective, n_ranks))
    if not listed:
        return f"{evidence.shown}, which fits nothing that is known"
    more = len(listed) - _SHOWN
    words = listed if more <= 0 else [*listed[:_SHOWN], f"{more} more"]
    return f"{evidence.shown}, which fits {' or '.join(words)}"


def sole(
    told: Sequence[Evidence], collective: Collective | None, n_ranks: int | None
) -> tuple[Collective, int] | None:
    """The only collective, or the only number of ranks, that runs can be of; else None.

    Args:
        told: evidence of each run.
        collective: where it is known.
        n_ranks: where it is known.
    """
    if all(one.ratio is None for one in told):
        return None
    if collective is None:
        if n_ranks is None or n_ranks < 2:
            return None
        fit = [c for c in Collective if all(one.fits(c, n_ranks) for one in told)]
        fit = [c for c in fit if not c.has_own_algbw]
        return (fit[0], n_ranks) if len(fit) == 1 else None
    spans = [one.ranks_of(collective) or (2, 1) for one in told]
    few, many = max(span[0] for span in spans), min(span[1] for span in spans)
    return (collective, few) if few == many else None


def _options(
    evidence: Evidence, collective: Collective | None, n_ranks: int | None
) -> Iterator[str]:
    known = [each for each in Collective if not each.has_own_algbw]
    for each in known if collective is None else (collective,):
        name = "" if collective is not None else f"--collective {each.value}"
        if n_ranks is not None:
            if evidence.fits(each, n_ranks):
                yield f"{name} on {n_ranks} ranks".strip()
        elif (ranks := evidence.ranks_of(each)) is not None:
            yield f"{name} {_ranks_shown(*ranks)}".strip()


def _ranks_shown(few: int, many: int) -> str:
    if few == many:
        return f"--ranks {few}"
    if many == _MOST_RANKS:
        return "any --ranks" if few == 2 else f"--ranks {few} or more"
    return f"--ranks {few} to {many}"
