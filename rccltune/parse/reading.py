"""What one file gave."""

from __future__ import annotations

from dataclasses import dataclass

from rccltune.model import Fingerprint, Notice, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All that was learnt from one file.

    Attributes:
        samples: every half-row, doubted ones included, in the file's order within each run.
        notices: what weakens them, each with its remedy.
        fingerprint: the machine as far as the file, the options and the assumptions tell it.
        tables: how many runs gave samples.
        form: what kind of file it was, in words.
        origin: whose measurement it is, where the file says so.
        benchmark: version line of the benchmark, as printed.
        library_version: of the collective library, as printed.
    """

    samples: tuple[Sample, ...]
    notices: tuple[Notice, ...]
    fingerprint: Fingerprint
    tables: int
    form: str
    origin: str | None = None
    benchmark: str | None = None
    library_version: str | None = None
