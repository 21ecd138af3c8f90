"""From a plan to a verified rule file, its figures and its page, in one go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rccltune.errors import VerificationError
from rccltune.model import Notice
from rccltune.pipeline.emitted import Emitted, EmitWish
from rccltune.pipeline.emitting import emit_rules
from rccltune.pipeline.fitting import FitDone
from rccltune.pipeline.plotting import plot_session
from rccltune.pipeline.preparing import Prepared
from rccltune.pipeline.reporting import Reported, report_session
from rccltune.pipeline.running import Tell
from rccltune.pipeline.sweeping import Swept, sweep
from rccltune.pipeline.verifying import Verified, VerifyWish, verify_rules

if TYPE_CHECKING:
    from rccltune.zones import ChoiceOptions

Note = Callable[[str], None]
_ROUNDS: Final = 3


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
            "verified": [one.as_plain() for one in self.verified],
            "exports": str(self.exports),
            "figures": str(self.figures),
            "report": self.report.as_plain(),
        }


def tune(
    prepared: Prepared,
    options: Callable[[FitDone], ChoiceOptions],
    *,
    tell: Tell,
    note: Note,
    command: str,
    force: bool,
    beside: Callable[[], None] = lambda: None,
) -> Tuned:
    """Sweep, fit, choose, write, draw, verify and report; what was done before is not done again.

    Args:
        prepared: the sweep.
        options: of the choice.
        tell: told after every launch of the sweep.
        note: told what is worth telling.
        command: as typed, for the session.
        force: measure though untouched runs differ.
        beside: what else is measured, after the sweep and before figures are drawn.

    Raises:
        RccltuneError: as of each step.
    """
    folder = prepared.folder
    swept = sweep(prepared, tell=tell, note=note, command=command, force=force)
    beside()
    emitted = emit_rules(
        EmitWish(folders=(folder,), options=options, overwrite=True, formats=("rccl", "env")),
        note=note,
    )
    verified = []
    gain: list[float] = []

    def asked(done: FitDone) -> ChoiceOptions:
        made = options(done)
        gain.append(made.min_gain)
        return made

    figures = folder / "plots"
    plot_session(folder, asked, note=note, directory=figures, formats=("png",), overwrite=True)
    for one in (emitted, *emitted.beside):
        if one.path is None or not one.n_rules:
            continue
        wish = VerifyWish(
            folder=folder,
            rules=one.path,
            output=one.path,
            min_gain=gain[0],
            n_rounds=_ROUNDS,
            timeout_s=prepared.timeout_s,
        )
        try:
            verified.append(verify_rules(wish, prepared.sweep, prepared.site, note=note))
        except VerificationError:
            # What was seen, and that nothing of it is proven, is worth a page too.
            page = report_session(folder, options, note=note, overwrite=True)
            note(f"The page that says why nothing is proven: {page.path}")
            raise
    return Tuned(
        folder=folder,
        swept=swept,
        emitted=emitted,
        verified=tuple(verified),
        exports=emitted.environment_path or folder,
        figures=figures,
        report=report_session(folder, options, note=note, overwrite=True),
        simulated=prepared.site.node is not None,
    )
