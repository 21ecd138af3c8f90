"""A delivery as files: into a version's folder, and back to the one before.

    DIR/versions/<name>/…     whole or not there: written beside it and renamed
    DIR/current               a link, switched by a rename
    DIR/history               names in the order in which they were current
    DIR/env.sh, check.sh …    links through ``current``

Jobs that run have opened files of their version's own folder, which nobody touches again. What a
version was switched to before the history says so is what counts: a kill between both loses no
version, and at worst the history has one that never was current.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.deploy.texts import Delivery, File, Version, header, texts
from rccltune.model import CommandLineError, SessionError, lay
from rccltune.session import sync_folder

MANIFEST: Final = "MANIFEST"
# rccltune.torch for containers without rccltune; a file named torch.py would hide torch itself.
MODULE: Final = "rccltune_torch.py"
_DIGITS: Final = 12


def assemble(delivery: Delivery) -> Version:
    """All files of a version, MANIFEST last.

    The name is a hash of all of them, made while they do not know it yet.
    """
    digest = hashlib.sha256()
    for file in _files(delivery, "0" * _DIGITS):
        digest.update(f"{file.name} {int(file.run)} {_sha256(file.content)}\n".encode())
    name = digest.hexdigest()[:_DIGITS]
    return Version(name=name, files=_files(delivery, name))


def _files(delivery: Delivery, version: str) -> tuple[File, ...]:
    rules = [File(name=one.name, content=one.content) for one in delivery.rules]
    module = File(name=MODULE, content=(Path(__file__).parents[1] / "torch.py").read_bytes())
    expected = (delivery.library.name, *(file.name for file in rules))
    files = (
        delivery.library,
        *rules,
        module,
        *(
            File(name=name, content=text.encode(), run=run)
            for name, text, run in texts(delivery, version, expected)
        ),
    )
    manifest = File(name=MANIFEST, content=_manifest(delivery, version, files).encode())
    return (*files, manifest)


def _manifest(delivery: Delivery, version: str, files: Sequence[File]) -> str:
    """Comments, then what ``sha256sum -c MANIFEST`` reads."""
    needs = " ".join(f"{name}={value}" for name, value in delivery.environment)
    requires = " ".join(f"{key}={value}" for key, value in delivery.requires.items())
    lines = [
        *header(delivery, version),
        f"# simulated: {'yes' if delivery.simulated else 'no'}",
        *(f"# {line}" for line in delivery.provenance),
        f"# requires: {requires or 'nothing'}",
        f"# needs: {needs or 'nothing'}",
        f"# plugin: needs glibc {'.'.join(map(str, delivery.glibc))}; tuner ABI versions "
        + " ".join(map(str, delivery.abi_versions)),
        *(f"{_sha256(file.content)}  {file.name}" for file in files),
    ]
    # A name with a newline must not become a line that sha256sum reads.
    return lay([*lines, ""])


CURRENT: Final = "current"
HISTORY: Final = "history"
VERSIONS: Final = "versions"
LINKS: Final = (
    *("env.sh", "check.sh", "slurm.sh", "container.sh", "container.env", "modulefiles", MANIFEST),
)
_NAME: Final = re.compile(r"[0-9a-f]{12}")
Write = Callable[[Path, bytes], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """How it ended.

    Attributes:
        before: the version that was current until now, None where there was none.
        folder: of the version that is current now.
    """

    name: str
    before: str | None
    folder: Path


def current(directory: Path) -> str | None:
    """The version in use, None where there is none."""
    try:
        name = (directory / CURRENT).readlink().name
    except OSError:
        return None
    return name if _NAME.fullmatch(name) else None


def check_ours(directory: Path, *, force: bool) -> None:
    """Find out whether versions may be put into a folder.

    Raises:
        CommandLineError: it is no folder; it has other things in it, and nobody forces; something
            that is no link is where one of ours goes.
    """
    if directory.is_symlink() and not directory.exists():
        raise CommandLineError(
            f"this link leads to nothing ({directory.readlink()})",
            where=str(directory),
            hint="make the folder that it names, or name another one.",
        )
    if directory.exists() and not directory.is_dir():
        raise CommandLineError("this is no folder", where=str(directory))
    if not directory.exists():
        return
    is_ours = (directory / VERSIONS).is_dir()
    # A lock is a program's that died in its first moment.
    others = [path.name for path in directory.iterdir() if not path.name.startswith("writer.lock")]
    if others and not is_ours and not force:
        raise CommandLineError(
            f"the folder has other things in it ({', '.join(sorted(others)[:3])})",
            where=str(directory),
            hint="name a new folder, or add --force to put it there all the same.",
        )
    for name in (CURRENT, *LINKS):
        path = directory / name
        if path.exists() and not path.is_symlink():
            raise CommandLineError(
                f"'{name}' is in the way: rccltune has a link of that name",
                where=str(path),
                hint="move it away, or name another folder.",
            )


def open_to_readers(folder: Path) -> None:
    """Every user of the cluster goes through it, whatever the umask of who deploys.

    Colleagues who may write to it by that umask, or by the folder above, still may.
    """
    mode = stat.S_IMODE(folder.stat().st_mode)
    folder.chmod((mode | 0o755) & ~stat.S_IWOTH)


def remarks(folder: Path) -> tuple[str, ...]:
    """What a version's MANIFEST says of its rules: simulated, verified or not."""
    found = []
    with (folder / MANIFEST).open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("# simulated:"):
                break
            found.append(line.removeprefix("#").strip())
    return tuple(found[1:])


def put(directory: Path, version: Version, *, write: Write, force: bool = False) -> Placed:
    """Write a version and make it the current one.

    Args:
        directory: created where it is missing; nobody else writes to it meanwhile.
        version: all of its files.
        write: writes a file atomically.
        force: take over a folder with other things in it; replace a version that was changed.

    Raises:
        CommandLineError: see :func:`check_ours`; the version is there with other content.
        OSError: the disk refuses.
    """
    check_ours(directory, force=force)
    versions = directory / VERSIONS
    if not versions.is_dir():
        versions.mkdir(parents=True)
        open_to_readers(versions)
    _clear(directory)
    folder = versions / version.name
    if not folder.exists():
        _create(folder, version, write)
    elif _changed(folder, version):
        _mend(folder, version, write, force=force)
    before = current(directory)
    if before != version.name:
        _remember(directory, [*_until(directory, before), version.name], write)
    for name in LINKS:
        _link(directory / name, f"{CURRENT}/{name}")
    _link(directory / CURRENT, f"{VERSIONS}/{version.name}")
    return Placed(name=version.name, before=before, folder=folder)


def roll_back(directory: Path, *, write: Write) -> Placed:
    """Make the version before the current one current again.

    Raises:
        SessionError: nothing was deployed here, nothing before, or that was changed since.
        OSError: the disk refuses.
    """
    now = current(directory)
    if now is None:
        raise SessionError(
            "no version was deployed here",
            where=str(directory),
            hint="deploy one with rccltune deploy.",
        )
    names = _until(directory, now)
    while names and names[-1] == now:
        names.pop()
    if not names:
        raise SessionError(
            f"there is no version before {now}",
            where=str(directory),
            hint="deploy another session with rccltune deploy; this version stays as it is.",
        )
    folder = directory / VERSIONS / names[-1]
    broken = _broken(folder)
    if broken:
        raise SessionError(
            f"version {names[-1]}, which was before {now}, is not as it was ({broken})",
            where=str(folder),
            hint="deploy its session again; the current version stays as it is.",
        )
    _link(directory / CURRENT, f"{VERSIONS}/{names[-1]}")
    _remember(directory, names, write)
    return Placed(name=names[-1], before=now, folder=folder)


def _until(directory: Path, now: str | None) -> list[str]:
    """The history up to the version that is current; what is behind it never was, or was left."""
    if now is None:
        return []
    try:
        lines = (directory / HISTORY).read_text(encoding="ascii", errors="replace").split()
    except FileNotFoundError:
        lines = []
    names = [line for line in lines if _NAME.fullmatch(line)]
    while names and names[-1] != now:
        names.pop()
    return names or [now]


def _remember(directory: Path, names: list[str], write: Write) -> None:
    write(directory / HISTORY, "".join(f"{name}\n" for name in names).encode())
    # For the colleague who goes back.
    (directory / HISTORY).chmod(0o644)


def _broken(folder: Path) -> str | None:
    """The first file that is not as MANIFEST says, None where all are."""
    try:
        lines = (folder / MANIFEST).read_text(encoding="utf-8").splitlines()
    except OSError:
        return MANIFEST
    for line in lines:
        digest, _, name = line.partition("  ")
        if not line.startswith("#") and _digest(folder / name) != digest:
            return name
    return None


def _create(folder: Path, version: Version, write: Write) -> None:
    """All of it under another name, then the name."""
    half = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for file in version.files:
            path = half / file.name
            path.parent.mkdir(exist_ok=True)
            path.parent.chmod(0o755)
            write(path, file.content)
            # For every user of the cluster, as install(1) does it: whatever the umask.
            path.chmod(0o555 if file.run else 0o444)
        half.chmod(0o755)
        half.rename(folder)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise
    sync_folder(folder.parent)


def _mend(folder: Path, version: Version, write: Write, *, force: bool) -> None:
    changed = _changed(folder, version)
    if not force:
        raise CommandLineError(
            f"version {version.name} is there and was changed ({', '.join(changed[:3])})",
            where=str(folder),
            hint="add --force to put it back as it was; jobs that use it keep what they opened.",
        )
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    folder.rename(aside / folder.name)
    _create(folder, version, write)
    shutil.rmtree(aside, ignore_errors=True)


def _changed(folder: Path, version: Version) -> list[str]:
    """Names of files that are not as the version has them."""
    return [
        file.name for file in version.files if _digest(folder / file.name) != _sha256(file.content)
    ]


def _digest(path: Path) -> str | None:
    try:
        return _sha256(path.read_bytes())
    except OSError:
        return None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _clear(directory: Path) -> None:
    """Remove what a killed deploy had not finished."""
    halves = [*(directory / VERSIONS).glob(".*.????????")]
    for name in (CURRENT, HISTORY, *LINKS):
        halves += directory.glob(f".{name}.????????")
    for half in halves:
        if half.is_dir():
            shutil.rmtree(half, ignore_errors=True)
        else:
            half.unlink(missing_ok=True)


def _link(path: Path, target: str) -> None:
    """Point a link somewhere else; whoever looks sees the old one or the new one."""
    if path.is_symlink() and os.fspath(path.readlink()) == target:
        return
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as scratch:
        new = Path(scratch) / path.name
        new.symlink_to(target)
        new.replace(path)
    sync_folder(path.parent)
