"""Everything that a session keeps and its page shows, read once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rccltune import emit, plot, session
from rccltune.emit import RuleFile
from rccltune.errors import SessionError, TooLittleDataError
from rccltune.model import (
    Environment,
    Expected,
    Launch,
    Outcome,
    Place,
    Rule,
    Scale,
    Status,
    Verdict,
)
from rccltune.pipeline.bounding import Bounded, bounded
from rccltune.pipeline.fitting import FitDone, choice_of, fit_session
from rccltune.pipeline.judging import environments_of
from rccltune.pipeline.places import stored_place
from rccltune.pipeline.plotting import plot_input
from rccltune.pipeline.searching import SEARCH_FILE
from rccltune.pipeline.trials import FOLDER
from rccltune.pipeline.verifying import VERDICT_FILE
from rccltune.verify import Cut
from rccltune.vocab import Collective

if TYPE_CHECKING:
    from rccltune.zones import Choice, ChoiceOptions

Note = Callable[[str], None]
Ended = tuple[Launch, Outcome]
AS_SWEPT: Final = "as swept"
_SECTION: Final = re.compile(r"^#@ section ", re.MULTILINE)
_WHERE: Final = re.compile(r"\w+ nodes=(\d+) ranks=(\d+)")
_REMARK: Final = re.compile(r"extrapolated from .*?; expected error (?:unknown|\d+ %)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A rule file of the session.

    Attributes:
        predicted: what the file says of scales that nobody measured.
    """

    path: Path
    text: str
    file: RuleFile
    predicted: Mapping[Scale, str]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a session has.

    Attributes:
        wish: of the choice.
        choice: None where there is nothing to choose between.
        why_none: the reason of that, else empty.
        drawn: what figures are drawn from.
        launches: of the sweep, or the imported files.
        trials: launches of the verification.
        rules: the rule files that lie in the session.
        expected: what the search still expected to lose at its end.
        n_rounds: of the search, 0 without one.
    """

    done: FitDone
    wish: ChoiceOptions
    choice: Choice | None
    why_none: str
    environments: tuple[Environment, ...]
    limits: Bounded | None
    drawn: plot.PlotInput
    launches: tuple[Ended, ...]
    trials: tuple[Ended, ...]
    rules: tuple[Rules, ...]
    verification: Verification | None
    expected: tuple[Expected, ...]
    n_rounds: int
    place: Place | None

    @property
    def folder(self) -> Path:
        """The session."""
        return self.done.session.path

    @property
    def simulated(self) -> bool:
        """Whether nothing of it was measured on hardware."""
        return self.done.session.simulated

    @property
    def is_imported(self) -> bool:
        """Whether somebody else measured at least a part of it."""
        return any(outcome.status is Status.IMPORTED for _, outcome in self.launches)

    @property
    def origins(self) -> tuple[str, ...]:
        """Whose measurements were imported, as their files say."""
        return tuple(sorted({o.origin for _, o in self.launches if o.origin}))


def gather(folder: Path, options: Callable[[FitDone], ChoiceOptions], *, note: Note) -> Found:
    """Read a session; curves and choice are made where they are not there.

    Raises:
        SessionError: no session, or one that cannot be read.
        TooLittleDataError: no good sample.
        CommandLineError: the baseline or the variant that was named was not measured.
    """
    done = fit_session(folder, note=note)
    wish = options(done)
    choice, why = _choice(done, wish)
    environments = environments_of(done, choice, wish) if choice else ()
    limits = bounded(done)
    launches = session.read_launches(folder)
    rules = tuple(_rules(path) for path in sorted(folder.glob("rccl_tuner*.csv")))
    search = session.read_derived(folder, SEARCH_FILE) or {}
    return Found(
        done=done,
        wish=wish,
        choice=choice,
        why_none=why,
        environments=environments,
        limits=limits,
        drawn=plot_input(
            done,
            wish,
            choice=choice,
            environments=environments,
            limits=limits,
            launches=launches,
        ),
        launches=launches,
        trials=session.read_launches(folder / FOLDER),
        rules=rules,
        verification=_verification(folder, rules, done),
        expected=tuple(
            session.from_plain(Expected, one, str(folder / SEARCH_FILE))
            for one in search.get("expected") or ()
        ),
        n_rounds=len(search.get("rounds") or ()),
        place=stored_place(folder),
    )


def _choice(done: FitDone, wish: ChoiceOptions) -> tuple[Choice | None, str]:
    try:
        return choice_of(done, wish), ""
    except TooLittleDataError as error:
        return None, error.message


def _rules(path: Path) -> Rules:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SessionError(f"the rule file cannot be read: {error}", where=str(path)) from error
    text = content.decode("utf-8", "replace")
    file = emit.read_rules(content)
    return Rules(path=path, text=text, file=file, predicted=_predicted(text))


def _predicted(text: str) -> dict[Scale, str]:
    """The remark of each section whose scale was not measured, as emit-config writes it."""
    found: dict[Scale, str] = {}
    for part in _SECTION.split(text)[1:]:
        where = _WHERE.match(part)
        # Comments are wrapped to the width of the file.
        lines = (line[1:].strip() for line in part.splitlines()[1:] if line.startswith("# "))
        remark = _REMARK.search(" ".join(lines))
        if where and remark:
            found[Scale(n_nodes=int(where[1]), n_ranks=int(where[2]))] = remark[0]
    return found


def _verification(folder: Path, rules: tuple[Rules, ...], done: FitDone) -> Verification | None:
    plain = session.read_derived(folder, VERDICT_FILE)
    if plain is None:
        return None
    where = str(folder / VERDICT_FILE)
    try:
        return _read(plain, rules, done, where)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SessionError(
            f"verdict.json is not what rccltune verify writes: {error!r}",
            where=where,
            hint="delete it; rccltune verify writes it again without measuring anew.",
        ) from error


def _read(
    plain: Mapping[str, Any], rules: tuple[Rules, ...], done: FitDone, where: str
) -> Verification:
    verdicts = tuple(session.from_plain(Verdict, one, where) for one in plain["verdicts"])
    views = {curve.key.view for curve in done.curves}
    conditions = plain["conditions"]
    # Imported files say less of their views than a benchmark that was started does.
    alone = len(conditions) == 1 and not any(one.view in views for one in verdicts)
    own = tuple(one for one in verdicts if alone or one.view in views)
    swept = next((one for one in conditions if one["name"] == AS_SWEPT), None)
    stood = tuple(_stood(one, own, swept or {}, where) for one in plain["standings"])
    return Verification(
        path=plain["path"] or "",
        is_current=_is_current(stood, rules, plain),
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


def _is_current(
    stood: tuple[Stood, ...], rules: tuple[Rules, ...], plain: Mapping[str, Any]
) -> bool:
    """Whether the file that was verified has just the rules that were."""
    name = Path(plain["path"] or "").name
    file = next((one.file for one in rules if one.path.name == name), None)
    if file is None:
        return False
    verified = {same(one.rule) for one in stood if one.stands}
    scales = {(one.rule.n_nodes, one.rule.n_ranks) for one in stood}
    there = {same(r) for r in file.rules if not scales or (r.n_nodes, r.n_ranks) in scales}
    # A fallback that nobody asked stands in the file and in no verdict.
    return verified <= there and len(there) == plain["rules"]


def same(rule: Rule) -> tuple[Collective, int, int, str, int | None, int | None]:
    """What makes two rules one, whatever line they stand on."""
    where = (rule.collective, rule.min_nbytes, rule.max_nbytes)
    return (*where, str(rule.setting), rule.n_nodes, rule.n_ranks)
