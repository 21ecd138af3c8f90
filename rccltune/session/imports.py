"""Somebody's files into a session: read and checked before the first byte is written."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rccltune.logs import parsed_log
from rccltune.model import schema
from rccltune.model.brief import brief
from rccltune.model.errors import SessionError
from rccltune.model.measurement import Fingerprint, ImportedFile, Notice, StatedFacts
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Role
from rccltune.model.text import printable
from rccltune.model.version import __version__
from rccltune.model.vocabulary import UnusableReason
from rccltune.session import store
from rccltune.session.files import sha256_of
from rccltune.session.lock import lock_session, refuse_file
from rccltune.session.sample_table import framed, joined, nothing
from rccltune.session.samples import frame_from_logs, why_made_again
from rccltune.session.store import Session, SessionSetup, another

if TYPE_CHECKING:
    import pandas as pd

# The runner of a session of others' files.
IMPORT: Final = "import"
_SAME_MACHINE = ("machine", "same")
VENDOR_UNKNOWN: Final = (
    "nothing says whose GPUs these are: no limit of one vendor's library is applied, and no "
    "variable of it asked for. To say it, import into a new session (-o DIR) with "
    '--assume arch=gfx942 or --assume product="NVIDIA H200"'
)


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """Result of an import.

    Attributes:
        n_usable: timings of the session that nothing is wrong with.
    """

    n_files: int
    n_new: int
    n_doubted: int
    doubts: tuple[tuple[UnusableReason, int], ...]
    n_samples: int
    n_usable: int
    notices: tuple[Notice, ...]

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        return {
            "files": self.n_files,
            "new_samples": self.n_new,
            "doubted": self.n_doubted,
            "doubts": {doubt.value: n for doubt, n in self.doubts},
            "samples": self.n_samples,
            "notices": self.notices,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Incoming:
    file: ImportedFile
    path: Path
    reading: parsed_log.ParsedLog


def import_files(
    folder: Path,
    files: Sequence[Path],
    stated: StatedFacts,
    *,
    reporter: Reporter,
) -> ImportResult:
    """Read files and add them to a session, which is made when it is not there.

    Every file is read and checked before the first byte is written: a file that is refused
    leaves the session as it was.

    Args:
        folder: the session.
        files: that somebody measured.
        stated: what the options say about them.
        reporter: told what is worth telling.

    Raises:
        OutputError: a file is not understood.
        CommandLineError: an option contradicts a file.
        SessionError: another machine, a newer format, or a writer that holds the session.
    """
    refuse_file(folder)
    incoming = [_read(path, stated) for path in files]
    with lock_session(folder, reporter):
        current = store.open_session(folder) if (folder / store.HEADER).exists() else None
        old = nothing() if current is None else _samples_held(current, reporter)
        held = store.imported_files(folder)
        fresh = _without_held(incoming, {one.id for one in held}, reporter)
        same = _SAME_MACHINE in stated.assume
        target = _target_session(folder, current, held, fresh, same=same)
        new = joined(framed(item.reading.table, item.reading.keys) for item in fresh)
        if fresh:
            _check_environments((*held, *(item.file for item in fresh)), folder)
            for key in (key for item in fresh for key in item.reading.keys):
                schema.check_record(key, str(folder), store.SAY)
            store.commit(target, [(item.file, item.path) for item in fresh], joined((old, new)))
            if target.fingerprint.vendor is None:
                reporter.say(VENDOR_UNKNOWN)
    doubts = Counter(UnusableReason(word) for word in new["unusable"] if word)
    return ImportResult(
        n_files=len(incoming),
        n_new=len(new),
        n_doubted=sum(doubts.values()),
        doubts=tuple(doubts.most_common()),
        n_samples=len(old) + len(new),
        n_usable=sum(
            int(((one["unusable"] == "") & (one["setting"] != Role.UNSTATED.value)).sum())
            for one in (old, new)
        ),
        notices=tuple(n for item in incoming for n in item.reading.notices),
    )


def _library(every: Sequence[ImportedFile], folder: Path) -> str | None:
    """The one library of all files, None where none names it; SessionError where there are two."""
    versions: dict[str, str] = {}
    for file in every:
        if file.library_version is not None:
            versions.setdefault(file.library_version, file.name or file.id)
    two = parsed_log.find_two_libraries(versions)
    if two is not None:
        one, other = two
        raise _two(
            f"libraries in one session: {one} ({versions[one]}) and {other} "
            f"({versions[other]}), which may choose and run differently",
            folder,
        )
    return next(iter(versions), None)


def _check_environments(every: Sequence[ImportedFile], folder: Path) -> None:
    """Raise SessionError where files ran under other variables than those that are there."""
    environments = [
        (one.name or one.id, one.environment) for one in every if one.environment is not None
    ]
    for name, other in environments[1:]:
        first_name, first = environments[0]
        names = [one for one in sorted({*first, *other}) if first.get(one) != other.get(one)][:4]
        if names:
            mine, others = (
                " ".join(f"{n}={one[n]}" if n in one else f"no {n}" for n in names)
                for one in (first, other)
            )
            raise _two(
                f"environments in one session: {mine} ({first_name}) and {others} ({name}), whose "
                "times are no two settings of one site",
                folder,
            )


def _two(what: str, folder: Path) -> SessionError:
    hint = f"import one of them with -o {another(folder)}."
    return SessionError(f"two {what}", where=str(folder), hint=hint)


def _samples_held(current: Session, reporter: Reporter) -> pd.DataFrame:
    stored = store.stored_samples(current)
    if stored is not None:
        return stored
    reporter.say(why_made_again(current))
    return frame_from_logs(current)


def _read(path: Path, stated: StatedFacts) -> _Incoming:
    # The id comes first, because samples carry it; the name is no part of it, so that a renamed
    # copy is known again.
    stated = replace(stated, assume=tuple(one for one in stated.assume if one != _SAME_MACHINE))
    sha256 = sha256_of(path) if path.is_file() else None
    name = store.id_of(sha256, stated)
    reading = parsed_log.read_log(path, stated, name)
    written = datetime.fromtimestamp(path.stat().st_mtime, tz=timezone.utc)
    file = ImportedFile(
        id=name,
        name=path.name,
        sha256=sha256,
        stated=stated,
        written=written.isoformat(timespec="seconds"),
        fingerprint=reading.fingerprint,
        origin=reading.origin,
        library_version=reading.library_version,
        environment=None
        if reading.environment is None
        else {name: printable(value)[:4096] for name, value in reading.environment.items()},
    )
    return _Incoming(file=file, path=path, reading=reading)


def _without_held(
    items: Sequence[_Incoming], held: set[str], reporter: Reporter
) -> list[_Incoming]:
    """Files that the session has not, each once."""
    by_id: dict[str, _Incoming] = {}
    for item in items:
        if item.file.id in held:
            reporter.say(f"{item.path}: already in the session, nothing added")
        elif item.file.id in by_id:
            reporter.say(f"{item.path}: the same bytes as {by_id[item.file.id].path}, taken once")
        else:
            by_id[item.file.id] = item
    return list(by_id.values())


def _target_session(
    folder: Path,
    current: Session | None,
    held: Sequence[ImportedFile],
    fresh: Sequence[_Incoming],
    *,
    same: bool,
) -> Session:
    """The session as it will be: of one machine and one library."""
    if current is not None and current.setup.runner != IMPORT:
        raise SessionError(
            f"this session was measured by {current.setup.runner}, and others' files go into one "
            "of their own",
            where=str(folder),
            hint=f"import with -o {another(folder)}.",
        )
    parts = [] if current is None else [(str(folder), current.fingerprint)]
    parts += [(str(item.path), item.file.fingerprint) for item in fresh]
    if same:
        parts = [(name, _filled(part, [p for _, p in parts])) for name, part in parts]
    fingerprint = store.combined_fingerprint(parts) if parts else Fingerprint()
    library = _library((*held, *(item.file for item in fresh)), folder)
    setup = SessionSetup(runner=IMPORT, library=library)
    if current is not None:
        return replace(current, fingerprint=fingerprint, setup=setup)
    return Session(
        path=folder,
        command=shlex.join(["rccltune", *sys.argv[1:]]),
        tool=f"rccltune {__version__}",
        fingerprint=fingerprint,
        setup=setup,
    )


def _filled(part: Fingerprint, others: Sequence[Fingerprint]) -> Fingerprint:
    """Take what this part does not know from the first that does."""
    known = {
        f.name: next((v for o in others if (v := getattr(o, f.name)) not in (None, ())), None)
        for f in fields(Fingerprint)
        if getattr(part, f.name) in (None, ())
    }
    return replace(part, **{name: value for name, value in known.items() if value is not None})
