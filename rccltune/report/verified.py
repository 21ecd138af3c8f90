"""What verifications say of a session's rule files as they are now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rccltune.model.chosen import Rule, Verdict
from rccltune.model.vocabulary import Collective
from rccltune.rules.reader import RuleFile, read_rules
from rccltune.session.files import disk_errors
from rccltune.verify.verdict import Cut, RuleVerdict, VerdictFile, replicates_of
from rccltune.verify.verdict_store import read_verdict, rule_paths, verdict_files

# Rule files of a session by their names.
Files = Mapping[str, RuleFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stood:
    """A rule after verification.

    Attributes:
        verdict: what became of it, with its gain.
        verdicts: of its sizes, by the clock that judges there.
    """

    verdict: RuleVerdict
    verdicts: tuple[Verdict, ...]

    @property
    def rule(self) -> Rule:
        """As the file has it."""
        return self.verdict

    @property
    def stands(self) -> bool:
        """Whether the file has it."""
        return self.verdict.is_kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What verdict.json says.

    Attributes:
        name: of the rule file in the session; ``channels-32/rccl_tuner.csv`` of one for an
            environment.
        needs: what the rules need of the job's environment, name and value.
        is_current: the rules that stood are those that the session's file has now.
        verdicts: of all sizes, by the clock that judges there.
    """

    path: str
    name: str
    needs: Mapping[str, str]
    is_current: bool
    simulated: bool
    n_before: int
    n_after: int
    replicate: str
    n_replicates: int
    n_processes: int
    verdicts: tuple[Verdict, ...]
    stood: tuple[Stood, ...]
    cuts: tuple[Cut, ...]

    @property
    def own(self) -> tuple[Verdict, ...]:
        """Of the sweep's own conditions."""
        return self.verdicts

    @property
    def how_often(self) -> str:
        """``16 communicators of 4 starts of all ranks``."""
        return replicates_of(self.replicate, self.n_replicates, self.n_processes)

    @property
    def is_of_site(self) -> bool:
        """Whether its rules are for the site as it is, and not for another environment."""
        return not _in_folder(self.name)


def _in_folder(name: str) -> bool:
    return len(Path(name).parts) > 1


def verifications(folder: Path, files: Files) -> Iterator[Verification]:
    """One for each rule file that was verified.

    Args:
        folder: the session.
        files: its rule files as they are now.

    Raises:
        SessionError: a verdict is not what rccltune verify writes.
    """
    for path in verdict_files(folder):
        read = read_verdict(folder, path.name)
        if read is not None:
            yield _read(read, name_of(Path(read.path or ""), folder), files)


def rule_files(folder: Path) -> Files:
    """A session's rule files as they are now.

    Raises:
        SessionError: one cannot be read.
    """
    with disk_errors(folder):
        return {name_of(path, folder): read_rules(path.read_bytes()) for path in rule_paths(folder)}


def name_of(path: Path, folder: Path) -> str:
    """A rule file's name in a session, be the session moved since.

    Args:
        path: as it was when somebody wrote it down.
        folder: the session.
    """
    inside = folder / path.parent.name / path.name
    return f"{path.parent.name}/{path.name}" if inside.is_file() else path.name


def joined(found: Sequence[Verification]) -> Verification:
    """Of several files together; at least one."""
    return replace(
        found[0],
        simulated=any(one.simulated for one in found),
        n_before=sum(one.n_before for one in found),
        n_after=sum(one.n_after for one in found),
        n_replicates=sum(one.n_replicates for one in found),
        n_processes=sum(one.n_processes for one in found),
        verdicts=tuple(v for one in found for v in one.verdicts),
        stood=tuple(s for one in found for s in one.stood),
        cuts=tuple(c for one in found for c in one.cuts),
    )


def _read(said: VerdictFile, name: str, files: Files) -> Verification:
    by_graph = {(v.target.collective, v.nbytes) for v in said.verdicts if v.view.graph}
    judged = tuple(
        one
        for one in said.verdicts
        # The loop stands beside graphs, and judges nothing there.
        if one.view.graph or (one.target.collective, one.nbytes) not in by_graph
    )
    stood = tuple(_stood(one, judged) for one in said.standings)
    return Verification(
        path=said.path or "",
        name=name,
        needs=said.needs,
        is_current=_is_current(stood, files.get(name), said),
        simulated=said.simulated,
        n_before=said.rules_before,
        n_after=said.rules,
        replicate=said.replicate,
        n_replicates=said.replicates,
        n_processes=said.processes,
        verdicts=judged,
        stood=stood,
        cuts=said.cuts,
    )


def _stood(rule: RuleVerdict, judged: tuple[Verdict, ...]) -> Stood:
    return Stood(
        verdict=rule,
        verdicts=tuple(
            one
            for one in judged
            if rule.matches(one.target.collective, one.nbytes, one.target.scale)
        ),
    )


def _is_current(stood: tuple[Stood, ...], file: RuleFile | None, said: VerdictFile) -> bool:
    """Whether the file that was verified has just the rules that were."""
    if file is None:
        return False
    verified = {same(one.rule) for one in stood if one.stands}
    scales = {(one.rule.n_nodes, one.rule.n_ranks) for one in stood}
    there = {same(r) for r in file.rules if not scales or (r.n_nodes, r.n_ranks) in scales}
    # A fallback that nobody asked stands in the file and in no verdict.
    return verified <= there and len(there) == said.rules + said.fallbacks


def same(rule: Rule) -> tuple[Collective, int, int, str, int | None, int | None]:
    """What makes two rules one, whatever line they stand on."""
    where = (rule.collective, rule.min_nbytes, rule.max_nbytes)
    return (*where, str(rule.setting), rule.n_nodes, rule.n_ranks)
