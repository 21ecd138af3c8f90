"""From an entry of the catalog to what a launch is given."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from rccltune.model import Variant
from rccltune.variants.records import Parameter, VariantSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What the words in braces stand for.

    Attributes:
        max_nbytes: largest size of the sweep, so that a threshold lets all of it through.
        n_ranks: ranks of the communicator.
    """

    max_nbytes: int
    n_ranks: int


def resolve(spec: VariantSpec, parameter: str | None, where: Where) -> Variant:
    """The variant as measured and recorded.

    ``{ranks}`` in an option stays, since a launch fills it and tells threads by it. A threshold is
    never set above the largest size that the variant can take at all. Another library is the
    caller's to load (``spec.library_file``) and to record.
    """
    words = {"ranks": str(where.n_ranks), "max_bytes": str(_largest(spec, where.max_nbytes))}
    if spec.parameter is not None:
        words[spec.parameter.value] = parameter or ""
    bounded = spec.threshold is not None and spec.threshold.from_above
    return Variant(
        name=resolved_name(spec, parameter),
        environment=tuple((name, _filled(value, words)) for name, value in spec.environment),
        widens=spec.widens,
        without=spec.without,
        options=spec.options,
        threshold=spec.threshold.variable if spec.threshold and bounded else None,
        lossy=spec.lossy,
    )


def resolved_name(spec: VariantSpec, parameter: str | None) -> str:
    """``channels-32``; a directory's own name with a hash of its path, fit for a file's name."""
    if parameter is None or spec.parameter is None:
        return spec.name
    if spec.parameter is Parameter.CHANNELS:
        return f"{spec.name}-{parameter}"
    folder = re.sub(r"[^A-Za-z0-9.]+", "-", Path(parameter).name).strip("-.")
    digest = hashlib.sha256(parameter.encode("utf-8", "surrogateescape")).hexdigest()[:6]
    return "-".join(part for part in (spec.name, folder, digest) if part)


def _filled(value: str, words: dict[str, str]) -> str:
    return re.sub(r"\{([a-z_]+)\}", lambda match: words[match[1]], value)


def _largest(spec: VariantSpec, max_nbytes: int) -> int:
    bounds = [calls.max_nbytes for calls in spec.calls]
    known = [bound for bound in bounds if bound is not None]
    return min(max_nbytes, max(known)) if known and len(known) == len(bounds) else max_nbytes
