"""Constants for the library's own model: fitted, held against times, written as an experiment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rccltune import fit, model, session
from rccltune.fit import FitDone, Ground, check_beliefs, fit_session
from rccltune.model import (
    CellChange,
    Foreseen,
    MachineError,
    Reporter,
    TooLittleDataError,
    VerificationError,
    comparable,
    format_size,
)
from rccltune.releases import TAKING_CONSTANTS, library_named, release_of
from rccltune.rules.line_format import comment
from rccltune.rules.provenance import SIMULATED
from rccltune.rules.sheets import file_name
from rccltune.rules.writer import write_all
from rccltune.session import machine_words, one_machine

# Indices of ncclTunerConstants_v5_t as RCCL has it since rocm-systems #3757: hwLatencies by link
# (0 inside a node), bwRatio by nodes (0 up to two).
_INSIDE: Final = 0
_MARK: Final = (
    "EXPERIMENT: constants for the library's own model, not rules; off unless somebody applies "
    "them. For communicators on one node alone. They change every choice that no rule makes, at "
    "sizes and collectives that were not measured too"
)


def render_constants(provenance: Iterable[str], changes: Sequence[CellChange]) -> str:
    """The file's text: a row for each field, with +µs to add or *ratio to multiply by."""
    lines = ["#@ format 1", "#@ constants experiment"]
    lines += [line for text in (_MARK, *provenance) for line in comment(text)]
    lines.append("# columns: field,index,algorithm,protocol,change")
    for one in changes:
        lines += _rows(one)
    return "\n".join(lines) + "\n"


def _rows(one: CellChange) -> Iterator[str]:
    cell = f"{_INSIDE},{one.algorithm.value},{one.protocol.value}"
    yield from comment(
        f"{one.n_sizes} sizes: the model was {100 * one.error_before:.0f} % off in the median, and "
        f"is {100 * one.error_after:.0f} % with this"
    )
    yield f"hwLatencies,{cell},{one.latency_us:+.6g}"
    yield f"bwRatio,{cell},*{one.ratio:.6g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantsDone:
    """What was fitted and written.

    Attributes:
        path: None where the text goes to stdout.
        foreseen: what the library would choose, at every size where that was measured.
    """

    path: Path | None
    text: str
    changes: tuple[CellChange, ...]
    foreseen: tuple[Foreseen, ...]

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "path": str(self.path) if self.path else None,
            "text": self.text,
            "constants": model.to_plain(self.changes),
            "foreseen": model.to_plain(self.foreseen),
        }


def emit_constants(
    folders: Sequence[Path],
    *,
    output: Path | None,
    overwrite: bool,
    min_gain: float,
    tolerance: float,
    reporter: Reporter,
) -> ConstantsDone:
    """Fit constants, hold them against the measured times as rules are, and write them.

    Args:
        folders: sessions of one machine.
        output: None is the default name beside the rule file's, ``-`` stdout.
        overwrite: whether a file that was named and differs may be replaced.
        min_gain: what the library's choice must gain somewhere.
        tolerance: what it may lose anywhere.
        reporter: told what is worth telling.

    Raises:
        MachineError: no host of these sessions takes constants.
        TooLittleDataError: no launch shows the library's table, or too few sizes.
        VerificationError: with them the library would choose worse somewhere, or nothing better.
        CommandLineError: the file that was named is there and may not be overwritten.
    """
    fits = [fit_session(folder, reporter=reporter) for folder in folders]
    fingerprint = one_machine([done.session for done in fits])
    libraries = _taking(fits)
    grounds = [ground for done in fits for ground in _grounds(done)]
    changes = fit.fit_constants(grounds)
    if not changes:
        raise TooLittleDataError(
            "there is nothing to fit constants to: no library's own table beside measured times, "
            "or none that other constants would bring nearer to them",
            where=", ".join(str(folder) for folder in folders),
            hint="sweep one node from 1K on, with all_reduce, all_gather or reduce_scatter.",
        )
    foreseen = fit.foresee(grounds, changes)
    _stop_where_worse(foreseen, min_gain, tolerance)
    simulated = any(done.session.simulated for done in fits)
    text = render_constants(
        (
            *((SIMULATED,) * simulated),
            f"for {machine_words(fingerprint)}, {', '.join(libraries)}",
            *(f"samples: sha256 {done.samples_sha256}" for done in fits),
            _said(foreseen),
        ),
        changes,
    )
    path = output or (folders[0] / file_name(fingerprint)).with_suffix(".constants")
    to_stdout = str(path) == "-"
    if not to_stdout:
        write_all([(path, text)], overwrite=overwrite or output is None, reporter=reporter)
    return ConstantsDone(
        path=None if to_stdout else path, text=text, changes=changes, foreseen=foreseen
    )


def _taking(fits: Sequence[FitDone]) -> list[str]:
    """The libraries of the sessions, all of which take constants when a tuner starts."""
    found: dict[str, None] = {}
    for done in fits:
        for _, outcome in session.read_made(done.session):
            name = library_named(outcome.library_version, done.session.fingerprint.arch_or_vendor)
            found[name or "an unknown library"] = None
    refusing = [name for name in found if not _takes(name)]
    if refusing or not found:
        raise MachineError(
            f"{', '.join(refusing) or 'an unknown library'} takes no hwLatencies and bwRatio from "
            "a tuner",
            hint=f"{TAKING_CONSTANTS} and later do; for others write rules (--format rccl).",
        )
    return list(found)


def _takes(name: str) -> bool:
    release = release_of(name)
    return release is not None and release.takes_constants


def _grounds(done: FitDone) -> list[Ground]:
    return [
        (one.target, one.beliefs, comparable(done.curves, one.target, one.view))
        for one in check_beliefs(done.beliefs, done.curves)
        if one.target.scale.n_nodes == 1
    ]


def _stop_where_worse(foreseen: Sequence[Foreseen], min_gain: float, tolerance: float) -> None:
    worse = [one for one in foreseen if one.gain < -tolerance / (1 + tolerance)]
    if worse:
        listed = ", ".join(
            f"{one.target.collective.value} at {format_size(one.nbytes)} ({one.then} for "
            f"{one.now}, {100 * one.gain:.0f} %)"
            for one in worse[:5]
        )
        raise VerificationError(
            f"with these constants the library would choose worse at {len(worse)} of "
            f"{len(foreseen)} measured sizes: {listed}",
            hint="its model does not fit this machine: use rules, which hold size by size.",
        )
    if not any(one.gain > min_gain for one in foreseen):
        raise VerificationError(
            "with these constants the library would choose nothing better at any measured size",
            hint="nothing was written; its own choices stand, or rules are better ones.",
        )


def _said(foreseen: Sequence[Foreseen]) -> str:
    better = [one for one in foreseen if one.then != one.now]
    most = max((one.gain for one in better), default=0.0)
    least = min((one.gain for one in better), default=0.0)
    slower = "nowhere slower" if least >= 0 else f"down to {100 * least:.0f} %"
    return (
        f"foreseen, not measured: another choice at {len(better)} of {len(foreseen)} sizes, up to "
        f"{100 * most:.0f} % faster by the times that were measured, {slower}"
    )
