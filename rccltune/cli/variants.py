"""``rccltune variants``: the catalog of what no tuner can switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rccltune.cli.console import Console, common
from rccltune.cli.help import verb
from rccltune.model.vocabulary import JoinedLines, join_lines

if TYPE_CHECKING:
    from rccltune.variants.availability import VariantSite
    from rccltune.variants.records import VariantSpec


@verb("variants")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@common
def variants(*, console: Console, names: tuple[str, ...]) -> None:
    """List variants: implementations and environments that no tuner can switch.

    Each says whether this machine's library has it, where one was found. With names, everything
    known of these, each source included. What each variant does is in docs/variants.md.

    \b
    Example:
      rccltune variants
      rccltune variants mscclpp channels-32

    Exit codes: 0 done, 2 no such variant.
    """
    from rccltune.variants.catalog import read_catalog

    catalog = read_catalog(None)
    site = _site()
    found = [catalog.look_up(name) for name in names] or [(spec, None) for spec in catalog.specs]
    told = [(spec, _with(site, parameter)) for spec, parameter in found]
    text = join_lines((_details(*one) for one in told), gap="\n\n") if names else _list(told)
    console.result([_plain(*one) for one in told], text)
    console.say("Next: rccltune sweep --variant NAME measures settings in one of them.")


def _site() -> VariantSite:
    """The library that detection finds first."""
    from rccltune.machine.this_machine import local_system
    from rccltune.releases import parse_library
    from rccltune.variants.availability import VariantSite

    versions = (one.version for one in local_system(None).libraries if one.version is not None)
    return VariantSite(library=next((one for one in versions if parse_library(one)), None))


def _with(site: VariantSite, parameter: str | None) -> VariantSite:
    from dataclasses import replace

    return replace(site, parameter=parameter)


def _list(told: list[tuple[VariantSpec, VariantSite]]) -> JoinedLines:
    """Three lines for each: what it sets, which calls it concerns, who has it and what of it."""
    from rccltune.variants.catalog import calls_of, releases_of, sets

    width = max(len(spec.title) for spec, _ in told) + 2
    lines = []
    for spec, site in told:
        lines.append(f"{spec.title:<{width}}{sets(spec)}")
        releases = f"{releases_of(spec)}: {_status(spec, site)}"
        lines += [f"{'':<{width}}{text}" for text in (calls_of(spec), releases) if text != "–"]
    return join_lines(lines)


def _status(spec: VariantSpec, site: VariantSite) -> str:
    from rccltune.variants.catalog import status

    return status(spec, site)


def _details(spec: VariantSpec, site: VariantSite) -> JoinedLines:
    from rccltune.variants.catalog import calls_of, releases_of, sets

    parts = [
        ("sets", sets(spec)),
        ("concerns", calls_of(spec)),
        ("releases", releases_of(spec)),
        ("threshold", _threshold(spec)),
        ("status", _status(spec, site)),
        ("source", spec.source),
        ("costs", spec.costs),
        ("unverified", spec.unverified),
    ]
    lines = [f"{spec.title}: {spec.summary}"]
    lines += [f"  {label + ':':<11} {text}" for label, text in parts if text]
    return join_lines(lines)


def _threshold(spec: VariantSpec) -> str | None:
    from rccltune.model.vocabulary import format_size

    if spec.threshold is None:
        return None
    most = "most" if spec.threshold.from_above else "least"
    default = spec.threshold.default_nbytes
    text = "unset" if default is None else format_size(default)
    return f"calls of at {most} {spec.threshold.variable} bytes; default {text}"


def _plain(spec: VariantSpec, site: VariantSite) -> dict[str, Any]:
    from rccltune.variants.availability import why_absent
    from rccltune.variants.catalog import calls_of

    threshold = spec.threshold
    return {
        "name": spec.name,
        "title": spec.title,
        "summary": spec.summary,
        "environment": dict(spec.environment),
        "options": dict(spec.options),
        "library": spec.library_file,
        "releases": [str(one) for one in spec.releases],
        "concerns": calls_of(spec),
        "acts": spec.acts.value,
        "threshold": threshold.variable if threshold else None,
        "threshold_default": threshold.default_nbytes if threshold else None,
        "lossy": spec.lossy,
        "runner": spec.runner,
        "why_absent": why_absent(spec, site),
        "source": spec.source,
        "costs": spec.costs,
        "unverified": spec.unverified,
        "own": spec.own,
    }
