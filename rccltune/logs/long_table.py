"""Long tables: one measurement a row, columns by name, from CSV or from JSON records."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from rccltune.logs import columns
from rccltune.logs.columns import (
    dtype_named,
    facts_of,
    is_bandwidths,
    placement_of,
    roles_of,
    yes_or_no,
)
from rccltune.logs.facts import LogFacts, LogRun
from rccltune.logs.file_kinds import separator_of
from rccltune.logs.resolver import Resolver
from rccltune.logs.timings import CellTexts, numbered, passes, usable
from rccltune.model.errors import OutputError
from rccltune.model.measurement import Caution
from rccltune.model.settings import BASELINE, Setting
from rccltune.model.times import printed_or_none
from rccltune.model.vocabulary import (
    MAX_NBYTES,
    Algorithm,
    Collective,
    Placement,
    Protocol,
    busbw_factor,
    parse_size,
    printable,
)

if TYPE_CHECKING:
    import pandas as pd

_UNFORCED: Final = frozenset(("default", "baseline", "auto"))
_EMPTY: Final = frozenset(("", "-", "-1", "n/a", "none", "null", "nan"))
# Everything that tells one curve from another.
_KEY: Final = (
    "collective", "algorithm", "protocol", "channels", "setting", "dtype", "redop",
    "inplace", "placement", "ranks", "per_rank", "nodes", "graph", "requested", "rank_placement",
    "place",
)  # fmt: skip
# Columns of times, with the placement that their name says.
_TIMES: Final = {
    "time": None, "time_out": Placement.OUT_OF_PLACE, "time_in": Placement.IN_PLACE,
}  # fmt: skip


def cells_by_role(
    names: Sequence[str], rows: Sequence[Sequence[str]], lines: Sequence[int], where: str
) -> pd.DataFrame:
    """Cells under the names that mean something here.

    Args:
        names: the header's cells.
        rows: as many cells each.
        lines: of the rows.
        where: the header stands.

    Raises:
        OutputError: no column of sizes, or none from which a time can be had.
    """
    import pandas as pd

    roles = roles_of(names)
    if "nbytes" not in roles or not {*_TIMES, "busbw", "algbw"} & set(roles):
        missing = "time" if "nbytes" in roles else "size"
        raise OutputError(
            f"the table has no column of {missing}s; it has {', '.join(names)[:200]}",
            where=where,
            hint="name the columns nbytes and time_us (or busbw_gbs).",
        )
    found = {role: [row[at].strip() for row in rows] for role, at in roles.items()}
    environments = dict.fromkeys(found.pop("environment", ()))
    if len(environments) > 1:
        raise OutputError(
            f"the column '{names[roles['environment']]}' names {len(environments)} environments "
            f"({', '.join(environments)[:200]}), and a session is of one",
            where=where,
            hint="split the table, and import each part into a session of its own (-o DIR).",
        )
    table: pd.DataFrame = pd.DataFrame({**found, "line": list(lines)})
    return table


def runs_of(
    table: pd.DataFrame, facts: LogFacts, resolver: Resolver, *, ordered: bool, unsure: bool = False
) -> list[LogRun]:
    """Runs of a table, each without rows that say the same twice.

    Args:
        table: of text, by what its columns mean.
        facts: what holds for the whole table.
        resolver: the options.
        ordered: a benchmark wrote it, so that a size seen again begins another cycle.
        unsure: the column of nodes is rccl-tests' own, which is wrong when several nodes run.

    Raises:
        OutputError: a cell that cannot be read, or a size twice.
    """
    cells = CellTexts(_half_rows(table), resolver.name)
    rows = cells.table
    if not len(rows):
        raise OutputError(
            "no row of the table has a time",
            where=resolver.where(int(table["line"].iloc[0])),
            hint="measure again; the program that wrote it stopped before its first result.",
        )
    rows["who"], first = numbered(rows, [name for name in _KEY if name in rows])
    who = _CellFacts(facts, unsure=unsure)
    for row in first.to_dict("records"):
        try:
            who.add({str(name): each for name, each in row.items()})
        except (ValueError, OverflowError) as error:
            cells.bad(row["line"], error)
    texts = rows[[name for name in ("time", "algbw", "busbw") if name in rows]]
    numbers = {
        name: cells.read(name, read)
        for name, read in (
            ("nbytes", whole_number),
            ("count", _count),
            ("wrong", columns.wrong_count),
            ("pass", whole_number),
            ("time", printed_or_none),
            ("algbw", printed_or_none),
            ("busbw", printed_or_none),
        )
    }
    cells.check()
    rows = rows.assign(**numbers)
    rows["nbytes"] = rows["nbytes"].astype("int64")
    rows["half"] = 0
    rows["odd"] = False
    if "time" in texts and "algbw" in texts:
        given = (columns.digit_weights(texts[name]) for name in ("time", "algbw"))
        rows["odd"] = columns.disagree(rows["nbytes"], rows["time"], rows["algbw"], *given)
    rows["time_us"] = usable(rows["time"] if "time" in texts else _derived(rows, who, resolver))
    rows["ran"] = rows["who"].where(rows["who"].map(lambda at: who.ran[at] is not None), -1)
    rows["bypassed"] = rows["who"].map(dict(enumerate(who.bypassed))).astype(bool)
    if "cycle" not in table:
        rows["pass"] = passes(rows, resolver.name)[0] if ordered else 0
    rows["pass"] = rows["pass"].astype("int64")
    return [
        _run(part if ordered else _once(part, who, resolver), texts, facts, who)
        for _, part in (rows.groupby("run", sort=False) if "run" in rows else [("", rows)])
    ]


def _half_rows(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each time; one that is blank is not there where a row may have several."""
    import pandas as pd

    times = [role for role in _TIMES if role in table]
    table = table.rename(columns={"cycle": "pass"})
    if times in ([], ["time"]):
        return table
    parts = []
    for half, role in enumerate(times):
        placement = _TIMES[role]
        part = table.drop(columns=[each for each in times if each != role])
        part = part.rename(columns={role: "time"})[table[role] != ""]
        place = placement.value if placement else ""
        parts.append(part.assign(place=place, half=half))
    joined = pd.concat(parts, ignore_index=True)
    halves: pd.DataFrame = joined.sort_values(["line", "half"], kind="stable", ignore_index=True)
    return halves


class _CellFacts:
    """Facts about the setting in each mix of cells."""

    def __init__(self, facts: LogFacts, *, unsure: bool) -> None:
        self.said: list[LogFacts] = []
        self.ran: list[Setting | None] = []
        self.bypassed: list[bool] = []
        self._facts = facts
        self._unsure = unsure

    def add(self, row: dict[str, Any]) -> None:
        """Take the first row of a mix; ValueError where a cell cannot be read."""

        def cell(role: str) -> str:
            return str(row.get(role, ""))

        # A mistake here is named later; numbers must go on meanwhile.
        self.ran.append(None)
        self.bypassed.append(False)
        self.said.append(self._facts)
        placement = placement_of(cell("placement")) if cell("placement") else None
        if cell("inplace"):
            placement = (Placement.OUT_OF_PLACE, Placement.IN_PLACE)[yes_or_no(cell("inplace"))]
        if cell("place"):
            placement = Placement(cell("place"))
        ranks = _positive(cell("ranks"))
        words = [cell(role).lower() for role in ("algorithm", "protocol", "channels")]
        facts = LogFacts(
            line=row["line"],
            collective=Collective.parse(cell("collective")) if cell("collective") else None,
            setting=_setting(cell("setting").lower(), cell("requested").lower(), words),
            n_ranks=ranks * (_positive(cell("per_rank")) or 1) if ranks else None,
            n_nodes=_positive(cell("nodes")),
            nodes_unsure=self._unsure,
            dtype=dtype_named(cell("dtype")) or None,
            redop=cell("redop") or None,
            placement=placement,
            graph=yes_or_no(cell("graph")) if cell("graph") else None,
            rank_placement=cell("rank_placement") or None,
        ).or_else(self._facts)
        self.said[-1] = facts
        if facts.setting is BASELINE and "algorithm" in row and words[0] not in _UNFORCED:
            # What ran where nothing was forced, from columns that then name it.
            try:
                self.ran[-1] = _parts(words)
            except ValueError:
                self.bypassed[-1] = True


def _setting(whole: str, requested: str, words: Sequence[str]) -> Setting | None:
    """Setting that was asked for; None where the row says nothing about it."""
    if whole:
        return BASELINE if whole in _UNFORCED else Setting.parse(whole)
    if requested in _UNFORCED or words[0] in _UNFORCED:
        return BASELINE
    return (_parts(words) or BASELINE) if any(words) else None


def _parts(words: Sequence[str]) -> Setting | None:
    """Setting of three cells; None where all are left to the library."""
    algorithm, protocol, channels = words
    if all(word in _EMPTY for word in words):
        return None
    return Setting(
        algorithm=None if algorithm in _EMPTY else Algorithm.parse(algorithm),
        protocol=None if protocol in _EMPTY else Protocol.parse(protocol),
        channels=None if channels in _EMPTY else _positive(channels),
    )


def _derived(rows: pd.DataFrame, who: _CellFacts, resolver: Resolver) -> pd.Series[float]:
    """Times from a bandwidth, in a table that has no times."""
    role = "algbw" if rows["algbw"].notna().any() else "busbw"
    algbw = rows[role]
    if role == "busbw":
        keys = [resolver.key(said) for said in who.said]
        factors = [busbw_factor(key.collective, key.scale.n_ranks) or float("nan") for key in keys]
        algbw = algbw / rows["who"].map(dict(enumerate(factors)))
    resolver.notice(
        Caution.DERIVED_TIME,
        f"the table has no times; they are worked out from {role}, no more exact than its "
        "printed digits",
        "give the original table if there is one.",
        int(rows["line"].iloc[0]),
    )
    times: pd.Series[float] = rows["nbytes"] / algbw.where(algbw > 0) / 1000
    return times


def _once(part: pd.DataFrame, who: _CellFacts, resolver: Resolver) -> pd.DataFrame:
    """Drop rows that say the same again.

    Raises:
        OutputError: a size is there twice with other values.
    """
    keys = [resolver.key(said) for said in who.said]
    # Equal keys are one object there.
    numbers = {id(key): at for at, key in enumerate(keys)}
    same = part.assign(key=part["who"].map(lambda at: numbers[id(keys[at])]))
    same_in = ["key", "nbytes", "pass"]
    again = same.duplicated(same_in) & (same["nbytes"] > 0)
    first = same.drop_duplicates(same_in)[[*same_in, "time_us", "line"]]
    pairs = same[again].merge(first, on=same_in, suffixes=("", "_first"))
    for row in pairs[pairs["time_us"].fillna(0) != pairs["time_us_first"].fillna(0)].itertuples():
        raise OutputError(
            f"{keys[row.who].setting} at {row.nbytes} bytes stands in lines {row.line_first} and "
            f"{row.line} with other values",
            where=resolver.where(row.line),
            hint="add a column 'repeat' that numbers the runs, or one that tells the two "
            "settings apart.",
        )
    once: pd.DataFrame = part[~again]
    return once


def _run(part: pd.DataFrame, texts: pd.DataFrame, facts: LogFacts, who: _CellFacts) -> LogRun:
    """A run with its part of the table."""
    run = LogRun(said=facts, who=who.said, settings=who.ran)
    run.timings = part
    kinds = {(who.said[at].collective, who.said[at].n_ranks) for at in part["who"].unique()}
    # The ratio of one collective on some ranks says nothing about the others.
    run.unit = None
    if len(kinds) == 1 and {"algbw", "busbw"} <= set(texts):
        with_bandwidths = part[
            (part["algbw"] > 0) & (part["algbw"] < float("inf")) & part["busbw"].notna()
        ]
        if len(with_bandwidths):
            words = texts.loc[with_bandwidths["algbw"].idxmax(), ["algbw", "busbw"]]
            run.unit = max(columns.digit_weights(words))
    return run


def _positive(text: str) -> int | None:
    if not text or text.lower() in _EMPTY:
        return None
    value = whole_number(text)
    if value < 1:
        raise ValueError(f"{text} is no count")
    return value


def _count(text: str) -> int | None:
    return None if text.lower() in _EMPTY else whole_number(text)


def whole_number(text: str) -> int:
    """Whole number in any honest spelling: ``4096``, ``4096.0`` (pandas), ``4K``."""
    plain = text.removesuffix(".0")
    value = int(plain) if plain.isascii() and plain.isdigit() else parse_size(text)
    if not 0 <= value <= MAX_NBYTES:
        raise ValueError(text)
    return value


_FACT_LINE: Final = "# rccltune:"
# What stands between header and rows of a table in Markdown.
_RULED: Final = re.compile(r"[|:\s-]*-[|:\s-]*")


def read_table(lines: Iterable[bytes], resolver: Resolver) -> tuple[list[LogRun], str | None]:
    """Runs of one table with a header, and whose measurement it says to be.

    Args:
        lines: with their line ends.
        resolver: the options.

    Raises:
        OutputError: no row, or one that cannot be read.
        CommandLineError: an option contradicts a row.
    """
    facts: dict[str, Any] = {}
    texts: list[tuple[int, str]] = []
    is_whole = True
    for line, raw in enumerate(lines, 1):
        text = raw.decode("utf-8-sig" if line == 1 else "utf-8", "replace")
        is_whole = text.endswith("\n")
        text = text.strip("\r\n ")
        if text.startswith(_FACT_LINE):
            facts.update(facts_of(text.removeprefix(_FACT_LINE), resolver.where(line)))
        elif not texts and is_bandwidths(text):
            texts.append((line, columns.without_units(text)))
        elif text and not text.startswith("#") and not _RULED.fullmatch(text):
            texts.append((line, text.strip("| ") if text.startswith("|") else text))
    (header_line, header), *rest = texts
    separator = None if is_bandwidths(header) else separator_of(header) or ","
    (names, *rows) = [_split(text, separator, resolver.where(line)) for line, text in texts]
    names, unsure = _with_nodes(names, len(rows[0]) if rows else 0)
    if rows and not is_whole and len(rows[-1]) < len(names):
        resolver.notice(
            Caution.INCOMPLETE_LOG,
            "the last row is cut; it is left out",
            "give the whole file.",
            rest.pop()[0],
        )
        rows.pop()
    for (line, _), row in zip(rest, rows, strict=True):
        if len(row) != len(names):
            raise OutputError(
                f"the row has {len(row)} cells, the header {len(names)}",
                where=resolver.where(line),
                hint="correct the row; quote cells that hold a separator.",
            )
    origin = facts.pop("origin", None)
    said = LogFacts(line=header_line, **facts)
    table = cells_by_role(names, rows, [line for line, _ in rest], resolver.where(header_line))
    odd = columns.misspelt(names)
    if odd:
        resolver.notice(
            Caution.INCOMPLETE_LOG,
            f"columns that mean nothing here are left out: {printable(', '.join(odd))}",
            f"if they are {', '.join(odd.values())}, name them so and import again.",
            header_line,
        )
    if not rows:
        raise OutputError(
            "the table has a header and no rows",
            where=resolver.where(header_line),
            hint="measure again; the program that wrote it stopped before its first result.",
        )
    return runs_of(table, said, resolver, ordered=False, unsure=unsure), origin


def _split(text: str, separator: str | None, where: str) -> list[str]:
    """Cells of a row; None separates at any blanks."""
    if '"' not in text:
        return text.split(separator)
    try:
        return next(csv.reader([text], delimiter=separator or " ", strict=True))
    except (csv.Error, StopIteration) as error:
        raise OutputError(
            f"the row cannot be split into cells: {error}", where=where, hint="correct its quotes."
        ) from error


def _with_nodes(names: list[str], n_cells: int) -> tuple[list[str], bool]:
    """The header with the column that rccl-tests' MPI builds write and do not name."""
    folded = [name.strip().lower() for name in names]
    is_theirs = "rankspernode" in folded and "collective" in folded and "nodes" not in folded
    if not is_theirs or n_cells != len(names) + 1:
        return names, False
    at = folded.index("collective") + 1
    return [*names[:at], "nodes", *names[at:]], True
