"""Sessions' rules and the plugin as a folder that a site's jobs can use: what may go out."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rccltune.deploy.folder import DeployedRuleFile, Deployment, is_ours, write_folder
from rccltune.model import grammar
from rccltune.model.errors import CommandLineError, SessionError, VerificationError
from rccltune.model.reporter import Reporter
from rccltune.model.text import printable
from rccltune.rules.header import written_over
from rccltune.rules.join_files import join_rule_files
from rccltune.rules.line_format import UNPROVEN_MARK
from rccltune.rules.needs import is_harmless
from rccltune.rules.other_readers import find_misread
from rccltune.rules.refusals import content_of, read_accepted
from rccltune.rules.rule_order import count_rules
from rccltune.session import store
from rccltune.session.files import disk_errors
from rccltune.session.store import Session, is_swept, sweep_then_verify
from rccltune.verify import verdict_store
from rccltune.verify.verifications import find_changed

_VERIFIED: Final = re.compile(r"^# verified: *(.*\S)", re.MULTILINE)
_UNPROVEN: Final = re.compile(rf"^# {UNPROVEN_MARK}", re.MULTILINE)
_SIMULATED: Final = re.compile(r"^# SIMULATED", re.MULTILINE)
# By these the plugin finds a file in a folder.
_FOUND_BY_NAME: Final = re.compile(r"rccl_tuner_gfx[0-9a-f]+_[a-z]+-nps\d+(?:_([a-z0-9-]+))?\.csv")
_SAFE: Final = re.compile(r"[\w.+-]+")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def deploy_sessions(
    directory: Path, folders: Sequence[Path], *, unproven: bool, reporter: Reporter
) -> Deployment:
    """Make a folder with the plugin, sessions' rule files, env.sh and README.

    Rules of sessions that differ in scale become one file; those for one placement of ranks alone
    keep a file of their own, which the plugin picks by its name.

    Args:
        directory: of a new folder, or of one that was made so before.
        folders: sessions of one machine, library and environment.
        unproven: rules whose gain nothing proves may go out.
        reporter: told which lines others read otherwise.

    Raises:
        SessionError: no session, no rule in it, a full disk.
        InputFileError: a rule file that the plugin would refuse.
        CommandLineError: files that contradict each other; a variable that may load code; rules
            that nothing proves, or that were changed since they were verified, unasked; the folder
            is something else's.
        VerificationError: verification refused the rules, or the plugin does not follow them.
        MachineError: this install has no plugin, or it cannot be loaded.
    """
    target = _absolute(directory)
    replaced = is_ours(target)
    # Where the exports name the rules of the session with LL128 forced, those go out.
    sessions = [store.open_session(verdict_store.used_session(folder)) for folder in folders]
    _check_alike(sessions)
    by_name: dict[str, list[DeployedRuleFile]] = {}
    for session in sessions:
        for one in _rules_of(session, unproven=unproven):
            by_name.setdefault(one.name, []).append(one)
    rules = [_join_scales(files) for files in by_name.values()]
    rules.sort(key=lambda one: (one.placement is not None, one.name))
    _check_names(rules)
    for one in rules:
        for line in one.misread:
            reporter.say(f"Warning: {one.name} is read otherwise where our plugin does not: {line}")
        for said in one.overwritten:
            reporter.say(f"Warning: {one.name}: {said}")
    heads = [grammar.text_of(one.content) for one in rules]
    done = Deployment(
        directory=target,
        replaced=replaced,
        rules=tuple(rules),
        environment=_environment(rules),
        simulated=any(one.simulated for one in sessions) or any(map(_SIMULATED.search, heads)),
    )
    with disk_errors(target, "name a DIR in a folder that can be written, or free space there."):
        write_folder(done, sessions)
    return done


def _check_alike(sessions: Sequence[Session]) -> None:
    """Stop where sessions are not of one machine, library and environment.

    Raises:
        SessionError: they are not.
    """
    first = sessions[0]
    mine = first.fingerprint
    for session in sessions[1:]:
        other = session.fingerprint
        libraries = {first.setup.library, session.setup.library} - {None}
        same = (other.arch, other.cu_count, other.mode, other.product)
        if session.setup.environment != first.setup.environment:
            difference = "two environments"
        elif len(libraries) > 1:
            difference = f"two libraries: {first.setup.library} and {session.setup.library}"
        elif same != (mine.arch, mine.cu_count, mine.mode, mine.product):
            difference = f"two machines: {mine.words} and {other.words}"
        else:
            continue
        raise SessionError(
            f"{first.path} and {session.path} are of {difference}",
            where=str(session.path),
            hint="deploy each into a folder of its own.",
        )


def _rules_of(session: Session, *, unproven: bool) -> tuple[DeployedRuleFile, ...]:
    """The rule files of a session that may go out.

    Raises:
        CommandLineError: they are not proven, unasked.
    """
    folder, rules = session.path, _rule_files(session.path)
    changed = find_changed(folder, {one.name: one.file for one in rules if one.verified})
    if changed and not unproven:
        raise CommandLineError(
            f"the rules of {', '.join(changed)} are not those that were verified",
            where=str(folder),
            hint="rccltune verify, on the machine, proves them as they are now; --unproven deploys "
            "them all the same, marked NOT VERIFIED.",
        )
    odd = [one for one in rules if one.n_unproven]
    if odd and not unproven:
        names = ", ".join(f"{one.n_unproven} of {one.name}" for one in odd)
        is_measured = is_swept(folder)
        verify = "rccltune verify" if is_measured else sweep_then_verify(folder / odd[0].name)
        raise CommandLineError(
            f"nothing proves the gain of some rules: {names} are UNPROVEN",
            where=str(folder),
            hint=f"prove them, on the machine, with {verify} or leave them out with rccltune "
            "emit-config --proven --force, or deploy them all the same with --unproven.",
        )
    return tuple(replace(one, verified=None) if one.name in changed else one for one in rules)


def _join_scales(files: Sequence[DeployedRuleFile]) -> DeployedRuleFile:
    """Files of one name, of sessions that differ in scale, as one."""
    content = join_rule_files([(one.path, one.content) for one in files])
    rules = _rules(files[0].path, content)
    verified = [one.verified for one in files]
    # A rule that nobody verified makes the file one.
    words = None if None in verified else "; ".join(dict.fromkeys(filter(None, verified)))
    return replace(rules, verified=words)


def _absolute(directory: Path) -> Path:
    """Make a folder's path absolute and keep its links: those are what nodes see, too."""
    # Path.absolute() leaves '..' in, and its parent may be a link.
    path = Path(os.path.abspath(directory))  # noqa: PTH100 - see above
    if not str(path).isprintable():
        raise CommandLineError(
            "a folder's path with a control character cannot be named in env.sh",
            where=repr(str(path)),
            hint="name another folder.",
        )
    return path


def _rule_files(folder: Path) -> tuple[DeployedRuleFile, ...]:
    """The rule files of a session that have a rule."""
    paths = verdict_store.rule_paths(folder)
    rules = [_rules(path, content_of(path)) for path in paths]
    for one in rules:
        why = verdict_store.refused(folder, one.content)
        if why is not None:
            raise VerificationError(
                f"the verification of these rules failed: {why.message}",
                where=str(folder / one.name),
                hint="choose others with rccltune emit-config, and verify them before they go out.",
            )
    filled = [one for one in rules if one.count.rules]
    if not filled:
        raise SessionError(
            "there is no rule in this session's rule files: nothing is faster than the library's "
            "own choice, and a plugin without rules gains nothing"
            if rules
            else "there is no rule file in this session",
            where=str(folder),
            hint="measure more sizes or settings."
            if rules
            else "make one with rccltune emit-config, which says how to prove it.",
        )
    for_any = [one.name for one in filled if one.placement is None]
    if len(for_any) > 1:
        raise CommandLineError(
            f"more than one rule file is for any placement: {', '.join(for_any)}",
            where=str(folder),
            hint="keep the one to deploy in the session, and move the others away.",
        )
    return tuple(filled)


def _check_names(rules: Sequence[DeployedRuleFile]) -> None:
    """Check that the plugin can find the right one of several files by its name."""
    matches = {one.name: _FOUND_BY_NAME.fullmatch(one.name) for one in rules}
    odd = [one.name for one in rules if (m := matches[one.name]) is None or m[1] != one.placement]
    if len(rules) > 1 and odd:
        raise CommandLineError(
            f"these are {len(rules)} rule files, and the plugin finds them by arch, mode and "
            f"placement in their names: {', '.join(odd)} does not say them",
            hint="deploy them from sessions of their own, into folders of their own.",
        )


def _rules(path: Path, content: bytes) -> DeployedRuleFile:
    file = read_accepted(
        content, path, "write it again with rccltune emit-config --force, or correct these lines."
    )
    if not _SAFE.fullmatch(path.name):
        raise CommandLineError(
            "the name of this rule file has letters that not every shell takes",
            where=str(path),
            hint="rename it.",
        )
    text = grammar.text_of(content)
    verified = _VERIFIED.search(text)
    return DeployedRuleFile(
        path=path,
        content=content,
        file=file,
        count=count_rules(file.rules),
        verified=printable(verified[1]) if verified else None,
        n_unproven=len(_UNPROVEN.findall(text)),
        misread=tuple(map(str, find_misread(content, file))),
        overwritten=written_over(content, file),
    )


def _environment(rules: Sequence[DeployedRuleFile]) -> tuple[tuple[str, str], ...]:
    """Join the environments of all files: one job has one environment."""
    values: dict[str, str] = {}
    for rule_file in rules:
        for name, value in rule_file.file.needs:
            if not _VARIABLE.fullmatch(name) or not is_harmless(name, value):
                raise CommandLineError(
                    f"these rules need {name}={value}, and only variables of the shipped catalog "
                    "are handed to jobs: any other may load code or open files",
                    where=rule_file.name,
                    hint="if you know what it does and who wrote the rules, export it in the job "
                    "yourself, and take it out of the file's line '#@ needs'.",
                )
            if values.setdefault(name, value) != value:
                raise CommandLineError(
                    f"the rules need both {name}={values[name]} and {name}={value}: no job can "
                    "have both",
                    where=rule_file.name,
                    hint="emit the files together, or deploy them into folders of their own.",
                )
    return tuple(sorted(values.items()))
