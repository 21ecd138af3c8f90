"""Order of one tune: from a plan to a verified rule file, its figures and its page.

Where the library lets LL128 be chosen with a variable alone (gfx942), a second session goes the
same way with that, and the site's exports name its rules where those are the better ones.

What the steps after the sweep need takes a second to import, and is imported while ranks measure.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rccltune.measure.perf_sweep import PreparedPerfSweep, measure_with_perf
from rccltune.measure.request import Request
from rccltune.measure.site import Site, SiteRequest
from rccltune.measure.sweep_result import SweepResult
from rccltune.model import defaults, schema
from rccltune.model.brief import brief
from rccltune.model.errors import VerificationError
from rccltune.model.measurement import Notice
from rccltune.model.reporter import Reporter
from rccltune.model.settings import LL128_FORCED
from rccltune.session.files import write_atomically

if TYPE_CHECKING:
    from rccltune.analyse.fit import FitResult
    from rccltune.analyse.options import ChoiceOptions
    from rccltune.report.page import WrittenPage
    from rccltune.rules.emission import EmittedRules
    from rccltune.verify.outcome import VerificationResult, VerifyRequest


Options: TypeAlias = "Callable[[FitResult], ChoiceOptions]"
_FIGURES: Final = "plots"
_GATED: Final = "gfx942"
_AFTER_THE_SWEEP: Final = (
    "rccltune.perf.rows",
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
        verified: of the rule file; empty where there is no rule to verify.
        exports: what a shell sources to use it.
        figures: folder of the figures.
        report: the page.
        forced: the same of the session with LL128 forced, where there is one.
        is_forced_better: the site's exports name the rules of that.
    """

    folder: Path
    swept: SweepResult
    emitted: EmittedRules
    verified: tuple[VerificationResult, ...]
    exports: Path
    figures: Path
    report: WrittenPage
    simulated: bool
    runner: str | None
    forced: TuneResult | None = None
    is_forced_better: bool = False

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Notices of what weakens the choice."""
        return self.emitted.notices

    def as_plain(self) -> dict[str, Any]:
        """Plain form for --json."""
        # Verification has written another text since.
        emitted = self.emitted.as_plain()
        del emitted["text"]
        return {
            "session": str(self.folder),
            "simulated": self.simulated,
            "runner": self.runner,
            "sweep": self.swept.as_plain(),
            "emitted": emitted,
            "verified": [schema.to_plain(one.file) for one in self.verified],
            "exports": str(self.exports),
            "figures": str(self.figures),
            "report": self.report.as_plain(),
            "forced": self.forced.as_plain() if self.forced else None,
            "is_forced_better": self.is_forced_better,
        }


def forced_request(request: Request, site: Site) -> Request | None:
    """What a second session measures, with LL128 forced; None where that changes nothing.

    Args:
        request: of the first.
        site: where it measures.
    """
    is_gated = (site.fingerprint.arch or "").startswith(_GATED) and site.scale.n_nodes == 1
    if not is_gated or LL128_FORCED[0] in dict(request.site.added):
        return None
    added = (*request.site.added, LL128_FORCED)
    return replace(request, site=replace(request.site, added=added))


def tune(
    prepared: PreparedPerfSweep,
    options: Options,
    *,
    reporter: Reporter,
    command: str,
    force: bool,
    confirms: SiteRequest | None = None,
    forced: PreparedPerfSweep | None = None,
) -> TuneResult:
    """Sweep, fit, choose, write, draw, verify and report; what was done before is not done again.

    Args:
        prepared: the sweep.
        options: of the choice.
        reporter: told what is worth telling.
        command: as typed, for the session.
        force: measure though untouched runs differ.
        confirms: where rccl-tests are looked for, which have the last word.
        forced: the sweep with LL128 forced.

    Raises:
        RccltuneError: as of each step.
    """
    importing = Thread(target=_import_what_follows, daemon=True)
    importing.start()

    def one(session: PreparedPerfSweep) -> TuneResult:
        swept = measure_with_perf(session, reporter=reporter, command=command, force=force)
        importing.join()
        return _proven(session, swept, options, reporter, confirms)

    done = one(prepared)
    left_s = prepared.measuring.left_s()
    if forced is None or (left_s is not None and left_s <= 0):
        return done
    forced.measuring.budget_s = left_s
    reporter.say(f"Session: {forced.folder}, with {'='.join(LL128_FORCED)}")
    other = one(forced)
    if not _is_better(done, other, prepared, forced):
        return replace(done, forced=other)
    write_atomically(done.exports, other.exports.read_text(encoding="utf-8"))
    # The page says which rules the exports name.
    return replace(done, forced=other, is_forced_better=True, report=_shown(done.folder, reporter))


def _is_better(
    done: TuneResult, other: TuneResult, prepared: PreparedPerfSweep, forced: PreparedPerfSweep
) -> bool:
    """Whether the rules with LL128 forced are proven faster somewhere, and slower nowhere."""
    from rccltune.verify.environment import is_better
    from rccltune.verify.site_and_idle import SiteAndIdle

    ours, site = other.verified, done.verified
    variable = SiteAndIdle(site=prepared.measuring.table(), idle=forced.measuring.table())
    sizes = forced.measuring.wanted.sizes
    return bool(ours) and is_better(ours[0], site[0] if site else None, variable, sizes)


def _proven(
    prepared: PreparedPerfSweep,
    swept: SweepResult,
    options: Options,
    reporter: Reporter,
    confirms: SiteRequest | None,
) -> TuneResult:
    """All that comes after a sweep."""
    folder = prepared.folder
    try:
        emitted = _emitted(prepared, options, reporter)
        verified = _verified(prepared, emitted, options, reporter, confirms)
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
    from rccltune.rules.emission import EmitRequest, choose_rules, keep_choice

    request = EmitRequest(folder=prepared.folder, options=options)
    emitted = choose_rules(request, reporter=reporter)
    # Figures and the page read it.
    keep_choice(prepared.folder, emitted.choice, reporter)
    return emitted


def _verified(
    prepared: PreparedPerfSweep,
    emitted: EmittedRules,
    options: Options,
    reporter: Reporter,
    confirms: SiteRequest | None,
) -> tuple[VerificationResult, ...]:
    """Verify a file that has rules; only then does it lie where jobs look for it."""
    from rccltune.verify.rewriting import exports_without
    from rccltune.verify.verification import verify_rules

    path, exports_path = emitted.path, emitted.environment_path
    if path is None or exports_path is None:
        return ()
    if not emitted.count.rules:
        write_atomically(path, emitted.text)
        write_atomically(exports_path, emitted.environment_text)
        return ()
    request = _candidate(prepared, emitted, path, options, reporter)
    verified = verify_rules(
        replace(request, confirms=confirms),
        prepared.sweep,
        prepared.instrument,
        reporter=reporter,
    )
    exports = exports_without(emitted.environment_text, verified.lost_exports)
    write_atomically(exports_path, exports)
    return (verified,)


def _candidate(
    prepared: PreparedPerfSweep,
    one: EmittedRules,
    path: Path,
    options: Options,
    reporter: Reporter,
) -> VerifyRequest:
    """One file, written as a candidate that is to be verified."""
    from rccltune.analyse.fit import fit_session
    from rccltune.verify.outcome import VerifyRequest
    from rccltune.verify.verdict_store import CANDIDATES

    choosing = options(fit_session(prepared.folder, reporter=reporter))
    candidate = prepared.folder / CANDIDATES / path.name
    candidate.parent.mkdir(exist_ok=True)
    write_atomically(candidate, one.text)
    return VerifyRequest(
        folder=prepared.folder,
        rules=candidate,
        output=path,
        min_gain=choosing.min_gain,
        environment=tuple(prepared.setup.environment.items()),
    )
