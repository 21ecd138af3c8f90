"""What verifications say of a session's rule files as they are now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rccltune.model.chosen import Rule, Verdict
from rccltune.model.curves import Curve
from rccltune.model.settings import View
from rccltune.model.vocabulary import Collective
from rccltune.rules.reader import RuleFile, read_rules
from rccltune.session import store
from rccltune.session.files import disk_errors
from rccltune.verify.cuts import Cut
from rccltune.verify.verdict_store import (
    ConditionFile,
    EnvironmentGainFile,
    StandingFile,
    VerdictFile,
    rule_paths,
    verdict_files,
)

AS_SWEPT: Final = "as swept"
_AGAIN: Final = "delete it; rccltune verify writes it again without measuring anew."
# Rule files of a session by their names.
Files = Mapping[str, RuleFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stood:
    """A rule after verification.

    Attributes:
        verdicts: of its sizes, as swept; those that a path or a fallback took are not among them.
    """

    rule: Rule
    certainty: float
    stands: bool
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What verdict.json says.

    Attributes:
        name: of the rule file in the session; ``channels-32/rccl_tuner.csv`` of one for an
            environment.
        needs: what the rules need of the job's environment, name and value.
        gains: where that alone is faster, of a file for an environment.
        is_current: the rules that stood are those that the session's file has now.
        verdicts: of all conditions.
        own: of the sweep's own condition.
        conditions: names of all.
        hits: calls that a rule answered.
    """

    path: str
    name: str
    needs: Mapping[str, str]
    gains: tuple[EnvironmentGainFile, ...]
    is_current: bool
    simulated: bool
    n_before: int
    n_after: int
    n_launches: int
    n_rounds: int
    verdicts: tuple[Verdict, ...]
    own: tuple[Verdict, ...]
    stood: tuple[Stood, ...]
    cuts: tuple[Cut, ...]
    conditions: tuple[str, ...]
    hits: int
    misses: int

    @property
    def is_of_site(self) -> bool:
        """Whether its rules are for the site as it is, and not for another environment."""
        return not _in_folder(self.name)


def _in_folder(name: str) -> bool:
    return len(Path(name).parts) > 1


def verifications(folder: Path, files: Files, views: set[View]) -> Iterator[Verification]:
    """One for each rule file that was verified.

    Args:
        folder: the session.
        files: its rule files as they are now.
        views: under which the sweep measured.

    Raises:
        SessionError: a verdict is not what rccltune verify writes.
    """
    for path in verdict_files(folder):
        read = store.read_derived(folder, path.name, VerdictFile, hint=_AGAIN)
        if read is not None:
            yield _read(read, name_of(Path(read.path or ""), folder), files, views)


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


def views_of(curves: Sequence[Curve]) -> set[View]:
    """Under which a sweep measured."""
    return {curve.key.view for curve in curves}


def joined(found: Sequence[Verification]) -> Verification:
    """Of several files together; at least one."""
    return replace(
        found[0],
        simulated=any(one.simulated for one in found),
        n_before=sum(one.n_before for one in found),
        n_after=sum(one.n_after for one in found),
        n_launches=sum(one.n_launches for one in found),
        n_rounds=max(one.n_rounds for one in found),
        verdicts=tuple(v for one in found for v in one.verdicts),
        own=tuple(v for one in found for v in one.own),
        stood=tuple(s for one in found for s in one.stood),
        cuts=tuple(c for one in found for c in one.cuts),
        conditions=tuple(dict.fromkeys(c for one in found for c in one.conditions)),
        hits=sum(one.hits for one in found),
        misses=sum(one.misses for one in found),
    )


def _read(said: VerdictFile, name: str, files: Files, views: set[View]) -> Verification:
    # Imported files say less of their views than a benchmark that was started does.
    alone = len(said.conditions) == 1 and not any(one.view in views for one in said.verdicts)
    own = tuple(one for one in said.verdicts if alone or one.view in views)
    swept = next((one for one in said.conditions if one.name == AS_SWEPT), None)
    stood = tuple(_stood(one, own, swept) for one in said.standings)
    return Verification(
        path=said.path or "",
        name=name,
        needs=said.needs,
        gains=said.environment_gains,
        is_current=_is_current(stood, files.get(name), said),
        simulated=said.simulated,
        n_before=said.rules_before,
        n_after=said.rules,
        n_launches=said.launches,
        n_rounds=said.rounds,
        verdicts=said.verdicts,
        own=own,
        stood=stood,
        cuts=said.cuts,
        conditions=tuple(one.name for one in said.conditions),
        hits=sum(sum(one.hits.values()) for one in said.conditions),
        misses=sum(one.misses for one in said.conditions),
    )


def _stood(rule: StandingFile, own: tuple[Verdict, ...], swept: ConditionFile | None) -> Stood:
    away: set[int] = set()
    if swept is not None:
        away |= {*swept.bypassed.get(rule.collective.value, ())}
        away |= {*swept.not_selectable.get(f"{rule.collective.value} {rule.setting}", ())}
    return Stood(
        rule=rule,
        certainty=rule.certainty,
        stands=rule.stands,
        verdicts=tuple(
            one
            for one in own
            if rule.matches(one.target.collective, one.nbytes, one.target.scale)
            and one.nbytes not in away
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
