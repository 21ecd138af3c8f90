"""What verifications say of a session's rule files as they are now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rccltune import session
from rccltune.emit import RuleFile
from rccltune.errors import SessionError
from rccltune.model import Rule, Verdict, View
from rccltune.pipeline.verdicts import verdict_files
from rccltune.verify import Cut
from rccltune.vocab import Collective

AS_SWEPT: Final = "as swept"
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
        is_current: the rules that stood are those that the session's file has now.
        verdicts: of all conditions.
        own: of the sweep's own condition.
        conditions: names of all.
        hits: calls that a rule answered.
    """

    path: str
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
        plain = session.read_derived(folder, path.name)
        if plain is None:
            continue
        try:
            yield _read(plain, files, views, str(path))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SessionError(
                f"{path.name} is not what rccltune verify writes: {error!r}",
                where=str(path),
                hint="delete it; rccltune verify writes it again without measuring anew.",
            ) from error


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


def _read(plain: Mapping[str, Any], files: Files, views: set[View], where: str) -> Verification:
    verdicts = tuple(session.from_plain(Verdict, one, where) for one in plain["verdicts"])
    conditions = plain["conditions"]
    # Imported files say less of their views than a benchmark that was started does.
    alone = len(conditions) == 1 and not any(one.view in views for one in verdicts)
    own = tuple(one for one in verdicts if alone or one.view in views)
    swept = next((one for one in conditions if one["name"] == AS_SWEPT), None)
    stood = tuple(_stood(one, own, swept or {}, where) for one in plain["standings"])
    return Verification(
        path=plain["path"] or "",
        is_current=_is_current(stood, files, plain),
        simulated=bool(plain["simulated"]),
        n_before=plain["rules_before"],
        n_after=plain["rules"],
        n_launches=plain["launches"],
        n_rounds=plain["rounds"],
        verdicts=verdicts,
        own=own,
        stood=stood,
        cuts=tuple(session.from_plain(Cut, one, where) for one in plain["cuts"]),
        conditions=tuple(one["name"] for one in conditions),
        hits=sum(sum(one["hits"].values()) for one in conditions),
        misses=sum(one["misses"] for one in conditions),
    )


_ADDED: Final = ("certainty", "sizes", "stands")


def _stood(
    plain: Mapping[str, Any], own: tuple[Verdict, ...], swept: Mapping[str, Any], where: str
) -> Stood:
    bare = {name: value for name, value in plain.items() if name not in _ADDED}
    rule = session.from_plain(Rule, bare, where)
    away = {
        *swept.get("bypassed", {}).get(rule.collective.value, ()),
        *swept.get("not_selectable", {}).get(str(rule.line), ()),
    }
    return Stood(
        rule=rule,
        certainty=float(plain["certainty"]),
        stands=bool(plain["stands"]),
        verdicts=tuple(
            one
            for one in own
            if rule.matches(one.target.collective, one.nbytes, one.target.scale)
            and one.nbytes not in away
        ),
    )


def _is_current(stood: tuple[Stood, ...], files: Files, plain: Mapping[str, Any]) -> bool:
    """Whether the file that was verified has just the rules that were."""
    file = files.get(Path(plain["path"] or "").name)
    if file is None:
        return False
    verified = {same(one.rule) for one in stood if one.stands}
    scales = {(one.rule.n_nodes, one.rule.n_ranks) for one in stood}
    there = {same(r) for r in file.rules if not scales or (r.n_nodes, r.n_ranks) in scales}
    # A fallback that nobody asked stands in the file and in no verdict.
    return verified <= there and len(there) == plain["rules"] + plain.get("fallbacks", 0)


def same(rule: Rule) -> tuple[Collective, int, int, str, int | None, int | None]:
    """What makes two rules one, whatever line they stand on."""
    where = (rule.collective, rule.min_nbytes, rule.max_nbytes)
    return (*where, str(rule.setting), rule.n_nodes, rule.n_ranks)
