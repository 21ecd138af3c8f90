"""From a plan to a verified rule file, its figures and its page, in one go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rccltune import model, rules, session
from rccltune.fit import FitDone, fit_session
from rccltune.measure import Prepared, Swept, sweep
from rccltune.model import DEFAULT_VARIANT, HarmError, Notice, Reporter, VerificationError, defaults
from rccltune.report import Reported, plot_session, report_session
from rccltune.rules import EmitRequest, Emitted, choose_rules
from rccltune.verify import CANDIDATES, Verified, VerifyRequest, exports_without, verify_rules

if TYPE_CHECKING:
    from rccltune.zones import ChoiceOptions


Options = Callable[[FitDone], "ChoiceOptions"]
_FIGURES: Final = "plots"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What came of it.

    Attributes:
        verified: of each rule file that was written; empty where there is no rule to verify.
        exports: what a shell sources to use it.
        figures: folder of the figures.
        report: the page.
    """

    folder: Path
    swept: Swept
    emitted: Emitted
    verified: tuple[Verified, ...]
    exports: Path
    figures: Path
    report: Reported
    simulated: bool

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What weakens the choice."""
        return self.emitted.notices

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "session": str(self.folder),
            "simulated": self.simulated,
            "sweep": self.swept.as_plain(),
            "emitted": self.emitted.as_plain(),
            "verified": [model.to_plain(one.file) for one in self.verified],
            "exports": str(self.exports),
            "figures": str(self.figures),
            "report": self.report.as_plain(),
        }


def tune(
    prepared: Prepared,
    options: Options,
    *,
    reporter: Reporter,
    command: str,
    force: bool,
    base: Path | None = None,
    allowed: frozenset[str] = frozenset(),
    beside: Callable[[], None] = lambda: None,
) -> Tuned:
    """Sweep, fit, choose, write, draw, verify and report; what was done before is not done again.

    Args:
        prepared: the sweep.
        options: of the choice.
        reporter: told what is worth telling.
        command: as typed, for the session.
        force: measure though untouched runs differ.
        base: the vendor's table that stands behind the rules; ``auto`` looks for it.
        allowed: variables beyond the harmless ones that rules may need.
        beside: what else is measured, after the sweep and before figures are drawn.

    Raises:
        RccltuneError: as of each step.
    """
    folder = prepared.folder
    if base is not None:
        # Read before an hour is measured; what it says comes when it is written.
        rules.vendor(base, prepared.site.fingerprint, reporter=Reporter())
    swept = sweep(prepared, reporter=reporter, command=command, force=force)
    beside()
    try:
        emitted, verified, options = _proven(prepared, options, base, allowed, reporter)
    except VerificationError:
        # What was seen, and that nothing of it is proven, is worth figures and a page too.
        page = _shown(folder, options, reporter)
        reporter.say(f"The page that says why nothing is proven: {page.path}")
        raise
    return Tuned(
        folder=folder,
        swept=swept,
        emitted=emitted,
        verified=verified,
        exports=emitted.environment_path or folder,
        figures=folder / _FIGURES,
        report=_shown(folder, options, reporter),
        simulated=prepared.site.node is not None,
    )


def _shown(folder: Path, options: Options, reporter: Reporter) -> Reported:
    """Figures, and the page."""
    where = folder / _FIGURES
    plot_session(
        folder,
        options,
        reporter=reporter,
        directory=where,
        formats=defaults.FIGURES,
        overwrite=True,
    )
    return report_session(folder, options, reporter=reporter, overwrite=True)


def _proven(
    prepared: Prepared,
    options: Options,
    base: Path | None,
    allowed: frozenset[str],
    reporter: Reporter,
) -> tuple[Emitted, tuple[Verified, ...], Options]:
    """The rules, what stands of them, and how they were chosen.

    Chosen once more, for the site's own environment, where another one does harm. What is exported
    is verified with rules; without any it is not, and so is not written.
    """
    emitted = _emitted(prepared.folder, options, base, allowed, reporter)
    why = "no rule is there to verify another one with"
    try:
        verified = _verified(prepared, emitted, options, allowed, reporter)
    except HarmError as error:
        if not _is_exported(emitted):
            raise
        verified, why = (), error.message
    if any(one.lost_needs for one in verified):
        why = "what the rules need slows sizes without a rule"
    elif verified:
        return emitted, verified, options
    if not _is_exported(emitted):
        return emitted, verified, options
    reporter.say(f"rules are chosen for the site's own environment: {why}")
    own = _in_default(options)
    emitted = _emitted(prepared.folder, own, base, allowed, reporter)
    return emitted, _verified(prepared, emitted, own, allowed, reporter), own


def _emitted(
    folder: Path, options: Options, base: Path | None, allowed: frozenset[str], reporter: Reporter
) -> Emitted:
    request = EmitRequest(folders=(folder,), options=options, base=base, allowed=allowed)
    return choose_rules(request, reporter=reporter)


def _is_exported(emitted: Emitted) -> bool:
    """Whether the rules are for an environment other than the site's own."""
    return any(
        environment.chosen and environment.variant.name != DEFAULT_VARIANT.name
        for one in (emitted, *emitted.beside)
        for environment in one.environments
    )


def _in_default(options: Options) -> Options:
    """The same choice among what the site's own environment gives."""
    return lambda done: replace(options(done), variant=DEFAULT_VARIANT.name)


def _verified(
    prepared: Prepared,
    emitted: Emitted,
    options: Options,
    allowed: frozenset[str],
    reporter: Reporter,
) -> tuple[Verified, ...]:
    """Every file that has rules, verified; only then does one lie where jobs look for it."""
    found = []
    choosing = options(fit_session(prepared.folder, reporter=reporter))
    for one in (emitted, *emitted.beside):
        if one.path is None or one.environment_path is None:
            continue
        lost: Mapping[str, str] = {}
        if one.count.rules:
            candidate = prepared.folder / CANDIDATES / one.path.name
            candidate.parent.mkdir(exist_ok=True)
            session.write_atomically(candidate, one.text)
            verified = verify_rules(
                VerifyRequest(
                    folder=prepared.folder,
                    rules=candidate,
                    output=one.path,
                    min_gain=choosing.min_gain,
                    extrapolate=choosing.extrapolate,
                    timeout_s=prepared.timeout_s,
                    allowed=allowed,
                ),
                prepared.sweep,
                prepared.site,
                reporter=reporter,
            )
            found.append(verified)
            lost = verified.lost_exports
        elif _is_exported(emitted):
            # Nothing verifies an environment without rules.
            continue
        else:
            session.write_atomically(one.path, one.text)
        session.write_atomically(one.environment_path, exports_without(one.environment_text, lost))
    return tuple(found)
