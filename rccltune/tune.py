"""Order of one tune: from a plan to a verified rule file, its figures and its page.

What the steps after the sweep need takes a second to import, and is imported while ranks measure.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rccltune.measure.perf_sweep import PreparedPerfSweep, measure_with_perf
from rccltune.measure.site import SiteRequest
from rccltune.measure.sweep_result import SweepResult
from rccltune.model import defaults, schema
from rccltune.model.brief import brief
from rccltune.model.errors import VerificationError
from rccltune.model.measurement import Notice
from rccltune.model.reporter import Reporter
from rccltune.session.files import write_atomically

if TYPE_CHECKING:
    from rccltune.analyse.fit import FitResult
    from rccltune.analyse.options import ChoiceOptions
    from rccltune.report.page import WrittenPage
    from rccltune.rules.placement_files import EmittedRules
    from rccltune.verify.outcome import VerificationResult, VerifyRequest


Options: TypeAlias = "Callable[[FitResult], ChoiceOptions]"
_FIGURES: Final = "plots"
_AFTER_THE_SWEEP: Final = (
    "rccltune.rules.emission",
    "rccltune.verify.verification",
    "rccltune.report.plots",
    "rccltune.report.page",
)


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """Result of a tune.

    Attributes:
        verified: of each rule file that was written; empty where there is no rule to verify.
        named: rule files that the site's exports name in place of the site's own.
        exports: what a shell sources to use it.
        figures: folder of the figures.
        report: the page.
    """

    folder: Path
    swept: SweepResult
    emitted: EmittedRules
    verified: tuple[VerificationResult, ...]
    named: tuple[Path, ...]
    exports: Path
    figures: Path
    report: WrittenPage
    simulated: bool
    runner: str | None

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Notices of what weakens the choice."""
        return self.emitted.notices

    def as_plain(self) -> dict[str, Any]:
        """Plain form for --json."""
        return {
            "session": str(self.folder),
            "simulated": self.simulated,
            "runner": self.runner,
            "sweep": self.swept.as_plain(),
            "emitted": _without_text(self.emitted.as_plain()),
            "verified": [schema.to_plain(one.file) for one in self.verified],
            "named": [str(path) for path in self.named],
            "exports": str(self.exports),
            "figures": str(self.figures),
            "report": self.report.as_plain(),
        }


def _without_text(emitted: dict[str, Any]) -> dict[str, Any]:
    """What was emitted without the files' texts: verification has written other ones since."""
    own = {name: value for name, value in emitted.items() if name != "text"}
    return {**own, "beside": [_without_text(one) for one in emitted["beside"]]}


def tune(
    prepared: PreparedPerfSweep,
    options: Options,
    *,
    reporter: Reporter,
    command: str,
    force: bool,
    confirms: SiteRequest | None = None,
) -> TuneResult:
    """Sweep, fit, choose, write, draw, verify and report; what was done before is not done again.

    Args:
        prepared: the sweep.
        options: of the choice.
        reporter: told what is worth telling.
        command: as typed, for the session.
        force: measure though untouched runs differ.
        confirms: where rccl-tests are looked for, which have the last word.

    Raises:
        RccltuneError: as of each step.
    """
    folder = prepared.folder
    importing = Thread(target=_import_what_follows, daemon=True)
    importing.start()
    swept = measure_with_perf(prepared, reporter=reporter, command=command, force=force)
    importing.join()
    try:
        emitted = _emitted(prepared, options, reporter)
        verified, named = _verified(prepared, emitted, options, reporter, confirms)
    except VerificationError:
        # What was seen, and that nothing of it is proven, is worth figures and a page too.
        page = _shown(folder, reporter)
        reporter.say(f"The page that says why nothing is proven: {page.path}")
        raise
    return TuneResult(
        folder=folder,
        swept=swept,
        emitted=emitted,
        verified=verified,
        named=named,
        exports=emitted.environment_path or folder,
        figures=folder / _FIGURES,
        report=_shown(folder, reporter),
        simulated=prepared.instrument.site.node is not None,
        runner=prepared.instrument.site.fingerprint.runner,
    )


def _import_what_follows() -> None:
    for name in _AFTER_THE_SWEEP:
        importlib.import_module(name)


def _shown(folder: Path, reporter: Reporter) -> WrittenPage:
    """Figures, and the page."""
    from rccltune.report.page import report_session
    from rccltune.report.plots import plot_session

    where = folder / _FIGURES
    plot_session(
        folder,
        reporter=reporter,
        directory=where,
        formats=defaults.FIGURE_FORMAT,
        overwrite=True,
    )
    return report_session(folder, reporter=reporter, overwrite=True)


def _emitted(
    prepared: PreparedPerfSweep,
    options: Options,
    reporter: Reporter,
) -> EmittedRules:
    from rccltune.rules.emission import choose_rules, keep_choices
    from rccltune.rules.placement_files import EmitRequest

    request = EmitRequest(folders=(prepared.folder,), options=options)
    emitted = choose_rules(request, reporter=reporter)
    # Figures and the page read it.
    keep_choices(emitted, reporter)
    return emitted


def _verified(
    prepared: PreparedPerfSweep,
    emitted: EmittedRules,
    options: Options,
    reporter: Reporter,
    confirms: SiteRequest | None,
) -> tuple[tuple[VerificationResult, ...], tuple[Path, ...]]:
    """Verify every file that has rules; only then does one lie where jobs look for it.

    The files for the site as it is come first. What one for another environment does to sizes
    without a rule is no matter of theirs: it is left out, and said.

    Returns:
        And the files that the site's exports name in place of the site's own.
    """
    from rccltune.verify.environment import is_better
    from rccltune.verify.verification import verify_rules

    files = [
        one
        for one in (emitted, *emitted.beside)
        if one.path is not None and one.environment_path is not None
    ]
    variants = {one.variant.name: one.variant for one in emitted.environments}
    unprovable = {name for name, one in variants.items() if one.lossy or one.options}
    requests = [
        _candidate(prepared, one, options, reporter)
        if one.environment not in unprovable and (one.count.rules or one.environment is not None)
        else None
        for one in files
    ]
    found: dict[Path | None, VerificationResult] = {}
    named = []
    for one, request in zip(files, requests, strict=True):
        is_site = one.environment is None
        if request is None:
            if not is_site:
                reporter.say(f"Written as measured, not verified: the rules for {one.environment}")
            if one.path is not None:
                one.path.parent.mkdir(exist_ok=True)
                write_atomically(one.path, one.text)
            _export(one, {})
            continue
        if not is_site:
            what = "the rules for " if one.count.rules else ""
            reporter.say(f"Verifying {what}{_exports(one)}")
        verified = verify_rules(
            replace(request, confirms=confirms),
            prepared.sweep,
            prepared.instrument,
            reporter=reporter,
        )
        found[one.path] = verified
        _export(one, verified.lost_exports)
        if not is_site and one.environment not in variants:
            site = next(s for s in files if s.environment is None and s.placement == one.placement)
            if is_better(verified, found.get(site.path)):
                _export(one, verified.lost_exports, site.environment_path)
                named += [one.path] if one.path else []
    return tuple(found.values()), tuple(named)


def _export(one: EmittedRules, lost: Mapping[str, str], path: Path | None = None) -> None:
    """Write the exports that make a job use a file, without those that are lost."""
    from rccltune.verify.rewriting import exports_without

    where = path or one.environment_path
    if where is not None:
        write_atomically(where, exports_without(one.environment_text, lost))


def _exports(one: EmittedRules) -> str:
    return " ".join(f"{name}={value}" for name, value in one.needs)


def _candidate(
    prepared: PreparedPerfSweep,
    one: EmittedRules,
    options: Options,
    reporter: Reporter,
) -> VerifyRequest:
    """One file, written as a candidate that is to be verified."""
    from rccltune.analyse.fit import fit_session
    from rccltune.verify.outcome import VerifyRequest
    from rccltune.verify.verdict_store import CANDIDATES

    if one.path is None:
        raise ValueError("this file lies nowhere")
    choosing = options(fit_session(prepared.folder, reporter=reporter))
    candidate = prepared.folder / CANDIDATES / one.path.relative_to(prepared.folder)
    for folder in (candidate.parent, one.path.parent):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomically(candidate, one.text)
    return VerifyRequest(
        folder=prepared.folder,
        rules=candidate,
        output=one.path,
        min_gain=choosing.min_gain,
        needs_stay=one.environment is not None,
        environment=tuple(prepared.keys.get("env", {}).items()),
    )
