"""One archive of sessions, logs and this machine that can be sent: made whole, shown, then written.

Reading a session starts nothing: it is files, of which the listed ones are taken, and text in which
names and secrets are replaced. What was shown is what is written, byte by byte.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shutil
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import IO, Any, Final

from rccltune import model
from rccltune.gather import contents, machine
from rccltune.gather.scrub import Scrubber
from rccltune.gather.variables import is_listed
from rccltune.model import CommandLineError, SessionError
from rccltune.session import store, table
from rccltune.session.files import replacing

TOP: Final = "rccltune-gathered"
_CONTENTS: Final = "CONTENTS.txt"
_ENVIRONMENT: Final = "environment.json"
_IN_MEMORY: Final = 1 << 26
_ID: Final = re.compile(r"(?<=/)(?:[0-9a-f]{10}|[1-9][0-9]{0,5})(?=/)")
_OF_ONE: Final = re.compile(r"\b(trace|nccl|plugin|record|rules|rank|log)-[^/]*(?=\.\w+$)")
# Whoever names another file by its digest is written after it.
_FIRST: Final = ("samples.csv", "rules-*.csv", "rccl_tuner*.csv", "forced.csv")


@dataclass(slots=True, kw_only=True)
class Row:
    """Files of one kind.

    Attributes:
        nbytes: as they are in the archive, before they are packed.
        replaced: how often what was replaced, by kind.
    """

    what: str
    n_files: int = 0
    nbytes: int = 0
    replaced: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True, kw_only=True)
class Archive:
    """A whole archive that no file is yet.

    Attributes:
        left_out: (name, why) of what is in a session and not in here.
        kept: variables of launches and of this machine, by name.
        dropped: how many others were left out.
        names: (name, stand-in) of hosts and people; for the owner, never in the archive.
    """

    rows: dict[str, Row] = field(default_factory=dict)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    names: tuple[tuple[str, str], ...] = ()
    stream: IO[bytes]

    @property
    def replaced(self) -> Counter[str]:
        """How often what was replaced, in all of it."""
        return sum((row.replaced for row in self.rows.values()), Counter())

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "files": [
                {
                    "what": row.what,
                    "files": row.n_files,
                    "bytes": row.nbytes,
                    "replaced": dict(row.replaced),
                }
                for row in self.rows.values()
            ],
            "left_out": [{"name": name, "why": why} for name, why in self.left_out],
            "variables": sorted(self.kept),
            "variables_left_out": len(self.dropped),
            "names": dict(self.names),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A session or a file, and what it is called in the archive."""

    path: Path
    label: str

    def entries(self) -> Iterator[contents.Entry]:
        """What is to be taken, those first whose digests others name."""
        if self.path.is_dir():
            found = contents.entries(self.path)
            yield from sorted(found, key=lambda one: (_turn(one.name), one.name))
        else:
            yield contents.Entry("")

    def file(self, entry: contents.Entry) -> tuple[bytes, float]:
        """Raises OSError."""
        return contents.read(self.path / entry.name if entry.name else self.path.resolve())

    def told(self, name: str) -> str:
        """A name that says whose file it is."""
        return f"{self.label}/{name}" if name else self.label


class _Writer:
    """Scrubs files and adds them."""

    def __init__(self, names: Scrubber, archive: Archive, tar: tarfile.TarFile) -> None:
        self.names = names
        self.archive = archive
        self._tar = tar
        self._taken: set[str] = set()

    def source(self, source: _Source) -> None:
        """Everything of a session that is listed."""
        for entry in source.entries():
            if entry.why_not:
                self.archive.left_out.append((source.told(entry.name), entry.why_not))
                continue
            try:
                data, changed = source.file(entry)
                made = self._scrubbed(data, entry.name or source.path.name)
            except (OSError, ValueError, RecursionError) as error:
                why = error.strerror if isinstance(error, OSError) else "no JSON that can be read"
                self.archive.left_out.append((source.told(entry.name), why or str(error)))
                continue
            if made != data and _turn(entry.name) < len(_FIRST):
                self.names.know_digest(_sha256(data), _sha256(made))
            self.add(self._named(source, entry), made, changed, _kind(source.told(entry.name)))

    def _named(self, source: _Source, entry: contents.Entry) -> str:
        folder, slash, name = entry.name.rpartition("/")
        whole = f"{source.label}/{folder}{slash}{self.names.file_name(name)}"
        return whole if entry.name else self.names.file_name(source.label)

    def _scrubbed(self, data: bytes, name: str) -> bytes:
        if not name.endswith(".json"):
            return self.names.data(data)
        plain = json.loads(data.decode())
        if name.rpartition("/")[2] == _ENVIRONMENT:
            plain = self._listed_alone(plain)
        return plain_json(self.names.plain(plain))

    def _listed_alone(self, plain: Any) -> Any:  # noqa: ANN401 - whatever the file holds
        """A launch's environment without the variables that are not listed."""
        if not isinstance(plain, dict):
            raise ValueError("no environment")  # noqa: TRY004 - a file's mistake
        made: dict[str, Any] = {}
        for kind in ("cleared", "passed", "added"):
            given = plain.get(kind)
            found = given if isinstance(given, dict) else {}
            made[kind] = {name: value for name, value in found.items() if self._is_listed(name)}
        files = plain.get("files")
        made["files"] = [
            item
            for item in (files if isinstance(files, list) else [])
            if isinstance(item, list) and len(item) == 3 and self._is_listed(str(item[1]))
        ]
        return made

    def _is_listed(self, name: str) -> bool:
        (self.archive.kept if is_listed(name) else self.archive.dropped).add(name)
        return is_listed(name)

    def machine(self, blocks: list[machine.Block], beside: Mapping[str, object]) -> None:
        """This machine as it was gathered, and what rccltune says of it."""
        self.archive.kept |= {block.name for block in blocks if block.kind == "variable"}
        self.archive.dropped |= machine.dropped()
        data = machine.as_text(blocks, self.names).encode("utf-8", "surrogateescape")
        self.add("gathered-system.txt", data, 0, "gathered-system.txt")
        for name, plain in beside.items():
            self.add(name, plain_json(self.names.plain(plain)), 0, name)

    def add(self, name: str, data: bytes, changed: float, what: str) -> None:
        """Add a file that was scrubbed."""
        stem, dot, suffix = name.rpartition(".")
        number = 1
        while name in self._taken:
            number += 1
            name = f"{stem}-{number}{dot}{suffix}"
        self._taken.add(name)
        member = tarfile.TarInfo(f"{TOP}/{name}")
        member.size, member.mtime, member.mode = len(data), int(changed), 0o644
        self._tar.addfile(member, io.BytesIO(data))
        row = self.archive.rows.setdefault(what, Row(what=what))
        row.n_files += 1
        row.nbytes += len(data)
        row.replaced.update(self.names.counts)
        self.names.counts.clear()


@contextmanager
def gathered(
    paths: Sequence[Path],
    *,
    this_machine: Callable[[], Mapping[str, object]] | None,
    text_of: Callable[[Archive], str],
) -> Iterator[Archive]:
    """An archive, which no file is yet, and which is gone with the block.

    Args:
        paths: sessions and log files.
        this_machine: what rccltune says of the machine that it runs on, by name of a file; None
            where the machine is not wanted, and then nothing is started.
        text_of: the list of its contents, which goes into it.

    Raises:
        SessionError: a folder is no session, or cannot be read.
        CommandLineError: a file is no text.
    """
    names = Scrubber(vocabulary())
    sources = _sources(paths)
    machine.know_oneself(names)
    for source in sources:
        _learn(source, names)
    beside = None if this_machine is None else this_machine()
    blocks = []
    if beside is not None:
        names.learner.plain(beside)
        blocks = machine.gather(Path("/"), names)
    names.counts.clear()
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as stream:
        archive = Archive(stream=stream)
        with (
            gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed,
            tarfile.open(mode="w|", fileobj=packed, format=tarfile.PAX_FORMAT) as tar,
        ):
            writer = _Writer(names, archive, tar)
            for source in sources:
                writer.source(source)
            if beside is not None:
                writer.machine(blocks, beside)
            archive.names = names.names()
            # The names of what is left out are its owner's alone.
            listed = names.data(text_of(archive).encode("utf-8", "replace"))
            names.counts.clear()
            writer.add(_CONTENTS, listed, 0, _CONTENTS)
        yield archive


def _sources(paths: Sequence[Path]) -> list[_Source]:
    """What is asked for.

    Raises:
        SessionError: a folder is no session.
        CommandLineError: a file is no text, or not there.
    """
    folders = [path for path in paths if path.is_dir()]
    found = []
    for path in paths:
        if path in folders:
            # One that is damaged may be just what is to be sent.
            if not (path / store.HEADER).is_file():
                store.open_session(path)
            number = f"-{folders.index(path) + 1}" if len(folders) > 1 else ""
            found.append(_Source(path=path, label=f"session{number}"))
            continue
        try:
            data, _ = contents.read(path.resolve())
        except OSError as error:
            raise CommandLineError(
                f"there is neither a session nor a log that can be read: {error.strerror or error}",
                where=str(path),
            ) from error
        if b"\0" in data:
            raise CommandLineError(
                "only text can be sent, since nothing can be replaced in other files",
                where=str(path),
                hint="name the log itself, unpacked.",
            )
        found.append(_Source(path=path, label=f"files/{path.name}"))
    return found


def _learn(source: _Source, names: Scrubber) -> None:
    for entry in _readable(source):
        try:
            data, _ = source.file(entry)
            text = data.decode("utf-8", "surrogateescape")
            names.learner.file_name(entry.name.rpartition("/")[2])
            if (entry.name or source.path.name).endswith(".json"):
                names.learner.plain(json.loads(text))
            else:
                names.learner.text(text)
        except (OSError, ValueError, RecursionError):
            # It will be left out, with the reason.
            continue


def _readable(source: _Source) -> Iterable[contents.Entry]:
    try:
        return [entry for entry in source.entries() if not entry.why_not]
    except OSError as error:
        raise SessionError(
            f"the session cannot be read: {error.strerror}", where=str(source.path)
        ) from error


def vocabulary() -> frozenset[str]:
    """The words of our own files, which nobody's name replaces: fields, and values of enums."""
    words = set(table.COLUMNS)
    for one in (getattr(model, name) for name in dir(model)):
        if not isinstance(one, type):
            continue
        if is_dataclass(one):
            words |= {f.name for f in fields(one)}
        elif issubclass(one, Enum):
            words |= {str(member.value) for member in one} | {member.name for member in one}
    return frozenset(part for word in words for part in (word, *re.split(r"[\W_]+", word)))


def plain_json(plain: object) -> bytes:
    """A JSON file as sessions have them."""
    try:
        return (json.dumps(plain, indent=1, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        # Half a surrogate, which was escaped.
        return (json.dumps(plain, indent=1) + "\n").encode()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _kind(name: str) -> str:
    """What a file is one of: ``session/launches/*/trace-*.csv``."""
    if name.startswith("files/"):
        return "files"
    return _OF_ONE.sub(r"\1-*", _ID.sub("*", name))


def _turn(name: str) -> int:
    kind = _kind(f"/{name}").rpartition("/")[2]
    found = [turn for turn, first in enumerate(_FIRST) if Path(kind).match(first)]
    return found[0] if found else len(_FIRST)


def write(archive: Archive, target: Path, *, force: bool) -> int:
    """Write it, as a whole or not at all; returns its size in bytes.

    Raises:
        CommandLineError: the file is there, and ``force`` is not given.
        SessionError: the disk refuses.
    """
    if target.exists() and not force:
        raise taken(target)
    archive.stream.seek(0)
    # Its owner alone may read it, since it is theirs to send.
    with replacing(target, mode=0o600) as stream:
        shutil.copyfileobj(archive.stream, stream)
        return stream.tell()


def taken(target: Path) -> CommandLineError:
    """What is said where the file is there."""
    return CommandLineError(
        "this file is there already", where=str(target), hint="name another with -o, or --force."
    )
