"""Order of one tune: from a plan to a verified rule file, its figures and its page.

Where the library lets LL128 be chosen with a variable alone (gfx942), a second session goes the
same way with that, and the site's exports name its rules where those are the better ones.

What the steps after the sweep need takes a second to import, and is imported while ranks measure.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from rccltune.launch import signals
from rccltune.measure.perf_sweep import PreparedPerfSweep, measure_with_perf
from rccltune.measure.request import Request
from rccltune.measure.site import Site, SiteRequest
from rccltune.measure.sweep_result import SweepResult
from rccltune.model import defaults
from rccltune.model.brief import brief
from rccltune.model.errors import BudgetError, VerificationError
from rccltune.model.measurement import Notice
from rccltune.model.reporter import Progress, Reporter
from rccltune.model.settings import LL128_FORCED
from rccltune.session.files import write_atomically

if TYPE_CHECKING:
    from rccltune.analyse.choice_options import ChoiceOptions
    from rccltune.report.page import WrittenPage
    from rccltune.rules.emission import EmittedRules
    from rccltune.verify.outcome import VerificationResult, VerifyRequest


_FIGURES: Final = "plots"
_GATED: Final = "gfx942"
# Seconds that figures and a page roughly take; with a second session they are drawn thrice at most.
_SHOWING_S: Final = 3.0
_N_SHOWN: Final = 3
_AFTER_THE_SWEEP: Final = (
    "rccltune.ranks.rows",
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

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        # Verification has written another text since.
        emitted = {k: v for k, v in self.emitted.json_fields().items() if k != "text"}
        return {
            "session": self.folder,
            "simulated": self.simulated,
            "runner": self.runner,
            "sweep": self.swept,
            "emitted": emitted,
            "verified": [one.file for one in self.verified],
            "exports": self.exports,
            "figures": self.figures,
            "report": self.report,
            "forced": self.forced,
            "is_forced_better": self.is_forced_better,
        }


def forced_request(request: Request, site: Site) -> Request | None:
    """Request of a second session, with LL128 forced; None where that changes nothing.

    Args:
        request: of the first.
        site: where it measures.
    """
    needs_forcing = (site.fingerprint.arch or "").startswith(_GATED) and site.is_gated
    if not needs_forcing or LL128_FORCED[0] in dict(request.site.added):
        return None
    added = (*request.site.added, LL128_FORCED)
    return replace(request, site=replace(request.site, added=added))


def expected_showing_s(n_sessions: int) -> float:
    """Seconds that figures and pages of one or two sessions roughly take."""
    return _SHOWING_S * (1 if n_sessions == 1 else _N_SHOWN)


def tune(
    prepared: PreparedPerfSweep,
    options: ChoiceOptions,
    *,
    reporter: Reporter,
    command: str,
    force: bool,
    confirms: SiteRequest | None = None,
    forced: PreparedPerfSweep | None = None,
) -> TuneResult:
    """Sweep, choose, verify, confirm, draw and report; what was done before is not done again.

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
    from rccltune.verify.duration import expected_proof

    importing = Thread(target=_import_what_follows, daemon=True)
    importing.start()
    showing_s = expected_showing_s(1 if forced is None else 2)
    other_s = 0.0
    if forced is not None:
        other_proof = expected_proof(forced)
        # Its rules are also held against the site's.
        other_s = forced.expected_s + other_proof.total_s + other_proof.judging_s
        forced.measuring.name = forced.folder.name

    def prove(
        session: PreparedPerfSweep, behind_s: float, first_proof: _Proof | None = None
    ) -> _Proof:
        with signals.interruptible(), session.measuring.closing():
            duration = expected_proof(session)
            compare_s = 0.0 if first_proof is None else duration.judging_s
            session.measuring.after_s = behind_s + duration.total_s + compare_s
            swept = measure_with_perf(
                session, reporter=reporter, command=command, force=force, stays=True
            )
            reporter.progress(
                Progress(
                    what="choosing settings",
                    done=0,
                    of=1,
                    left_s=session.measuring.after_s,
                    where=session.measuring.name,
                )
            )
            session.measuring.after_s = behind_s + duration.judging_s + compare_s
            importing.join()
            return _prove_session(session, swept, options, reporter, first_proof)

    proof = prove(prepared, other_s + showing_s)
    result = _report_session(proof, reporter, confirms, other_s + showing_s)
    left_s = prepared.measuring.remaining_s()
    if forced is None or (left_s is not None and left_s <= 0):
        return result
    forced.measuring.budget_s = left_s
    reporter.say(f"Session: {forced.folder}, with {'='.join(LL128_FORCED)}")
    try:
        forced_proof = prove(forced, showing_s, proof)
    except BudgetError:
        reporter.say(f"The budget ended before {forced.folder} was measured; --budget gives more")
        return result
    forced_result = _report_session(forced_proof, reporter, confirms, showing_s)
    result = replace(result, forced=forced_result)
    return _export_forced(result, forced_result, reporter) if forced_proof.is_better else result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proof:
    """Proof that one session gives.

    Attributes:
        verified: None where there is no rule to verify.
        is_better: than what another session's site runs.
    """

    prepared: PreparedPerfSweep
    swept: SweepResult
    emitted: EmittedRules
    request: VerifyRequest | None = None
    verified: VerificationResult | None = None
    is_better: bool = False


def _prove_session(
    prepared: PreparedPerfSweep,
    swept: SweepResult,
    options: ChoiceOptions,
    reporter: Reporter,
    first_proof: _Proof | None,
) -> _Proof:
    """Choose, write and verify the rules of a sweep by the ranks that wait.

    Args:
        prepared: the sweep.
        swept: what came of it.
        options: of the choice.
        reporter: told what is worth telling.
        first_proof: of the site's own session, where this one has a variable more.
    """
    try:
        emitted = _choose_rules(prepared, options, reporter)
        proof = _verify_file(
            _Proof(prepared=prepared, swept=swept, emitted=emitted), options, reporter
        )
    except VerificationError:
        prepared.measuring.close()
        _report_unproven(prepared.folder, reporter)
        raise
    if first_proof is None or proof.verified is None:
        return proof
    from rccltune.verify.compare_files import is_better

    rules = first_proof.verified.standings if first_proof.verified else ()
    better = is_better(
        proof.verified.text,
        prepared.measuring,
        first_proof.prepared.measuring.table(),
        [one for one in rules if one.is_kept],
        proof.verified.file.replicates,
    )
    return replace(proof, is_better=better)


def _report_session(
    proof: _Proof, reporter: Reporter, confirms: SiteRequest | None, left_s: float
) -> TuneResult:
    """The last word of rccl-tests, figures and page: no rank is left that they would disturb."""
    from rccltune.session.samples import bring_up_to_date
    from rccltune.verify.verification import confirm_rules

    folder, site, verified = proof.prepared.folder, proof.prepared.instrument.site, proof.verified
    bring_up_to_date(folder)
    if verified is not None and proof.request is not None:
        request = replace(proof.request, confirms=confirms)
        try:
            verified = confirm_rules(request, verified, site, reporter)
        except VerificationError:
            _report_unproven(folder, reporter)
            raise
    return TuneResult(
        folder=folder,
        swept=proof.swept,
        emitted=proof.emitted,
        verified=(verified,) if verified else (),
        exports=proof.emitted.environment_path or folder,
        figures=folder / _FIGURES,
        report=_draw_and_write(folder, reporter, left_s),
        simulated=site.node is not None,
        runner=site.fingerprint.runner,
    )


def _report_unproven(folder: Path, reporter: Reporter) -> None:
    """Draw what was measured, and say where the page is: that nothing is proven needs a reason."""
    page = _draw_and_write(folder, reporter, _SHOWING_S)
    reporter.say(f"The page that says why nothing is proven: {page.path}")


def _export_forced(result: TuneResult, forced: TuneResult, reporter: Reporter) -> TuneResult:
    """Let the site's exports name the rules with LL128 forced; both pages say which are named."""
    from rccltune.report.page import report_session

    write_atomically(result.exports, forced.exports.read_text(encoding="utf-8"))
    page, forced_page = (
        report_session(one.folder, reporter=reporter, overwrite=True) for one in (result, forced)
    )
    forced = replace(forced, report=forced_page)
    return replace(result, forced=forced, is_forced_better=True, report=page)


def _import_what_follows() -> None:
    for name in _AFTER_THE_SWEEP:
        importlib.import_module(name)


def _draw_and_write(folder: Path, reporter: Reporter, left_s: float) -> WrittenPage:
    """Figures, and the page; with what is behind them they roughly take so long."""
    from rccltune.report.page import report_session
    from rccltune.report.plots import plot_session

    where = folder / _FIGURES
    reporter.progress(Progress(what="drawing figures", done=0, of=1, left_s=left_s))
    plot_session(
        folder,
        reporter=reporter,
        directory=where,
        formats=defaults.FIGURE_FORMAT,
        overwrite=True,
    )
    return report_session(folder, reporter=reporter, overwrite=True)


def _choose_rules(
    prepared: PreparedPerfSweep,
    options: ChoiceOptions,
    reporter: Reporter,
) -> EmittedRules:
    from rccltune.rules.emission import EmitRequest, choose_rules, keep_choice

    request = EmitRequest(folder=prepared.folder, options=options)
    emitted = choose_rules(request, reporter=reporter)
    # Figures and the page read it.
    keep_choice(prepared.folder, emitted.choice, reporter)
    return emitted


def _verify_file(proof: _Proof, options: ChoiceOptions, reporter: Reporter) -> _Proof:
    """Verify the file; one with rules lies where jobs look for it when it was verified."""
    from rccltune.rules.writer import write_all
    from rccltune.verify.rewriting import drop_exports
    from rccltune.verify.verification import verify_rules

    emitted, prepared = proof.emitted, proof.prepared
    if emitted.path is None or emitted.environment_path is None:
        return proof
    if not emitted.count.rules:
        empty = ((emitted.path, emitted.text), (emitted.environment_path, emitted.environment_text))
        write_all(empty, overwrite=True, reporter=reporter)
        return proof
    request = _write_candidate(prepared, emitted, emitted.path, options)
    verified = verify_rules(
        request,
        prepared.sweep,
        prepared.instrument,
        reporter=reporter,
        waiting=prepared.measuring,
    )
    exports = drop_exports(emitted.environment_text, verified.lost_exports)
    write_atomically(emitted.environment_path, exports)
    return replace(proof, request=request, verified=verified)


def _write_candidate(
    prepared: PreparedPerfSweep,
    one: EmittedRules,
    path: Path,
    options: ChoiceOptions,
) -> VerifyRequest:
    """One file, written as a candidate that is to be verified."""
    from rccltune.verify.outcome import VerifyRequest
    from rccltune.verify.verdict_store import CANDIDATES

    candidate = prepared.folder / CANDIDATES / path.name
    candidate.parent.mkdir(exist_ok=True)
    write_atomically(candidate, one.text)
    return VerifyRequest(
        folder=prepared.folder,
        rules=candidate,
        output=path,
        min_gain=options.min_gain,
        environment=tuple(prepared.setup.environment.items()),
    )
