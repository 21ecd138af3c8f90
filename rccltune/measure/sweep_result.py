"""How a sweep begins in its session and how it ended, whichever program measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rccltune.measure import sweep_file
from rccltune.measure.ownership import remember_session
from rccltune.measure.site import Site
from rccltune.model import schema
from rccltune.model.brief import brief
from rccltune.model.failure import ExcludedSetting
from rccltune.model.measurement import Sweep
from rccltune.model.units import format_span
from rccltune.model.version import __version__
from rccltune.model.vocabulary import UnusableReason
from rccltune.session import files, store
from rccltune.session.samples import frame_from_logs
from rccltune.session.store import Session, SessionSetup
from rccltune.simulate import compiled

if TYPE_CHECKING:
    import pandas as pd


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """How a sweep ended.

    Attributes:
        runner: ``perf`` or ``rccl-tests``.
        n_starts: of all ranks: runs of the rank program, or launches that ended well.
        excluded: settings that are measured no more, each with the reason.
        not_offered: settings that the library lets be chosen nowhere, in words.
        remarks: what else of the times should be known.
        tuner: which one the library uses by itself on this site, as its log says: ``none``,
            ``plugin NAME``, ``built-in table FILE``; None where no log of the baseline is there.
        is_over: the budget ended it.
        seconds: of all starts of the session.
    """

    session: Session
    runner: str
    n_starts: int
    n_samples: int
    excluded: tuple[ExcludedSetting, ...]
    remarks: tuple[str, ...]
    is_over: bool
    seconds: float
    library: str
    tuner: str | None
    not_offered: tuple[str, ...] = ()

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        return {
            "session": self.session.path,
            "runner": self.runner,
            "simulated": self.session.simulated,
            "library": self.library,
            "tuner_of_baseline": self.tuner,
            "runs": self.n_starts,
            "samples": self.n_samples,
            "excluded": [{**schema.to_plain(one), "reason": one.reason} for one in self.excluded],
            "not_offered": self.not_offered,
            "remarks": self.remarks,
            "budget_spent": self.is_over,
            "seconds": round(self.seconds, 1),
        }


def begin_sweep(
    folder: Path,
    site: Site,
    setup: SessionSetup,
    sweep: Sweep,
    *,
    keys: Mapping[str, Any],
    command: str,
) -> None:
    """Write what a session is of: its header, its ranks, its sweep.yaml, its simulated node.

    Args:
        folder: the session, which another command may have begun.
        site: where it is measured.
        setup: with what.
        sweep: what is measured, as resolved.
        keys: further keys of sweep.yaml; those without a value are left out.
        command: as typed.
    """
    if (folder / store.HEADER).exists():
        header = replace(store.open_session(folder), setup=setup)
    else:
        header = Session(
            path=folder,
            command=command,
            tool=f"rccltune {__version__}",
            fingerprint=site.fingerprint,
            setup=setup,
        )
    store.write_header(header)
    files.write_atomically(folder / store.SWEEP_FILE, sweep_file.dump_sweep(sweep, keys))
    remember_session(folder)
    if site.node is not None:
        files.write_atomically(folder / store.NODE_FILE, compiled.compile_node(site.node))


def finish_sweep(folder: Path) -> tuple[Session, pd.DataFrame]:
    """Make samples.csv of all that is there."""
    opened = store.open_session(folder)
    samples = frame_from_logs(opened)
    return store.commit(opened, [], samples), samples


# A setting's name stands in rules: what of its times are another's is said.
_OTHERS: Final = (UnusableReason.BYPASSED, UnusableReason.SUBSTITUTED, UnusableReason.UNPROVEN)
_SHOWN: Final = 3


def unattributed(samples: pd.DataFrame) -> Iterator[str]:
    """Sentences about times that are no setting's own: where, and why."""
    for reason in _OTHERS:
        timed = samples[samples["unusable"] == reason.value]
        for collective, group in timed.groupby("collective", observed=True, sort=False):
            sizes = format_span(int(group["nbytes"].min()), int(group["nbytes"].max()))
            settings = sorted(set(group["setting"]))
            names = ", ".join(settings) if len(settings) <= _SHOWN else f"{len(settings)} settings"
            yield (
                f"{collective}, {sizes}: {reason.meaning}, so {len(group)} times of {names} are no "
                "setting's own"
            )
