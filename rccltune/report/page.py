"""A session to one page that can be mailed, escaped wherever the template fills in."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from rccltune.model.brief import brief
from rccltune.model.errors import CommandLineError
from rccltune.model.reporter import Reporter
from rccltune.model.rule import Rule
from rccltune.model.text import printable
from rccltune.model.units import format_last, format_size, format_span
from rccltune.model.verdict import SizeVerdict, Verdict
from rccltune.model.version import __version__
from rccltune.model.vocabulary import Placement
from rccltune.ranks.runs import Run
from rccltune.report import figures, style, words
from rccltune.report.contents import (
    RuleFileOfSession,
    SessionContents,
    read_contents,
    scale_words,
    target_words,
    text_of,
)
from rccltune.report.plots import inline_svg
from rccltune.report.tables import FigureTables, tables_of
from rccltune.session import files
from rccltune.transferbench import RATES_FILE
from rccltune.verify.verdict_store import verdict_files

REPORT_FILE: Final = "report.html"
_FILES: Final = Path(__file__).parent / "files"
# Control characters are no text in HTML, and those that turn the direction of writing make a line
# read as what it is not.
_NO_TEXT: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_REPLACEMENT: Final = "\ufffd"
# A page is read; what is more is in the files that it names.
_MOST_ROWS: Final = 60
_MOST_PANELS: Final = 6
_MOST_FACTS: Final = 8
_MOST_LINES: Final = 60
# Width and height in inches of a page's panels, and of gains where several are side by side.
_LARGE: Final = (5.2, 3.2)
_SMALL: Final = (4.2, 2.7)
_TITLES: Final = {
    "gain": "How many times as fast with the rules",
    "speedup": "How many times as fast as the baseline each setting is",
    "time": "Time of a call, measured and fitted",
    "bandwidth": "Bus bandwidth",
    "table": "Time of a call, one size an octave",
}


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPage:
    """The page that was written.

    Attributes:
        headline: what is won, in a sentence.
        following: what makes sense now; commands name the session.
    """

    path: Path
    n_bytes: int
    headline: str
    following: str
    simulated: bool


def report_session(
    folder: Path,
    *,
    reporter: Reporter,
    output: Path | None = None,
    overwrite: bool = False,
    session: str = "",
) -> WrittenPage:
    """Write the page of a session.

    Args:
        folder: the session.
        reporter: told what is worth telling.
        output: the page; None for the session's own.
        overwrite: replace a page that is there; the session's own always is.
        session: as a shell takes it, where commands must name it.

    Raises:
        CommandLineError: the file is there and may not be overwritten.
        SessionError: no session, or one that cannot be read.
        TooLittleDataError: no good sample.
    """
    path = output or folder / REPORT_FILE
    if path.exists() and (path.is_dir() or not (overwrite or output is None)):
        raise CommandLineError(
            "the report is there already" if path.is_file() else "this is a folder, no page",
            where=str(path),
            hint="add --force, or write elsewhere with -o FILE.",
        )
    contents = read_contents(folder, reporter=reporter)
    content = context(contents)
    text = render(content)
    files.write_atomically(path, text)
    return WrittenPage(
        path=path,
        n_bytes=len(text.encode()),
        headline=content["headline"],
        following=words.following(contents, session),
        simulated=contents.simulated,
    )


def render(content: dict[str, Any]) -> str:
    """The page as HTML; nothing is fetched by it, and no script runs in it."""
    sheet = (_FILES / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    return _template().render(
        **content,
        style=Markup(sheet),  # noqa: S704 - a file of ours
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'",
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_FILES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_clean,
    )
    environment.filters["breakable"] = _breakable
    return environment.get_template("page.html")


def _clean(value: object) -> object:
    """Text as a page may hold it."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return _NO_TEXT.sub(_REPLACEMENT, value)


def _breakable(text: str) -> Markup:
    """Text in which a long path may be broken behind its slashes."""
    return escape(_NO_TEXT.sub(_REPLACEMENT, text)).replace("/", Markup("/<wbr>"))


def context(shown: SessionContents) -> dict[str, Any]:
    """Build all that the template fills in; what it says of rules is what their files say."""
    tables = tables_of(shown)
    several = len({one.n_ranks for file in shown.files for one in file.rules}) > 1
    names = ", ".join(dict.fromkeys(panel.partition(",")[0] for panel in tables.panels))
    return {
        "title": f"rccltune: {names}",
        "where": _where(shown, tables),
        "marks": list(words.marks(shown)),
        "headline": _headline(shown),
        "first": _gain_figures(tables),
        "rules": [_rules(one, shown, several=several) for one in shown.files if one.rules],
        "old": list(words.old_rules(shown)),
        "use": list(words.use(shown)),
        "following": words.following(shown),
        "left": _most(_left_to_the_library(shown)),
        "sizes": _most(_sizes(shown), 240),
        "not_chosen": _most(_list_unselectable(shown)),
        "notices": _most(_notices(shown), 20),
        "figures": _figures(tables),
        "subject": tables.subject,
        "facts": list(_facts(shown)),
        "method": list(words.method(shown)),
        "files": list(_files_of(shown)),
        "texts": [(one.name, _lines(one)) for one in shown.files if one.path],
        "footer": f"rccltune {__version__}, session {shown.done.session.path.name}, samples "
        f"SHA-256 {shown.done.samples_sha256[:16]}…",
    }


def _where(shown: SessionContents, tables: FigureTables) -> str:
    scales = sorted({panel.partition(", ")[2] for panel in tables.panels})
    more = f" and {len(scales) - 3} more" if len(scales) > 3 else ""
    library = f"library {shown.libraries}"
    when = _days(shown.runs)
    parts = [shown.machine, "; ".join(scales[:3]) + more, library]
    parts += [f"measured {when}"] * bool(when) + ["imported"] * shown.is_imported
    return ", ".join(parts)


def _days(measured: Iterable[Run]) -> str:
    """Text of the days, first to last; empty where there is no run."""
    dates = sorted({run.file.started[:10] for run in measured})
    if not dates:
        return ""
    return dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"


def _gain_figures(tables: FigureTables) -> list[tuple[str, Markup]]:
    pictures = _draw_kind("gain", figures.gain, tables, tables.panels)
    return [(title, svg) for _, title, svg in pictures]


def _figures(tables: FigureTables) -> list[tuple[str, list[tuple[str, Markup]]]]:
    """The other figures, those of one collective and scale together."""
    pictures_of: dict[str, list[tuple[str, Markup]]] = {}
    for name in ("speedup", "time", "bandwidth", "table"):
        for panel, title, svg in _draw_kind(name, getattr(figures, name), tables, tables.panels):
            pictures_of.setdefault(panel, []).append((title, svg))
    return list(pictures_of.items())


def _draw_kind(
    name: str,
    draw: Callable[[FigureTables], Figure | None],
    tables: FigureTables,
    panels: Sequence[str],
) -> Iterator[tuple[str, str, Markup]]:
    """Panel, title and picture of one kind of figure."""
    size = _SMALL if name == "gain" and len(panels) > 1 else _LARGE
    with style.applied():
        for number, panel in enumerate(panels[:_MOST_PANELS]):
            figure = draw(tables.of(panel, size))
            if figure is not None:
                title = f"{_TITLES[name]}: {panel}"
                svg = inline_svg(figure, f"{name}{number}", title)
                yield panel, title, Markup(svg)  # noqa: S704 - every text in it is escaped


def _rules(file: RuleFileOfSession, shown: SessionContents, *, several: bool) -> dict[str, Any]:
    return {
        "name": file.name or "rules that no file has yet",
        "needs": file.needs,
        "several": several,
        "rows": [_row(one, file, shown) for one in file.rules[:_MOST_ROWS]],
        "more": max(0, len(file.rules) - _MOST_ROWS),
        "source": words.source(file, shown),
    }


def _row(rule: Rule, file: RuleFileOfSession, shown: SessionContents) -> dict[str, str]:
    return {
        "collective": rule.collective.value,
        "ranks": scale_words(rule),
        "sizes": format_span(rule.min_nbytes, rule.max_nbytes),
        "setting": str(rule.setting) + (" (fallback)" if rule.fallback else ""),
        "gain": words.times(shown.gain_of(rule)),
        "least": words.least(rule, shown),
        "proof": words.proof(rule, file, shown),
    }


def write_markdown(folder: Path, path: Path, *, reporter: Reporter) -> None:
    """Write what was won, and a row a rule, for a pull request.

    Args:
        folder: the session.
        path: the file, which is replaced.
        reporter: told what is worth telling.

    Raises:
        SessionError: no session, or one that cannot be read; or the disk refuses.
        TooLittleDataError: no good sample.
    """
    contents = read_contents(folder, reporter=reporter)
    lines = [f"**{_headline(contents)}**", "", _where(contents, tables_of(contents))]
    for one in contents.files:
        rows = [_row(rule, one, contents) for rule in one.rules]
        if rows:
            heads = {"collective": "collective", "ranks": "ranks", "sizes": "sizes"}
            heads |= {"setting": "setting", "gain": "times as fast, mean", "least": "worst size"}
            lines += ["", f"With {one.needs}:"] * bool(one.needs)
            lines += ["", f"| {' | '.join(heads.values())} |", f"|{'---|' * len(heads)}"]
            lines += [f"| {' | '.join(row[name] for name in heads)} |" for row in rows]
    files.write_atomically(path, "\n".join(printable(line) for line in lines) + "\n")


def _headline(shown: SessionContents) -> str:
    return f"SIMULATED: {words.headline(shown)}" if shown.simulated else words.headline(shown)


def _left_to_the_library(shown: SessionContents) -> Iterator[tuple[str, ...]]:
    """Sizes without a rule: as the rule file says it, else as the choice does."""
    stated = [hole for one in shown.files for hole in one.file.holes]
    if stated:
        for hole in stated:
            yield (
                hole.collective.value if hole.collective else "any",
                hole.scale.short.replace("x", " × ") if hole.scale else "",
                format_size(hole.min_nbytes),
                format_last(hole.max_nbytes),
                hole.reason,
            )
        return
    for zone in shown.zones:
        if zone.setting is None:
            yield (
                zone.target.collective.value,
                zone.target.scale.short.replace("x", " × "),
                format_size(zone.min_nbytes),
                format_last(zone.max_nbytes),
                zone.reason or "",
            )


def _sizes(shown: SessionContents) -> Iterator[tuple[str, ...]]:
    """Verdicts of the verification by placement, at ruled sizes and at powers of two."""
    by_place: dict[tuple[str, int], dict[Placement, SizeVerdict]] = {}
    ruled: set[tuple[str, int]] = set()
    for file in shown.files:
        verified = file.verification.file if file.verification else None
        for one in verified.judging if verified else ():
            place = (one.collective.value, one.nbytes)
            if verified and any(
                rule.matches(one.collective, one.nbytes, verified.scale) for rule in file.file.rules
            ):
                ruled.add(place)
            if place in ruled or _is_power_of_two(one.nbytes):
                by_place.setdefault(place, {}).setdefault(one.placement, one)
    labels = Counter((name, format_size(nbytes)) for name, nbytes in by_place)
    for place, by_placement in by_place.items():
        name, nbytes = place
        size = format_size(nbytes)
        if labels[name, size] > 1 and not _is_power_of_two(nbytes):
            # Where two rules meet, their ends look alike.
            size = f"{nbytes} B"
        worst = min(by_placement.values(), key=lambda one: one.gain.value)
        verdicts = (by_placement.get(one) for one in (Placement.OUT_OF_PLACE, Placement.IN_PLACE))
        yield (
            name,
            size,
            *(words.times_of_size(v.gain if v else None) for v in verdicts),
            _judged(worst.verdict, has_rule=place in ruled),
            str(worst.gain.n),
        )


def _judged(verdict: Verdict, *, has_rule: bool) -> str:
    """Verdict of a size; why one has no rule another table says, and harm is told in both."""
    if has_rule:
        return verdict.value
    is_harm = verdict in (Verdict.SLOWER, Verdict.WRONG)
    return f"{verdict.value}, no rule" if is_harm else "no rule"


def _is_power_of_two(nbytes: int) -> bool:
    return nbytes & (nbytes - 1) == 0


def _list_unselectable(shown: SessionContents) -> Iterator[tuple[str, str, str]]:
    """Settings that were measured, or were to be, and that no rule can have."""
    for one in shown.done.excluded:
        yield "", str(one), one.reason
    for left in shown.choice.left_out if shown.choice else ():
        fastest = f"; the fastest at {words.count(left.n_fastest, 'size')}"
        reason = left.reason + (fastest if left.n_fastest else "")
        yield target_words(left.target), str(left.setting), reason


def _notices(shown: SessionContents) -> Iterator[tuple[str, str, str]]:
    notices = [*shown.done.warnings, *(shown.choice.notices if shown.choice else ())]
    for one in dict.fromkeys(notices):
        yield one.message, one.where or words.DASH, one.remedy


def _facts(shown: SessionContents) -> Iterator[tuple[str, str, str]]:
    """Name, value and the file that it is known from."""
    session = shown.done.session
    fingerprint = session.fingerprint
    curves = [curve.key for curve in shown.done.curves]
    known: list[tuple[str, object, str]] = [
        ("product", fingerprint.product or shown.devices, "session.json"),
        ("architecture", fingerprint.arch, "session.json"),
        ("compute units of a device", fingerprint.cu_count, "session.json"),
        ("mode", fingerprint.mode, "session.json"),
        ("hosts", _some(fingerprint.hosts), "session.json"),
        ("devices", _some(fingerprint.devices), "session.json"),
        ("placement of ranks", shown.placement, "session.json"),
        ("binding", fingerprint.binding, "session.json"),
        ("measured through", fingerprint.runner, "session.json"),
        ("library", shown.libraries, "runs"),
        (
            "environment",
            " ".join(f"{name}={text}" for name, text in session.setup.environment.items()),
            "session.json",
        ),
        ("calls", _some(tuple(dict.fromkeys(str(k.view) for k in curves))), "fit.json"),
        ("command", session.command, "session.json"),
    ]
    for name, value, source in known:
        if value:
            yield name, str(value), source
    for one in shown.limits.targets if shown.limits else ():
        sentence = (
            f"{one.gb_per_s:.1f} GB/s = {one.n_links} × {one.slowest.gb_per_s:.3f} "
            f"({one.slowest}); reached {one.reached_gb_per_s:.1f} GB/s at "
            f"{format_size(one.nbytes)} with {one.setting}"
        )
        yield f"ceiling of {one.target.collective.value}", sentence, RATES_FILE


def _some(names: tuple[str, ...]) -> str:
    """The first of many."""
    more = len(names) - _MOST_FACTS
    return ", ".join(names[:_MOST_FACTS]) + (f", and {more} more" if more > 0 else "")


def _files_of(shown: SessionContents) -> Iterator[tuple[str, str]]:
    """The session's files, and what each says."""
    folder = shown.done.session.path
    known = (
        ("runs", "raw rows of every rank, plans and logs"),
        ("launches", "logs of benchmarks"),
        ("samples.csv", "a row for each timing"),
        ("fit.json", "points, curves, crossovers"),
        ("choice.json", "what was chosen, with every number of it"),
        ("confirm.csv", "rccl-tests with and without the rules"),
    )
    for one in shown.files:
        if one.path is not None:
            sourced = words.source(one, shown)
            yield one.name, "rules; .env beside it is what a shell sources" if sourced else "rules"
    for path in verdict_files(folder):
        yield path.name, "what the verification found at each size"
    # What is derived is there, or is made again by whoever may write.
    derived = ("samples.csv", "fit.json")
    yield from (one for one in known if one[0] in derived or (folder / one[0]).exists())


def _lines(file: RuleFileOfSession) -> str:
    """A rule file without its comments."""
    if file.path is None:
        return ""
    text = text_of(file.path)
    lines = [line for line in text.splitlines() if line.startswith("#@") or line[:1] != "#"]
    more = len(lines) - _MOST_LINES
    return "\n".join([*lines[:_MOST_LINES], *([f"… {more} more lines"] if more > 0 else [])])


def _most(rows: Iterator[tuple[str, ...]], most: int = _MOST_ROWS) -> dict[str, Any]:
    """The first of many rows, and how many more there are."""
    cells = list(rows)
    return {"rows": cells[:most], "more": max(0, len(cells) - most)}
