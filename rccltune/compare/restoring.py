"""``restore.csv``: rules that give a library what another one chose, where that is faster on it.

A rule reaches from one measured size to another, and as far as the next where both are faster:
between two measured sizes nobody knows where the old library changed its choice.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from rccltune.analyse.selectable import needs_ll128_forced
from rccltune.model.errors import VerificationError
from rccltune.model.estimate import Estimate
from rccltune.model.rule import RuleState
from rccltune.model.settings import LL128_FORCED, RankLocation, Setting, Target
from rccltune.model.units import MAX_NBYTES
from rccltune.model.version import __version__
from rccltune.model.vocabulary import Collective, RankPlacement
from rccltune.model.zone import NOT_MEASURED, Zone
from rccltune.releases import exact_release, name_library
from rccltune.rules import writer
from rccltune.rules.explanation import RuleQuestion, explain
from rccltune.rules.exports import render_exports, variables_for
from rccltune.rules.header import SIMULATED
from rccltune.rules.needs import is_harmless
from rccltune.rules.requirements import requirements_of
from rccltune.rules.rule_document import RuleDocument, rules_of
from rccltune.rules.writer import VERIFIED_MARK
from rccltune.session.files import write_atomically

if TYPE_CHECKING:
    from rccltune.compare.results import ComparisonResult
    from rccltune.compare.turns import MeasuredSide
    from rccltune.measure.passes import SweepScope

FILE: Final = "restore.csv"
EXPORTS: Final = "restore.env"
_NOT_RESTORED: Final = "the old choice is not proven to be faster"

# What the old library chose, and what the new one gains by it.
RestoredSize: TypeAlias = tuple[Setting, Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredRules:
    """Rules that were written, with what makes a job use them beside them."""

    path: Path
    n_rules: int

    def __str__(self) -> str:
        """Sentence about the file."""
        rules = f"{self.n_rules} rule{'s' * (self.n_rules != 1)}"
        return (
            f"{self.path} gives B what A chose where that is proven to be faster ({rules}); jobs "
            f"source {self.path.with_name(EXPORTS)}"
        )


def restore(
    result: ComparisonResult,
    b: MeasuredSide,
    sizes: Mapping[tuple[str, int], RestoredSize],
    scope: SweepScope,
) -> RestoredRules | None:
    """Write the rules into a comparison's folder; without any, take away those of before.

    Args:
        result: the comparison.
        b: the side that the rules are for.
        sizes: by collective and size in bytes, where the old choice is proven to be faster.
        scope: what was compared.

    Raises:
        SessionError: the disk refuses.
        VerificationError: the plugin answers something else than the file says; a bug of ours.
    """
    if result.folder is None:
        return None
    path, exports = result.folder / FILE, result.folder / EXPORTS
    if not sizes:
        for one in (path, exports):
            one.unlink(missing_ok=True)
        return None
    site = b.instrument.site
    placement = find_placement(site.seating.place)
    zones: list[Zone] = []
    for name, rows in result.table.groupby("collective", sort=False):
        target = Target(
            collective=Collective(name),
            scale=site.scale,
            rank_placement=site.seating.place.name,
        )
        chosen = {nbytes: one for (collective, nbytes), one in sizes.items() if collective == name}
        if chosen:
            zones += make_zones(target, sorted(map(int, rows["nbytes"])), chosen)
    largest = max(last for *_, last in scope.sizes.values())
    document = _document(result, b, tuple(zones), placement, largest)
    text = writer.render(document)
    use = variables_for(path, document, placement)
    write_atomically(path, text)
    write_atomically(exports, render_exports(document.provenance, document.needs, use))
    _ask(path, zones)
    return RestoredRules(path=path, n_rules=len(rules_of(zones)))


def find_placement(place: RankLocation) -> str | None:
    """The placement that rules are for alone; None where ranks can lie in no other."""
    if place.name == RankPlacement.NODE.value or set(place.equivalent) == {place.name}:
        return None
    return place.name


def make_zones(
    target: Target, measured: Sequence[int], chosen: Mapping[int, RestoredSize]
) -> Iterator[Zone]:
    """Every size in a zone: with the old choice, or left to the library.

    Args:
        target: collective, scale and placement.
        measured: sizes in bytes, rising.
        chosen: those at which the old choice is proven to be faster.
    """
    begin = 0
    runs = itertools.groupby(
        [(nbytes, chosen.get(nbytes)) for nbytes in measured],
        key=lambda one: None if one[1] is None else one[1][0],
    )
    groups = [(setting, list(cells)) for setting, cells in runs]
    following = [*groups[1:], (None, [])]
    for (setting, cells), (next_setting, next_cells) in zip(groups, following, strict=True):
        if setting is None:
            continue
        first, last = cells[0][0], cells[-1][0]
        if begin < first:
            yield from _left(target, begin, first - 1, measured)
        end = last if next_setting is None else next_cells[0][0] - 1
        gains = [one[1] for _, one in cells if one is not None]
        yield Zone(
            target=target,
            min_nbytes=first,
            max_nbytes=end,
            setting=setting,
            measured_from=first,
            measured_to=last,
            n_sizes=len(cells),
            gain=Estimate(
                value=prod(one.value for one in gains) ** (1 / len(gains)),
                low=min(one.low for one in gains),
                high=max(one.high for one in gains),
                n=min(one.n for one in gains),
            ),
            state=RuleState.PROVEN,
            n_communicators=min(one.n for one in gains),
        )
        begin = end + 1
    yield from _left(target, begin, MAX_NBYTES, measured)


def _left(target: Target, low: int, high: int, measured: Sequence[int]) -> Iterator[Zone]:
    """Sizes that are left to the library: beyond what was measured, and inside."""
    first, last = measured[0], measured[-1]
    parts = (
        (low, min(high, first - 1), NOT_MEASURED),
        (max(low, first), min(high, last), _NOT_RESTORED),
        (max(low, last + 1), high, NOT_MEASURED),
    )
    for begin, end, why in parts:
        if begin <= end:
            yield Zone(target=target, min_nbytes=begin, max_nbytes=end, setting=None, reason=why)


def _document(
    result: ComparisonResult,
    b: MeasuredSide,
    zones: tuple[Zone, ...],
    placement: str | None,
    largest: int,
) -> RuleDocument:
    site = b.instrument.site
    machine = site.fingerprint
    variables = b.side.variables_for(largest, site.scale.n_ranks)
    needs = {pair for pair in variables if is_harmless(*pair)}
    if any(
        one.setting is not None and needs_ll128_forced(one.setting, site.scale, machine.arch)
        for one in zones
    ):
        needs.add(LL128_FORCED)
    other = " ".join(f"{name}={value}" for name, value in variables if (name, value) not in needs)
    library = name_library(site.library, machine.arch_or_vendor)
    return RuleDocument(
        provenance=(
            *([SIMULATED] if result.simulated else []),
            f"written by rccltune {__version__} for {machine.words}",
            f"source: rccltune compare, A: {result.a}, B: {result.b}",
            f"library: {library or 'not recorded'}",
            *([f"environment of B, to be set for every job: {other}"] if other else []),
            *([f"placement of ranks: {placement}"] if placement else []),
            f"{VERIFIED_MARK} {_proof(result)}",
        ),
        requires=(
            *requirements_of(machine),
            *([("placement", placement)] if placement else []),
        ),
        library=exact_release(library),
        needs=tuple(sorted(needs)),
        zones=zones,
    )


def _proof(result: ComparisonResult) -> str:
    n = result.n_starts
    return f"B told what A chose is faster than B by itself, {n} starts of each in turns"


def _ask(path: Path, zones: Sequence[Zone]) -> None:
    """Let the plugin answer at the ends of each rule.

    Raises:
        VerificationError: it answers something else.
    """
    parts = {(one.collective, one.scale): one for one in explain(path, RuleQuestion()).parts}
    for zone in zones:
        answers = parts[zone.target.collective, zone.target.scale].ranges
        for nbytes in (zone.min_nbytes, zone.max_nbytes):
            answer = next(one for one in answers if one.min_nbytes <= nbytes <= one.max_nbytes)
            if answer.setting != zone.setting:
                raise VerificationError(
                    f"the plugin answers {answer.setting} at {nbytes} bytes, not {zone.setting}",
                    where=str(path),
                    hint="please report this with the file: it is a bug.",
                )
