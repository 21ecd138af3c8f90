"""What a user asks of ``rccltune compare``: two sides, sizes, and how often; nothing is looked for.

This is read before anything is detected, and so imports little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rccltune.compare.sides import WORDS, Side, parse_side
from rccltune.measure.request import Request, merge_request
from rccltune.measure.sweep_schema import PERF
from rccltune.model.errors import CommandLineError
from rccltune.rules.refusals import content_of
from rccltune.variants.catalog import Catalog, load_catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest:
    """A question of a user.

    Attributes:
        sweep_request: where it runs, sizes, type and operation, as of a sweep.
        margin: share by which equal sides may differ.
        n_starts: of either side.
    """

    folder: Path
    a: Side
    b: Side
    sweep_request: Request
    margin: float
    n_starts: int
    force: bool = False


def read_catalog(path: Path | None) -> Catalog:
    """The catalog, with a user's own file of named sides behind it.

    Raises:
        InputFileError: the file cannot be read, or has mistakes.
    """
    if path is None:
        return load_catalog()
    content = content_of(path, "the file of sides")
    return load_catalog(content.decode("utf-8", errors="replace"), str(path))


def request_of(
    words: tuple[str, str],
    options: Mapping[str, Any],
    *,
    known: Catalog,
    folder: Path,
    margin: float,
    n_starts: int,
    force: bool,
) -> ComparisonRequest:
    """Read what a user asks from the words of both sides and options of a sweep.

    Raises:
        CommandLineError: a word that is no side, or options that do not fit together.
        InputFileError: the plugin refuses a rule file.
    """
    sweep_request = merge_request(None, options, runner=PERF)
    settings = sweep_request.sweep.settings
    if len(settings) > 1:
        raise CommandLineError("both sides are forced to one --setting")
    a, b = (parse_side(one, known, *settings) for one in words)
    return ComparisonRequest(
        folder=folder,
        a=a,
        b=b,
        sweep_request=sweep_request,
        margin=margin,
        n_starts=n_starts,
        force=force,
    )


def are_sessions(a: str, b: str) -> bool:
    """Whether two sessions are to be compared, offline.

    Raises:
        CommandLineError: one of the two is a folder.
    """
    folders = [one not in ("", *WORDS) and Path(one).is_dir() for one in (a, b)]
    if any(folders) and not all(folders):
        raise CommandLineError(
            "one side is a folder and the other is none",
            hint="name two sessions, which are compared offline, or two sides to measure.",
        )
    return all(folders)
