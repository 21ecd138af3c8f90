"""Bonds of a rule file, held against this machine: its own text, library, GPU and mode."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from enum import Enum
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from rccltune.compare.sides import Side
from rccltune.deploy.folder import NOT_VERIFIED, README
from rccltune.measure.request import Request
from rccltune.model import grammar
from rccltune.model.errors import CommandLineError
from rccltune.model.estimate import Estimate
from rccltune.model.measurement import Fingerprint
from rccltune.model.rule import RESTORES, Rule, RuleState
from rccltune.model.settings import RULES, Scale
from rccltune.releases import exact_release
from rccltune.rules.placement_files import file_name
from rccltune.rules.refusals import content_of, read_accepted
from rccltune.rules.requirements import of_another_machine, requirements_of
from rccltune.rules.rule_file import RuleFile
from rccltune.rules.writer import VERIFIED_MARK
from rccltune.session import store
from rccltune.verify import verdict_store
from rccltune.verify.rewriting import select_rules
from rccltune.verify.verdict_file import RuleVerdict

# How a difference begins that the plugin takes with a warning.
LIBRARY: Final = "library: "


# As a verification writes it above a rule.
_PROVEN_GAIN: Final = re.compile(rf"# {VERIFIED_MARK} ([\d.]+)x \(([\d.]+) to ([\d.]+)\)")


class Standing(str, Enum):
    """Standing of a rule now."""

    HOLDS = "holds"
    NO_LONGER_WINS = "no longer wins"
    CANNOT_TELL = "cannot tell"
    WRONG = "wrong results"
    OTHER_BITS = "other bits"
    FAILED = "fails"


# What ends a check with 9.
_HARM: Final = frozenset(
    (Standing.NO_LONGER_WINS, Standing.WRONG, Standing.OTHER_BITS, Standing.FAILED)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRule:
    """A rule, and what is said of it now.

    Attributes:
        gain: time of the library over that of the rule, in the mean over the sizes called; None
            where nothing was timed.
        verified: the same as verification found it, ``n`` 0 where a rule file's comment says it;
            None where nothing does.
        reason: a sentence where the rule does not hold.
    """

    rule: Rule
    standing: Standing
    gain: Estimate | None = None
    verified: Estimate | None = None
    reason: str = ""

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        return {
            "collective": self.rule.collective,
            "min_nbytes": self.rule.min_nbytes,
            "max_nbytes": self.rule.max_nbytes,
            "setting": str(self.rule.setting),
            "standing": self.standing,
            "gain": self.gain,
            "verified": self.verified,
            "reason": self.reason,
        }


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """Result of a check.

    Attributes:
        path: of the rule file.
        n_rules: in it, of every scale.
        differences: what is not as it was when the rules were verified.
        unknown: what could not be compared.
        rules: a record each; empty where nothing was measured.
        is_settled: whether what differs is the library alone, with which the rules were measured.
    """

    path: Path
    n_rules: int
    differences: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    rules: tuple[CheckedRule, ...] = ()
    seconds: float = 0.0
    simulated: bool = False
    is_settled: bool = False

    @property
    def exit_code(self) -> int:
        """9 where a rule no longer wins or something differs that nothing settled, 8, or 0."""
        standings = {one.standing for one in self.rules}
        if standings & _HARM or (self.differences and not self.is_settled):
            return 9
        return 8 if Standing.CANNOT_TELL in standings else 0

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        return {
            "format": 1,
            "rules_file": self.path,
            "differences": self.differences,
            "unknown": self.unknown,
            "rules": self.rules,
            "seconds": round(self.seconds, 1),
            "simulated": self.simulated,
            "exit_code": self.exit_code,
        }


@dataclass(frozen=True, kw_only=True)
class RulesToCheck:
    """A rule file, and what is kept of its verification.

    Attributes:
        request: where it runs, and with what.
        verified: rules that its session's verdict keeps, or, of a file that lies apart from its
            session, those with a proven gain above them; None where there is no verdict.
        differences: what of the file itself is not as it was.
        unknown: what of it cannot be compared.
    """

    path: Path
    content: bytes
    file: RuleFile
    request: Request
    verified: tuple[RuleVerdict, ...] | None = None
    differences: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def side(self) -> Side:
        """The rules as a side of a comparison."""
        return Side(name=self.path.name, answer=RULES, rules=self.content.decode("utf-8"))


def read_session_rules(session: Path, request: Request) -> RulesToCheck:
    """Rules of a session that its exports name, or of the one with LL128 forced in it.

    Raises:
        SessionError: no session, or no rule file in it.
        InputFileError: the plugin refuses the file.
    """
    folder = verdict_store.used_session(session)
    opened = store.open_session(folder)
    plain = file_name(opened.fingerprint)
    rule_file = _read(folder / plain, request)
    verdict = verdict_store.read_verdict(
        folder, verdict_store.verdict_name(rule_file.path, folder, plain)
    )
    if verdict is None and not rule_file.file.rules:
        return rule_file
    if verdict is None:
        return replace(rule_file, unknown=("nobody verified these rules; rccltune verify does",))
    standing = tuple(one for one in verdict.standings if one.is_kept)
    # What stands behind other rules is in the verdict by its number alone.
    rules = select_rules(rule_file.file, verdict.scale)
    mine = {drop_place(one) for one in rules if not one.fallback}
    theirs = {drop_place(one.rule) for one in standing if not one.fallback}
    n_fallbacks = sum(one.fallback for one in rules)
    differences: tuple[str, ...] = ()
    if mine != theirs or n_fallbacks != verdict.fallbacks:
        differences = ("the rules are not those that were verified: the file was changed since",)
    return replace(rule_file, verified=standing, differences=differences)


def drop_place(rule: Rule) -> Rule:
    """A rule without its place in a file."""
    return replace(rule, line=0, fallback=False)


def read_deployed_rules(directory: Path, request: Request) -> RulesToCheck:
    """The rule file of a folder that deploy made.

    Raises:
        CommandLineError: it has none, or one for each of several placements.
        InputFileError: the plugin refuses the file.
    """
    rules = verdict_store.rule_paths(directory)
    if len(rules) != 1:
        names = ", ".join(one.name for one in rules) or "none"
        raise CommandLineError(
            f"this folder has no single rule file ({names})",
            where=str(directory),
            hint="name one with --rules.",
        )
    rule_file = _read(rules[0], request)
    digest = hashlib.sha256(rule_file.content).hexdigest()
    readme = content_of(directory / README, "README").decode("utf-8", "replace")
    if f"{digest}  {rule_file.path.name}" not in readme.splitlines():
        changed = "the rule file is not the one that was deployed: its SHA-256 is not in README"
        return replace(rule_file, differences=(changed,))
    if NOT_VERIFIED in readme:
        return rule_file
    return replace(rule_file, verified=_read_stated_gains(rule_file))


def read_rule_file(path: Path, request: Request) -> RulesToCheck:
    """A rule file by itself.

    Raises:
        InputFileError: the plugin refuses it.
    """
    return _read(path, request)


def _read_stated_gains(rule_file: RulesToCheck) -> tuple[RuleVerdict, ...]:
    """Rules with the gain that the comments above them say was proven."""
    lines = grammar.lines(grammar.text_of(rule_file.content))
    verdicts = []
    for rule in rule_file.file.rules:
        comments = list(takewhile(_is_comment, reversed(lines[: (rule.line or 1) - 1])))
        match = next(filter(None, map(_PROVEN_GAIN.match, comments)), None)
        if match is not None:
            restores = any(RESTORES in comment for comment in comments)
            state = RuleState.RESTORES if restores else RuleState.PROVEN
            value, low, high = map(float, match.groups())
            gain = Estimate(value=value, low=low, high=high, n=0)
            verdicts.append(replace(RuleVerdict.of(rule, state), gain=gain))
    return tuple(verdicts)


def _is_comment(line: str) -> bool:
    return line.startswith("# ")


def _read(path: Path, request: Request) -> RulesToCheck:
    content = content_of(path)
    return RulesToCheck(
        path=path, content=content, file=read_accepted(content, path), request=request
    )


def no_rule_error(scale: Scale, path: Path) -> CommandLineError:
    """The error that no rule of a file is for the ranks that are started."""
    return CommandLineError(
        f"no rule of this file is for {scale}",
        where=str(path),
        hint="start as many ranks as its rules are for (--np).",
    )


def compare_machine(
    file: RuleFile, fingerprint: Fingerprint, library: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Compare what a file is bound to with this machine: what differs, and what is not known here.

    Args:
        file: the rule file.
        fingerprint: of this machine.
        library: version of the library that is found here.
    """
    differing = [
        f"{one.name}: {one.wanted} in the file, {one.found or 'another vendor'} here"
        for one in of_another_machine(file.requires, fingerprint)
    ]
    known = dict(requirements_of(fingerprint))
    names = {one.partition(":")[0] for one in differing}
    unknown = [
        f"{name}: {value} in the file, not known here"
        for name, value in file.requires
        if name not in known and name not in names and name != "placement"
    ]
    if file.library is not None:
        release = exact_release(library)
        if release is None:
            unknown.append(f"{LIBRARY}{file.library} in the file, {library or 'unknown'} here")
        elif release != file.library:
            differing.append(f"{LIBRARY}{file.library} in the file, {release} here")
    return tuple(differing), tuple(unknown)
