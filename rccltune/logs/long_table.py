"""Long tables: one measurement a row, columns by name, from CSV or from JSON records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from typing import TYPE_CHECKING, Any, Final

from rccltune.logs import columns
from rccltune.logs.columns import (
    parse_dtype,
    parse_placement,
    parse_yes_or_no,
)
from rccltune.logs.facts import LogFacts, LogRun
from rccltune.logs.resolver import Resolver
from rccltune.logs.timings import count_passes, keep_usable_times
from rccltune.model.errors import OutputError
from rccltune.model.measurement import Caution
from rccltune.model.settings import BASELINE, Setting
from rccltune.model.times import printed_or_none
from rccltune.model.units import MAX_NBYTES, busbw_factor, parse_size
from rccltune.model.vocabulary import Algorithm, Collective, Placement, Protocol

if TYPE_CHECKING:
    import pandas as pd

_UNFORCED: Final = frozenset(("default", "baseline", "auto"))
_EMPTY: Final = frozenset(("", "-", "-1", "n/a", "none", "null", "nan"))
# Everything that tells one curve from another.
_KEY: Final = (
    "collective", "algorithm", "protocol", "channels", "setting", "dtype", "redop",
    "inplace", "placement", "ranks", "per_rank", "nodes", "graph", "requested", "rank_placement",
)  # fmt: skip
# Columns of times, with the placement that their name says.
_TIMES: Final = {
    "time": None, "time_out": Placement.OUT_OF_PLACE, "time_in": Placement.IN_PLACE,
}  # fmt: skip
Row = tuple[int, Sequence[str]]


@dataclass(slots=True)
class _Mixes:
    """Facts of rows whose cells say the same of collective, setting and scale.

    Attributes:
        facts: of each mix.
        table_facts: of the whole table.
        ran: setting that ran, where the row says it beside what was requested for.
        bypassed: a path ran that no tuner can set.
    """

    table_facts: LogFacts
    is_unsure: bool
    facts: list[LogFacts] = field(default_factory=list)
    ran: list[Setting | None] = field(default_factory=list)
    bypassed: list[bool] = field(default_factory=list)
    numbers: dict[tuple[str, ...], int] = field(default_factory=dict)

    def of(self, line: int, cell: Mapping[str, str], placement: Placement | None) -> int:
        """Number of a row's mix; ValueError where a cell cannot be read."""
        key = (*(cell.get(role, "") for role in _KEY), placement.value if placement else "")
        if key not in self.numbers:
            self._add(line, cell, placement)
            self.numbers[key] = len(self.facts) - 1
        return self.numbers[key]

    def _add(self, line: int, cell: Mapping[str, str], placement: Placement | None) -> None:
        if cell.get("placement"):
            placement = parse_placement(cell["placement"])
        if cell.get("inplace"):
            placement = (Placement.OUT_OF_PLACE, Placement.IN_PLACE)[
                parse_yes_or_no(cell["inplace"])
            ]
        ranks = _parse_positive(cell.get("ranks", ""))
        words = [cell.get(role, "").lower() for role in ("algorithm", "protocol", "channels")]
        requested = _parse_requested(
            cell.get("setting", "").lower(), cell.get("requested", "").lower(), words
        )
        facts = LogFacts(
            line=line,
            collective=Collective.parse(cell["collective"]) if cell.get("collective") else None,
            setting=requested,
            n_ranks=ranks * (_parse_positive(cell.get("per_rank", "")) or 1) if ranks else None,
            n_nodes=_parse_positive(cell.get("nodes", "")),
            nodes_unsure=self.is_unsure,
            dtype=parse_dtype(cell.get("dtype", "")) or None,
            op=cell.get("redop") or None,
            placement=placement,
            graph=parse_yes_or_no(cell["graph"]) if cell.get("graph") else None,
            rank_placement=cell.get("rank_placement") or None,
        ).or_else(self.table_facts)
        ran, bypassed = None, False
        if facts.setting is BASELINE and "algorithm" in cell and words[0] not in _UNFORCED:
            # What ran where nothing was forced, from columns that then name it.
            try:
                ran = _parse_setting(words)
            except ValueError:
                bypassed = True
        self.facts.append(facts)
        self.ran.append(ran)
        self.bypassed.append(bypassed)


def make_runs(
    names: Sequence[str],
    rows: Iterable[Row],
    facts: LogFacts,
    resolver: Resolver,
    *,
    ordered: bool,
    unsure: bool = False,
) -> list[LogRun]:
    """Runs of a table, each without rows that say the same twice.

    Args:
        names: the header's cells.
        rows: their line, and as many cells each.
        facts: what holds for the whole table; its line is the header's.
        resolver: the options.
        ordered: a benchmark wrote it, so that a size seen again begins another cycle.
        unsure: the column of nodes is rccl-tests' own, which is wrong when several nodes run.

    Raises:
        OutputError: no column of sizes, or none from which a time can be had; a cell that cannot
            be read; several environments; a size twice.
    """
    import pandas as pd

    roles = columns.find_roles(names)
    if not is_measured(names):
        missing = "time" if "nbytes" in roles else "size"
        raise OutputError(
            f"the table has no column of {missing}s; it has {', '.join(names)[:200]}",
            where=resolver.where(facts.line),
            hint="name the columns nbytes and time_us (or busbw_gbs).",
        )
    mixes = _Mixes(facts, unsure)
    cells = [(line, {role: row[at].strip() for role, at in roles.items()}) for line, row in rows]
    environments = list(dict.fromkeys(cell.pop("environment", "") for _, cell in cells))
    if len(environments) > 1:
        raise OutputError(
            f"the column '{names[roles['environment']]}' names {len(environments)} environments "
            f"({', '.join(environments)[:200]}), and a session is of one",
            where=resolver.where(facts.line),
            hint="split the table, and import each part into a session of its own (-o DIR).",
        )
    timings = [one for line, cell in cells for one in _read_row(line, cell, mixes, resolver)]
    if not timings:
        raise OutputError(
            "the table has no rows with a time",
            where=resolver.where(facts.line),
            hint="measure again; the program that wrote it stopped before its first result.",
        )
    table = pd.DataFrame(timings)
    is_timed = bool({*_TIMES} & set(roles))
    table["time_us"] = keep_usable_times(
        table["time"] if is_timed else _derive_times(table, mixes, resolver)
    )
    steps = table["time_step"], table["algbw_step"]
    table["odd"] = is_timed and columns.disagree(
        table["nbytes"], table["time"], table["algbw"], *(one.to_numpy() for one in steps)
    )
    table["ran"] = [at if mixes.ran[at] is not None else -1 for at in table["mix"]]
    table["bypassed"] = [mixes.bypassed[at] for at in table["mix"]]
    if "cycle" not in roles:
        table["pass"] = count_passes(table, resolver.name) if ordered else 0
    parts = [part for _, part in table.groupby("run", sort=False)] if "run" in roles else [table]
    return [
        _make_run(part if ordered else _drop_repeated(part, mixes, resolver), facts, mixes)
        for part in parts
    ]


def is_measured(names: Sequence[str]) -> bool:
    """Whether columns name sizes, and what times can be had from."""
    roles = columns.find_roles(names)
    return "nbytes" in roles and bool({*_TIMES, "busbw", "algbw"} & set(roles))


def _read_row(
    line: int, cell: Mapping[str, str], mixes: _Mixes, resolver: Resolver
) -> list[dict[str, Any]]:
    try:
        return list(_read_timings(line, cell, mixes))
    except (ValueError, OverflowError) as error:
        raise OutputError(
            f"the row cannot be read: {error}",
            where=resolver.where(line),
            hint="correct the cell, or take the row out.",
        ) from error


def _read_timings(line: int, cell: Mapping[str, str], mixes: _Mixes) -> Iterator[dict[str, Any]]:
    """The timings of a row; a time that is blank is not there where a row may have several."""
    times = [role for role in _TIMES if role in cell]
    halves = [role for role in times if cell[role]] if len(times) > 1 else times[:1] or [""]
    algbw, busbw = (cell.get(role, "") for role in ("algbw", "busbw"))
    for half, role in enumerate(halves):
        time = cell.get(role, "")
        yield {
            "line": line,
            "half": half,
            "mix": mixes.of(line, cell, _TIMES.get(role)),
            "run": cell.get("run", ""),
            "pass": parse_whole_number(cell["cycle"]) if cell.get("cycle") else 0,
            "nbytes": parse_whole_number(cell["nbytes"]),
            "count": nan
            if cell.get("count", "").lower() in _EMPTY
            else parse_whole_number(cell["count"]),
            "wrong": columns.parse_wrong_count(cell.get("wrong", "")),
            "time": _number(time),
            "time_step": _step(time),
            "algbw": _number(algbw),
            "algbw_step": _step(algbw),
            "busbw": _number(busbw),
            "busbw_step": _step(busbw),
        }


def _number(text: str) -> float:
    value = printed_or_none(text)
    return nan if value is None else value


def _step(text: str) -> float:
    return columns.digit_weight(text) if text[-1:].isdigit() else 0.0


def _parse_requested(whole: str, requested: str, words: Sequence[str]) -> Setting | None:
    """Setting that was requested for; None where the row says nothing about it."""
    if whole:
        return BASELINE if whole in _UNFORCED else Setting.parse(whole)
    if requested in _UNFORCED or words[0] in _UNFORCED:
        return BASELINE
    return (_parse_setting(words) or BASELINE) if any(words) else None


def _parse_setting(words: Sequence[str]) -> Setting | None:
    """Setting of three cells; None where all are left to the library."""
    algorithm, protocol, channels = words
    if all(word in _EMPTY for word in words):
        return None
    return Setting(
        algorithm=None if algorithm in _EMPTY else Algorithm.parse(algorithm),
        protocol=None if protocol in _EMPTY else Protocol.parse(protocol),
        channels=None if channels in _EMPTY else _parse_positive(channels),
    )


def _derive_times(table: pd.DataFrame, mixes: _Mixes, resolver: Resolver) -> pd.Series[float]:
    """Times from a bandwidth, in a table that has no times."""
    role = "algbw" if table["algbw"].notna().any() else "busbw"
    algbw = table[role]
    if role == "busbw":
        keys = [resolver.key(one) for one in mixes.facts]
        factors = [busbw_factor(key.collective, key.scale.n_ranks) or nan for key in keys]
        algbw = algbw / table["mix"].map(dict(enumerate(factors)))
    resolver.notice(
        Caution.DERIVED_TIME,
        f"the table has no times; they are worked out from {role}, no more exact than its "
        "printed digits",
        "give the original table if there is one.",
        int(table["line"].iloc[0]),
    )
    times: pd.Series[float] = table["nbytes"] / algbw.where(algbw > 0) / 1000
    return times


def _drop_repeated(part: pd.DataFrame, mixes: _Mixes, resolver: Resolver) -> pd.DataFrame:
    """Drop rows that say the same again."""
    keys = [resolver.key(one) for one in mixes.facts]
    # Equal keys are one object there.
    numbers = {id(key): at for at, key in enumerate(keys)}
    same = part.assign(key=[numbers[id(keys[at])] for at in part["mix"]])
    same_in = ["key", "nbytes", "pass"]
    again = same.duplicated(same_in) & (same["nbytes"] > 0)
    first = same.drop_duplicates(same_in)[[*same_in, "time_us", "line"]]
    pairs = same[again].merge(first, on=same_in, suffixes=("", "_first"))
    for row in pairs[pairs["time_us"].fillna(0) != pairs["time_us_first"].fillna(0)].itertuples():
        raise OutputError(
            f"{keys[row.mix].setting} at {row.nbytes} bytes stands in lines {row.line_first} and "
            f"{row.line} with other values",
            where=resolver.where(row.line),
            hint="add a column 'repeat' that numbers the runs, or one that tells the two "
            "settings apart.",
        )
    once: pd.DataFrame = part[~again]
    return once


def _make_run(part: pd.DataFrame, facts: LogFacts, mixes: _Mixes) -> LogRun:
    """A run with its part of the table."""
    run = LogRun(facts=facts, row_facts=mixes.facts, settings=mixes.ran)
    run.timings = part.reset_index(drop=True)
    kinds = {(mixes.facts[at].collective, mixes.facts[at].n_ranks) for at in part["mix"].unique()}
    # The ratio of one collective on some ranks says nothing about the others.
    known = part[(part["algbw"] > 0) & (part["algbw"] < inf) & part["busbw"].notna()]
    run.unit = None
    if len(kinds) == 1 and len(known):
        peak = known.iloc[int(known["algbw"].argmax())]
        run.unit = max(float(peak["algbw_step"]), float(peak["busbw_step"]))
    return run


def _parse_positive(text: str) -> int | None:
    if not text or text.lower() in _EMPTY:
        return None
    value = parse_whole_number(text)
    if value < 1:
        raise ValueError(f"{text} is no count")
    return value


def parse_whole_number(text: str) -> int:
    """Whole number in any honest spelling: ``4096``, ``4096.0`` (pandas), ``4K``."""
    plain = text.removesuffix(".0")
    value = int(plain) if plain.isascii() and plain.isdigit() else parse_size(text)
    if not 0 <= value <= MAX_NBYTES:
        raise ValueError(text)
    return value
