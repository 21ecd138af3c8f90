"""Variants that a user names, as this site can have them."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

from rccltune import machine, session, variants
from rccltune.measure.request import Request
from rccltune.measure.site import Site
from rccltune.model import (
    DEFAULT_VARIANT,
    KNOWN_VARIANTS,
    LL128_FORCED,
    CommandLineError,
    MachineError,
    Sweep,
    Variant,
)
from rccltune.variants import Acts, Catalog, VariantSpec, Where

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
    catalog = variants.read_catalog(request.variants_file)
    found: dict[str, Variant] = {DEFAULT_VARIANT.name: DEFAULT_VARIANT}
    refused: list[str] = []
    where = variants.Where(max_nbytes=sweep.max_nbytes, n_ranks=site.scale.n_ranks)
    words = list(request.variants)
    for word in words:
        spec, parameter = catalog.find(word)
        why = variants.why_absent(spec, _seen(site, sweep, spec, parameter))
        if why is not None:
            refused.append(f"{word}: {why}")
            continue
        if spec.without is not None and spec.without not in words:
            # What a threshold is best depends on what runs beyond it.
            words.append(spec.without)
        one = _widened(catalog, variants.resolve(spec, parameter, where), where)
        if one.widens is not None and one.widens not in words:
            # Its settings stand beside those of the variant that it widens.
            words.append(one.widens)
        missing = _missing(site, one)
        if missing is not None:
            refused.append(f"{word}: {missing}")
            continue
        found.setdefault(one.name, _served(spec, _with_library(spec, one)))
    # Measured wherever a setting needs it, whether it is named or not.
    ll128 = catalog.look_up(LL128_FORCED.name)[0]
    if ll128.own and ll128.parameter is None and ll128.not_tunable is None:
        found.setdefault(ll128.name, variants.resolve(ll128, None, where))
    made = replace(sweep, variants=tuple(found.values()), named_variants=request.variants)
    return made, tuple(refused)


def more_channels(
    sweep: Sweep, site: Site, own: Collection[int], said: Collection[str]
) -> Variant | None:
    """The variant with more channels than the library takes by itself: the next power of two.

    NCCL takes 24 of them on an H100, where 32 are faster from 1 MiB on.

    Args:
        sweep: what is measured.
        site: where.
        own: channels of the baseline's communicators, as its log says.
        said: variables of the site.

    Returns:
        None where the user does not want it, or names channels himself, a variable of the site
        says how many there are, the library would not obey, or its log says nothing.
    """
    is_named = any(one.name.startswith("channels-") for one in sweep.variants)
    if sweep.no_environment or is_named or not own or not _CHANNELS.isdisjoint(said):
        return None
    word = f"channels-{1 << max(own).bit_length()}"
    spec, parameter = variants.read_catalog(None).find(word)
    if variants.why_absent(spec, _seen(site, sweep, spec, parameter)) is not None:
        return None
    where = variants.Where(max_nbytes=sweep.max_nbytes, n_ranks=site.scale.n_ranks)
    return variants.resolve(spec, parameter, where)


# Variables that say how many channels there are.
_CHANNELS: Final = frozenset(
    f"NCCL_{bound}_{what}" for bound in ("MIN", "MAX") for what in ("NCHANNELS", "CTAS")
)


def variant_named(word: str, own: Path | None) -> Variant:
    """The variant that somebody else measured in, with its variables as far as a name tells them.

    One that nobody knows has a name alone, and so has one whose variables depend on a sweep.

    Raises:
        InputFileError: mistakes in the user's file.
    """
    if word in KNOWN_VARIANTS and own is None:
        return KNOWN_VARIANTS[word]
    catalog = variants.read_catalog(own)
    try:
        spec, parameter = catalog.find(word)
    except CommandLineError:
        return KNOWN_VARIANTS.get(word) or Variant(name=word)
    if any("{max_bytes}" in value or "{ranks}" in value for _, value in spec.environment):
        return Variant(name=word)
    where = Where(max_nbytes=0, n_ranks=0)
    found = variants.resolve(spec, parameter, where)
    return _served(spec, _widened(catalog, found, where))


def _widened(catalog: Catalog, one: Variant, where: Where) -> Variant:
    """With the environment of the variant that it widens; the default one has none."""
    if one.widens in (None, DEFAULT_VARIANT.name):
        return one
    base = variants.resolve(*catalog.find(one.widens), where)
    both = {**dict(base.environment), **dict(one.environment)}
    return replace(
        base,
        name=one.name,
        widens=base.name,
        widened=base.environment,
        environment=tuple(sorted(both.items())),
    )


def _missing(site: Site, one: Variant) -> str | None:
    """What of a variant the PyTorch runner cannot do; rccl-tests say it themselves."""
    if not site.tells_steps:
        return None
    if one.one_process:
        return "it is one process for all GPUs, and PyTorch has one process for each"
    options = [letter for letter, _ in one.options if letter[1:] not in site.help_letters]
    return f"the PyTorch runner has no {options[0]}" if options else None


def _seen(site: Site, sweep: Sweep, spec: VariantSpec, parameter: str | None) -> variants.Site:
    options = dict(spec.options)
    return variants.Site(
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
    is_path = spec.acts is Acts.PATH
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
        library_sha256=session.sha256_of(library),
        library_version=machine.version_of(library),
    )
