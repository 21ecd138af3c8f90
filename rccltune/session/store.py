"""The session folder: opening it, adding files to it, reading what it holds.

session.json                     format, command, fingerprint, setup, digest of samples.csv
runs/<n>/                        a run (:mod:`rccltune.ranks.runs`)
launches/<id>/                   an imported file: stdout.log, and import.json, written last
samples.csv                      every timing; made again from runs and imported files
fit.json rules …                 derived
"""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

from rccltune.model.errors import SessionError
from rccltune.model.json_text import json_pieces, json_text
from rccltune.model.measurement import Fingerprint, ImportedFile, StatedFacts, folder_of
from rccltune.model.schema import (
    Line,
    VariableName,
    Whole,
    Word,
    check_record,
    load_json,
    matching,
    read_json,
    to_plain,
)
from rccltune.model.settings import RankLocation
from rccltune.model.text import join_lines, printable
from rccltune.ranks import runs
from rccltune.session import samples_csv
from rccltune.session.files import (
    check_kinds,
    disk_errors,
    read_regular,
    replacing,
    sha256_of,
    write_atomically,
)

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
# 1: several environments in a session. 2: one.
FORMAT: Final = 2
HEADER: Final = "session.json"
SAMPLES: Final = "samples.csv"
RAW_LOG: Final = "stdout.log"
# Record of an imported file, beside its copy.
IMPORTED: Final = "import.json"
SWEEP_FILE: Final = "sweep.yaml"
# A file is named so in its maker's home.
SessionId: TypeAlias = Annotated[str, matching(r"[0-9a-f]{32}", "session id")]
_RESTORE: Final = "restore the file, or measure or import anew, into another session."
_ANEW: Final = "delete this folder; sweep or import then makes it anew."
SAY: Final = "correct it in the file, or say it otherwise (--assume)."
_MADE_AGAIN: Final = "delete the file; it is made again from the raw logs."


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSetup:
    """What all of a session was measured with; another one is another session.

    Attributes:
        runner: what measured: ``perf``, ``rccl-tests``, or ``import`` for others' files; None
            where nothing was measured but links.
        library: what the library calls itself, None where nothing says it.
        environment: set in every rank of every run, baseline included (--env).
        placement: where the ranks of a sweep are; of others' files nothing says it.
    """

    runner: Word | None = None
    library: Line | None = None
    environment: dict[VariableName, Line] = field(default_factory=dict)
    placement: RankLocation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHeader:
    """Content of session.json, which also has its format, and ``simulated`` for people.

    Attributes:
        id: by which its maker knows it again.
        samples_of: digest of the runs and files that samples.csv was made from.
        n_samples: its rows; None where nobody counted them.
    """

    id: SessionId = field(default_factory=lambda: uuid.uuid4().hex)
    tool: Line = ""
    command: Line = ""
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    setup: SessionSetup
    samples_of: Word | None = None
    n_samples: Whole | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(SessionHeader):
    """A session: its header, and where it lies."""

    path: Path

    @property
    def simulated(self) -> bool:
        """Whether its figures come from the stand-in benchmark."""
        return self.fingerprint.simulated


_HEADER_FIELDS: Final = tuple(one.name for one in fields(SessionHeader))


def open_session(path: Path) -> Session:
    """Read session.json.

    Raises:
        SessionError: no session there, a newer format, a file that cannot be read, or something in
            the folder that is no file of it.
    """
    header = path / HEADER
    if not header.exists():
        raise SessionError(
            "there is no session here",
            where=str(path),
            hint="measure one with rccltune sweep, make one with rccltune import FILE, "
            "or name its folder.",
        )
    check_kinds(path)
    content, where = read_regular(header), str(header)
    plain = load_json(content, where, _RESTORE)
    if plain.get("format") != FORMAT:
        wrote = plain.get("tool")
        maker = f" ({printable(wrote)[:60]})" if isinstance(wrote, str) else ""
        raise SessionError(
            f"the session has format {plain.get('format')!r:.60}, this rccltune knows format "
            f"{FORMAT}",
            where=where,
            hint=f"use the rccltune that wrote it{maker}, or measure or import anew, into another "
            "session (-o DIR).",
        )
    for beside in ("format", "simulated"):
        plain.pop(beside, None)
    read = read_json(SessionHeader, json.dumps(plain).encode(), where, _RESTORE)
    return Session(path=path, **{name: getattr(read, name) for name in _HEADER_FIELDS})


def another(folder: Path) -> Path:
    """A folder for a session of its own, beside one that is of something else."""
    names = (folder.with_name(f"{folder.name}-{n}") for n in count(2))
    return next(path for path in names if not path.exists())


def is_swept(path: Path) -> bool:
    """Whether a sweep made a session; one of imported files has no ranks to measure with."""
    return (path / SWEEP_FILE).exists()


def sweep_then_verify(rules: Path) -> str:
    """Commands that verify the rules of a session that no sweep made."""
    file = shlex.quote(str(rules))
    return f"rccltune sweep -o swept && rccltune verify swept --rules {file}"


def imported_files(path: Path) -> tuple[ImportedFile, ...]:
    """Files that were imported into a session, by their ids.

    Raises:
        SessionError: the record of one cannot be read.
    """
    records = sorted((path / "launches").glob(f"*/{IMPORTED}"))
    return tuple(read_json(ImportedFile, read_regular(one), str(one), _ANEW) for one in records)


def library_versions(path: Path) -> set[str | None]:
    """What each run and each imported file of a session names as its library.

    Raises:
        SessionError: the record of a file cannot be read.
        OutputError: a file of a run cannot be.
    """
    measured = {run.library_version for run in runs.read_runs(path, most_ranks=0)}
    return measured | {one.library_version for one in imported_files(path)}


def id_of(sha256: str | None, stated: StatedFacts) -> str:
    """Ten hex digits that depend on a file's bytes and on what options say of it."""
    plain = json.dumps([sha256, to_plain(stated)], sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:10]


def raw_log(path: Path, name: str) -> Path:
    """The raw log of a run or an imported file, by the name that samples have of it."""
    folder = folder_named(path, name)
    log = folder / RAW_LOG
    return log if log.exists() or folder.parent.name != runs.FOLDER else folder / runs.LOG_FILE


def folder_named(path: Path, name: str) -> Path:
    """The folder of a run or an imported file, by the name that samples have of it."""
    name = folder_of(name)
    number = runs.number_in(name)
    return path / "launches" / name if number is None else path / runs.FOLDER / str(number)


def combined_fingerprint(parts: Sequence[tuple[str, Fingerprint]]) -> Fingerprint:
    """The one machine that all parts were measured on.

    Unknown agrees with unknown only: whether an anonymous table belongs to a known machine is
    for the user to say, not for us to guess. What the benchmark serves need not be said twice.

    Args:
        parts: (where it is from, fingerprint), at least one.

    Raises:
        SessionError: two parts differ; the message shows each difference.
    """
    serves = next((one.serves for _, one in parts if one.serves), None)
    parts = [(name, replace(one, serves=one.serves or serves)) for name, one in parts]
    first_name, first = parts[0]
    for name, other in parts[1:]:
        differences = [
            f"  {f.name}: {_show_value(getattr(first, f.name))} in {first_name}, "
            f"{_show_value(getattr(other, f.name))} in {name}"
            for f in fields(Fingerprint)
            if getattr(first, f.name) != getattr(other, f.name)
        ]
        if differences:
            raise SessionError(
                join_lines(["two machines in one session:", *differences]),
                where=name,
                hint="import it into a session of its own with -o DIR; if it is the same "
                "machine and only not said, add --assume machine=same.",
            )
    return first


def _show_value(value: object) -> str:
    if value is None or value == ():
        return "unknown"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def commit(
    session: Session,
    added: Sequence[tuple[ImportedFile, Path]],
    samples: pd.DataFrame,
) -> Session:
    """Add imported files, then replace what is derived from all that is there.

    The caller holds the session (:mod:`rccltune.session.lock`). A kill in between leaves files
    without a record, which do not count, or derived files that are rebuilt.

    Args:
        session: as it will be; its ``path`` may not exist yet.
        added: records, and the file of each to copy.
        samples: every sample of the session, old and new.

    Raises:
        InputFileError: a name or a number that no session can hold; nothing was written.
        SessionError: the disk refuses.
    """
    for one, _ in added:
        check_record(one, one.name or str(session.path), SAY)
    for one, log in added:
        folder = session.path / "launches" / one.id
        with log.open("rb") as reader, replacing(folder / RAW_LOG) as writer:
            shutil.copyfileobj(reader, writer)
        write_atomically(folder / IMPORTED, dump_json(one))
    with replacing(session.path / SAMPLES) as stream:
        samples_csv.write(_ordered(samples), stream)
    done = replace(session, samples_of=launches_digest(session.path), n_samples=len(samples))
    write_header(done)
    return done


def _ordered(samples: pd.DataFrame) -> pd.DataFrame:
    """Canonical order, so that samples.csv has the same bytes however it came about."""
    import numpy as np

    runs_of = samples["run"].cat
    folders = np.array([folder_of(name) for name in runs_of.categories], dtype=str)
    place = np.unique(folders, return_inverse=True)[1] if len(folders) else np.zeros(0, int)
    rows: pd.DataFrame = samples.iloc[np.argsort(place[runs_of.codes], kind="stable")]
    return rows


def write_header(session: Session) -> None:
    """Write session.json."""
    plain = {name: to_plain(getattr(session, name)) for name in _HEADER_FIELDS}
    plain |= {"format": FORMAT, "simulated": session.simulated}
    write_atomically(session.path / HEADER, dump_json(plain))


def launches_digest(path: Path) -> str:
    """Digest of what samples.csv must have been made from.

    The names of all imported files; a run counts as far as it went.
    """
    complete = sorted(record.parent.name for record in (path / "launches").glob(f"*/{IMPORTED}"))
    for number in runs.numbers(path):
        run_folder = path / runs.FOLDER / str(number)
        sizes = [
            file.stat().st_size
            for file in (*run_folder.glob("rank-*.csv"), *run_folder.glob(runs.END_FILE))
        ]
        complete.append(f"{number} {sum(sizes)}")
    return hashlib.sha256("\n".join(complete).encode()).hexdigest()[:16]


def has_raw(path: Path) -> bool:
    """Whether a session has any run or imported file."""
    return bool(runs.numbers(path)) or any((path / "launches").glob(f"*/{IMPORTED}"))


def why_not_current(session: Session) -> str | None:
    """Why samples.csv must be made again, None where it need not be."""
    file = session.path / SAMPLES
    if not file.exists():
        return "samples.csv is missing"
    # Without raw runs and logs there is nothing that the table could be older than.
    if session.samples_of != launches_digest(session.path) and has_raw(session.path):
        return "samples.csv is older than the runs and launches"
    with disk_errors(file), file.open("rb") as stream:
        head = stream.readline(2 * len(samples_csv.HEAD)).rstrip(b"\r\n")
    if head != samples_csv.HEAD.encode():
        return "samples.csv has other columns than this version of rccltune writes"
    return None


def stored_samples(session: Session) -> pd.DataFrame | None:
    """samples.csv as a table, or None when it must be made again from what was measured.

    Raises:
        SessionError: a row that cannot be read, or rows that are missing.
    """
    if why_not_current(session) is not None:
        return None
    file = session.path / SAMPLES
    with disk_errors(file):
        return samples_csv.read(file, session.n_samples)


def samples_sha256(session: Session, samples: pd.DataFrame | None = None) -> str:
    """SHA-256 of samples.csv, the provenance of everything derived from it.

    Args:
        session: whose.
        samples: as they would be written, where the file is not there.
    """
    if samples is None:
        return sha256_of(session.path / SAMPLES)
    stream = io.BytesIO()
    samples_csv.write(_ordered(samples), stream)
    return hashlib.sha256(stream.getvalue()).hexdigest()


def write_derived(path: Path, name: str, record: object) -> Path:
    """Write a derived JSON file into the session."""
    with replacing(path / name) as stream:
        for piece in json_pieces(to_plain(record)):
            stream.write(piece.encode())
        stream.write(b"\n")
    return path / name


def read_derived(
    path: Path,
    name: str,
    kind: type[T],
    *,
    hint: str = "",
    serves: Callable[[Mapping[str, Any]], bool] = lambda _: True,
) -> T | None:
    """The record of a derived JSON file, None when it is not there or of no use.

    Args:
        path: the session.
        name: of the file in it.
        kind: the record; its ``FORMAT`` is what the file must say, where it has one.
        hint: how it is made again.
        serves: told what it says, whether it is of use; what is not is held to nothing.

    Raises:
        SessionError: another format, or values that do not fit; each with its field.
    """
    file = path / name
    if not file.exists():
        return None
    where, hint = str(file), hint or _MADE_AGAIN
    plain = load_json(read_regular(file), where, hint)
    if not serves(plain):
        return None
    number = getattr(kind, "FORMAT", None)
    if number is not None and (version := plain.pop("format", None)) != number:
        has = "no format" if version is None else f"format {version!r:.60}"
        raise SessionError(
            f"it has {has}, and this rccltune knows format {number}",
            where=where,
            hint=hint,
        )
    return read_json(kind, json.dumps(plain).encode(), where, hint)


def dump_json(record: object) -> str:
    """A record as the text of a JSON file."""
    return json_text(to_plain(record), indent=1) + "\n"


# The simulated node of a session, as its benchmarks read it.
NODE_FILE: Final = "node.node"
