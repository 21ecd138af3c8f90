"""Ranges of releases, as the catalog of variants names them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rccltune.releases import Family, Version, dotted, rocm_of, version_of

_NUMBER: Final = r"\d+(?:\.\d+)+"
_RANGE: Final = re.compile(
    rf"(RCCLX?|NCCL)(?:\s+(?:from\s+(?P<first>{_NUMBER})|to\s+(?P<last>{_NUMBER})"
    rf"|(?P<low>{_NUMBER})(?:\s+to\s+(?P<high>{_NUMBER}))?))?"
    r"(?:\s+on\s+(?P<few>\d+)\s+to\s+(?P<many>\d+)\s+nodes)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """Releases of one library, both ends included.

    Attributes:
        nodes: least and most nodes on which these releases have the thing; None for any number.
    """

    library: Family
    first: Version | None = None
    last: Version | None = None
    nodes: tuple[int, int] | None = None

    @classmethod
    def parse(cls, text: str) -> Releases:
        """Read ``RCCL``, ``NCCL from 2.19.1``, ``RCCL 2.26.6``, ``… on 2 to 16 nodes``.

        Raises:
            ValueError: something else, or a range whose end comes first.
        """
        found = _RANGE.fullmatch(" ".join(text.split()))
        if found is None:
            raise ValueError(
                f"'{text}' names no releases: write RCCL, RCCL 2.26.6, RCCL from 2.30.4, "
                "RCCL 2.21.5 to 2.26.6 or RCCL 2.26.6 on 2 to 16 nodes, also with RCCLX or NCCL"
            )
        low, high = found["low"], found["high"]
        first = found["first"] or low
        last = found["last"] or high or low
        nodes = (int(found["few"]), int(found["many"])) if found["few"] else None
        made = cls(
            library=Family(found[1]),
            first=version_of(first) if first else None,
            last=version_of(last) if last else None,
            nodes=nodes,
        )
        if made.first and made.last and made.first > made.last:
            raise ValueError(f"'{text}' ends before it begins")
        if nodes and not 1 <= nodes[0] <= nodes[1]:
            raise ValueError(f"'{text}' names no numbers of nodes")
        return made

    def has(self, version: Version) -> bool:
        """Whether a version lies in the range."""
        return (self.first is None or self.first <= version) and (
            self.last is None or version <= self.last
        )

    def has_nodes(self, n_nodes: int | None) -> bool:
        """Whether these releases have the thing on so many nodes; an unknown number may do."""
        return n_nodes is None or self.nodes is None or self.nodes[0] <= n_nodes <= self.nodes[1]

    def __str__(self) -> str:
        """``RCCL 2.21.5 to 2.26.6 (ROCm 6.3 to 7.0)``."""
        words = [self.library.value]
        match (self.first, self.last):
            case (None, None):
                pass
            case (first, None):
                words.append(f"from {dotted(first)}")
            case (None, last):
                words.append(f"to {dotted(last)}")
            case (first, last):
                words.append(
                    dotted(first) if first == last else f"{dotted(first)} to {dotted(last)}"
                )
        words += [f"({rocm})"] if (rocm := self._rocm()) else []
        words += [f"on {self.nodes[0]} to {self.nodes[1]} nodes"] if self.nodes else []
        return " ".join(words)

    def _rocm(self) -> str | None:
        """The ROCm releases that brought these, where all that is named is known."""
        if self.library is not Family.RCCL:
            return None
        found = [rocm_of(end) for end in (self.first, self.last) if end is not None]
        known = [one for one in found if one is not None]
        if not known or len(known) < len(found):
            return None
        begin, end = known[0][0], known[-1][1]
        if self.first is None:
            return f"up to ROCm {end}"
        if self.last is None:
            return f"ROCm {begin} and later"
        return f"ROCm {begin}" if begin == end else f"ROCm {begin} to {end}"


def name_all(releases: tuple[Releases, ...]) -> str:
    """``RCCL 2.26.6 and RCCLX have``; a sentence's subject and its verb."""
    names = [str(one) for one in releases]
    single = len(releases) == 1 and releases[0].first == releases[0].last
    if single:
        return f"{names[0]} has"
    return f"{' and '.join([', '.join(names[:-1])] * (len(names) > 1) + names[-1:])} have"
