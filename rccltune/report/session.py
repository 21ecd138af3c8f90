"""A session to one page that can be mailed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rccltune import session
from rccltune.fit import FitDone
from rccltune.model import CommandLineError, Reporter
from rccltune.report import page
from rccltune.report.records import Page
from rccltune.report.sections import (
    findings,
    headline,
    launches,
    machine,
    marks,
    rules,
    targets,
    usage,
)
from rccltune.report.sections.found import Found, gather

if TYPE_CHECKING:
    from rccltune.zones import ChoiceOptions


REPORT_FILE: Final = "report.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of a large session is shown.

    Attributes:
        targets: whose figures are drawn.
        points: of one figure.
        launches: with an excerpt, of the sweep and of the verification each.
        beliefs: rows of them for each target.
    """

    targets: int
    points: int
    launches: int
    beliefs: int


# The first that keeps the page below its limit.
_BOUNDS: Final = (
    Bounds(targets=12, points=420, launches=150, beliefs=400),
    Bounds(targets=8, points=240, launches=60, beliefs=200),
    Bounds(targets=5, points=160, launches=30, beliefs=100),
    Bounds(targets=2, points=100, launches=10, beliefs=50),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The page that was written.

    Attributes:
        claim: its headline.
    """

    path: Path
    n_bytes: int
    claim: str
    simulated: bool

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "path": str(self.path),
            "bytes": self.n_bytes,
            "claim": self.claim,
            "simulated": self.simulated,
        }


def report_session(
    folder: Path,
    options: Callable[[FitDone], ChoiceOptions],
    *,
    reporter: Reporter,
    output: Path | None = None,
    overwrite: bool = False,
) -> Reported:
    """Write the page of a session.

    Args:
        folder: the session.
        options: of the choice.
        reporter: told what is worth telling.
        output: the page; None for the session's own.
        overwrite: replace a page that is there; the session's own always is.

    Raises:
        CommandLineError: the file is there and may not be overwritten.
        SessionError: no session, or one that cannot be read.
        TooLittleDataError: no good sample.
    """
    path = output or folder / REPORT_FILE
    if path.exists() and (path.is_dir() or not (overwrite or output is None)):
        raise CommandLineError(
            "the report is there already" if path.is_file() else "this is a folder, no page",
            where=str(path),
            hint="add --force, or write elsewhere with -o FILE.",
        )
    found = gather(folder, options, reporter=reporter)
    text = ""
    made = _page(found, _BOUNDS[0])
    for number, bounds in enumerate(_BOUNDS):
        made = made if number == 0 else _page(found, bounds)
        text = page.render(made)
        if len(text.encode()) <= page.LIMIT_NBYTES:
            break
        reporter.say(
            f"the page would have {len(text.encode()):,} bytes: less of the session is shown"
        )
    session.write_atomically(path, text)
    return Reported(
        path=path,
        n_bytes=len(text.encode()),
        claim=made.headline.claim,
        simulated=found.simulated,
    )


def _page(found: Found, bounds: Bounds) -> Page:
    sections = (
        rules.rules_section(found),
        usage.use_section(found),
        targets.targets_section(
            found,
            most_targets=bounds.targets,
            most_points=bounds.points,
            most_rows=bounds.beliefs,
        ),
        machine.machine_section(found),
        findings.belief_section(found),
        findings.undecided_section(found),
        usage.repeat_section(found),
        # Last, since on paper it is most of the sheets.
        launches.launches_section(found, most=bounds.launches),
    )
    names = ", ".join(dict.fromkeys(curve.key.collective.value for curve in found.done.curves))
    said = headline.headline(found)
    return Page(
        title=f"rccltune: {names}",
        subject=found.machine or "machine not recorded",
        marks=marks.marks(found),
        headline=replace(said, plots=targets.gain_plot(found, bounds.points)),
        sections=tuple(one for one in sections if one is not None),
        footer=usage.footer(found),
    )
