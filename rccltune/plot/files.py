"""Figures into files: all or none are drawn, nothing is overwritten unasked, bytes repeat."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from rccltune.errors import CommandLineError
from rccltune.vocab import FIGURE_FORMATS

_DPI: Final = 150


def check_formats(formats: Sequence[str]) -> None:
    """Raise CommandLineError for a format that is none of FIGURE_FORMATS."""
    unknown = [name for name in formats if name not in FIGURE_FORMATS]
    if unknown:
        raise CommandLineError(
            f"No figure can be drawn as {', '.join(unknown)}.",
            hint=f"Choose from {', '.join(FIGURE_FORMATS)}.",
        )


def check_free(paths: Iterable[Path]) -> None:
    """Raise CommandLineError naming every path that exists."""
    taken = [path for path in paths if path.exists()]
    if taken:
        raise CommandLineError(
            f"{len(taken)} of the figures exist already: {', '.join(p.name for p in taken)}.",
            where=str(taken[0].parent),
            hint="Give --force to overwrite them, or -o for another folder.",
        )


def encode(figure: Figure, kind: str, title: str, origin: str) -> bytes:
    """The figure's bytes: the same for the same figure, with its origin in the metadata."""
    buffer = BytesIO()
    # Twice as fast as the default level, and a tenth larger.
    extra: dict[str, Any] = {"pil_kwargs": {"compress_level": 3}} if kind == "png" else {}
    figure.savefig(buffer, format=kind, dpi=_DPI, metadata=_metadata(kind, title, origin), **extra)
    return buffer.getvalue()


def _metadata(kind: str, title: str, origin: str) -> dict[str, str | None]:
    """Title and origin under each format's own names, and no date."""
    match kind:
        case "png":
            return {"Title": title, "Description": origin}
        case "svg":
            return {"Title": title, "Description": origin, "Date": None}
        case _:
            return {"Title": title, "Subject": origin, "CreationDate": None}


def write(path: Path, content: bytes) -> None:
    """Write so that the path holds the old or the new content and never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files for their owner alone; figures are for everyone the umask allows.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
