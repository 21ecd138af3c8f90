"""Content of a session for its page and its figures, read once; nothing is decided here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rccltune.analyse.session_fit import FitResult, fit_session
from rccltune.model import grammar
from rccltune.model.estimate import Estimate
from rccltune.model.measurement import ImportedFile
from rccltune.model.reporter import Reporter
from rccltune.model.rule import Rule, which_wait
from rccltune.model.settings import Scale, Target
from rccltune.model.zone import Zone
from rccltune.ranks import plan, runs
from rccltune.ranks.runs import Run
from rccltune.rules.exports import say_moved
from rccltune.rules.refusals import content_of, read_accepted
from rccltune.rules.rule_document import rule_of
from rccltune.rules.rule_file import RuleFile
from rccltune.rules.stored_choice import OLD_CHOICE, StoredChoice, read_choice
from rccltune.session import store
from rccltune.transferbench import Ceilings, find_ceilings
from rccltune.verify.verdict_file import RuleVerdict
from rccltune.verify.verdict_store import (
    FORCED_FOLDER,
    FailedVerification,
    refusals,
    rule_paths,
    used_session,
)
from rccltune.verify.verifications import Verification, same, verifications

_MENDED: Final = "rccltune emit-config --force writes it anew."
_MOST_HEAD: Final = 65536
# A row of the heading that nccl-tests and rccl-tests print: bus id in brackets, then the name.
_DEVICE: Final = re.compile(r"^# +Rank +\d+ .*\bdevice +\d+ \[[^\]]+\] (\S.*?) *$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFileOfSession:
    """A rule file of the session, or the rules of a choice that no file has yet.

    Attributes:
        name: in the session; empty where there is no file.
        rules: as a job gets them, fallbacks marked; those that were verified as they were.
        verification: of the file as it is; None without one.
    """

    name: str
    path: Path | None
    file: RuleFile
    rules: tuple[Rule, ...]
    verification: Verification | None

    @property
    def placement(self) -> str | None:
        """Placement that its ranks must have; None for any placement."""
        return dict(self.file.requires).get("placement")

    @property
    def needs(self) -> str:
        """``NAME=VALUE`` of all that it needs of the environment; empty where it is nothing."""
        return " ".join(f"{name}={value}" for name, value in self.file.needs)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContents:
    """Content of a session: fit, choice, rule files, verifications.

    Attributes:
        choice: as emit-config stored it, None where nothing was chosen yet.
        runs: of the sweep, and of what verified it.
        imported: files of others.
        files: the rule files, that for any placement first.
        used: the session whose rules the exports name: this one, or that with LL128 forced in it.
        is_used: of a session with LL128 forced, whether the exports of the session around it name
            its rules; None for any other.
        old: verifications of rules that no file has any more.
        refused: verifications that ended with an error, of rule files as they are now.
        trials: communicators that verifications began.
        is_interrupted: the sweep did not come to its end.
        placement: where the ranks were: ``node``, ``one-oam``; None where nothing says it.
        devices: ``2 × NVIDIA H200`` as a benchmark's own heading has them, None without one.
    """

    done: FitResult
    choice: StoredChoice | None
    limits: Ceilings | None
    runs: tuple[Run, ...]
    imported: tuple[ImportedFile, ...]
    files: tuple[RuleFileOfSession, ...]
    used: Path
    is_used: bool | None
    old: tuple[Verification, ...]
    refused: tuple[FailedVerification, ...]
    trials: int
    is_interrupted: bool
    placement: str | None
    devices: str | None

    @property
    def simulated(self) -> bool:
        """Whether nothing of it was measured on hardware."""
        return self.done.session.simulated

    @property
    def zones(self) -> tuple[Zone, ...]:
        """Zones that were chosen."""
        return self.choice.zones if self.choice else ()

    def zone_of(self, rule: Rule) -> Zone | None:
        """Zone of the choice that a rule came from; None where the choice has none."""
        if rule.fallback:
            return _behind(rule, self.zones)
        return next((zone for zone in self.zones if is_of(rule, zone)), None)

    def gain_of(self, rule: Rule) -> Estimate | None:
        """Gain of a rule as verified, else as the choice has it; None where nobody knows it."""
        if isinstance(rule, RuleVerdict):
            return rule.gain
        zone = self.zone_of(rule)
        return zone.gain if zone is not None else None

    @property
    def is_imported(self) -> bool:
        """Whether somebody else measured at least a part of it."""
        return bool(self.imported)

    @property
    def origins(self) -> tuple[str, ...]:
        """Origins of imported measurements, as their files say."""
        return tuple(sorted({one.origin for one in self.imported if one.origin}))

    @property
    def machine(self) -> str:
        """Product and mode; the benchmark's word for the devices where nothing else names them."""
        fingerprint = self.done.session.fingerprint
        mode = fingerprint.mode
        product = fingerprint.product or self.devices
        words = [product, str(mode) if mode and mode.compute else None, fingerprint.runner]
        return ", ".join(word for word in words if word) or "a machine that nothing names"

    @property
    def libraries(self) -> str:
        """Versions of the library as the logs name them."""
        every = [one.library_version for one in self.runs]
        every += [one.library_version for one in self.imported]
        values = sorted({one for one in every if one})
        return ", ".join(values) or "not recorded"


def read_contents(folder: Path, *, reporter: Reporter) -> SessionContents:
    """Read a session; curves are made where they are not there.

    Raises:
        SessionError: no session, or one that cannot be read.
        InputFileError: a rule file in it that cannot be read, or that the plugin refuses.
        TooLittleDataError: no good sample.
    """
    done = fit_session(folder, reporter=reporter)
    choice = read_choice(folder)
    if choice is not None and choice.samples_sha256 != done.samples_sha256:
        reporter.say(f"rules are shown {OLD_CHOICE}")
    measured = runs.read_runs(folder, most_ranks=1)
    paths = {path.name: path for path in rule_paths(folder)}
    files = {name: read_accepted(content_of(path), path, _MENDED) for name, path in paths.items()}
    verified = tuple(verifications(folder, files))
    zones = choice.zones if choice else ()
    placement = done.session.setup.placement
    say_moved((path.with_suffix(".env") for path in paths.values()), folder, reporter)
    files_of_session = [
        _rules_of(name, paths[name], file, verified) for name, file in files.items()
    ]
    if not files_of_session and any(zone.setting is not None for zone in zones):
        files_of_session = [_unwritten(zones)]
    return SessionContents(
        done=done,
        choice=choice,
        limits=find_ceilings(done),
        runs=measured,
        imported=store.imported_files(folder),
        files=tuple(files_of_session),
        used=used_session(folder),
        is_used=_is_used(folder),
        old=tuple(one for one in verified if not one.is_current),
        refused=refusals(folder),
        trials=sum(_n_trials(run) for run in measured),
        is_interrupted=_is_interrupted(measured),
        placement=placement.name if placement else None,
        devices=_devices(folder, measured),
    )


def _is_used(folder: Path) -> bool | None:
    around = folder.resolve().parent
    if folder.resolve().name != FORCED_FOLDER or not (around / store.HEADER).exists():
        return None
    return used_session(around).resolve() == folder.resolve()


def target_words(target: Target) -> str:
    """``all_reduce, 64 ranks on 1 node, one-oam``: what a panel is called."""
    placed = "" if target.rank_placement in (None, "node") else f", {target.rank_placement}"
    return f"{target.collective.value}, {target.scale}{placed}"


def _rules_of(
    name: str, path: Path, file: RuleFile, verified: Iterable[Verification]
) -> RuleFileOfSession:
    current = next((one for one in verified if one.is_current and one.name == name), None)
    stood = {same(one): one for one in (current.stood if current else ())}
    rules = (
        replace(rule, fallback=True) if waits else stood.get(same(rule), rule)
        for rule, waits in zip(file.rules, which_wait(file.rules), strict=True)
    )
    return RuleFileOfSession(
        name=name, path=path, file=file, rules=tuple(rules), verification=current
    )


def _unwritten(zones: Iterable[Zone]) -> RuleFileOfSession:
    """The rules of a choice that no file has: its verification failed, or it went to stdout."""
    rules = tuple(rule_of(zone, zone.setting) for zone in zones if zone.setting is not None)
    nothing = RuleFile(rules=(), findings=())
    return RuleFileOfSession(name="", path=None, file=nothing, rules=rules, verification=None)


def is_of(rule: Rule, zone: Zone) -> bool:
    """Whether a rule, perhaps narrowed since, came from a zone."""
    target = zone.target
    return (
        (rule.collective, rule.n_nodes, rule.n_ranks, rule.setting)
        == (target.collective, target.scale.n_nodes, target.scale.n_ranks, zone.setting)
        and zone.min_nbytes <= rule.min_nbytes
        and rule.max_nbytes <= zone.max_nbytes
    )


def _behind(rule: Rule, zones: Iterable[Zone]) -> Zone | None:
    """Find the zone of a fallback; of several that it stands behind an unproven one."""
    matches = [
        behind
        for zone in zones
        if (behind := zone.behind) is not None
        and (rule.collective, rule.setting) == (zone.target.collective, behind.setting)
        and (rule.n_nodes, rule.n_ranks) == (zone.target.scale.n_nodes, zone.target.scale.n_ranks)
        and zone.min_nbytes <= rule.max_nbytes
        and rule.min_nbytes <= zone.max_nbytes
    ]
    return min(matches, key=lambda zone: zone.is_proven, default=None)


def is_for(rule: Rule, target: Target, placement: str | None) -> bool:
    """Whether calls of a target fall under a rule of a file for a placement of ranks."""
    scale = target.scale
    return (
        rule.collective is target.collective
        and rule.n_nodes in (None, scale.n_nodes)
        and rule.n_ranks in (None, scale.n_ranks)
        and placement in (None, target.rank_placement)
    )


def _n_trials(run: Run) -> int:
    """Communicators that a verification began in a run."""
    return sum(one.step is None and one.label.purpose == plan.VERIFY for one in run.steps)


def _is_interrupted(measured: Sequence[Run]) -> bool:
    """Whether the last run has no end, or the rank program measured nothing with care."""
    purposes = {one.label.purpose for run in measured for one in run.steps}
    is_rough = plan.FIRST in purposes and plan.SECOND not in purposes
    return bool(measured) and (measured[-1].ended is None or is_rough)


def _devices(folder: Path, measured: Iterable[Run]) -> str | None:
    """Names of the ranks' devices in a benchmark's own heading, from the first log with one."""
    for run in measured:
        if run.ended is None or run.ended.failure is not None:
            continue
        try:
            with store.raw_log(folder, run.name).open("rb") as log:
                head = log.read(_MOST_HEAD).decode("utf-8", "replace")
        except OSError:
            continue
        names = Counter(_DEVICE.findall(head))
        if names:
            return ", ".join(f"{n} × {name}" for name, n in sorted(names.items()))
    return None


def text_of(path: Path) -> str:
    """A rule file's text, whatever its bytes."""
    return grammar.text_of(content_of(path))


def scale_words(rule: Rule) -> str:
    """The ranks that a rule is for."""
    if rule.n_ranks is None or rule.n_nodes is None:
        return "any"
    return str(Scale(n_nodes=rule.n_nodes, n_ranks=rule.n_ranks))
