"""Verified rules held against the library by rccl-tests, a program of somebody else.

After a verification by the rank program rccl-tests call the same collectives, four launches with
the file and four without it in turns: from 1 MiB on in their loop, below by their ``-G``. A rule is
contradicted where its mean ratio lies below 0.98 with 99 % certainty, its spread pooled over sizes,
and again in one repeat. Nothing is chosen by it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from rccltune import plugin
from rccltune.analyse.paired import PairedRatios
from rccltune.measure import rccl_tests
from rccltune.measure.rccl_tests import BenchmarkCall, RcclTestsSetup
from rccltune.measure.site import Site, SiteRequest, find_site
from rccltune.model.errors import CommandLineError, MachineError, VerificationError
from rccltune.model.estimate import Estimate
from rccltune.model.reporter import Reporter
from rccltune.model.rounding import csv_text
from rccltune.model.units import format_span
from rccltune.session.files import write_atomically
from rccltune.session.store import NODE_FILE
from rccltune.verify.rule_sides import variables_for
from rccltune.verify.verdict import RuleVerdict, VerdictFile

if TYPE_CHECKING:
    import pandas as pd

FOLDER: Final = "confirm"
TABLE: Final = "confirm.csv"
# From it on launches one by one tell as much as graphs do.
_LOOP_FROM: Final = 1 << 20
# A rule is contradicted below this ratio, with this chance of a mistake.
_CONTRADICTS: Final = log(0.98)
_LEVEL: Final = 0.98
_LAUNCHES: Final = 4
_TIMEOUT_S: Final = 180.0
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """What rccl-tests say of the rules.

    Attributes:
        contradicted: rules that look slower, each with its ratio.
        table: look (1, or 2 of the repeat), collective, timing, placement, nbytes, launch,
            library_us, rules_us.
    """

    sentence: str
    contradicted: tuple[tuple[RuleVerdict, Estimate], ...]
    table: pd.DataFrame
    seconds: float


def find(request: SiteRequest, reporter: Reporter) -> Site | None:
    """Where rccl-tests run; None, and said why, where there are none."""
    try:
        return find_site(request)
    except (MachineError, CommandLineError) as error:
        reporter.detail(f"not confirmed with rccl-tests: {error.message}")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationRequest:
    """A verified file, and where rccl-tests hold it against the library.

    Attributes:
        site: as :func:`find` found it.
        verdict: of the file.
        rules: the file.
        session: in which launches are kept.
        reporter: told what is launched.
    """

    site: Site
    verdict: VerdictFile
    rules: Path
    session: Path
    reporter: Reporter


def confirm(asked: ConfirmationRequest) -> Confirmation | None:
    """Hold a verified file against the library; None where no rule is left.

    Raises:
        VerificationError: a rule is contradicted, twice.
        RccltuneError: as launches do.
    """
    import pandas as pd

    kept = [one for one in asked.verdict.standings if one.is_kept]
    if not kept:
        return None
    shutil.rmtree(asked.session / FOLDER, ignore_errors=True)
    first = last = _looked(asked, 1, kept)
    tables = [first.table]
    if first.contradicted:
        last = _looked(asked, 2, [one for one, _ in first.contradicted])
        tables.append(last.table)
    path = asked.session / TABLE
    write_atomically(path, csv_text(pd.concat(tables)))
    contradicted = last.contradicted
    if contradicted:
        said = "; ".join(_said(*one) for one in contradicted[:_SHOWN])
        raise VerificationError(
            f"rccl-tests contradict the rules, twice: {said}",
            where=str(path),
            hint="the table has their times; do not use these rules before it is understood, and "
            "tell us.",
        )
    return first


def _said(rule: RuleVerdict, ratio: Estimate) -> str:
    span = format_span(rule.min_nbytes, rule.max_nbytes)
    return f"{rule.collective.value} {span} {rule.setting}: {ratio}, ours {rule.gain}"


def _looked(asked: ConfirmationRequest, look: int, kept: Sequence[RuleVerdict]) -> Confirmation:
    import pandas as pd

    folder = asked.session / FOLDER / str(look)
    tables: list[pd.DataFrame] = []
    seconds, failed = 0.0, ""
    for call in _calls(kept):
        table, took_s, why = _turns(asked, folder, call)
        seconds += took_s
        failed = failed or why
        if table is not None:
            tables.append(table)
    names = ["collective", "timing", "placement", "nbytes", "launch", "library_us", "rules_us"]
    table = pd.concat(tables)[names] if tables else pd.DataFrame(columns=names)
    table.insert(0, "look", look)
    found = {one.line: ratio for one in kept if (ratio := _ratio(table, one)) is not None}
    contradicted = tuple(
        (one, found[one.line]) for one in kept if one.line in found and _is_contradicted(table, one)
    )
    return Confirmation(
        sentence=_sentence(kept, found, failed),
        contradicted=contradicted,
        table=table,
        seconds=seconds,
    )


def _calls(kept: Sequence[RuleVerdict]) -> Iterator[BenchmarkCall]:
    """What to launch: the rules' sizes, in the loop from 1 MiB on and from graphs below."""
    for collective in dict.fromkeys(one.collective for one in kept):
        own = [one for one in kept if one.collective is collective]
        low, high = min(one.min_nbytes for one in own), max(one.max_nbytes for one in own)
        for graph, first, last in (
            (True, low, min(high, _LOOP_FROM - 1)),
            (False, max(low, _LOOP_FROM), high),
        ):
            if _power(first) <= last:
                yield BenchmarkCall(
                    collective=collective,
                    min_nbytes=_power(first),
                    max_nbytes=last,
                    graph=graph,
                )


def _power(nbytes: int) -> int:
    """The power of two at or above a size, which is where benchmarks begin."""
    return 1 << max(0, (nbytes - 1).bit_length())


def _turns(
    asked: ConfirmationRequest, folder: Path, call: BenchmarkCall
) -> tuple[pd.DataFrame | None, float, str]:
    """Launches of one collective in one timing mode: their times, seconds, and what failed."""
    import pandas as pd

    site = asked.site
    where = RcclTestsSetup(
        site=site, node=asked.session / NODE_FILE if site.node is not None else None
    )
    told = [
        ("NCCL_TUNER_PLUGIN", str(plugin.library())),
        *variables_for(site, asked.rules.resolve()),
        *asked.verdict.needs.items(),
    ]
    timing = "graph" if call.graph else "loop"
    rows, seconds = [], 0.0
    for number in range(_LAUNCHES):
        sides = {}
        for who in ("library", "rules") if number % 2 == 0 else ("rules", "library"):
            name = f"{call.collective.value}-{timing}-{who}-{number}"
            asked.reporter.detail(f"rccl-tests: {name}")
            made = rccl_tests.launch(
                where,
                rccl_tests.command(site, call),
                folder / name,
                rccl_tests.stated_of(site, call.collective),
                added=told if who == "rules" else (),
                as_it_is=who == "library",
                timeout_s=_TIMEOUT_S,
            )
            seconds += made.seconds
            if made.table is None:
                return None, seconds, f"{name}: {made.words}"
            sides[who] = made.table.groupby(["placement", "nbytes"], observed=True)[
                "time_us"
            ].median()
        both = pd.DataFrame({f"{who}_us": one for who, one in sides.items()}).reset_index()
        rows.append(both.assign(collective=call.collective.value, timing=timing, launch=number))
    return pd.concat(rows), seconds, ""


def _paired(table: pd.DataFrame, rule: RuleVerdict) -> PairedRatios | None:
    own = table[
        (table["collective"] == rule.collective.value)
        & table["nbytes"].between(rule.min_nbytes, rule.max_nbytes)
        & (table["library_us"] > 0)
        & (table["rules_us"] > 0)
    ]
    if own.empty:
        return None
    gains = np.log(own["library_us"] / own["rules_us"])
    return PairedRatios.of(own.rename(columns={"launch": "replicate"}).assign(gain=gains))


def _ratio(table: pd.DataFrame, rule: RuleVerdict) -> Estimate | None:
    """The rule's mean ratio over both placements' sizes, of the worse placement."""
    paired = _paired(table, rule)
    found = paired.over(np.ones(len(paired.nbytes), dtype=bool)) if paired else []
    return min(found, key=lambda one: one.log).ratio() if found else None


def _is_contradicted(table: pd.DataFrame, rule: RuleVerdict) -> bool:
    paired = _paired(table, rule)
    if paired is None:
        return False
    found = paired.pooled()
    return found is not None and found.log < _CONTRADICTS and found.high(_LEVEL) < _CONTRADICTS


def _sentence(
    kept: Sequence[RuleVerdict], found: Mapping[int | None, Estimate], failed: str
) -> str:
    if failed and not found:
        return f"Not confirmed with rccl-tests: {failed}"
    if not found:
        return "Not confirmed with rccl-tests: they call no size of the rules"
    listed = ", ".join(
        f"{one.collective.value} {format_span(one.min_nbytes, one.max_nbytes)} "
        f"{found[one.line].value:.2f}x"
        for one in kept[:_SHOWN]
        if one.line in found
    )
    more = len(found) - _SHOWN
    return f"Confirmed with rccl-tests: {listed}" + (f" and {more} more" if more > 0 else "")
