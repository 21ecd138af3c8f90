"""Output to the user: results on stdout, talk on stderr, colour only where it is wanted.

All that rccltune prints goes through :func:`talk` and :func:`put`, so that nothing that came from
data reaches a terminal as more than letters (:mod:`rccltune.model.vocabulary`).

Standard streams that may fail, be closed or lose their reader without ending what is measured.

An hour of a machine is worth more than a line about it: talk that cannot be written is dropped. A
result that cannot be written is told when everything else is done, unless its reader has gone,
as ``head`` does.
"""

from __future__ import annotations

import errno
import io
import os
import re
import select
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeAlias, TypeVar, cast

import click

from rccltune.cli.help import grouped
from rccltune.model import defaults
from rccltune.model.json_text import json_text
from rccltune.model.reporter import Reporter
from rccltune.model.text import JoinedLines, join_lines, printable, unknown

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from rccltune.model.measurement import Caution, Notice

# What a write says where nobody reads any more: a pipe, or a terminal that has hung up.
_GONE = (errno.EPIPE, errno.EIO)


class _Raw(io.FileIO):
    """A file descriptor on which no write fails.

    Attributes:
        failure: what the first write that went nowhere said.
    """

    failure: OSError | None = None

    def write(self, data: Buffer) -> int:
        """Write, or keep why not, and from then on nothing: no result lacks its middle."""
        view = memoryview(data)
        while self.failure is None:
            try:
                written = super().write(view)
            except OSError as error:
                self.failure = error
                break
            if written is not None:
                return written
            # A terminal that another program has made non-blocking.
            select.select([], [self], [])
        return view.nbytes


@dataclass(frozen=True, slots=True)
class Streams:
    """The raw ends of stdout and stderr."""

    out: _Raw
    err: _Raw

    def lost(self) -> OSError | None:
        """Why what belongs on stdout is not all there, though somebody may wait for it."""
        sys.stdout.flush()
        failure = self.out.failure
        return None if failure is None or failure.errno in _GONE else failure


def take_over() -> Streams:
    """Replace ``sys.stdout`` and ``sys.stderr`` by streams that do not fail.

    Descriptors that were closed are opened on nothing first: a log of a session that became
    descriptor 1 or 2 would get what is said, and what children print.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest that is free, which is this one.
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
    out, err = _Raw(1, "w", closefd=False), _Raw(2, "w", closefd=False)
    sys.stdout = _text_of(out, sys.stdout)
    sys.stderr = _text_of(err, sys.stderr)
    return Streams(out, err)


def _text_of(raw: _Raw, before: TextIO | None) -> io.TextIOWrapper:
    """Text on it, in the encoding of the stream before; what that has no letter for is escaped."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )


DEFAULT_SESSION = Path(defaults.SESSION)
F = TypeVar("F", bound=Callable[..., Any])


def talk(*lines: str) -> None:
    """Say something on stderr, in lines that fit it, above a bar that is shown."""
    text = fold(lines, error=True)
    # click would find the terminal behind rich's stream, and write into the bar.
    if hasattr(sys.stderr, "rich_proxied_file"):
        sys.stderr.write(f"{text}\n")
    else:
        click.echo(text, err=True)


def put(text: str) -> None:
    """Write to stdout as it is: what a program reads, or lines that fit already."""
    click.echo(join_lines([text]))


# What a reader copies stays in one piece, however long: a command with its words, a path, a URL.
# Quoted parts of a word may have blanks in them.
_WORD: Final = r"""(?:'[^']*'|"[^"]*"|[^\s'"])+"""
_OPTION: Final = rf"--?[a-z][\w-]*(?:[ =](?!-){_WORD}| -(?=\s))?"
# A word of a command, not of the sentence: an option, DIR, $NAME, NAME=VALUE, a path, quoted.
_ARGUMENT: Final = rf"{_OPTION}|[A-Z]{{2,}}\b|\$\w+|(?=\S*[/=]|['\"]){_WORD}|auto\b"
_ARGUMENTS: Final = rf"(?: (?:{_ARGUMENT}))*"
_SET: Final = rf"[A-Z]\w*={_WORD}"
# Of other words one is taken for a session, or for what a program is to do.
_BARE: Final = r"(?: [\w.][\w.-]*\b)?"
# Behind && a line may end; before it, it may not.
_COMMAND: Final = re.compile(
    rf"(?:\b(?:rccltune(?: [a-z-]+)?{_ARGUMENTS}{_BARE}{_ARGUMENTS}"
    rf"|(?:sudo \S+|amd-smi|rocm-smi|modprobe|lsmod|lspci|dmesg|ulimit|grep){_BARE}{_ARGUMENTS}"
    rf"(?: \| grep(?: -\w+)? \S+)*"
    rf"|(?:export )?{_SET}(?: {_SET})*"
    rf"|(?:source|export|unset|rm|pip install|module (?:use|load)) {_WORD}"
    rf"|(?:mpirun|srun|salloc|sbatch)(?: (?:-\S+(?:[ =](?!-){_WORD})?|\S*/\S+))+)"
    rf"|(?<![\w.-]){_OPTION}(?: {_OPTION})*|(?<![\w.])\. (?=\S*/){_WORD})(?: &&)?"
)
# A number stays with its unit.
_UNIT: Final = re.compile(r"(?<=\d) (?=[KMGT]?i?B\b|%|µs|ms\b|s\b|min\b|GB/s)")
_UNBROKEN: Final = "\N{NO-BREAK SPACE}"
# Sentences are read in lines of so many columns at most, also on a wider terminal and in a log.
_WIDEST: Final = 100


def columns(*, error: bool = False) -> int:
    """Width of stdout or stderr: COLUMNS, or its terminal, or what is read well in a log."""
    width = os.environ.get("COLUMNS", "")
    if width.isdecimal() and int(width):
        return int(width)
    try:
        return os.get_terminal_size(2 if error else 1).columns or _WIDEST
    except OSError:
        return _WIDEST


def fold(lines: Iterable[str], *, error: bool = False) -> JoinedLines:
    """Sentences in lines of at most 100 columns, or of COLUMNS; what goes on set in by two more.

    Rows of a table, which fit as far as they can, stay as they are, and coloured lines.
    """
    width = columns(error=error)
    width = width if "COLUMNS" in os.environ else min(_WIDEST, width)
    new_lines: list[str] = []
    for line in join_lines(lines).split("\n"):
        text = line.lstrip(" ")
        if len(line) <= width or "\x1b" in line or _GAP.search(text):
            new_lines.append(line)
            continue
        indent = " " * (len(line) - len(text))
        folded = textwrap.wrap(
            _UNIT.sub(
                _UNBROKEN, _COMMAND.sub(lambda typed: typed[0].replace(" ", _UNBROKEN), text)
            ),
            width,
            initial_indent=indent,
            subsequent_indent=f"{indent}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        new_lines += [one.replace(_UNBROKEN, " ") for one in folded]
    return join_lines(new_lines)


def styled(text: str, color: str | None) -> JoinedLines:
    """Text in a colour, None for none."""
    return JoinedLines(click.style(printable(text), fg=color)) if color else join_lines([text])


@dataclass(slots=True, kw_only=True)
class Answer:
    """What --json writes when the command ends: its result, what ended it, or both.

    Attributes:
        is_wanted: --json was given.
        fields: of the one object on stdout.
    """

    is_wanted: bool = False
    fields: dict[str, Any] = field(default_factory=dict)

    def write(self) -> None:
        """Write the object to stdout, its format first; nothing where only help was asked for."""
        if self.is_wanted and self.fields:
            put(json_text({"format": 1} | self.fields, indent=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Console(Reporter):
    """Settings of the command line's output: verbosity, colour, width, JSON.

    Attributes:
        verbosity: -1 quiet, 0 normal, 1 and more verbose.
        as_json: the result goes to stdout as one JSON object.
        warned: what was warned of already.
        in_passing: what is told in one line at the end: how many, by kind and place.
    """

    verbosity: int
    as_json: bool
    color: bool
    answer: Answer = field(default_factory=Answer)
    warned: dict[Notice, None] = field(default_factory=dict)
    in_passing: dict[Caution, dict[str | None, int]] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """Talk, unless quiet."""
        if self.verbosity >= 0:
            talk(text)

    def detail(self, text: str) -> None:
        """Talk that only -v wants."""
        if self.verbosity > 0:
            talk(text)

    def warn(self, notices: Iterable[Notice]) -> None:
        """Print each warning with its remedy, once a run; what needs nobody waits for the end.

        Of several of one kind the first is spelled out. Quiet, only wrong results are told.
        """
        from rccltune.model.measurement import Caution

        waiting: Counter[tuple[Caution, str | None]] = Counter()
        for notice in notices:
            is_new = notice not in self.warned
            is_first = is_new and all(one.caution is not notice.caution for one in self.warned)
            self.warned[notice] = None
            if self.verbosity < 0 and notice.caution is not Caution.WRONG_RESULTS:
                continue
            if self.verbosity <= 0 and notice.caution.can_wait:
                waiting[notice.caution, notice.where] += notice.count
            elif is_first or (is_new and self.verbosity > 0):
                where = f" ({notice.where})" if notice.where else ""
                first, *rest = fold([f"Warning: {notice.message}{where}"], error=True).split("\n")
                head = styled("Warning:", "yellow" if self.color else None)
                talk(join_lines([head, first.removeprefix("Warning:")], gap=""), *rest)
                # The remedy is the same for all of one kind.
                if is_first:
                    talk(f"  {notice.remedy}")
            elif is_new:
                more = self.in_passing.setdefault(notice.caution, {})
                more[notice.message] = 1
        for (caution, place), n in waiting.items():
            # Several verbs look at the same launch; with more launches one finds more.
            places = self.in_passing.setdefault(caution, {})
            places[place] = max(n, places.get(place, 0))

    def result(self, record: object, text: str, *, is_file: bool = False) -> None:
        """The result: for --json where asked for, text otherwise, folded unless it is a file's."""
        from rccltune.model.schema import to_plain

        self.close()
        if self.as_json:
            self.answer.fields.update(to_plain(record, None))
        else:
            put(text if is_file else fold([text]))

    def fail(self, error: str, *, where: object, hint: str) -> None:
        """Say in --json what a verdict is that ends with another code; the text has said it."""
        self.answer.fields.update(error=error, where=str(where), hint=hint)

    def close(self) -> None:
        """Say in one line what there was beside."""
        if self.in_passing:
            self.say(
                f"In passing: {', '.join(starmap(_remark, self.in_passing.items()))} (-v says more)"
            )
            self.in_passing.clear()


def _remark(caution: Caution, places: Mapping[str | None, int]) -> str:
    """Remark in passing of a kind of warning, of so many timings, settings or warnings."""
    from rccltune.model.measurement import Caution

    # What is about no single launch counts over all of them.
    n = max(sum(n for place, n in places.items() if place is not None), places.get(None, 0))
    if caution.can_wait:
        return caution.remark(n)
    if caution is Caution.ASSUMED:
        return f"{n} more assumption{'s' * (n > 1)}"
    return f"{n} more warning{'s' * (n > 1)} of '{caution.value}'"


if TYPE_CHECKING:
    ValueType: TypeAlias = click.ParamType[Any]
else:
    # Generic since click 8.4 alone.
    ValueType = click.ParamType


class TextParameter(ValueType):
    """A parameter read by a function that raises ValueError with a good message."""

    def __init__(self, name: str, parse: Callable[[str], object]) -> None:
        """Name the metavar and the reader."""
        self.name = name
        self._parse = parse

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click hands over whatever there is
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> object:
        """Read text; anything else was read already."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


if TYPE_CHECKING:
    _Words: TypeAlias = click.Choice[str]
else:
    # Generic since click 8.2 alone.
    _Words = click.Choice


class WordChoice(_Words):
    """A few words; one that is none of them is told which it may have been."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's
        """The word."""
        if value not in self.choices:
            self.fail(unknown("word", str(value), self.choices), param, ctx)
        return super().convert(value, param, ctx)


def common(command: F) -> F:
    """Options that every verb has; the verb gets a Console as ``console``."""

    def gather(arguments: dict[str, Any]) -> None:
        verbose, quiet = arguments.pop("verbose"), arguments.pop("quiet")
        answer = click.get_current_context().find_object(Answer) or Answer()
        # A variable may have asked for it.
        answer.is_wanted |= arguments["json"]
        arguments["console"] = Console(
            verbosity=-1 if quiet else verbose,
            as_json=arguments.pop("json"),
            color=_wants_color(arguments.pop("color")),
            answer=answer,
        )

    return with_options(command, _COMMON, gather)


_COMMON = (
    grouped("-v", "--verbose", count=True, group="Output", usual=True, help="Say more."),
    grouped(
        "-q",
        "--quiet",
        is_flag=True,
        group="Output",
        usual=True,
        help="Say only results and errors.",
    ),
    grouped(
        "--json",
        is_flag=True,
        group="Output",
        usual=True,
        help="Write the result, or the error, to stdout as JSON.",
    ),
    grouped(
        "--color",
        group="Output",
        type=WordChoice(["auto", "always", "never"]),
        default="auto",
        help="Colour messages; auto: on a terminal, unless NO_COLOR is set.",
    ),
)


def with_options(
    command: F, options: Sequence[Callable[[F], F]], gather: Callable[[dict[str, Any]], None]
) -> F:
    """The verb with more options, in the order of its help.

    Args:
        command: the verb, with the options that it has so far.
        options: what click.option made.
        gather: turns what click passes for these options into what the verb wants, in place.
    """

    @wraps(command)
    def wrapped(**given: Any) -> Any:  # noqa: ANN401 - click passes whatever the verb declares
        gather(given)
        return command(**given)

    verb = cast("F", wrapped)
    # click appends in place, and wraps() shared the list with the verb underneath.
    vars(verb)["__click_params__"] = list(getattr(command, "__click_params__", []))
    for option in reversed(options):
        option(verb)
    return verb


def _wants_color(choice: str) -> bool:
    if choice == "auto":
        return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return choice == "always"


# A cell is not cut into pieces shorter than this.
_NARROWEST: Final = 8
# What stands between two columns, where there is place for it, and where there is not.
_GAPS: Final = (3, 2)
_GAP: Final = re.compile(r"\S {2,}\S.* {2,}\S|^─")


def table(
    columns_: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[int]
) -> JoinedLines:
    """A plain table of text; ``numeric`` columns are set flush right.

    Where it is wider than the terminal, headings and columns of words go on below, the widest
    first; what has no blanks is cut only where that is not enough.
    """
    from rich.cells import cell_len

    # rich's own table takes a millisecond for a row, and rule files have tens of thousands.
    cells = [[printable(each) for each in row] for row in (columns_, *rows)]
    natural = [max(cell_len(each) for each in column) for column in zip(*cells, strict=True)]
    width = columns()
    gap = _GAPS[sum(natural) + _GAPS[0] * (len(natural) - 1) > width]
    widths = _narrowed(cells, natural, width - gap * (len(natural) - 1), frozenset(numeric))
    if widths != natural:
        cells = [part for row in cells for part in _folded(row, widths)]

    def line(row: Sequence[str]) -> str:
        blanks = (" " * (width - cell_len(each)) for width, each in zip(widths, row, strict=True))
        return (
            (" " * gap)
            .join(
                blank + each if number in numeric else each + blank
                for number, (each, blank) in enumerate(zip(row, blanks, strict=True))
            )
            .rstrip()
        )

    n_heads = len(_folded(columns_, widths)) if widths != natural else 1
    rule = "─" * (sum(widths) + gap * (len(widths) - 1))
    return join_lines([*map(line, cells[:n_heads]), rule, *map(line, cells[n_heads:])])


def _narrowed(
    cells: Sequence[Sequence[str]], natural: Sequence[int], width: int, numeric: frozenset[int]
) -> list[int]:
    """Widths of columns whose sum is ``width`` at most, as far as words and numbers allow."""
    widths = list(natural)
    if sum(widths) <= width:
        return widths
    words = [max(map(_longest, column)) for column in zip(*cells, strict=True)]
    for number in numeric:
        words[number] = max(_longest(cells[0][number]), *(len(row[number]) for row in cells[1:]))
    cut = [one if number in numeric else min(one, _NARROWEST) for number, one in enumerate(words)]
    for least in (words, cut):
        while sum(widths) > width:
            at = max(range(len(widths)), key=lambda at: (widths[at] > least[at]) * widths[at])
            if widths[at] <= least[at]:
                break
            widths[at] -= 1
    return widths


def _pieces(cell: str, width: int) -> list[str]:
    folded = textwrap.wrap(_UNIT.sub(_UNBROKEN, cell), width) or [""]
    return [one.replace(_UNBROKEN, " ") for one in folded]


def _longest(cell: str) -> int:
    """Its longest word; one with a hyphen may be parted there."""
    return max(map(len, re.split(r"(?<=-)| ", _UNIT.sub(_UNBROKEN, cell))))


def _folded(row: Sequence[str], widths: Sequence[int]) -> list[list[str]]:
    """The row, and rows below it for what its cells have no place for."""
    parts = [_pieces(cell, width) for cell, width in zip(row, widths, strict=True)]
    depth = max(map(len, parts))
    return [[one[at] if at < len(one) else "" for one in parts] for at in range(depth)]
