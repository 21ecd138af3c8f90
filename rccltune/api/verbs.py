"""The verbs of the command line as functions: each gives the records that its verb prints from.

Paths may be text. Shares are fractions here (``tolerance=0.02`` is 2 %), sizes bytes, times
seconds. What is raised is a :class:`rccltune.model.RccltuneError`, which says what to do next and
has the exit code that the verb would end with.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rccltune import fit as fitting
from rccltune import job, machine, measure, rules, session
from rccltune import report as reporting
from rccltune import verify as verifying
from rccltune import why as reasons
from rccltune.api.listening import Logging
from rccltune.model import Collective, Mode, Reporter, SessionError, Stated, defaults
from rccltune.zones import ChoiceOptions, baseline_named

if TYPE_CHECKING:
    from rccltune.fit import FitDone
    from rccltune.job import Answer, Request, Shown
    from rccltune.machine import System
    from rccltune.measure import Swept
    from rccltune.report import Reported
    from rccltune.rules import Emitted, Explanation
    from rccltune.session import Imported
    from rccltune.verify import Verified
    from rccltune.why import Verdict

Place = str | os.PathLike[str]


def detect(root: Place | None = None, *, rccl_tests: Place | None = None) -> System:
    """What this machine is: GPUs, mode, libraries, benchmarks, launchers.

    Args:
        root: of a captured machine, instead of this one.
        rccl_tests: folder of the benchmarks.
    """
    return machine.here(_path(root), _path(rccl_tests))


def import_logs(folder: Place, files: Iterable[Place], stated: Stated | None = None) -> Imported:
    """Turn logs, CSV or JSON of benchmarks into a session, or add them to one.

    Args:
        folder: the session.
        files: what benchmarks printed or wrote.
        stated: what the files do not say: collective, setting, ranks, nodes, mode, type.

    Raises:
        OutputError: a file is not understood.
        CommandLineError: what is stated contradicts a file.
        SessionError: another machine, a newer format, or a writer that holds the session.
    """
    paths = [Path(file) for file in files]
    return session.import_files(Path(folder), paths, stated or Stated(), reporter=Logging())


def sweep(
    folder: Place,
    *,
    config: Place | None = None,
    force: bool = False,
    reporter: Reporter | None = None,
    **options: Any,  # noqa: ANN401 - as a sweep file has them
) -> Swept:
    """Measure on this machine, or on a simulated node, and keep it in a session.

    Args:
        folder: the session; one that is there is gone on with.
        config: a ``sweep.yaml``.
        force: measure though the machine may spoil it.
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
    place = Path(folder)
    request = measure.merge_request(_path(config), _options(options))
    request = measure.gone_on(request, [place])
    telling = reporter or Logging()
    with measure.in_mode(request.sweep.mode, apply=False, reporter=telling):
        site = measure.find_site(request.site)
        if site.node is not None:
            telling.say(f"SIMULATED node {site.node.name}: no hardware is measured")
        prepared = measure.prepare_request(request, site, place, lifts=False)
        return measure.sweep(prepared, reporter=telling, command="rccltune.api.sweep", force=force)


def fit(folder: Place) -> FitDone:
    """Curves of every setting, and where they cross.

    Raises:
        SessionError: no session there.
        TooLittleDataError: no usable sample.
    """
    return fitting.fit_session(Path(folder), reporter=Logging())


def emit_config(
    folders: Place | Sequence[Place],
    output: Place | None = None,
    *,
    force: bool = False,
    tolerance: float = defaults.TOLERANCE,
    min_gain: float = defaults.MIN_GAIN,
    baseline: str | None = None,
    max_channels: int | None = None,
) -> Emitted:
    """Choose the setting for each size and write the rules.

    Args:
        folders: one session, or several of other scales.
        output: the file; None is the default name in the session, ``"-"`` writes none.
        force: replace a file that is there and differs.
        tolerance: regret allowed to save a zone, 0.02 for 2 %.
        min_gain: by how much the baseline must be beaten.
        baseline: setting or variant that counts as baseline where none was measured.
        max_channels: settings with more are left out.

    Returns:
        Its ``text`` is the rule file, ``path`` where it was written, ``zones`` what was chosen.

    Raises:
        CommandLineError: the file is there.
        SessionError: no session there.
        TooLittleDataError: nothing to choose from.
    """
    found = session.sessions_in(_paths(folders))
    request = rules.EmitRequest(
        folders=found,
        home=_paths(folders)[0],
        options=_choosing(tolerance, min_gain, baseline, max_channels),
        output=_path(output),
        overwrite=force,
    )
    return rules.emit_rules(request, reporter=Logging())


def verify(
    folder: Place,
    rule_file: Place | None = None,
    *,
    output: Place | None = None,
    min_gain: float = defaults.MIN_GAIN,
    keep_losers: bool = False,
    trust_session: bool = False,
    reporter: Reporter | None = None,
    **options: Any,  # noqa: ANN401 - as a sweep file has them
) -> Verified:
    """Hold rules against the library as it is, on this machine; what does not win is left out.

    Args:
        folder: a session that was swept.
        rule_file: None is the session's own.
        output: where what stands goes; None is the session's own file, or a copy in the session.
        min_gain: what a rule must gain over its range, 0.02 for 2 %.
        keep_losers: change nothing.
        trust_session: follow what somebody else's session says about programs and variables.
        reporter: told of each launch that has ended; None is the logger.
        **options: where to run, as in :func:`sweep`.

    Raises:
        SessionError: no sweep there.
        InputFileError: the plugin refuses the file.
        MachineError: it cannot run here.
        VerificationError: wrong results without rules, or ranks without the plugin.
    """
    place = Path(folder)
    if not (place / session.SWEEP_FILE).exists():
        raise SessionError(
            "there is no sweep in this session",
            where=str(place),
            hint="sweep makes one; its sizes and ranks are what is verified.",
        )
    measured = measure.session_request(place, _options(options), trusted=trust_session)
    site = measure.find_site(measured.site)
    own = verifying.rule_file_of(place, site)
    chosen = _path(rule_file) or own
    request = verifying.VerifyRequest(
        folder=place,
        rules=chosen,
        output=_path(output) or (place / f"verified-{chosen.name}" if rule_file else own),
        min_gain=min_gain,
        keep_losers=keep_losers,
    )
    return verifying.verify_rules(request, measured.sweep, site, reporter=reporter or Logging())


def plot(
    folder: Place,
    directory: Place | None = None,
    *,
    formats: Sequence[str] = defaults.FIGURES,
    force: bool = False,
    tolerance: float = defaults.TOLERANCE,
    min_gain: float = defaults.MIN_GAIN,
    baseline: str | None = None,
) -> tuple[Path, ...]:
    """Draw what was measured, fitted and chosen; the files.

    Args:
        folder: the session.
        directory: of the figures; None is ``plots`` in the session.
        formats: ``png``, ``svg``, ``pdf``.
        force: replace figures that are there.
        tolerance: as in :func:`emit_config`.
        min_gain: as in :func:`emit_config`.
        baseline: as in :func:`emit_config`.

    Raises:
        CommandLineError: a figure is there.
        SessionError: no session there.
        TooLittleDataError: no usable sample.
    """
    return reporting.plot_session(
        Path(folder),
        _choosing(tolerance, min_gain, baseline, None),
        reporter=Logging(),
        directory=_path(directory),
        formats=formats,
        overwrite=force,
    )


def report(
    folder: Place,
    output: Place | None = None,
    *,
    force: bool = False,
    tolerance: float = defaults.TOLERANCE,
    min_gain: float = defaults.MIN_GAIN,
    baseline: str | None = None,
) -> Reported:
    """Write the page of a session.

    Args:
        folder: the session.
        output: the page; None is ``report.html`` in the session.
        force: replace a page that is there.
        tolerance: as in :func:`emit_config`.
        min_gain: as in :func:`emit_config`.
        baseline: as in :func:`emit_config`.

    Raises:
        CommandLineError: the page is there.
        SessionError: no session there.
        TooLittleDataError: no usable sample.
    """
    return reporting.report_session(
        Path(folder),
        _choosing(tolerance, min_gain, baseline, None),
        reporter=Logging(),
        output=_path(output),
        overwrite=force,
    )


def explain(
    rule_file: Place,
    *,
    collective: str | None = None,
    n_nodes: int | None = None,
    n_ranks: int | None = None,
    mode: str | None = None,
) -> Explanation:
    """What a rule file will do, asked of the real plugin.

    Args:
        rule_file: anybody's.
        collective: only this one, ``all_reduce``.
        n_nodes: asked for; None is all that the file names.
        n_ranks: likewise.
        mode: of the machine, for rows that are for one mode only.

    Raises:
        InputFileError: the file cannot be read, or the plugin refuses it.
        VerificationError: plugin and file disagree.
    """
    question = rules.Question(
        collective=Collective.parse(collective) if collective else None,
        n_nodes=n_nodes,
        n_ranks=n_ranks,
        mode=Mode.parse(mode) if mode else None,
    )
    return rules.explain(Path(rule_file), question)


def why(files: Iterable[Place], rule_file: Place | None = None) -> Verdict:
    """Why a job's rules were or were not used, from its own logs.

    Args:
        files: the library's logs, the plugin's lines and traces, in any mixture.
        rule_file: the job's.

    Raises:
        OutputError: a file cannot be read, or is none of these.
        InputFileError: the rule file is refused.
        TooLittleDataError: the files tell nothing.
    """
    return reasons.explain_job([Path(file) for file in files], _path(rule_file))


def workload(
    files: Iterable[Place],
    *,
    rule_file: Place | None = None,
    folder: Place | None = None,
    steps: int | None = None,
) -> Shown:
    """Which collectives and sizes a job asks for, and what rules can do for it.

    Args:
        files: records of the plugin, Inspector's dumps, replay files, logs.
        rule_file: what it covers is told.
        folder: a session with the times; None tells none.
        steps: that the job made while it was recorded.

    Raises:
        OutputError: a file is no workload.
        InputFileError: the rule file is refused.
        SessionError: no session there.
    """
    whole = job.read_merged([Path(file) for file in files])
    return job.show(
        whole, rules=_path(rule_file), folder=_path(folder), steps=steps, reporter=Logging()
    )


def try_job(request: Request, *, reporter: Reporter | None = None) -> Answer:
    """Run a job in turns and say whether rules pay: ``rccltune job``.

    Args:
        request: the command, the rules, where runs are kept, and for how long.
        reporter: told of each run; None is the logger.

    Raises:
        CommandLineError: no command, a bad pattern, or another job's folder.
        MachineError: no plugin; or the ranks did not load it.
        LaunchError: the job fails.
        TooLittleDataError: too few runs fit into the budget, or no rule answered a call.
    """
    return job.try_job(request, reporter=reporter or Logging())


def _choosing(
    tolerance: float, min_gain: float, baseline: str | None, max_channels: int | None
) -> Callable[[FitDone], ChoiceOptions]:
    def options(done: FitDone) -> ChoiceOptions:
        return ChoiceOptions(
            tolerance=tolerance,
            min_gain=min_gain,
            max_channels=max_channels,
            baseline=baseline_named(baseline, done),
        )

    return options


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Checked as those of a sweep file are, with all mistakes at once."""
    if not given:
        return {}
    import yaml

    text = yaml.safe_dump({name: _plain(value) for name, value in given.items()}, sort_keys=False)
    return measure.read_sweep_file(text, "options")


def _plain(value: object) -> object:
    """As a YAML file has it; records of ours by their words."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)


def _path(place: Place | None) -> Path | None:
    return None if place is None else Path(place)


def _paths(places: Place | Sequence[Place]) -> tuple[Path, ...]:
    if isinstance(places, (str, os.PathLike)):
        return (Path(places),)
    return tuple(Path(place) for place in places)
