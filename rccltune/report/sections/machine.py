"""What was measured on: each value with the file that it is known from."""

from __future__ import annotations

from collections.abc import Iterable

from rccltune.ceiling.session import Bounded
from rccltune.model.chosen import Environment
from rccltune.model.links import Ceiling
from rccltune.model.vocabulary import format_size
from rccltune.report.records import Block, Column, Fact, Facts, Items, Part, Section, Table
from rccltune.report.sections.found import Found, count, days, libraries

_HEADER = "session.json"
_OUTCOMES = "launches/*/outcome.json"
_MOST = 24
# Without a word of it ranks were bound by nobody, and rccl-tests measured.
_ONLY_WHERE_KNOWN = ("binding", "measured through", "devices, by the benchmark")


def machine_section(found: Found) -> Section:
    """Machine, software, what ran where, and the links where their rates are known."""
    blocks: list[Block] = [Facts(caption="Machine and software", facts=tuple(_facts(found)))]
    if found.environments:
        blocks.append(_environments(found.environments))
    parts = [Part(title="", blocks=tuple(blocks))]
    if found.limits is not None:
        parts.append(Part(title="How fast its links are", blocks=tuple(_links(found.limits))))
    return Section(name="machine", title="Machine", parts=tuple(parts))


def _facts(found: Found) -> Iterable[Fact]:
    fingerprint = found.done.session.fingerprint
    mode = fingerprint.mode
    known: list[tuple[str, object, str]] = [
        ("product", fingerprint.product, _HEADER),
        ("architecture", fingerprint.arch, _HEADER),
        ("compute units of a device", fingerprint.cu_count, _HEADER),
        ("mode", str(mode) if mode else None, _HEADER),
        ("hosts", _some(fingerprint.hosts), _HEADER),
        ("devices", _some(fingerprint.devices), _HEADER),
        ("devices, by the benchmark", found.devices, "launches/*/stdout.log"),
        ("ranks of a process", fingerprint.ranks_per_process, _HEADER),
        ("binding", fingerprint.binding, _HEADER),
        ("measured through", fingerprint.runner, _HEADER),
        ("benchmark, SHA-256", fingerprint.benchmark_sha256, _HEADER),
        ("library", libraries(found.launches), _OUTCOMES),
        ("scales", _scales(found), "fit.json"),
        ("environments", _variants(found), "fit.json"),
        ("measured as", _views(found), "fit.json"),
        (
            "files written" if found.is_imported else "measured",
            days([outcome for _, outcome in found.launches]),
            _OUTCOMES,
        ),
    ]
    if found.place is not None:
        known.append(("placement of ranks", found.place.name, "placement.json"))
    for name, value, source in known:
        if value is None and name in _ONLY_WHERE_KNOWN:
            continue
        yield Fact(name=name, value=str(value) if value else "not recorded", source=source)


def _some(names: tuple[str, ...]) -> str:
    """The first of many."""
    shown = ", ".join(names[:_MOST])
    more = len(names) - _MOST
    return f"{shown}, and {more} more" if more > 0 else shown


def _scales(found: Found) -> str:
    return ", ".join(sorted({str(curve.key.scale) for curve in found.done.curves}))


def _variants(found: Found) -> str:
    return _some(tuple(sorted({curve.key.variant.name for curve in found.done.curves})))


def _views(found: Found) -> str:
    return _some(tuple(sorted({str(curve.key.view) for curve in found.done.curves})))


def _environments(environments: Iterable[Environment]) -> Table:
    return Table(
        caption="Variants measured beside the site",
        columns=(Column(name="variant"), Column(name="what is exported")),
        rows=tuple(
            (
                one.variant.name,
                " ".join(f"{name}={value}" for name, value in one.variant.environment) or "–",
            )
            for one in environments
        ),
        source="From fit.json; the figures show what each gains.",
    )


def _links(limits: Bounded) -> Iterable[Block]:
    rates = limits.rates
    yield Table(
        caption="What the slowest link lets each collective reach",
        columns=(
            Column(name="collective"),
            Column(name="ranks"),
            Column(name="ceiling, GB/s", numeric=True),
            Column(name="slowest link"),
            Column(name="best measured, GB/s", numeric=True),
            Column(name="at", numeric=True),
            Column(name="with"),
            Column(name="of the ceiling", numeric=True),
        ),
        rows=tuple(
            (
                one.ceiling.collective.value,
                str(one.ceiling.scale),
                f"{one.ceiling.gb_per_s:.1f}",
                _slowest(one.ceiling),
                f"{one.gb_per_s:.1f}",
                format_size(one.nbytes),
                str(one.setting),
                f"{one.fraction:.2f}",
            )
            for one in limits.reached
        ),
        source=f"Rates of links from {rates.source or 'TransferBench'} (SHA-256 {rates.sha256}), "
        f"{count(len(rates.links), 'link')}, median {limits.middle:.3f} GB/s; bus bandwidth from "
        "fit.json.",
    )
    said = [f"No ceiling for {sentence}." for sentence in limits.without[:_MOST]]
    said += [
        f"Out of line: {link}, {link.gb_per_s:.2f} GB/s, "
        f"{100 * (1 - link.gb_per_s / limits.middle):.0f} % below the median."
        for link in limits.slow[:_MOST]
    ]
    if said:
        yield Items(items=tuple(said))


def _slowest(ceiling: Ceiling) -> str:
    return f"{ceiling.n_links} × {ceiling.slowest.gb_per_s:.3f}, {ceiling.slowest}"
