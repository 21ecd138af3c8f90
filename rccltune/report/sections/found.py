"""Everything that a session keeps and its page shows, read once; and phrases for it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from rccltune.analyse.fit import FitDone, fit_session
from rccltune.ceiling.session import Bounded, bounded
from rccltune.model import grammar
from rccltune.model.chosen import Environment, Rule, Verdict
from rccltune.model.measured import Launch, Outcome, Status
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Place, Scale, Setting, Variant
from rccltune.report.figures import scene
from rccltune.report.plots import plot_input
from rccltune.report.verified import (
    Verification,
    joined,
    name_of,
    verifications,
)
from rccltune.rules.reader import RuleFile, read_rules
from rccltune.rules.refusals import content_of
from rccltune.rules.stored import OLD_CHOICE, StoredChoice, stored_choice
from rccltune.session import store
from rccltune.session.place import stored_place
from rccltune.verify.verdict_store import FOLDER, Refused, refusals, rule_paths

if TYPE_CHECKING:
    pass


DASH = "–"
NO_CHOICE: Final = "nothing was chosen yet, rccltune emit-config chooses"


def percent(share: float | None, digits: int = 1) -> str:
    """``1.5 %``; a dash for what is not known."""
    return DASH if share is None else f"{100 * share:.{digits}f} %"


def ratios(found: Sequence[Verdict]) -> str:
    """``1.42× (1.20 to 1.63)``: median, least and most; a dash without any."""
    if not found:
        return DASH
    values = [one.ratio for one in found]
    return f"{median(values):.2f}× ({min(values):.2f} to {max(values):.2f})"


def count(n: int, thing: str) -> str:
    """``1 rule``, ``2 rules``, ``3 launches``."""
    plural = "es" if thing.endswith(("ch", "s", "x")) else "s"
    return f"{n:,} {thing}{'' if n == 1 else plural}"


def where_of(scale: Scale, rank_placement: str | None) -> str:
    """``64 ranks on 1 node, one-oam``."""
    placed = "" if rank_placement in (None, "node") else f", {rank_placement}"
    return f"{scale}{placed}"


def setting_in(setting: Setting | None, variant: Variant | None) -> str:
    """A setting, with its variant where that is not the site's own environment."""
    if setting is None:
        return DASH
    plain = variant is None or not variant.environment
    return str(setting) if plain else f"{setting} [{variant.name if variant else ''}]"


def scale_of(rule: Rule) -> str:
    """The ranks that a rule is for."""
    if rule.n_ranks is None or rule.n_nodes is None:
        return "any"
    return str(Scale(n_nodes=rule.n_nodes, n_ranks=rule.n_ranks))


def days(outcomes: Sequence[Outcome]) -> str:
    """From the first day to the last; empty where no day is known.

    When a copy of somebody's publication was written says nothing of when it was measured.
    """
    found = sorted({one.started[:10] for one in outcomes if one.started and not one.origin})
    if not found:
        return ""
    return found[0] if found[0] == found[-1] else f"{found[0]} to {found[-1]}"


def libraries(launches: Sequence[Ended]) -> str:
    """Versions of the library as the logs name them."""
    found = sorted({o.library_version for _, o in launches if o.library_version})
    return ", ".join(found) or "not recorded"


def baseline_of(found: Found) -> str:
    """What gains outside a verification are over."""
    named = found.choice.named_baseline if found.choice else None
    if named is None:
        return "the library's own choice"
    return f"the baseline of {named}" if isinstance(named, str) else str(named)


Ended = tuple[Launch, Outcome]
_MOST_HEAD: Final = 65536
# A row of the heading that nccl-tests and rccl-tests print: bus id in brackets, then the name.
_DEVICE: Final = re.compile(r"^# +Rank +\d+ .*\bdevice +\d+ \[[^\]]+\] (\S.*?) *$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A rule file of the session.

    Attributes:
        name: in the session; ``channels-32/rccl_tuner.csv`` of one for an environment.
    """

    path: Path
    name: str
    text: str
    file: RuleFile

    @property
    def is_of_site(self) -> bool:
        """Whether it is for the site as it is, and not for another environment."""
        return self.name == self.path.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a session has.

    Attributes:
        choice: as emit-config stored it, None where nothing was chosen yet.
        drawn: what figures are drawn from.
        launches: of the sweep, or the imported files.
        trials: runs of verifications, ended or not.
        rules: the rule files that lie in the session.
        verifications: one for each rule file that was verified.
        refused: verifications that ended with an error, of rule files as they are now.
        devices: ``2 × NVIDIA H200`` as a benchmark's own heading has them, None without one.
    """

    done: FitDone
    choice: StoredChoice | None
    limits: Bounded | None
    drawn: scene.PlotInput
    launches: tuple[Ended, ...]
    trials: int
    rules: tuple[Rules, ...]
    verifications: tuple[Verification, ...]
    refused: tuple[Refused, ...]
    place: Place | None
    devices: str | None

    @property
    def environments(self) -> tuple[Environment, ...]:
        """Variants, judged against the site's zones."""
        return self.choice.environments if self.choice else ()

    @property
    def folder(self) -> Path:
        """The session."""
        return self.done.session.path

    @property
    def simulated(self) -> bool:
        """Whether nothing of it was measured on hardware."""
        return self.done.session.simulated

    @property
    def machine(self) -> str | None:
        """What was measured on: the session's word, or the benchmark's; None without either."""
        named = self.done.session.fingerprint.product
        words = (None if named else self.devices, self.drawn.machine)
        return ", ".join(word for word in words if word) or None

    @property
    def verification(self) -> Verification | None:
        """All that is of the site's files as they are; else the first, which counts for nothing."""
        own = [verified for verified in self.verifications if verified.is_of_site]
        current = [verified for verified in own if verified.is_current]
        return joined(current) if current else next(iter(own), None)

    @property
    def environments_verified(self) -> tuple[Verification, ...]:
        """Of files for another environment, as they are."""
        return tuple(v for v in self.verifications if v.is_current and not v.is_of_site)

    def verified_as(self, name: str) -> Verification | None:
        """That of the rule file of a name, as the file is now."""
        return next((v for v in self.verifications if v.is_current and v.name == name), None)

    @property
    def is_cut_short(self) -> bool:
        """Whether a verification was begun, of which nothing says how it ended."""
        has_rules = any(rules.file.rules for rules in self.rules)
        return has_rules and bool(self.trials) and not self.verifications and not self.refused

    @property
    def is_imported(self) -> bool:
        """Whether somebody else measured at least a part of it."""
        return any(outcome.status is Status.IMPORTED for _, outcome in self.launches)

    @property
    def origins(self) -> tuple[str, ...]:
        """Whose measurements were imported, as their files say."""
        return tuple(sorted({o.origin for _, o in self.launches if o.origin}))


def gather(folder: Path, *, reporter: Reporter) -> Found:
    """Read a session; curves are made where they are not there.

    Raises:
        SessionError: no session, or one that cannot be read.
        InputFileError: a rule file in it that cannot be read.
        TooLittleDataError: no good sample.
    """
    done = fit_session(folder, reporter=reporter)
    choice = stored_choice(folder)
    if choice is not None and choice.samples_sha256 != done.samples_sha256:
        reporter.say(f"rules are shown {OLD_CHOICE}")
    limits = bounded(done)
    launches = store.read_made(done.session)
    rules = tuple(_rules(path, folder) for path in rule_paths(folder))
    verified = tuple(verifications(folder, {made.name: made.file for made in rules}))
    return Found(
        done=done,
        choice=choice,
        limits=limits,
        drawn=plot_input(
            done,
            choice,
            limits=limits,
            launches=launches,
            verified=verified,
        ),
        launches=launches,
        trials=sum(1 for _ in folder.glob(f"{FOLDER}/*/runs/*/run.json")),
        rules=rules,
        verifications=verified,
        refused=refusals(folder),
        place=stored_place(folder),
        devices=_devices(folder, launches),
    )


def _devices(folder: Path, launches: Iterable[Ended]) -> str | None:
    """What a benchmark calls the devices of its ranks, by the first log that has them."""
    for launch, outcome in launches:
        if outcome.status is not Status.OK:
            continue
        try:
            with store.raw_log(folder, launch.id).open("rb") as log:
                head = log.read(_MOST_HEAD).decode("utf-8", "replace")
        except OSError:
            continue
        names = Counter(_DEVICE.findall(head))
        if names:
            return ", ".join(f"{n} × {name}" for name, n in sorted(names.items()))
    return None


def _rules(path: Path, folder: Path) -> Rules:
    content = content_of(path)
    text = grammar.text_of(content)
    file = read_rules(content)
    name = name_of(path, folder)
    return Rules(path=path, name=name, text=text, file=file)
