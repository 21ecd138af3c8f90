"""Long tables: one measurement a row, columns by name, from CSV or from JSON records."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from rccltune.logs import columns
from rccltune.logs.columns import facts_of, is_bandwidths, roles_of, separator_of
from rccltune.logs.drafts import (
    Passes,
    RepeatedSizeError,
    Run,
    Said,
    dtype_named,
    placement_of,
    yes_or_no,
)
from rccltune.logs.resolver import Resolver
from rccltune.logs.samples import drop_repeats
from rccltune.model.errors import OutputError
from rccltune.model.measured import Caution
from rccltune.model.settings import BASELINE, Setting
from rccltune.model.times import derived_us, is_usable, printed_or_none
from rccltune.model.vocabulary import (
    Algorithm,
    Collective,
    Doubt,
    Placement,
    Protocol,
    busbw_factor,
    parse_size,
)

_UNFORCED: Final = frozenset(("default", "baseline", "auto"))
_EMPTY: Final = frozenset(("", "-", "-1", "n/a", "none", "null", "nan"))
# Everything that tells one curve from another; a row's key is worked out once for each mix.
_KEY_ROLES: Final = (
    "collective", "algorithm", "protocol", "channels", "setting", "variant", "dtype", "redop",
    "inplace", "placement", "ranks", "per_rank", "nodes", "graph", "requested", "rank_placement",
)  # fmt: skip


class RecordReader:
    """Takes rows of one table."""

    def __init__(
        self, names: Sequence[str], facts: Said, resolver: Resolver, *, ordered: bool
    ) -> None:
        """Find the columns.

        Args:
            names: the header's cells.
            facts: what holds for the whole table.
            resolver: the options.
            ordered: a benchmark wrote it, so that a size seen again begins another cycle.

        Raises:
            OutputError: no column of sizes, or none from which a time can be had.
        """
        self.roles = roles_of(names)
        self.runs: dict[str, Run] = {}
        self._facts = facts
        self._resolver = resolver
        self._ordered = ordered
        self._passes: dict[Said, Passes] = {}
        self._said: dict[tuple[str, ...], Said] = {}
        self._key_at = [self.roles[role] for role in _KEY_ROLES if role in self.roles]
        self._times = [role for role in ("time", "time_out", "time_in") if role in self.roles]
        self._nodes_unsure = False
        self._kinds: dict[str, set[tuple[Collective | None, int | None]]] = {}
        if "nbytes" not in self.roles or not (self._times or {"busbw", "algbw"} & set(self.roles)):
            missing = "time" if "nbytes" in self.roles else "size"
            raise OutputError(
                f"the table has no column of {missing}s; it has {', '.join(names)[:200]}",
                where=resolver.where(facts.line),
                hint="name the columns nbytes and time_us (or busbw_gbs).",
            )

    def unsure_of_nodes(self) -> None:
        """The column of nodes is rccl-tests' own, which is wrong when several nodes run."""
        self._nodes_unsure = True

    def row(self, line: int, cells: Sequence[str]) -> None:
        """Take one row.

        Raises:
            OutputError: a cell that cannot be read, with its column.
        """
        try:
            self._row(line, cells)
        except (ValueError, OverflowError) as error:
            raise OutputError(
                f"the row cannot be read: {error}",
                where=self._resolver.where(line),
                hint="correct the cell, or take the row out.",
            ) from error

    def finish(self) -> list[Run]:
        """All runs, each without rows that say the same twice."""
        for name, run in self.runs.items():
            if len(self._kinds.get(name, ())) > 1:
                # The ratio of one collective on some ranks says nothing about the others.
                run.peak = (0.0, 0.0, 0)
            if not self._ordered:
                run.drafts = drop_repeats(run.drafts, self._resolver)
        return list(self.runs.values())

    def _row(self, line: int, cells: Sequence[str]) -> None:
        key = tuple([cells[at] for at in self._key_at])
        said = self._said.get(key)
        if said is None:
            said = self._said[key] = self._read_key(line, cells)
        nbytes = _size(self._cell(cells, "nbytes"))
        count = self._cell(cells, "count").lower()
        n = None if count in _EMPTY else _size(count)
        n_wrong = columns.wrong(self._cell(cells, "wrong"))
        name = self._cell(cells, "run")
        run = self.runs.get(name)
        if run is None:
            run = self.runs[name] = Run(said=self._facts)
        self._kinds.setdefault(name, set()).add((said.collective, said.n_ranks))
        self._take_bandwidths(run, line, cells)
        executed, bypassed = self._executed(said, cells)
        for placed, text in self._placed(said, cells):
            time_us, doubt = self._time(placed, nbytes, text, cells, n_wrong)
            cycle = self._cycle(placed, nbytes, line, cells)
            run.drafts.append(
                (line, nbytes, n, time_us, n_wrong, doubt or bypassed, cycle, executed, placed)
            )

    def _take_bandwidths(self, run: Run, line: int, cells: Sequence[str]) -> None:
        """Both bandwidths of a row, whose ratio tells what ran on how many ranks."""
        words = self._cell(cells, "algbw"), self._cell(cells, "busbw")
        algbw, busbw = map(printed_or_none, words)
        if algbw is None or busbw is None:
            return
        run.add(line, algbw, busbw)
        if run.peak[2] == line:
            run.unit = max(map(columns.step, words))

    def _cell(self, cells: Sequence[str], role: str) -> str:
        at = self.roles.get(role)
        return "" if at is None else cells[at].strip()

    def _read_key(self, line: int, cells: Sequence[str]) -> Said:
        def cell(role: str) -> str:
            return self._cell(cells, role)

        placement = placement_of(cell("placement")) if cell("placement") else None
        if cell("inplace"):
            placement = (Placement.OUT_OF_PLACE, Placement.IN_PLACE)[yes_or_no(cell("inplace"))]
        ranks = _positive(cell("ranks"))
        row = Said(
            line=line,
            collective=Collective.parse(cell("collective")) if cell("collective") else None,
            setting=self._setting(cells),
            variant=cell("variant") or None,
            n_ranks=ranks * (_positive(cell("per_rank")) or 1) if ranks else None,
            n_nodes=_positive(cell("nodes")),
            nodes_unsure=self._nodes_unsure,
            dtype=dtype_named(cell("dtype")) or None,
            redop=cell("redop") or None,
            placement=placement,
            graph=yes_or_no(cell("graph")) if cell("graph") else None,
            rank_placement=cell("rank_placement") or None,
        )
        return row.or_else(self._facts)

    def _setting(self, cells: Sequence[str]) -> Setting | None:
        """What was asked for; None where the row says nothing about it."""
        whole = self._cell(cells, "setting").lower()
        if whole:
            return BASELINE if whole in _UNFORCED else Setting.parse(whole)
        words = [self._cell(cells, role).lower() for role in ("algorithm", "protocol", "channels")]
        if self._cell(cells, "requested").lower() in _UNFORCED or words[0] in _UNFORCED:
            return BASELINE
        if not any(words):
            return None
        return _parts(words) or BASELINE

    def _executed(self, said: Said, cells: Sequence[str]) -> tuple[Setting | None, Doubt | None]:
        """What ran where nothing was forced, from columns that then name it."""
        if said.setting is not BASELINE or "algorithm" not in self.roles:
            return None, None
        words = [self._cell(cells, role).lower() for role in ("algorithm", "protocol", "channels")]
        try:
            return (None if words[0] in _UNFORCED else _parts(words)), None
        except ValueError:
            return None, Doubt.BYPASSED

    def _placed(self, said: Said, cells: Sequence[str]) -> list[tuple[Said, str]]:
        """The row's timings, each with its time as written; a blank one is not there."""
        if not self._times or self._times == ["time"]:
            return [(said, self._cell(cells, "time"))]
        halves = []
        for role in self._times:
            text = self._cell(cells, role)
            if text:
                placement = None if role == "time" else _PLACED[role]
                halves.append((self._in_placement(said, placement), text))
        return halves

    def _in_placement(self, said: Said, placement: Placement | None) -> Said:
        if placement is None or said.placement is placement:
            return said
        key = (placement.value, str(id(said)))
        found = self._said.get(key)
        if found is None:
            found = self._said[key] = replace(said, placement=placement)
        return found

    def _time(
        self, said: Said, nbytes: int, text: str, cells: Sequence[str], n_wrong: int | None
    ) -> tuple[float | None, Doubt | None]:
        if not self._times:
            time_us = self._derived(said, nbytes, cells)
            return time_us, columns.doubt_of(nbytes, time_us, n_wrong)
        value = printed_or_none(text)
        time_us = value if is_usable(value) else None
        doubt = columns.doubt_of(nbytes, time_us, n_wrong)
        word = self._cell(cells, "algbw")
        algbw = printed_or_none(word)
        if doubt is None and time_us is not None and algbw is not None:
            steps = columns.step(text), columns.step(word)
            if not columns.agree(nbytes, time_us, algbw, *steps):
                doubt = Doubt.INCONSISTENT
        return time_us, doubt

    def _derived(self, said: Said, nbytes: int, cells: Sequence[str]) -> float | None:
        """Time from a bandwidth, in a table that has no times."""
        role = "algbw" if "algbw" in self.roles else "busbw"
        algbw = printed_or_none(self._cell(cells, role))
        if role == "busbw" and algbw is not None:
            key = self._resolver.key(said)
            factor = busbw_factor(key.collective, key.scale.n_ranks)
            algbw = algbw / factor if factor else None
        self._resolver.notice(
            Caution.DERIVED_TIME,
            f"the table has no times; they are worked out from {role}, no more exact than its "
            "printed digits",
            "give the original table if there is one.",
            said.line,
        )
        return derived_us(nbytes, algbw)

    def _cycle(self, said: Said, nbytes: int, line: int, cells: Sequence[str]) -> int:
        if "cycle" in self.roles:
            return _size(self._cell(cells, "cycle"))
        if not self._ordered:
            return 0
        passes = self._passes.setdefault(said, Passes())
        try:
            return passes.cycle(nbytes, line)
        except RepeatedSizeError as error:
            raise OutputError(
                f"size {nbytes} is there twice, in lines {error.first_line} and {line}, and no new "
                "pass over the sizes begins there",
                where=self._resolver.where(line),
                hint="split the file: one run in each.",
            ) from error


_PLACED: Final = {"time_out": Placement.OUT_OF_PLACE, "time_in": Placement.IN_PLACE}


def _parts(words: Sequence[str]) -> Setting | None:
    """Setting of three cells; None where all are left to the library."""
    algorithm, protocol, channels = words
    if all(word in _EMPTY for word in words):
        return None
    number = None if channels in _EMPTY else _positive(channels)
    return Setting(
        algorithm=None if algorithm in _EMPTY else Algorithm.parse(algorithm),
        protocol=None if protocol in _EMPTY else Protocol.parse(protocol),
        channels=number,
    )


def _positive(text: str) -> int | None:
    if not text or text.lower() in _EMPTY:
        return None
    value = _size(text)
    if value < 1:
        raise ValueError(f"{text} is no count")
    return value


def _size(text: str) -> int:
    """Whole number in any honest spelling: ``4096``, ``4096.0`` (pandas), ``4K``."""
    if text.isascii() and text.isdigit():
        return columns.size(text)
    if text.endswith(".0"):
        return columns.size(text[:-2])
    return parse_size(text)


_FACT_LINE = "# rccltune:"
# What stands between header and rows of a table in Markdown.
_RULED: Final = re.compile(r"[|:\s-]*-[|:\s-]*")


class DelimitedFile:
    """One table with a header."""

    def __init__(self, lines: Iterable[bytes], resolver: Resolver) -> None:
        """Nothing was read yet.

        Args:
            lines: with their line ends.
            resolver: the options.
        """
        self.origin: str | None = None
        self._lines = enumerate(lines, 1)
        self._resolver = resolver
        self._facts: dict[str, Any] = {}
        # None: any blanks.
        self._separator: str | None = ","
        self._is_header = True
        self._cut = False

    def read(self) -> list[Run]:
        """Read all rows.

        Raises:
            OutputError: no row, or one that cannot be read.
            CommandLineError: an option contradicts a row.
        """
        texts = self._texts()
        header_line, header = next(texts)
        self._separator = None if is_bandwidths(header) else separator_of(header) or ","
        names = self._split(header_line, header)
        first = next(texts, None)
        if first is None:
            raise OutputError(
                "the table has a header and no rows",
                where=self._resolver.where(header_line),
                hint="measure again; the program that wrote it stopped before its first result.",
            )
        names, unsure = _with_nodes(names, len(self._split(*first)))
        self.origin = self._facts.pop("origin", None)
        said = Said(line=header_line, **self._facts)
        reader = RecordReader(names, said, self._resolver, ordered=False)
        if unsure:
            reader.unsure_of_nodes()
        self._row(reader, *first, n_cells=len(names))
        for line, text in texts:
            self._row(reader, line, text, n_cells=len(names))
        return reader.finish()

    def _row(self, reader: RecordReader, line: int, text: str, *, n_cells: int) -> None:
        cells = self._split(line, text)
        if len(cells) == n_cells:
            reader.row(line, cells)
        elif self._cut and len(cells) < n_cells:
            self._resolver.notice(
                Caution.INCOMPLETE_LOG,
                "the last row is cut; it is left out",
                "give the whole file.",
                line,
            )
        else:
            raise OutputError(
                f"the row has {len(cells)} cells, the header {n_cells}",
                where=self._resolver.where(line),
                hint="correct the row; quote cells that hold a separator.",
            )

    def _texts(self) -> Iterator[tuple[int, str]]:
        """Lines that are no comments; facts in comments are kept."""
        for line, raw in self._lines:
            text = raw.decode("utf-8-sig" if line == 1 else "utf-8", "replace")
            self._cut = not text.endswith("\n")
            text = text.strip("\r\n ")
            if text.startswith(_FACT_LINE):
                found = facts_of(text.removeprefix(_FACT_LINE), self._resolver.where(line))
                self._facts.update(found)
            elif self._is_header and is_bandwidths(text):
                self._is_header = False
                yield line, columns.without_units(text)
            elif text and not text.startswith("#") and not _RULED.fullmatch(text):
                self._is_header = False
                yield line, text.strip("| ") if text.startswith("|") else text

    def _split(self, line: int, text: str) -> list[str]:
        if '"' not in text:
            return text.split(self._separator)
        try:
            separator = self._separator or " "
            return next(csv.reader(io.StringIO(text), delimiter=separator, strict=True))
        except (csv.Error, StopIteration) as error:
            raise OutputError(
                f"the row cannot be split into cells: {error}",
                where=self._resolver.where(line),
                hint="correct its quotes.",
            ) from error


def _with_nodes(names: list[str], n_cells: int) -> tuple[list[str], bool]:
    """The header with the column that rccl-tests' MPI builds write and do not name."""
    folded = [name.strip().lower() for name in names]
    is_theirs = "rankspernode" in folded and "collective" in folded and "nodes" not in folded
    if not is_theirs or n_cells != len(names) + 1:
        return names, False
    at = folded.index("collective") + 1
    return [*names[:at], "nodes", *names[at:]], True
