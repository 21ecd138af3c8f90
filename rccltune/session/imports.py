"""Somebody's files into a session: read and checked before the first byte is written."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
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
from rccltune.model.version import __version__
from rccltune.model.vocabulary import UnusableReason, printable
from rccltune.session import store
from rccltune.session.files import sha256_of
from rccltune.session.lock import lock_session
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
    known = _known_session(folder)
    incoming = [_read(path, stated) for path in files]
    with lock_session(folder, reporter):
        # Read again under the lock: another import may have finished meanwhile.
        current = _known_session(folder) or known
        old = nothing() if current is None else _samples_held(current, reporter)
        held = store.imported_files(folder)
        have = {one.id for one in held}
        fresh = _unique([item for item in incoming if item.file.id not in have], reporter)
        for item in incoming:
            if item.file.id in have:
                reporter.say(f"{item.path}: already in the session, nothing added")
        same = _SAME_MACHINE in stated.assume
        target = _target_session(folder, current, held, fresh, same=same)
        new = joined(framed(item.reading.table, item.reading.keys) for item in fresh)
        if fresh:
            _check_environments((*held, *(item.file for item in fresh)), folder)
            _check(fresh, target)
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
    """The one library of all files, None where none names it.

    Raises:
        SessionError: files of two.
    """
    versions: dict[str, str] = {}
    for file in every:
        if file.library_version is not None:
            versions.setdefault(file.library_version, file.name or file.id)
    two = parsed_log.different_libraries(versions)
    if two is not None:
        one, other = two
        raise SessionError(
            f"two libraries in one session: {one} ({versions[one]}) and {other} "
            f"({versions[other]}), which may choose and run differently",
            where=str(folder),
            hint=f"import one of them with -o {another(folder)}.",
        )
    return next(iter(versions), None)


def _check_environments(every: Sequence[ImportedFile], folder: Path) -> None:
    """Refuse files that ran under other variables than those that are there.

    Raises:
        SessionError: they did.
    """
    told = [(one.name or one.id, one.environment) for one in every if one.environment is not None]
    for name, other in told[1:]:
        first_name, first = told[0]
        names = [one for one in sorted({*first, *other}) if first.get(one) != other.get(one)]
        if names:
            shown = [
                " ".join(f"{n}={one[n]}" if n in one else f"no {n}" for n in names[:4])
                for one in (first, other)
            ]
            raise SessionError(
                f"two environments in one session: {shown[0]} ({first_name}) and {shown[1]} "
                f"({name}), whose times are no two settings of one site",
                where=str(folder),
                hint=f"import one of them with -o {another(folder)}.",
            )


def _check(items: Sequence[_Incoming], target: Session) -> None:
    """Refuse names that no session can hold."""
    for key in (key for item in items for key in item.reading.keys):
        schema.checked(key, str(target.path), store.SAY)


def _samples_held(current: Session, reporter: Reporter) -> pd.DataFrame:
    stored = store.stored_samples(current)
    if stored is not None:
        return stored
    reporter.say(why_made_again(current))
    return frame_from_logs(current)


def _known_session(folder: Path) -> Session | None:
    if folder.exists() and not folder.is_dir():
        raise SessionError(
            "this is a file, not a session folder", where=str(folder), hint="name another with -o."
        )
    return store.open_session(folder) if (folder / "session.json").exists() else None


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
        environment=_plain(reading.environment),
    )
    return _Incoming(file=file, path=path, reading=reading)


def _plain(environment: Mapping[str, str] | None) -> dict[str, str] | None:
    """Variables as a file of ours may hold them."""
    if environment is None:
        return None
    return {name: printable(value)[:4096] for name, value in environment.items()}


def _unique(items: Sequence[_Incoming], reporter: Reporter) -> list[_Incoming]:
    """Drop the second of two identical files."""
    kept: dict[str, _Incoming] = {}
    for item in items:
        if item.file.id in kept:
            reporter.say(f"{item.path}: the same bytes as {kept[item.file.id].path}, taken once")
        else:
            kept[item.file.id] = item
    return list(kept.values())


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
    known: dict[str, Any] = {}
    for f in fields(Fingerprint):
        if getattr(part, f.name) in (None, ()):
            known_values = [v for v in (getattr(o, f.name) for o in others) if v not in (None, ())]
            if known_values:
                known[f.name] = known_values[0]
    return replace(part, **known)
