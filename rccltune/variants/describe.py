"""A variant in words: for the list on the screen and for the table of ``docs/variants.md``."""

from __future__ import annotations

from rccltune.units import format_size
from rccltune.variants.availability import Site, scale_words, why_absent
from rccltune.variants.catalog import Catalog
from rccltune.variants.records import Acts, Calls, VariantSpec


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


def table(catalog: Catalog) -> str:
    """The catalog as the Markdown table of ``docs/variants.md``."""
    heads = ("variant", "sets", "calls that it concerns", "releases", "who decides")
    lines = [f"| {' | '.join(heads)} |", "|---|---|---|---|---|"]
    for spec in catalog.specs:
        who = "a path" if spec.acts is Acts.PATH else "the tuner"
        who = "not tunable" if spec.not_tunable else who + (", lossy" if spec.lossy else "")
        what = "–" if sets(spec) == "–" else f"`{sets(spec)}`"
        cells = (f"`{spec.title}`", what, calls_of(spec), releases_of(spec), who)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
