"""Two sides compared, as a program asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rccltune.api.arguments import LogReporter, Place, options_of, path_of
from rccltune.compare.comparison import compare as measure_comparison
from rccltune.compare.comparison import prepare
from rccltune.compare.comparison_request import are_sessions, read_catalog, request_of
from rccltune.compare.offline import compare_sessions
from rccltune.compare.results import ComparisonResult
from rccltune.model import defaults
from rccltune.model.reporter import Reporter


def compare(
    a: str,
    b: str,
    folder: Place = defaults.COMPARISON,
    *,
    starts: int = defaults.STARTS,
    margin: float = defaults.MARGIN,
    sides: Place | None = None,
    force: bool = False,
    reporter: Reporter | None = None,
    **options: Any,  # noqa: ANN401 - of a sweep
) -> ComparisonResult:
    """Say at which sizes B is faster than A, equal or slower: ``rccltune compare``.

    Args:
        a: a side, as it is typed; or a session, where B is one too.
        b: another one.
        folder: of the comparison; one that is there is gone on with.
        starts: of each side.
        margin: share by which equal sides may differ.
        sides: a file of own named sides.
        force: measure though several hosts are not alike.
        reporter: told what goes on; None is the logger.
        **options: of ``rccltune compare`` that a sweep has too, ``max_bytes="64M"``.

    Returns:
        ``table`` has a row a size; ``exit_code`` is that of the command.

    Raises:
        CommandLineError: words that are no side, options that do not fit together.
        MachineError: it cannot run here.
        LaunchError: A cannot run, or B not at all.
        SessionError: the folder has another comparison.
        TooLittleDataError: two sessions without a time in common.
    """
    if are_sessions(a, b):
        return compare_sessions(Path(a), Path(b), margin)
    request = request_of(
        (a, b),
        options_of(options),
        known=read_catalog(path_of(sides)),
        folder=Path(folder),
        margin=margin,
        n_starts=starts,
        force=force,
    )
    telling = reporter or LogReporter()
    prepared = prepare(request)
    for said in prepared.remarks:
        telling.say(said)
    return measure_comparison(prepared, telling)
