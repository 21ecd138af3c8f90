"""What a killed rccltune left running."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rccltune import launch


def end_leftovers(folder: Path, note: Callable[[str], None]) -> None:
    """End it: it would disturb what is measured next, if not worse.

    Args:
        folder: in which launches are kept.
        note: told how many processes there were.

    Raises:
        LaunchError: a process cannot be killed (it hangs in the driver).
    """
    # Ended launches too: one may have left a process that could not be killed then.
    n_left = launch.end_leftovers(
        path.parent for path in folder.glob(f"launches/**/{launch.RUN_ID}")
    )
    if n_left:
        note(f"{n_left} processes of an interrupted launch were still there; they are gone now")
