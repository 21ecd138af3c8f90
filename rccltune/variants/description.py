"""A variant as a launch is given it, and in words for lists and docs."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from rccltune.model import Variant, format_size
from rccltune.variants.availability import Site, scale_words, why_absent
from rccltune.variants.records import Acts, Calls, Parameter, VariantSpec


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


def sets(spec: VariantSpec) -> str:
    """``RCCL_MSCCL_ENABLE=0``, ``-G 2``, a library; nothing for the site as it is."""
    words = [f"{name}={value}" for name, value in spec.environment]
    words += [f"{letter} {value}" for letter, value in spec.options]
    words += [spec.library_file] if spec.library_file else []
    return " ".join(words) or "–"


def calls_of(spec: VariantSpec) -> str:
    """Which calls it concerns, with their sizes, and where: ``all_gather; 8 ranks on one node``."""
    if spec.not_tunable is not None:
        return "–"
    kinds = " or ".join(_kind(calls) for calls in spec.calls) or "every call"
    needs = [
        scale_words(spec.needs),
        ", ".join(spec.needs.arch),
        "captured graphs" if spec.needs.graph else None,
        {True: "registered buffers", False: "buffers not registered", None: None}[
            spec.needs.registered
        ],
    ]
    return "; ".join([kinds, *(word for word in needs if word)])


def _kind(calls: Calls) -> str:
    words = [", ".join(one.value for one in calls.collectives) or "every collective"]
    details = [", ".join(calls.dtypes), ", ".join(calls.redops), _sizes(calls)]
    if calls.multiple_of > 1:
        details.append(f"multiples of {calls.multiple_of} B")
    if calls.share_multiple_of > 1:
        details.append(f"a rank's share a multiple of {calls.share_multiple_of} B")
    if calls.maybe:
        details.append("not all of them")
    more = "; ".join(word for word in details if word)
    return f"{words[0]} ({more})" if more else words[0]


def _sizes(calls: Calls) -> str | None:
    low, high = calls.min_nbytes, calls.max_nbytes
    if high is None:
        return f"from {format_size(low)}" if low else None
    return f"{format_size(low)} to {format_size(high)}" if low else f"up to {format_size(high)}"


def releases_of(spec: VariantSpec) -> str:
    """``RCCL 2.21.5 to 2.26.6 (ROCm 6.3 to 7.0)``; ``any library`` if none is named."""
    return ", ".join(str(one) for one in spec.releases) or "any library"


def status(spec: VariantSpec, site: Site) -> str:
    """What a user must know before asking for it: why not here, or what it costs."""
    why = why_absent(spec, site)
    if why is not None:
        return why
    words = ["lossy: never chosen without --allow-lossy"] if spec.lossy else []
    words += ["goes past the tuner"] if spec.acts is Acts.PATH else []
    return "; ".join(words) or "measurable"
