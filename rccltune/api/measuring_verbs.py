"""The verbs that measure, on this machine or on a simulated node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rccltune import tune as tuning
from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.api.arguments import LogReporter, Place, options_of, path_of
from rccltune.measure import perf_sweep, rccl_tests_sweep
from rccltune.measure.instrument import session_instrument
from rccltune.measure.request import merge_request, refuse_simulated, session_request
from rccltune.measure.site import in_mode
from rccltune.measure.sweep_schema import PERF
from rccltune.model import defaults
from rccltune.model.errors import SessionError
from rccltune.model.reporter import Reporter
from rccltune.session import store
from rccltune.verify import outcome, verification
from rccltune.verify.verdict_store import FORCED_FOLDER

if TYPE_CHECKING:
    from rccltune.measure.sweep_result import SweepResult
    from rccltune.tune import TuneResult
    from rccltune.verify.outcome import VerificationResult


def sweep(
    folder: Place = defaults.SESSION,
    *,
    config: Place | None = None,
    force: bool = False,
    reporter: Reporter | None = None,
    **options: Any,  # noqa: ANN401 - as a sweep file has them
) -> SweepResult:
    """Measure on this machine, or on a simulated node, and keep it in a session.

    The rank program measures, unless ``runner`` names rccl-tests.

    Args:
        folder: the session; one that is there is gone on with.
        config: a ``sweep.yaml``.
        force: measure though several hosts are not alike.
        reporter: told of each launch that has ended; None is the logger.
        **options: the long options of ``rccltune sweep``, with ``_`` for ``-``, as a sweep file
            has them: ``mode="cpx-nps4", collective=["all_reduce"], max_bytes="64M"``.

    Raises:
        CommandLineError: options that do not fit together.
        InputFileError: mistakes in ``config`` or in the options, all at once.
        MachineError: it cannot run here.
        LaunchError: launches failed.
        SessionError: another machine's session, or one that somebody writes.
    """
    telling = reporter or LogReporter()
    place, file, command = Path(folder), path_of(config), "rccltune.api.sweep"
    request = merge_request(file, options_of(options), runner=defaults.SWEEP_RUNNER)
    refuse_simulated(request, place)
    if request.site.runner == PERF:
        wanted = perf_sweep.prepare_measuring(request, place, telling)
        return perf_sweep.measure_with_perf(wanted, reporter=telling, command=command, force=force)
    with in_mode(request.sweep.mode, apply=False, reporter=telling):
        prepared = rccl_tests_sweep.prepare_rccl_tests(request, place)
        return rccl_tests_sweep.measure_with_rccl_tests(
            prepared, reporter=telling, command=command, force=force
        )


def verify(
    folder: Place = defaults.SESSION,
    rule_file: Place | None = None,
    *,
    communicators: int | None = None,
    keep_losers: bool = False,
    reporter: Reporter | None = None,
    **options: Any,  # noqa: ANN401 - as a sweep file has them
) -> VerificationResult:
    """Hold rules against the library as it is, on this machine; what does not win is left out.

    Args:
        folder: a session that was swept.
        rule_file: None is the session's own.
        communicators: in how many to compare; None for the usual number.
        keep_losers: change nothing.
        reporter: told how far it is; None is the logger.
        **options: where to run, as in :func:`sweep`.

    Raises:
        SessionError: no sweep there.
        InputFileError: the plugin refuses the file.
        MachineError: it cannot run here.
        VerificationError: wrong results without rules, or ranks without the plugin.
    """
    place = Path(folder)
    if not (place / store.SWEEP_FILE).exists():
        raise SessionError(
            "there is no sweep in this session",
            where=str(place),
            hint="sweep makes one; its sizes and ranks are what is verified.",
        )
    measured = session_request(place, options_of(options))
    instrument = session_instrument(measured, place)
    site_rules = verification.rule_file_of(place, instrument.site)
    chosen = path_of(rule_file) or site_rules
    request = outcome.VerifyRequest(
        folder=place,
        rules=chosen,
        output=place / f"verified-{chosen.name}" if rule_file else site_rules,
        n_communicators=communicators,
        keep_losers=keep_losers,
        environment=measured.site.added,
    )
    telling = reporter or LogReporter()
    return verification.verify_rules(request, measured.sweep, instrument, reporter=telling)


def tune(
    folder: Place = defaults.SESSION,
    *,
    config: Place | None = None,
    force: bool = False,
    tolerance: float = defaults.TOLERANCE,
    min_gain: float = defaults.MIN_GAIN,
    reporter: Reporter | None = None,
    **options: Any,  # noqa: ANN401 - as a sweep file has them
) -> TuneResult:
    """Sweep, fit, choose, verify, plot and report in one go; what was done before stays done.

    Args:
        folder: as in :func:`sweep`.
        config: likewise.
        force: likewise; and replace a rule file that is there and differs.
        tolerance: regret allowed to save a zone, 0.02 for 2 %.
        min_gain: what a rule must gain over its range.
        reporter: told of each launch that has ended; None is the logger.
        **options: as in :func:`sweep`, for one scale.

    Raises:
        VerificationError: wrong results without rules, or ranks without the plugin.
        RccltuneError: as :func:`sweep`.
    """
    telling = reporter or LogReporter()
    request = merge_request(path_of(config), options_of(options), runner=defaults.SWEEP_RUNNER)
    refuse_simulated(request, Path(folder))
    with in_mode(request.sweep.mode, apply=False, reporter=telling):
        prepared = perf_sweep.prepare_measuring(request, Path(folder), telling)
        other = tuning.forced_request(request, prepared.instrument.site)
        inside = Path(folder) / FORCED_FOLDER
        forced = perf_sweep.prepare_measuring(other, inside, telling) if other else None
        return tuning.tune(
            prepared,
            ChoiceOptions(tolerance=tolerance, min_gain=min_gain),
            reporter=telling,
            command="rccltune.api.tune",
            force=force,
            forced=forced,
        )
