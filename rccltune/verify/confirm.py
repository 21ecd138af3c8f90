"""Verified rules held against the library by rccl-tests, a program of somebody else.

After a verification by the rank program rccl-tests call the same collectives, four launches with
the file and four without it in turns: from 1 MiB on in their loop, below by their ``-G``. A rule is
contradicted where its mean ratio lies below 0.98 with 99 % certainty, its spread pooled over sizes,
and again in one repeat. Nothing is chosen by it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from rccltune import plugin
from rccltune.analyse.paired_intervals import PairedRatios
from rccltune.measure import rccl_tests
from rccltune.measure.instrument import beside_plugin
from rccltune.measure.rccl_tests import BenchmarkCall, RcclTestsSetup
from rccltune.measure.site import Site, SiteRequest, find_site
from rccltune.model.errors import CommandLineError, MachineError, VerificationError
from rccltune.model.estimate import Estimate
from rccltune.model.reporter import Reporter
from rccltune.model.rounding import csv_text
from rccltune.model.units import format_span
from rccltune.session.files import write_atomically
from rccltune.session.store import NODE_FILE
from rccltune.verify.verdict_file import RuleVerdict, VerdictFile

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
    """Judgement of rccl-tests on the rules.

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
    """Find where rccl-tests run; None, with a sentence to the user, where there are none."""
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


def confirm(request: ConfirmationRequest) -> Confirmation | None:
    """Hold a verified file against the library; None where no rule is left.

    Raises:
        VerificationError: a rule is contradicted, twice.
        RccltuneError: as launches do.
    """
    import pandas as pd

    kept_rules = [one for one in request.verdict.standings if one.is_kept]
    if not kept_rules:
        return None
    shutil.rmtree(request.session / FOLDER, ignore_errors=True)
    first = last = _compare(request, 1, kept_rules)
    tables = [first.table]
    if first.contradicted:
        last = _compare(request, 2, [one for one, _ in first.contradicted])
        tables.append(last.table)
    path = request.session / TABLE
    write_atomically(path, csv_text(pd.concat(tables)))
    if last.contradicted:
        rules = "; ".join(_contradiction_words(*one) for one in last.contradicted[:_SHOWN])
        raise VerificationError(
            f"rccl-tests contradict the rules, twice: {rules}",
            where=str(path),
            hint="the table has their times; do not use these rules before it is understood, and "
            "tell us.",
        )
    return first


def _contradiction_words(rule: RuleVerdict, ratio: Estimate) -> str:
    span = format_span(rule.min_nbytes, rule.max_nbytes)
    return f"{rule.collective.value} {span} {rule.setting}: {ratio}, ours {rule.gain}"


def _compare(request: ConfirmationRequest, look: int, rules: Sequence[RuleVerdict]) -> Confirmation:
    """Launch both sides at the rules' sizes, and find what these launches contradict."""
    import pandas as pd

    folder = request.session / FOLDER / str(look)
    tables: list[pd.DataFrame] = []
    seconds, failed = 0.0, ""
    for call in _calls(rules):
        times, call_s, why = _launch_in_turns(request, folder, call)
        seconds += call_s
        failed = failed or why
        if times is not None:
            tables.append(times)
    names = ["collective", "timing", "placement", "nbytes", "launch", "library_us", "rules_us"]
    table = pd.concat(tables)[names] if tables else pd.DataFrame(columns=names)
    table.insert(0, "look", look)
    paired = [(rule, ratios) for rule in rules if (ratios := _pair(table, rule)) is not None]
    means = [
        (rule, mean.ratio(), _is_contradicted(ratios))
        for rule, ratios in paired
        if (mean := ratios.least(np.ones(len(ratios.nbytes), dtype=bool))) is not None
    ]
    return Confirmation(
        sentence=_sentence([(rule, ratio) for rule, ratio, _ in means], failed),
        contradicted=tuple(
            (rule, ratio) for rule, ratio, is_contradicted in means if is_contradicted
        ),
        table=table,
        seconds=seconds,
    )


def _calls(kept: Sequence[RuleVerdict]) -> Iterator[BenchmarkCall]:
    """Launches for the rules' sizes, in the loop from 1 MiB on and from graphs below."""
    for collective in dict.fromkeys(one.collective for one in kept):
        rules = [one for one in kept if one.collective is collective]
        low, high = min(one.min_nbytes for one in rules), max(one.max_nbytes for one in rules)
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


def _launch_in_turns(
    request: ConfirmationRequest, folder: Path, call: BenchmarkCall
) -> tuple[pd.DataFrame | None, float, str]:
    """Launches of one collective in one timing mode: their times, seconds, and what failed."""
    import pandas as pd

    site = request.site
    where = RcclTestsSetup(
        site=site, node=request.session / NODE_FILE if site.node is not None else None
    )
    variables = [
        ("NCCL_TUNER_PLUGIN", str(plugin.library())),
        ("NCCL_TUNER_CONFIG_FILE", str(request.rules.resolve())),
        *beside_plugin(site),
        *request.verdict.needs.items(),
    ]
    timing = "graph" if call.graph else "loop"
    rows, seconds = [], 0.0
    for number in range(_LAUNCHES):
        sides = {}
        for who in ("library", "rules") if number % 2 == 0 else ("rules", "library"):
            name = f"{call.collective.value}-{timing}-{who}-{number}"
            request.reporter.detail(f"rccl-tests: {name}")
            launch = rccl_tests.launch(
                where,
                rccl_tests.command(site, call),
                folder / name,
                rccl_tests.stated_of(site, call.collective),
                added=variables if who == "rules" else (),
                as_it_is=who == "library",
                timeout_s=_TIMEOUT_S,
            )
            seconds += launch.seconds
            if launch.table is None:
                return None, seconds, f"{name}: {launch.words}"
            by_size = launch.table.groupby(["placement", "nbytes"], observed=True)
            sides[who] = by_size["time_us"].median()
        both = pd.DataFrame({f"{who}_us": one for who, one in sides.items()}).reset_index()
        rows.append(both.assign(collective=call.collective.value, timing=timing, launch=number))
    return pd.concat(rows), seconds, ""


def _pair(table: pd.DataFrame, rule: RuleVerdict) -> PairedRatios | None:
    """Ratios of launches at a rule's sizes; None where none was called."""
    rows = table[
        (table["collective"] == rule.collective.value)
        & table["nbytes"].between(rule.min_nbytes, rule.max_nbytes)
        & (table["library_us"] > 0)
        & (table["rules_us"] > 0)
    ]
    if rows.empty:
        return None
    gains = np.log(rows["library_us"] / rows["rules_us"])
    return PairedRatios.of(rows.rename(columns={"launch": "replicate"}).assign(gain=gains))


def _is_contradicted(ratios: PairedRatios) -> bool:
    """Whether a rule is slower than 0.98, its spread pooled over sizes."""
    mean = ratios.pooled()
    return mean is not None and mean.log < _CONTRADICTS and mean.high(_LEVEL) < _CONTRADICTS


def _sentence(ratios: Sequence[tuple[RuleVerdict, Estimate]], failed: str) -> str:
    """Sentence about rules with their ratios."""
    if not ratios:
        why = failed or "they call no size of the rules"
        return f"Not confirmed with rccl-tests: {why}"
    rules = ", ".join(
        f"{one.collective.value} {format_span(one.min_nbytes, one.max_nbytes)} {ratio.value:.2f}x"
        for one, ratio in ratios[:_SHOWN]
    )
    more = len(ratios) - _SHOWN
    return f"Confirmed with rccl-tests: {rules}" + (f" and {more} more" if more > 0 else "")
