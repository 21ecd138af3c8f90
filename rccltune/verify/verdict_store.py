"""Verdicts that a session keeps: one for each rule file, or why there is none."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.model.errors import VerificationError
from rccltune.model.schema import Line, Text
from rccltune.rules.exports import NAMED
from rccltune.session import store
from rccltune.verify.verdict_file import VerdictFile

_VERDICT: Final = "verdict"
_REFUSED: Final = "refused"
# Folder of rules that are being verified, or were refused; no job looks there.
CANDIDATES: Final = "candidates"
# The session with LL128 forced that tune makes, in the site's session.
FORCED_FOLDER: Final = "ll128-forced"
_RULE_FILE: Final = "rccl_tuner*.csv"
# Of the session's own rule file for any placement.
VERDICT_FILE: Final = f"{_VERDICT}.json"
_HINT: Final = "delete it; rccltune verify makes it anew."


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedVerification:
    """A verification that ended with an error, so that nothing of its rules is proven.

    Attributes:
        path: of the rule file.
        sha256: of its bytes then.
        message: what was wrong.
        hint: what to do about it.
    """

    path: Line
    sha256: Line
    message: Text
    hint: Text | None


def verdict_name(rules: Path, folder: Path, plain: str) -> str:
    """``verdict.json``; ``verdict_one-oam.json`` for a placement, ``verdict_out.json`` of others.

    Args:
        rules: what stands goes there.
        folder: the session.
        plain: name of its file for any placement.
    """
    if rules.resolve() == (folder / plain).resolve():
        return VERDICT_FILE
    return f"{_VERDICT}_{rules.stem.removeprefix(f'{Path(plain).stem}_')}.json"


def rule_paths(folder: Path) -> list[Path]:
    """A session's rule files: one for any placement, which comes first, and each placement's.

    ``rccl_tuner.csv`` where neither architecture nor mode is known, as on an NVIDIA machine.
    """
    return sorted(folder.glob(_RULE_FILE))


def used_session(folder: Path) -> Path:
    """The session whose rules a session's exports name, wherever it lies by now.

    It is the session itself, or the one with LL128 forced that tune made in it.
    """
    forced = folder / FORCED_FOLDER
    for rules in rule_paths(folder) if forced.is_dir() else ():
        exports = rules.with_suffix(".env")
        text = exports.read_text(encoding="utf-8", errors="replace") if exports.is_file() else ""
        match = NAMED.search(text)
        if match is not None and Path(match[1].strip("'\"")).parent.name == FORCED_FOLDER:
            return forced
    return folder


def verdict_files(folder: Path) -> tuple[Path, ...]:
    """All verdicts of a session, that of any placement first."""
    files = [folder / VERDICT_FILE, *sorted(folder.glob(f"{_VERDICT}_*.json"))]
    return tuple(path for path in files if path.exists())


def read_verdict(folder: Path, name: str) -> VerdictFile | None:
    """One verdict of a session; None where there is none.

    Raises:
        SessionError: it is damaged, or of an earlier version.
    """
    return store.read_derived(folder, name, VerdictFile, hint=_HINT)


def write_verdict(folder: Path, name: str, file: VerdictFile) -> None:
    """Write a verdict into a session."""
    store.write_derived(folder, name, file)


@contextmanager
def keep_failure(folder: Path, name: str, rules: Path) -> Iterator[None]:
    """Keep the error with which a verification ends; one that ends well takes it away.

    Args:
        folder: the session.
        name: of the verdict.
        rules: the file that is verified.
    """
    path = folder / _beside(name)
    # The file may be replaced before it ends.
    sha256 = _sha256(rules)
    try:
        yield
    except VerificationError as error:
        record = FailedVerification(
            path=str(rules), sha256=sha256, message=error.message, hint=error.hint
        )
        store.write_derived(folder, path.name, record)
        raise
    path.unlink(missing_ok=True)


def refusals(folder: Path) -> tuple[FailedVerification, ...]:
    """Refusals of rule files that are still what they were then.

    Raises:
        SessionError: one is not what is written here.
    """
    return tuple(
        one
        for one in _all_refused(folder)
        if one.sha256
        in (_sha256(where / Path(one.path).name) for where in (folder, folder / CANDIDATES))
    )


def refused(folder: Path, content: bytes) -> FailedVerification | None:
    """The refusal of a rule file with this content, wherever it lies; None without one.

    Raises:
        SessionError: what is kept is not what is written here.
    """
    sha256 = hashlib.sha256(content).hexdigest()
    return next((one for one in _all_refused(folder) if one.sha256 == sha256), None)


def _all_refused(folder: Path) -> Iterator[FailedVerification]:
    for path in sorted(folder.glob(f"{_REFUSED}*.json")):
        record = store.read_derived(folder, path.name, FailedVerification)
        if record is not None:
            yield record


def _beside(name: str) -> str:
    return f"{_REFUSED}{name.removeprefix(_VERDICT)}"


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
