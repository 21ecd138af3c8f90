"""The two sides of a verification: the library, and the rules."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.measure.site import Site
from rccltune.model.errors import VerificationError
from rccltune.model.vocabulary import Collective, format_span
from rccltune.rules.reader import read_rules
from rccltune.session import files
from rccltune.verify.executed import Executed

if TYPE_CHECKING:
    import pandas as pd

RULES_FILE: Final = "rules.csv"


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


def folder_of(text: str, session: Path, under: Iterable[str]) -> tuple[Path, Path]:
    """Where a verification of a rule file lies, and the file that ranks read there.

    Without what is said to people: a file is the same with its proof and without.

    Args:
        text: of the file.
        session: folder of the session's verifications.
        under: what else times depend on: the library, its variables, what runs beside the calls.
    """
    bare = "".join(one for one in text.splitlines(keepends=True) if not one.startswith("# "))
    told = bare + "".join(f"# {one}\n" for one in under)
    folder = session / hashlib.sha256(told.encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    files.write_atomically(folder / RULES_FILE, bare)
    return folder, (folder / RULES_FILE).resolve()


def variables_for(site: Site, rules: Path) -> list[tuple[str, str]]:
    """What makes the plugin read a rule file in every rank."""
    told = [("NCCL_TUNER_CONFIG_FILE", str(rules))]
    placement = dict(read_rules(rules.read_bytes()).requires).get("placement")
    if placement is not None:
        told.append(("RCCLTUNE_PLACEMENT", placement))
    if site.node is not None and site.fingerprint.mode is not None:
        # There is no device that could say its mode.
        told.append(("RCCLTUNE_MODE", str(site.fingerprint.mode)))
    return told


def wrong_by_itself(collective: str, sizes: Sequence[int], where: Path) -> VerificationError:
    """Say that the library computes wrong results by itself."""
    return VerificationError(
        f"wrong results without rules: {collective}, {format_span(min(sizes), max(sizes))}",
        where=str(where),
        hint="no rule is to blame: this library or machine computes wrong results.",
    )
