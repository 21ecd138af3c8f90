"""Launches with what is worth reading of their logs: bounded, whatever a log is like."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from rccltune.model.measured import Launch, Outcome, Status
from rccltune.report.records import (
    Block,
    Column,
    LaunchEntry,
    Launches,
    Part,
    Section,
    Table,
    Words,
)
from rccltune.report.sections.found import Ended, Found, count
from rccltune.session import store
from rccltune.session.launches import named_in

# Of a log of gigabytes no more is read.
_HEAD: Final = 65_536
_TAIL: Final = 16_384
_WIDEST: Final = 200
_MOST_ROWS: Final = 4
_LAST_LINES: Final = 3
_ERROR_LINES: Final = 8
_MOST_WORDS: Final = 4_000
_MOST_LISTED: Final = 300
_MOST_OPEN: Final = 12
_ROW: Final = re.compile(r"\s*\d+\s+\d+\s+\w+\s")
_VERSION: Final = re.compile(r"rccl-tests|nccl-tests|version|SIMULATED", re.IGNORECASE)
_HEADING: Final = re.compile(r"#\s+size\s+count")
_GOOD: Final = (Status.OK, Status.IMPORTED)


def launches_section(found: Found, *, most: int) -> Section:
    """Every launch; so many of them with an excerpt, those that failed before all others."""
    parts = [
        _part(
            "Imported files" if found.is_imported else "The sweep",
            found.launches,
            found.folder,
            most,
        )
    ]
    return Section(name="launches", title="Launches", parts=tuple(parts))


def _part(title: str, ended: Sequence[Ended], folder: Path, most: int) -> Part:
    ordered = sorted(ended, key=lambda pair: (pair[1].started or "", pair[0].id))
    failed = [pair for pair in ordered if pair[1].status not in _GOOD]
    kept = {pair[0].id for pair in (failed + [p for p in ordered if p not in failed])[:most]}
    shown = [pair for pair in ordered if pair[0].id in kept]
    others = [pair for pair in ordered if pair[0].id not in kept]
    blocks: list[Block] = [Words(text=_summary(ordered, failed))]
    blocks.append(Launches(entries=tuple(_entry(*pair, folder) for pair in shown)))
    if others:
        blocks.append(_rest(others, folder))
    folded = len(ordered) > _MOST_OPEN
    said = f"{title}: {count(len(ordered), 'launch')}" if folded else title
    return Part(title=said, blocks=tuple(blocks), folded=folded)


def _summary(ended: Sequence[Ended], failed: Sequence[Ended]) -> str:
    seconds = sum(outcome.duration_s or 0.0 for _, outcome in ended)
    took = f", {seconds:.0f} s of running in all" if seconds else ""
    bad = f" {count(len(failed), 'launch')} did not end well." if failed else " All ended well."
    return (
        f"{count(len(ended), 'launch')}{took}.{bad} An excerpt is the log's version line, its "
        "first and last rows and its last lines; the whole logs are kept in the session folder. In "
        "variables {session} and {launch} stand for its folders."
    )


def _rest(others: Sequence[Ended], folder: Path) -> Table:
    more = len(others) - _MOST_LISTED
    return Table(
        caption=f"{count(len(others), 'more launch')} without an excerpt here",
        columns=(
            Column(name="launch"),
            Column(name="measured"),
            Column(name="ended"),
            Column(name="started"),
            Column(name="timings", numeric=True),
        ),
        rows=tuple(
            (
                launch.id,
                _what(launch),
                outcome.status.value,
                outcome.started or "–",
                str(outcome.n_samples),
            )
            for launch, outcome in others[:_MOST_LISTED]
        ),
        source=f"Their logs are under {folder.name}/launches/."
        + (f" {more} more are not listed either." if more > 0 else ""),
        folded=True,
    )


def _what(launch: Launch) -> str:
    """What it measured, for people."""
    if launch.source is not None:
        return launch.source
    names = ", ".join(one.value for one in launch.collectives)
    return f"{names} {named_in(launch)}".strip()


def _entry(launch: Launch, outcome: Outcome, folder: Path) -> LaunchEntry:
    own = store.launch_folder(folder, launch.id)
    log = store.raw_log(folder, launch.id)
    return LaunchEntry(
        name=launch.id,
        summary=_said(launch, outcome),
        bad=outcome.status not in _GOOD,
        facts=tuple(_facts(launch, outcome)),
        command=_cut(shlex.join(launch.argv), _MOST_WORDS),
        environment=tuple((name, _cut(value, _MOST_WORDS)) for name, value in launch.environment),
        excerpt=(*excerpt(log), *(_errors(own) if outcome.status not in _GOOD else ())),
        log=f"Whole log: {Path(folder.name, *log.relative_to(folder).parts)}"
        + (", stderr.log beside it" if (own / "stderr.log").exists() else ""),
    )


def _said(launch: Launch, outcome: Outcome) -> str:
    how = outcome.status.value if outcome.failure is None else outcome.failure.words
    took = "" if outcome.duration_s is None else f", {outcome.duration_s:.1f} s"
    again = f", repeat {launch.repeat + 1}" if launch.repeat else ""
    return f"{_what(launch)}{again}: {how}{took}, {count(outcome.n_samples, 'timing')}"


def _facts(launch: Launch, outcome: Outcome) -> Iterable[tuple[str, str]]:
    known: list[tuple[str, object]] = [
        ("started", outcome.started),
        ("exit", _exit(outcome)),
        ("ranks", launch.scale),
        ("variant", launch.variant.name if launch.variant.name != "default" else None),
        ("library", outcome.library_version),
        ("origin", outcome.origin),
        ("file, SHA-256", launch.source_sha256),
        ("settings", _settings(launch)),
    ]
    return ((name, str(value)) for name, value in known if value)


def _exit(outcome: Outcome) -> str | None:
    if outcome.signal:
        return f"signal {outcome.signal}"
    return None if outcome.exit_code is None else f"code {outcome.exit_code}"


def _settings(launch: Launch) -> str | None:
    """All that a launch measured, in the order in which they were first called."""
    if len(launch.settings) < 2:
        return None
    return _cut(", ".join(map(str, launch.settings)), 600)


def excerpt(log: Path) -> tuple[str, ...]:
    """Version line, heading, first and last rows and last lines of a log, with what is left out.

    Only its ends are read, so that a log of gigabytes costs what a small one does. A log that
    cannot be read is said to be so.
    """
    try:
        head, tail, size = _ends(log)
    except OSError as error:
        return (f"… the log cannot be read: {error.strerror}",)
    lines = [line for line in head if _VERSION.search(line)][:2]
    lines += [line for line in head if _HEADING.search(line)][:1]
    rows = [line for line in head if _ROW.match(line)]
    last = [line for line in tail if _ROW.match(line)]
    if rows:
        lines += rows[:_MOST_ROWS]
        end = [line for line in last if line not in rows[:_MOST_ROWS]][-_MOST_ROWS:]
        lines += ["…", *end] if end else []
    ends = [line for line in tail if line.strip(" #") and line not in lines][-_LAST_LINES:]
    lines += (["…"] if lines and ends else []) + ends
    if not lines:
        return (f"… nothing to quote among its {size:,} bytes",)
    return (
        *(_cut(line.rstrip(), _WIDEST) for line in lines),
        f"… the whole log has {size:,} bytes",
    )


def _ends(log: Path) -> tuple[list[str], list[str], int]:
    """Lines of its beginning and of its end; those cut through are left out."""
    with log.open("rb") as stream:
        head = stream.read(_HEAD)
        size = stream.seek(0, 2)
        if size <= _HEAD:
            lines = head.decode("utf-8", "replace").splitlines()
            return lines, lines, size
        stream.seek(max(0, size - _TAIL))
        tail = stream.read(_TAIL)
    first = head.decode("utf-8", "replace").splitlines()[:-1]
    return first, tail.decode("utf-8", "replace").splitlines()[1:], size


def _errors(own: Path) -> tuple[str, ...]:
    """The last lines of stderr of a launch that failed."""
    try:
        _, tail, _ = _ends(own / "stderr.log")
    except OSError:
        return ()
    kept = [_cut(line.rstrip(), _WIDEST) for line in tail if line.strip()][-_ERROR_LINES:]
    return ("--- stderr ---", *kept) if kept else ()


def _cut(text: str, most: int) -> str:
    """So many characters at most, and how many are missing."""
    return text if len(text) <= most else f"{text[:most]} … {len(text) - most} more characters"
