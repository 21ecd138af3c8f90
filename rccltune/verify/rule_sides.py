"""The two sides of a verification: the library, and the rules."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rccltune.measure.instrument import beside_plugin
from rccltune.measure.site import Site
from rccltune.model.errors import VerificationError
from rccltune.model.units import format_span
from rccltune.model.vocabulary import Collective
from rccltune.verify.executed import Executed

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What came of calling both sides.

    Attributes:
        pairs: as :func:`rccltune.verify.pairs.ratios` makes it.
        checked: sizes whose results were compared, with the rules.
        wrong: those of them that were wrong.
        failed: why nothing is known of a collective's rules, where they hung or crashed.
        n_replicates, n_processes: in which both were called.
        seconds: that it took in all.
        executed: what ran where rules answered, by collective and size, where a log says.
    """

    pairs: pd.DataFrame
    checked: Mapping[Collective, frozenset[int]]
    wrong: Mapping[Collective, frozenset[int]]
    failed: Mapping[Collective, str]
    n_replicates: int
    n_processes: int
    seconds: float
    executed: Executed = field(default_factory=dict)


def beyond(needs: Iterable[tuple[str, str]], site: Site) -> tuple[tuple[str, str], ...]:
    """Variables that a rule file needs and the session was not measured with."""
    return tuple(pair for pair in needs if pair not in site.environment)


def bare(text: str) -> str:
    """A rule file without what is said to people: it is the same with its proof and without."""
    return "".join(one for one in text.splitlines(keepends=True) if not one.startswith("# "))


def digest_of(rules: str, under: Iterable[str]) -> str:
    """Twelve letters by which the calls of a rule file are told from those of others.

    Args:
        rules: of the file, bare.
        under: what else times depend on: the library and its variables.
    """
    told = rules + "".join(f"# {one}\n" for one in under)
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def variables_for(site: Site, rules: Path) -> list[tuple[str, str]]:
    """What makes the plugin read a rule file in every rank of somebody else's program."""
    return [("NCCL_TUNER_CONFIG_FILE", str(rules)), *beside_plugin(site)]


def wrong_by_itself(collective: str, sizes: Sequence[int], where: Path) -> VerificationError:
    """Say that the library computes wrong results by itself."""
    return VerificationError(
        f"wrong results without rules: {collective}, {format_span(min(sizes), max(sizes))}",
        where=str(where),
        hint="no rule is to blame: this library or machine computes wrong results.",
    )
