"""What every reader must know of a page before reading it."""

from __future__ import annotations

from pathlib import Path

from rccltune.report.records import Mark
from rccltune.report.sections.found import Found
from rccltune.report.sections.words import count


def marks(found: Found) -> tuple[Mark, ...]:
    """What every reader must know first."""
    said: list[Mark] = []
    if found.simulated:
        said.append(
            Mark(
                word="SIMULATED",
                sentence="The times come from a stand-in benchmark with a node file. Nothing on "
                "this page was measured on hardware, and nothing of it shows what hardware does."
                f"{_library(found)}",
                loud=True,
            )
        )
    why = unproven(found)
    if why:
        said.append(Mark(word="NOT PROVEN", sentence=f"{why} Do not use its rules.", loud=True))
    scales = list(dict.fromkeys(scale for one in found.rules for scale in one.predicted))
    if scales:
        said.append(
            Mark(
                word="EXTRAPOLATED",
                sentence=f"The rules for {', '.join(map(str, scales))} are predictions; nobody "
                "measured there. The rules say so where they stand.",
                loud=True,
            )
        )
    if found.is_imported:
        whose = f" Published by: {'; '.join(found.origins)}." if found.origins else ""
        said.append(
            Mark(
                word="IMPORTED",
                sentence="The times were read from files; rccltune did not start the "
                f"benchmarks.{whose}",
                loud=False,
            )
        )
    if not found.simulated and not found.is_imported:
        said.append(
            Mark(word="MEASURED", sentence="rccltune started every launch itself.", loud=False)
        )
    return tuple(said)


def _library(found: Found) -> str:
    real = found.done.session.fingerprint.runner
    if real is None:
        return ""
    return f" What ran at which size is the decision of {real}; no result was checked."


def unproven(found: Found) -> str:
    """Why a verification that was begun proves nothing; empty where it does, or none was."""
    if found.refused:
        said = (f"{Path(one.path).name}: {one.message}." for one in found.refused)
        return f"The verification failed. {' '.join(said)}"
    if found.is_cut_short:
        return (
            f"A verification was begun ({count(len(found.trials), 'launch')}) and has no verdict: "
            "it was interrupted or it failed."
        )
    return ""
