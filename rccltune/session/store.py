"""The session folder: opening it, adding launches to it, reading what it holds.

session.json                     format, command, fingerprint, variants, digest of samples.csv
launches/<id>/launch.json        what was asked for
launches/<id>/stdout.log         the raw log, as it came
launches/<id>/outcome.json       how it ended; written last, so its presence means complete
samples.csv fit.json rules …     derived
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from rccltune.errors import SessionError
from rccltune.model import KNOWN_VARIANTS, Fingerprint, Launch, Outcome, Sample, Variant
from rccltune.session.codec import from_plain, to_plain
from rccltune.session.files import (
    copy_hashing,
    disk_errors,
    replacing,
    sha256_of,
    write_atomically,
)
from rccltune.session.table import dump_samples, load_samples

T = TypeVar("T")

# 1: first format.
FORMAT: Final = 1
HEADER: Final = "session.json"
SAMPLES: Final = "samples.csv"
RAW_LOG: Final = "stdout.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What session.json says.

    Attributes:
        samples_of: digest of the launches that samples.csv was made from.
    """

    path: Path
    command: str
    tool: str
    fingerprint: Fingerprint
    variants: tuple[Variant, ...] = ()
    samples_of: str | None = None

    @property
    def simulated(self) -> bool:
        """Whether its figures come from the stand-in benchmark."""
        return self.fingerprint.simulated


def open_session(path: Path) -> Session:
    """Read session.json.

    Raises:
        SessionError: no session there, a newer format, or a file that cannot be read.
    """
    header = path / HEADER
    try:
        text = header.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise SessionError(
            "there is no session here",
            where=str(path),
            hint="measure one with rccltune sweep, make one with rccltune import FILE, "
            "or name its folder.",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SessionError(f"session.json cannot be read: {error}", where=str(header)) from error
    return _parse_header(path, text)


def _parse_header(path: Path, text: str) -> Session:
    where = str(path / HEADER)
    try:
        plain = json.loads(text)
        version = plain["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise SessionError(
            f"session.json is no session header: {error}",
            where=where,
            hint="restore the file, or import the logs under launches/ into a new session.",
        ) from error
    if version != FORMAT:
        raise SessionError(
            f"the session has format {version}, this rccltune knows format {FORMAT}",
            where=where,
            hint="use the rccltune that wrote it"
            + (f" ({plain['tool']})" if isinstance(plain.get("tool"), str) else "")
            + ", or a newer one.",
        )
    return Session(
        path=path,
        command=str(plain.get("command", "")),
        tool=str(plain.get("tool", "")),
        fingerprint=from_plain(Fingerprint, plain.get("fingerprint", {}), where),
        variants=tuple(from_plain(Variant, v, where) for v in plain.get("variants", [])),
        samples_of=plain.get("samples_of"),
    )


def launch_id(launch: Launch) -> str:
    """Ten hex digits that depend on everything in a launch but its id and its time limit.

    More patience measures the same, so that a sweep may be resumed with another limit.
    """
    plain = json.dumps(to_plain(replace(launch, id="", timeout_s=None)), sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:10]


def read_launches(path: Path) -> tuple[tuple[Launch, Outcome], ...]:
    """Every complete launch, by id; one without an outcome was interrupted and is made again."""
    return tuple(
        (read_launch(folder), _read_record(folder / "outcome.json", Outcome))
        for folder in sorted((path / "launches").glob("*"))
        if (folder / "outcome.json").exists()
    )


def read_launch(folder: Path) -> Launch:
    """What a launch's folder says that it was to be.

    Raises:
        SessionError: it cannot be read.
    """
    return _read_record(folder / "launch.json", Launch)


def _read_record(path: Path, kind: type[T]) -> T:
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SessionError(
            f"{path.name} cannot be read: {error}",
            where=str(path),
            hint="delete this launch's folder; sweep or import then makes it anew.",
        ) from error
    return from_plain(kind, plain, str(path))


def raw_log(path: Path, launch: str) -> Path:
    """The raw log of a launch; the id may carry the number of a run inside its file."""
    return path / "launches" / launch.partition(".")[0] / RAW_LOG


def combined_fingerprint(parts: Sequence[tuple[str, Fingerprint]]) -> Fingerprint:
    """The one machine that all parts were measured on.

    Unknown agrees with unknown only: whether an anonymous table belongs to a known machine is
    for the user to say, not for us to guess.

    Args:
        parts: (where it is from, fingerprint), at least one.

    Raises:
        SessionError: two parts differ; the message shows each difference.
    """
    first_name, first = parts[0]
    for name, other in parts[1:]:
        differences = [
            f"  {f.name}: {_shown(getattr(first, f.name))} in {first_name}, "
            f"{_shown(getattr(other, f.name))} in {name}"
            for f in fields(Fingerprint)
            if getattr(first, f.name) != getattr(other, f.name)
        ]
        if differences:
            raise SessionError(
                "two machines in one session:\n" + "\n".join(differences),
                where=name,
                hint="import it into a session of its own with -o DIR; if it is the same "
                "machine and only not said, add --assume machine=same.",
            )
    return first


def _shown(value: object) -> str:
    if value is None or value == ():
        return "unknown"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def commit(
    session: Session,
    added: Sequence[tuple[Launch, Outcome, Path]],
    samples: Iterable[Sample],
) -> Session:
    """Add complete launches, then replace what is derived from all of them.

    The caller holds the session (:func:`rccltune.session.writing`). A kill in between leaves
    launches without outcome, which do not count, or derived files that are rebuilt.

    Args:
        session: as it will be; its ``path`` may not exist yet.
        added: launch, outcome and the raw log to copy.
        samples: every sample of the session, old and new.

    Raises:
        SessionError: the disk refuses.
    """
    for launch, outcome, log in added:
        folder = session.path / "launches" / launch.id
        copy_hashing(log, folder / RAW_LOG)
        write_atomically(folder / "launch.json", _json(to_plain(launch)))
        write_atomically(folder / "outcome.json", _json(to_plain(outcome)))
    with replacing(session.path / SAMPLES) as stream:
        dump_samples(sorted(samples, key=_launch_order), stream)
    done = replace(session, samples_of=launches_digest(session.path))
    write_header(done)
    return done


def _launch_order(sample: Sample) -> str:
    # Canonical order, so that samples.csv has the same bytes however it came about.
    return sample.launch.partition(".")[0]


def write_header(session: Session) -> None:
    """Write session.json."""
    plain = {
        "format": FORMAT,
        "tool": session.tool,
        "command": session.command,
        "simulated": session.simulated,
        "fingerprint": to_plain(session.fingerprint),
        "variants": to_plain(session.variants),
        "samples_of": session.samples_of,
    }
    write_atomically(session.path / HEADER, _json(plain))


def launches_digest(path: Path) -> str:
    """Digest of what samples.csv must have been made from.

    The ids of all complete launches; one that was interrupted counts as far as its log goes.
    """
    made = []
    for own in sorted((path / "launches").glob("*")):
        if (own / "outcome.json").exists():
            made.append(own.name)
        elif (own / RAW_LOG).exists():
            made.append(f"{own.name} {(own / RAW_LOG).stat().st_size}")
    return hashlib.sha256("\n".join(made).encode()).hexdigest()[:16]


def has_current_samples(session: Session) -> bool:
    """Whether samples.csv is there and was made from the launches that are there."""
    current = session.samples_of == launches_digest(session.path)
    return current and (session.path / SAMPLES).exists()


def stored_samples(session: Session) -> tuple[Sample, ...] | None:
    """samples.csv, or None when it must be rebuilt from the raw logs."""
    file = session.path / SAMPLES
    if not has_current_samples(session):
        return None
    variants = dict(KNOWN_VARIANTS) | {v.name: v for v in session.variants}
    with disk_errors(file), file.open(encoding="utf-8", newline="") as stream:
        return load_samples(stream, variants, str(file))


def samples_sha256(session: Session) -> str:
    """SHA-256 of samples.csv, the provenance of everything derived from it."""
    return sha256_of(session.path / SAMPLES)


def write_derived(path: Path, name: str, plain: Mapping[str, Any]) -> Path:
    """Write a derived JSON file into the session."""
    write_atomically(path / name, _json(plain))
    return path / name


def read_derived(path: Path, name: str) -> dict[str, Any] | None:
    """A derived JSON file, None when it is not there or cannot be read: it can be rebuilt."""
    try:
        plain = json.loads((path / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return plain if isinstance(plain, dict) else None


def read_formatted(
    path: Path, name: str, number: int, *, what: str, hint: str
) -> dict[str, Any] | None:
    """A derived JSON file without its ``format``, None where :func:`read_derived` has none.

    Args:
        path: the session.
        name: of the file in it.
        number: the format that is known.
        what: what the file is, for the message.
        hint: how it is made again.

    Raises:
        SessionError: another format.
    """
    plain = read_derived(path, name)
    if plain is None:
        return None
    found = plain.pop("format", None)
    if found != number:
        raise SessionError(
            f"{what} has format {found}, this rccltune knows format {number}",
            where=str(path / name),
            hint=hint,
        )
    return plain


def dump_json(record: object) -> str:
    """A record as the text of a JSON file."""
    return _json(to_plain(record))


def _json(plain: object) -> str:
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"
