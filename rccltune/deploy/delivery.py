"""A session's rules and the plugin, handed over to a site's jobs."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rccltune import __version__, plugin, session, verify
from rccltune.deploy import place, texts
from rccltune.deploy.place import Placed
from rccltune.deploy.texts import Delivery, File, Rules
from rccltune.launch import CLEARED
from rccltune.model import (
    CommandLineError,
    Reporter,
    SessionError,
    VerificationError,
    grammar,
    shown,
)
from rccltune.rules import (
    UNPROVEN_MARK,
    check_needs,
    content_of,
    counted,
    misread,
    read_rules,
    refusal,
)
from rccltune.session import MARKER, Session, disk_errors

# verify writes it into a rule file's header.
_VERIFIED: Final = re.compile(r"^# verified: *(.*\S)", re.MULTILINE)
_UNPROVEN: Final = re.compile(rf"^# {UNPROVEN_MARK}", re.MULTILINE)
_SIMULATED: Final = re.compile(r"^# SIMULATED", re.MULTILINE)
_GLIBC: Final = re.compile(rb"GLIBC_(\d+)\.(\d+)")
# By these the plugin finds a file in a folder.
_FOUND_BY_NAME: Final = re.compile(r"rccl_tuner_gfx[0-9a-f]+_[a-z]+-nps\d+(?:_([a-z0-9-]+))?\.csv")
_SAFE: Final = re.compile(r"[\w.+-]+")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What was put where.

    Attributes:
        placed: the version, and the one before.
    """

    directory: Path
    delivery: Delivery
    placed: Placed

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            **placed_as_plain(self.directory, self.placed),
            "simulated": self.delivery.simulated,
            "rules": sum(file.count.rules for file in self.delivery.rules),
            "fallbacks": sum(file.count.fallbacks for file in self.delivery.rules),
            "verified": {file.name: file.verified for file in self.delivery.rules},
            "read_otherwise": {file.name: list(file.misread) for file in self.delivery.rules},
            "unproven": {file.name: file.n_unproven for file in self.delivery.rules},
            "placements": list(self.delivery.placements),
            "environment": dict(self.delivery.variables(str(self.placed.folder))),
        }


def placed_as_plain(directory: Path, placed: Placed) -> dict[str, Any]:
    """What --json says of a version that is current now."""
    return {
        "directory": str(directory),
        "version": placed.name,
        "before": placed.before,
        "folder": str(placed.folder),
        "remarks": list(place.remarks(placed.folder)),
    }


def deploy_session(
    folder: Path,
    directory: Path,
    *,
    force: bool,
    reporter: Reporter,
    allowed: frozenset[str] = frozenset(),
    unproven: bool = False,
    environment: str | None = None,
) -> Deployed:
    """Put a session's rule files and the plugin into a folder, as its current version.

    Args:
        folder: the session.
        directory: where to; created where it is missing.
        force: put it into a folder with other things in it, replace a version that was changed.
        reporter: told when a dead writer's marker was taken over.
        allowed: variables beyond the harmless ones that jobs may be given.
        unproven: rules whose gain nothing proves may go out.
        environment: name of the one whose pair of files goes out (``channels-32``); None: the
            site's.

    Raises:
        SessionError: no session, no rule file in it, another deploy at work, a full disk.
        InputFileError: a rule file that the plugin would refuse.
        CommandLineError: files that contradict each other; a variable that nobody allowed; rules
            that nothing proves, unasked; the folder is something else's.
        MachineError: this install has no plugin.
    """
    made = session.open_session(folder)
    delivery = _delivery(made, _absolute(directory), allowed, environment)
    if not unproven:
        _refuse_unproven(folder, delivery.rules)
    for file in delivery.rules:
        for line in file.misread:
            reporter.say(
                f"Warning: {file.name} is read otherwise where our plugin does not: {line}"
            )
    version = place.assemble(delivery)
    target = delivery.directory
    place.check_ours(target, force=force)
    missing = [folder for folder in (target, *target.parents) if not folder.exists()]
    with _writing(target, reporter):
        for created in missing:
            place.open_to_readers(created)
        placed = place.put(target, version, write=session.write_atomically, force=force)
    closed = _closed(target)
    if closed is not None:
        reporter.say(
            f"Warning: not everybody may read {closed} (chmod o+rx): jobs of other users do not "
            "find the version, and run untuned or stop at env.sh."
        )
    return Deployed(directory=target, delivery=delivery, placed=placed)


def undo_delivery(directory: Path, *, reporter: Reporter) -> Placed:
    """Switch a folder back to the version before.

    Raises:
        SessionError: nothing deployed, nothing before, another deploy at work, a full disk.
    """
    target = _absolute(directory)
    if place.current(target) is None:
        raise SessionError(
            "no version was deployed here",
            where=str(target),
            hint="name a folder that rccltune deploy made.",
        )
    with _writing(target, reporter):
        return place.roll_back(target, write=session.write_atomically)


@contextmanager
def _writing(target: Path, reporter: Reporter) -> Iterator[None]:
    """One deploy at a time; what a session would advise is of no use here."""
    try:
        with session.writing(target, reporter), disk_errors(target):
            yield
    except SessionError as error:
        if isinstance(error.__cause__, OSError):
            reason = error.__cause__.strerror or str(error.__cause__)
            raise SessionError(
                f"cannot write here: {reason}",
                where=str(target),
                hint="free space, or have somebody do it who may write there; the version that "
                "was current still is.",
            ) from error
        if error.where is not None and error.where.endswith(MARKER):
            raise SessionError(
                error.message.replace("this session", "this folder"),
                where=error.where,
                hint="wait for it; if you are sure that it is gone, delete that file.",
            ) from error
        raise


def _closed(target: Path) -> Path | None:
    """The first folder on the way to a version that others may not go through."""
    for folder in (*reversed(target.parents), target, target / place.VERSIONS):
        needed = stat.S_IXOTH if folder != target else stat.S_IROTH | stat.S_IXOTH
        if folder.stat().st_mode & needed != needed:
            return folder
    return None


def _absolute(directory: Path) -> Path:
    """As the user names it: links in it are those that nodes see, too."""
    # Path.absolute() leaves '..' in, and its parent may be a link.
    path = Path(os.path.abspath(directory))  # noqa: PTH100 - see above
    # A colon ends it for Docker, a comma for Apptainer, whose --env-file takes no quotes either.
    if not str(path).isprintable() or any(letter in str(path) for letter in ':,"'):
        raise CommandLineError(
            "a folder's path with a colon, a comma, a double quote or a control character cannot "
            "be bound into containers",
            where=repr(str(path)),
            hint="name another folder.",
        )
    return path


def _delivery(
    made: Session, directory: Path, allowed: frozenset[str], environment: str | None
) -> Delivery:
    path = plugin.library()
    content = path.read_bytes()
    rules = _rule_files(made.path, environment)
    needed = _environment(rules)
    odd = check_needs(needed, allowed, where=str(made.path))
    info = plugin.build_info()
    headers = [grammar.text_of(file.content) for file in rules]
    return Delivery(
        directory=directory,
        library=File(name=path.name, content=content, run=True),
        abi_versions=tuple(int(abi) for abi in info.get("abi_versions", ())),
        glibc=_newest_glibc(content),
        rules=rules,
        environment=needed,
        # env.sh and check.sh judge the plugin's own variables one by one.
        choosing=CLEARED,
        provenance=(*_provenance(made, rules, content), *_allowed(odd)),
        simulated=made.simulated or any(_SIMULATED.search(text) for text in headers),
    )


def _rule_files(folder: Path, environment: str | None) -> tuple[Rules, ...]:
    """Every rule file for one environment of a session, the one for any placement first."""
    found: dict[str | None, list[Path]] = {}
    for path in verify.rule_paths(folder):
        found.setdefault(None if path.parent == folder else path.parent.name, []).append(path)
    if environment is not None and environment not in found:
        raise CommandLineError(
            f"this session has no rule file for an environment named {environment}",
            where=str(folder),
            hint=f"it has them for: {', '.join(filter(None, found)) or 'the site as it is alone'}.",
        )
    rules = [_rules(path) for path in found.get(environment, ())]
    _refuse_refused(folder, rules)
    filled = [file for file in rules if file.count.rules]
    needs = [f"{name}={value}" for file in rules for name, value in file.needs]
    if environment is not None and needs and not filled:
        raise SessionError(
            "this environment's file has no rule, only what a job is to export",
            where=str(folder / environment),
            hint=f"export {' '.join(needs)} in the job; that needs no plugin.",
        )
    if not filled:
        raise SessionError(
            "there is no rule in this session's rule files: nothing is faster than the library's "
            "own choice, and a plugin without rules gains nothing"
            if rules
            else "there is no rule file in this session",
            where=str(folder),
            hint="measure more sizes, settings or variants."
            if rules
            else "make one with rccltune emit-config, prove it with rccltune verify, and deploy "
            "again.",
        )
    filled.sort(key=lambda file: (file.placement is not None, file.name))
    odd = [file.name for file in filled if not _is_found_by_name(file)]
    for_any = [file.name for file in filled if file.placement is None]
    if len(for_any) > 1:
        raise CommandLineError(
            f"more than one rule file is for any placement: {', '.join(for_any)}",
            where=str(folder),
            hint="keep the one to deploy in the session, and move the others away.",
        )
    if len(filled) > 1 and odd:
        raise CommandLineError(
            f"these are {len(filled)} rule files, and the plugin finds them by arch, mode and "
            f"placement in their names: {', '.join(odd)} does not say them",
            where=str(folder),
            hint="deploy them from sessions of their own, into folders of their own.",
        )
    return tuple(filled)


def _refuse_refused(folder: Path, rules: Sequence[Rules]) -> None:
    """What lost its verification goes to no job, whatever became of the file since."""
    for file in rules:
        why = verify.refused(folder, file.content)
        if why is not None:
            raise VerificationError(
                f"the verification of these rules failed: {why.message}",
                where=str(folder / file.name),
                hint="choose others with rccltune emit-config, and verify them before they go out.",
            )


def _refuse_unproven(folder: Path, rules: Sequence[Rules]) -> None:
    """Rules reach production with their proof, or because somebody said so."""
    odd = [file for file in rules if file.n_unproven]
    if odd:
        raise CommandLineError(
            "; ".join(map(texts.unproven_words, odd)),
            where=str(folder),
            hint="prove them with rccltune verify, leave them out with rccltune emit-config "
            "--proven --force, or deploy them all the same with --unproven.",
        )


def _is_found_by_name(file: Rules) -> bool:
    match = _FOUND_BY_NAME.fullmatch(file.name)
    return match is not None and match[1] == file.placement


def _rules(path: Path) -> Rules:
    content = content_of(path)
    read = read_rules(content)
    mistakes = [finding.at(path) for finding in read.errors]
    mistakes += [
        f"{path}: '{name}' is no name of a variable"
        for name, _ in read.needs
        if not _VARIABLE.fullmatch(name)
    ]
    if not _SAFE.fullmatch(path.name):
        mistakes.append(f"{path}: the name has letters that not every shell takes")
    if mistakes:
        raise refusal(
            "this rule file cannot be deployed:",
            mistakes,
            path,
            "write it again with rccltune emit-config --force, or correct these lines.",
        )
    text = grammar.text_of(content)
    verified = _VERIFIED.search(text)
    return Rules(
        name=path.name,
        content=content,
        count=counted(read.rules),
        requires=dict(read.requires),
        needs=read.needs,
        verified=shown(verified[1]) if verified else None,
        misread=tuple(map(str, misread(content, read))),
        n_unproven=len(_UNPROVEN.findall(text)),
    )


def _environment(rules: Sequence[Rules]) -> tuple[tuple[str, str], ...]:
    """What all files need, together; one job has one environment."""
    values: dict[str, tuple[str, str]] = {}
    for file in rules:
        for name, value in file.needs:
            other, where = values.setdefault(name, (value, file.name))
            if other != value:
                raise CommandLineError(
                    f"{where} needs {name}={other} and {file.name} needs {name}={value}: no job "
                    "can have both",
                    hint="emit the files together, or deploy them into folders of their own.",
                )
    return tuple((name, value) for name, (value, _) in sorted(values.items()))


def _allowed(names: Sequence[str]) -> list[str]:
    """What whoever deployed took upon himself."""
    return [f"set because of --allow-need: {', '.join(names)}"] if names else []


def _newest_glibc(content: bytes) -> tuple[int, int]:
    """What the library's symbols ask for; design §7 promises 2.17."""
    asked = {(int(major), int(minor)) for major, minor in _GLIBC.findall(content)}
    return max(asked, default=(2, 17))


def _provenance(made: Session, rules: Sequence[Rules], content: bytes) -> tuple[str, ...]:
    machine = made.fingerprint
    built = plugin.build_info().get("version")
    digest = hashlib.sha256(content).hexdigest()
    origin = f"{made.path.absolute()}, made by {made.tool}: {made.command}"
    parts = (machine.product, machine.arch, str(machine.mode) if machine.mode else None)
    return (
        f"deployed by rccltune {__version__}; plugin {built}, sha256 {digest}",
        f"session: {' '.join(origin.split())}",
        f"measured on: {', '.join(part for part in parts if part) or 'an unknown machine'}",
        *(f"rules: {file.name}, {file.count}" for file in rules),
    )
