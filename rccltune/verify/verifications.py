"""Verifications of a session's rule files, held against the files as they are now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rccltune.model.rule import Rule
from rccltune.model.vocabulary import Collective
from rccltune.rules.rule_file import RuleFile
from rccltune.verify.verdict_file import RuleVerdict, VerdictFile, replicates_of
from rccltune.verify.verdict_store import read_verdict, verdict_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A verdict.json, beside the rule file that it is of.

    Attributes:
        name: of the rule file in the session.
        is_current: the rules that stood are those that the session's file has now.
    """

    file: VerdictFile
    name: str
    is_current: bool

    @property
    def stood(self) -> tuple[RuleVerdict, ...]:
        """Rules that the file has."""
        return tuple(one for one in self.file.standings if one.is_kept)

    @property
    def how_often(self) -> str:
        """``16 communicators of 4 starts of all ranks``."""
        return replicates_of(self.file.replicates, self.file.processes)


def verifications(folder: Path, files: Mapping[str, RuleFile]) -> Iterator[Verification]:
    """One for each rule file that was verified.

    Args:
        folder: the session.
        files: its rule files as they are now, by name.

    Raises:
        SessionError: a verdict is not what rccltune verify writes.
    """
    for path in verdict_files(folder):
        verdict = read_verdict(folder, path.name)
        if verdict is not None:
            name = Path(verdict.path or "").name
            current = _is_current(verdict, files.get(name))
            yield Verification(file=verdict, name=name, is_current=current)


def find_changed(folder: Path, files: Mapping[str, RuleFile]) -> tuple[str, ...]:
    """Names of rule files that were verified and have other rules since.

    Args:
        folder: the session.
        files: those of its rule files that call themselves verified, by name.

    Raises:
        SessionError: a verdict is not what rccltune verify writes.
    """
    stored = list(verifications(folder, files))
    old = {one.name for one in stored if not one.is_current}
    old -= {one.name for one in stored if one.is_current}
    return tuple(name for name in files if name in old)


def _is_current(said: VerdictFile, file: RuleFile | None) -> bool:
    """Whether the file that was verified has just those rules, for the same machine and bits."""
    if file is None:
        return False
    verified = {same(one) for one in said.standings if one.is_kept}
    scales = {(one.n_nodes, one.n_ranks) for one in said.standings}
    there = {same(r) for r in file.rules if not scales or (r.n_nodes, r.n_ranks) in scales}
    if said.requires is not None and said.requires != dict(file.requires):
        return False
    if said.bits != file.bits:
        return False
    # A fallback that nobody asked stands in the file and in no verdict.
    return verified <= there and len(there) == said.rules + said.fallbacks


def same(rule: Rule) -> tuple[Collective, int, int, str, int | None, int | None]:
    """Key by which two rules are one, whatever line they stand on."""
    where = (rule.collective, rule.min_nbytes, rule.max_nbytes)
    return (*where, str(rule.setting), rule.n_nodes, rule.n_ranks)
