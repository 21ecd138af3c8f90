"""The verbs that need no GPU, as functions: each gives the records that its verb prints from.

Paths may be text. Shares are fractions here (``tolerance=0.02`` is 2 %), sizes bytes, times
seconds. What is raised is a :class:`rccltune.model.RccltuneError`, which says what to do next and
has the exit code that the verb would end with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rccltune.analyse.choice_options import ChoiceOptions, parse_baseline
from rccltune.analyse.session_fit import fit_session
from rccltune.api.arguments import LogReporter, Place, path_of, paths_of
from rccltune.deploy.session import deploy_sessions
from rccltune.job import JobResult, try_job
from rccltune.machine import this_machine
from rccltune.machine.diagnosis import diagnose_host
from rccltune.machine.host_state import read_host_state
from rccltune.model import defaults
from rccltune.model.measurement import StatedFacts
from rccltune.model.settings import Mode
from rccltune.model.vocabulary import Collective
from rccltune.report import plots
from rccltune.report.page import report_session
from rccltune.rules import emission, explanation
from rccltune.session import imports
from rccltune.why.explain_job import explain_job
from rccltune.workload import Workload, read_workloads

if TYPE_CHECKING:
    from rccltune.analyse.session_fit import FitResult
    from rccltune.deploy.folder import Deployment
    from rccltune.machine.findings import Finding
    from rccltune.machine.system import System
    from rccltune.report.page import WrittenPage
    from rccltune.rules.emission import EmittedRules
    from rccltune.rules.explanation import Explanation
    from rccltune.session.imports import ImportResult
    from rccltune.why.job_report import JobReport


def detect(root: Place | None = None) -> System:
    """Detect what this machine is: GPUs, mode, libraries, benchmarks, launchers.

    Args:
        root: of a captured machine, instead of this one.
    """
    return this_machine.detect_this_machine(path_of(root))


def doctor(root: Place | None = None) -> tuple[Finding, ...]:
    """Find what would spoil or falsify a measurement here, the worst first; changes nothing.

    A sweep cannot run where the ``severity`` of one is ``Severity.STOPS``.

    Args:
        root: of a captured machine, instead of this one.
    """
    system = detect(root)
    return diagnose_host(read_host_state(system))


def import_logs(
    folder: Place, files: Iterable[Place], stated: StatedFacts | None = None
) -> ImportResult:
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
    return imports.import_files(
        Path(folder), paths, stated or StatedFacts(), reporter=LogReporter()
    )


def fit(folder: Place = defaults.SESSION) -> FitResult:
    """Curves of every setting, and where they cross.

    Raises:
        SessionError: no session there.
        TooLittleDataError: no usable sample.
    """
    return fit_session(Path(folder), reporter=LogReporter())


def emit_config(
    folder: Place = defaults.SESSION,
    output: Place | None = None,
    *,
    force: bool = False,
    tolerance: float = defaults.TOLERANCE,
    min_gain: float = defaults.MIN_GAIN,
    baseline: str | None = None,
    max_channels: int | None = None,
) -> EmittedRules:
    """Choose the setting for each size and write the rules.

    Args:
        folder: the session.
        output: the file; None is the default name in the session, ``"-"`` writes none.
        force: replace a file that is there and differs.
        tolerance: regret allowed to save a zone, 0.02 for 2 %.
        min_gain: by how much the baseline must be beaten.
        baseline: setting that counts as baseline where none was measured.
        max_channels: settings with more are left out.

    Returns:
        Its ``text`` is the rule file, ``path`` where it was written, ``zones`` what was chosen.

    Raises:
        CommandLineError: the file is there.
        SessionError: no session there.
        TooLittleDataError: nothing to choose from.
    """
    request = emission.EmitRequest(
        folder=Path(folder),
        options=ChoiceOptions(
            tolerance=tolerance,
            min_gain=min_gain,
            max_channels=max_channels,
            baseline=parse_baseline(baseline),
        ),
        output=path_of(output),
        overwrite=force,
    )
    return emission.emit_rules(request, reporter=LogReporter())


def plot(
    folder: Place = defaults.SESSION,
    directory: Place | None = None,
    *,
    formats: Sequence[str] = defaults.FIGURE_FORMAT,
    figures: Sequence[str] = (),
    force: bool = False,
) -> tuple[Path, ...]:
    """Draw what was measured, fitted and chosen; the files.

    Args:
        folder: the session.
        directory: of the figures; None is ``plots`` in the session.
        formats: ``png``, ``svg``, ``pdf``.
        figures: names of those to draw; empty for ``gain``, ``speedup``, ``time``, ``bandwidth``
            and ``table``.
        force: replace figures that are there.

    Raises:
        CommandLineError: a figure is there.
        SessionError: no session there.
        TooLittleDataError: no usable sample.
    """
    return plots.plot_session(
        Path(folder),
        reporter=LogReporter(),
        directory=path_of(directory),
        formats=formats,
        names=figures,
        overwrite=force,
    )


def report(
    folder: Place = defaults.SESSION,
    output: Place | None = None,
    *,
    force: bool = False,
) -> WrittenPage:
    """Write the page of a session.

    Args:
        folder: the session.
        output: the page; None is ``report.html`` in the session.
        force: replace a page that is there.

    Raises:
        CommandLineError: the page is there.
        SessionError: no session there.
        TooLittleDataError: no usable sample.
    """
    return report_session(
        Path(folder),
        reporter=LogReporter(),
        output=path_of(output),
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
    """Explain what a rule file will do, asked of the real plugin.

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
    question = explanation.RuleQuestion(
        collective=Collective.parse(collective) if collective else None,
        n_nodes=n_nodes,
        n_ranks=n_ranks,
        mode=Mode.parse(mode) if mode else None,
    )
    return explanation.explain(Path(rule_file), question)


def why(files: Iterable[Place]) -> JobReport:
    """Why a job's rules were or were not used, from its own logs.

    Args:
        files: the library's logs, the plugin's lines and traces, the rule file, in any mixture.

    Raises:
        OutputError: a file cannot be read, or is none of these.
        InputFileError: the rule file is refused.
        TooLittleDataError: the files tell nothing.
    """
    return explain_job([Path(file) for file in files])


def workload(files: Iterable[Place]) -> Workload:
    """Summarise which collectives and sizes a job asks for.

    Args:
        files: records of the plugin, Inspector's dumps.

    Raises:
        OutputError: a file is no workload.
        CommandLineError: the same recording twice.
    """
    return read_workloads([Path(file) for file in files])


def deploy(
    directory: Place,
    folders: Place | Sequence[Place] = defaults.SESSION,
    *,
    unproven: bool = False,
) -> Deployment:
    """Make a folder with plugin, rules, env.sh and README that a site's jobs can use.

    Args:
        directory: a new one, or one that was made so before.
        folders: one session, or several of one machine, library and environment.
        unproven: rules whose gain nothing proves may go out.

    Raises:
        CommandLineError: the folder is something else's; rules that nothing proves, unasked, or
            that contradict each other.
        InputFileError: a rule file has mistakes.
        SessionError: no session, or no rule in it.
        VerificationError: verification refused the rules.
    """
    return deploy_sessions(
        Path(directory), paths_of(folders), unproven=unproven, reporter=LogReporter()
    )


def job(
    command: Sequence[str],
    session: Place | None = None,
    *,
    rules: Place | None = None,
    budget: float | None = None,
    measure: str | None = None,
    bad_rules: bool = False,
) -> JobResult:
    """Whether rules pay in a job: as it is and with the rules, in turns.

    Args:
        command: of the job, a word each; ``{run}`` in one is a run's own folder.
        session: that has the rules and keeps the runs.
        rules: rule file, where it is not the session's.
        budget: seconds for all runs together; None for six pairs, however long they take.
        measure: pattern of the number that the job prints; None for its steps, or its duration.
        bad_rules: also with rules that are bad on purpose.

    Raises:
        CommandLineError: no command, a bad pattern, or no rules.
        MachineError: no plugin; or the ranks did not load it.
        LaunchError: the job fails.
        TooLittleDataError: too few runs fit into the budget, or no rule answered a call.
    """
    return try_job(
        command,
        session=None if session is None else Path(session),
        rules=None if rules is None else Path(rules),
        budget_s=budget,
        measure=measure,
        bad_rules=bad_rules,
        reporter=LogReporter(),
    )
