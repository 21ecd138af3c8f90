"""What a sweep goes through: variants that the site can have, and the sizes of its calls."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from rccltune.machine import software
from rccltune.measure.request import Request
from rccltune.measure.site import Site
from rccltune.model.errors import CommandLineError, MachineError
from rccltune.model.measurement import Sweep
from rccltune.model.settings import DEFAULT_VARIANT, KNOWN_VARIANTS, LL128_FORCED, Scale, Variant
from rccltune.model.vocabulary import Collective, format_size, join_lines
from rccltune.perf.plan import grain
from rccltune.session import files
from rccltune.variants import availability
from rccltune.variants.catalog import Catalog, Substitutions, read_catalog, resolve
from rccltune.variants.catalog import Substitutions as variants_Where
from rccltune.variants.records import DecidedBy, VariantSpec
from rccltune.workload.reader import read_workload
from rccltune.workload.records import Workload
from rccltune.workload.shares import SizesToMeasure, UnmeasuredCalls, sizes_to_measure

# More sizes than any job has that was written by hand; a job with ragged messages has thousands.
MOST_SIZES: Final = 64
# A size as good as one that cannot be called, as a fraction away from it.
NEAR: Final = 0.02
_SHOWN: Final = 4


def nearest(collective: Collective, n_ranks: int, nbytes: int) -> int | None:
    """The nearest size that can be called with; None where none is near."""
    unit = grain(collective, n_ranks)
    found = max(1, round(nbytes / unit)) * unit
    return found if abs(found - nbytes) <= NEAR * nbytes else None


def with_sizes(
    sweep: Sweep, path: Path, scale: Scale, *, named_collectives: bool
) -> tuple[Sweep, tuple[str, ...]]:
    """The sweep over a workload's sizes alone.

    Args:
        sweep: its collectives count where the user named them.
        path: of the workload.
        scale: of the site; calls of other communicators are not looked at.
        named_collectives: the user named them.

    Returns:
        The sweep, and what of the workload it leaves out, in words.

    Raises:
        CommandLineError: no call of this scale, or of these collectives, that can be measured.
    """
    whole = read_workload(path)
    found = sizes_to_measure(
        whole,
        scale,
        MOST_SIZES,
        lambda collective, nbytes: nearest(collective, scale.n_ranks, nbytes),
    )
    kept = [one for one in found if not named_collectives or one.collective in sweep.collectives]
    said = (*whole.cuts, *_left_out(whole, scale, found, kept))
    wanted = tuple((one.collective, one.sizes) for one in kept if one.sizes)
    if not wanted:
        others = ", ".join(str(one) for one in whole.scales) or "none"
        none = f"the workload has no call of these collectives at {scale} that can be measured"
        raise CommandLineError(
            join_lines([none, *(f"  {line}" for line in said)]),
            where=str(path),
            hint=f"its communicators are of {others}; choose one with --np.",
        )
    every = [nbytes for _, sizes in wanted for nbytes in sizes]
    made = replace(
        sweep,
        collectives=tuple(collective for collective, _ in wanted),
        wanted=wanted,
        min_nbytes=min(every),
        max_nbytes=max(every),
        factor=2,
        step_nbytes=None,
    )
    return made, said


def _left_out(
    whole: Workload, scale: Scale, found: tuple[SizesToMeasure, ...], kept: list[SizesToMeasure]
) -> Iterator[str]:
    """One line of what is not measured and how much that is, one of what is elsewhere."""
    parts = [(str(one), _at(whole, one)) for one in whole.scales if one != scale]
    for one in found:
        name, beyond = one.collective.value, one.beyond
        if one not in kept:
            parts.append((f"{name}, which was not asked for", _of(whole, scale, one.collective)))
            continue
        step = format_size(grain(one.collective, scale.n_ranks))
        why = f"{name} at {_listed(one.uncallable)}, near which the benchmark has no size (it has "
        parts.append((f"{why}multiples of {step})", one.uncallable))
        many = f"the {len(beyond.sizes)} lightest sizes of {name}, beyond {MOST_SIZES}"
        parts.append((many, beyond))
    told = [f"{what}: {_share(part, whole)}" for what, part in parts if part.calls]
    if told:
        yield f"Left out of the workload: {'; '.join(told)}"
    n_moved = sum(len(one.moved) for one in kept)
    if n_moved:
        sizes = (
            "1 size of the workload is" if n_moved == 1 else f"{n_moved} sizes of the workload are"
        )
        yield (
            f"{sizes} measured at the nearest that the benchmark can call with, at most "
            f"{100 * NEAR:.0f} % away"
        )


def _at(whole: Workload, scale: Scale) -> UnmeasuredCalls:
    counts = [one for one in whole.counts if one.scale == scale]
    nbytes = sum(one.total_nbytes for one in counts)
    return UnmeasuredCalls(calls=sum(one.calls for one in counts), nbytes=nbytes)


def _of(whole: Workload, scale: Scale, collective: Collective) -> UnmeasuredCalls:
    return _at(
        replace(whole, counts=tuple(c for c in whole.counts if c.collective is collective)), scale
    )


def _share(part: UnmeasuredCalls, whole: Workload) -> str:
    calls = 100 * part.calls / whole.calls
    nbytes = 100 * part.nbytes / (whole.total_nbytes or 1)
    return f"{calls:.1f} % of the calls, {nbytes:.1f} % of the bytes"


def _listed(part: UnmeasuredCalls) -> str:
    sizes = ", ".join(format_size(nbytes) for nbytes in part.sizes[:_SHOWN])
    more = len(part.sizes) - _SHOWN
    return sizes + (f" and {more} sizes more" if more > 0 else "")


_GRAPH = "-G"
_REGISTERED = "-R"


def with_variants(request: Request, site: Site) -> tuple[Sweep, tuple[str, ...]]:
    """The sweep with its variants, and why others that were named are not measured here.

    Raises:
        CommandLineError: a name that nobody knows, or a parameter that is missing.
        InputFileError: mistakes in the user's file, all at once.
        MachineError: a variant's library is not there.
    """
    sweep = request.sweep
    catalog = read_catalog(request.variants_file)
    found: dict[str, Variant] = {DEFAULT_VARIANT.name: DEFAULT_VARIANT}
    refused: list[str] = []
    where = variants_Where(max_nbytes=sweep.max_nbytes, n_ranks=site.scale.n_ranks)
    words = list(request.variants)
    for word in words:
        spec, parameter = catalog.find(word)
        why = availability.why_absent(spec, _seen(site, sweep, spec, parameter))
        if why is not None:
            refused.append(f"{word}: {why}")
            continue
        if spec.without is not None and spec.without not in words:
            # What a threshold is best depends on what runs beyond it.
            words.append(spec.without)
        one = _widened(catalog, resolve(spec, parameter, where), where)
        if one.widens is not None and one.widens not in words:
            # Its settings stand beside those of the variant that it widens.
            words.append(one.widens)
        found.setdefault(one.name, _served(spec, _with_library(spec, one)))
    # Measured wherever a setting needs it, whether it is named or not.
    ll128 = catalog.look_up(LL128_FORCED.name)[0]
    if ll128.own and ll128.parameter is None and ll128.not_tunable is None:
        found.setdefault(ll128.name, resolve(ll128, None, where))
    made = replace(sweep, variants=tuple(found.values()), named_variants=request.variants)
    return made, tuple(refused)


def variant_named(word: str) -> Variant:
    """The variant that somebody else measured in, with its variables as far as a name tells them.

    One that nobody knows has a name alone, and so has one whose variables depend on a sweep.
    """
    if word in KNOWN_VARIANTS:
        return KNOWN_VARIANTS[word]
    catalog = read_catalog(None)
    try:
        spec, parameter = catalog.find(word)
    except CommandLineError:
        return Variant(name=word)
    if any("{max_bytes}" in value or "{ranks}" in value for _, value in spec.environment):
        return Variant(name=word)
    where = Substitutions(max_nbytes=0, n_ranks=0)
    found = resolve(spec, parameter, where)
    return _served(spec, _widened(catalog, found, where))


def _widened(catalog: Catalog, one: Variant, where: Substitutions) -> Variant:
    """With the environment of the variant that it widens; the default one has none."""
    if one.widens in (None, DEFAULT_VARIANT.name):
        return one
    base = resolve(*catalog.find(one.widens), where)
    both = {**dict(base.environment), **dict(one.environment)}
    return replace(
        base,
        name=one.name,
        widens=base.name,
        widened=base.environment,
        environment=tuple(sorted(both.items())),
    )


def _seen(
    site: Site, sweep: Sweep, spec: VariantSpec, parameter: str | None
) -> availability.VariantSite:
    options = dict(spec.options)
    return availability.VariantSite(
        library=site.library,
        is_rcclx=site.is_rcclx,
        arch=site.fingerprint.arch,
        cu_count=site.fingerprint.cu_count,
        n_nodes=site.scale.n_nodes,
        n_ranks=site.scale.n_ranks,
        collectives=sweep.collectives,
        dtype=sweep.dtypes[0],
        redop=sweep.redop,
        graph=bool(sweep.graph) or options.get(_GRAPH, "0") != "0",
        registered=options.get(_REGISTERED, "0") != "0",
        parameter=parameter,
    )


def _served(spec: VariantSpec, made: Variant) -> Variant:
    """With the calls that it concerns, as far as the catalog knows them."""
    named = all(calls.collectives for calls in spec.calls)
    served = dict.fromkeys(c for calls in spec.calls for c in calls.collectives)
    bounds = [calls.max_nbytes for calls in spec.calls]
    known = [bound for bound in bounds if bound is not None]
    is_path = spec.acts is DecidedBy.PATH
    is_bounded = is_path and bool(known) and len(known) == len(bounds)
    return replace(
        made,
        path=is_path,
        serves=tuple(served) if named else (),
        up_to=max(known) if is_bounded else None,
    )


def _with_library(spec: VariantSpec, made: Variant) -> Variant:
    """With what makes the benchmark load the variant's own library, and what that is.

    Raises:
        MachineError: it is not there.
    """
    if spec.library_file is None:
        return made
    library = Path(spec.library_file)
    if not library.is_file():
        raise MachineError(
            f"the library of variant '{made.name}' is not there",
            where=str(library),
            hint="correct its path in the file of variants.",
        )
    folders = (str(library.resolve().parent), os.environ.get("LD_LIBRARY_PATH"))
    loads = ("LD_LIBRARY_PATH", os.pathsep.join(filter(None, folders)))
    return replace(
        made,
        environment=tuple(sorted((*made.environment, loads))),
        library_sha256=files.sha256_of(library),
        library_version=software.version_of(library),
    )
