"""Releases of RCCL, RCCLX and NCCL: reading them, ranges of them, the ROCm that brought them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

Version: TypeAlias = tuple[int, ...]


class Library(Enum):
    """Who made the library; RCCLX is Meta's variant of RCCL and prints RCCL's number."""

    RCCL = "RCCL"
    RCCLX = "RCCLX"
    NCCL = "NCCL"


# First and last ROCm that brought each RCCL (its CHANGELOG.md, every release from 5.5 on).
_ROCM: Final[dict[Version, tuple[str, str]]] = {
    (2, 15, 5): ("5.5", "5.5"),
    (2, 16, 2): ("5.6", "5.6"),
    (2, 17, 1): ("5.7", "5.7"),
    (2, 18, 3): ("6.0", "6.0"),
    (2, 18, 6): ("6.1", "6.1"),
    (2, 20, 5): ("6.2", "6.2"),
    (2, 21, 5): ("6.3", "6.3"),
    (2, 22, 3): ("6.4", "6.4"),
    (2, 26, 6): ("7.0", "7.0"),
    (2, 27, 7): ("7.1", "7.2"),
    (2, 28, 3): ("7.11", "7.13"),
    (2, 30, 4): ("7.14", "10.0"),
    (2, 30, 7): ("10.1", "10.1"),
}
KNOWN_RCCL: Final = tuple(_ROCM)
_NUMBER: Final = r"\d+(?:\.\d+)+"
_NAMED: Final = re.compile(rf"([RN]CCL)\s+({_NUMBER})")
_RANGE: Final = re.compile(
    rf"(RCCLX?|NCCL)(?:\s+(?:from\s+(?P<first>{_NUMBER})|to\s+(?P<last>{_NUMBER})"
    rf"|(?P<low>{_NUMBER})(?:\s+to\s+(?P<high>{_NUMBER}))?))?"
    r"(?:\s+on\s+(?P<few>\d+)\s+to\s+(?P<many>\d+)\s+nodes)?"
)


def version_of(text: str) -> Version:
    """``(2, 28, 3)`` of ``2.28.3``."""
    return tuple(int(part) for part in text.split("."))


def parse_library(text: str | None) -> tuple[Library, Version] | None:
    """Family and version of ``RCCL 2.22.3-develop:abc``; None for anything else."""
    found = _NAMED.match(text.strip()) if text else None
    return (Library(found[1]), version_of(found[2])) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """Releases of one library, both ends included.

    Attributes:
        nodes: least and most nodes on which these releases have the thing; None for any number.
    """

    library: Library
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
            library=Library(found[1]),
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
                words.append(f"from {_dotted(first)}")
            case (None, last):
                words.append(f"to {_dotted(last)}")
            case (first, last):
                words.append(
                    _dotted(first) if first == last else f"{_dotted(first)} to {_dotted(last)}"
                )
        words += [f"({rocm})"] if (rocm := self._rocm()) else []
        words += [f"on {self.nodes[0]} to {self.nodes[1]} nodes"] if self.nodes else []
        return " ".join(words)

    def _rocm(self) -> str | None:
        """The ROCm releases that brought these, where all that is named is known."""
        ends = [end for end in (self.first, self.last) if end is not None]
        if self.library is not Library.RCCL or not ends or any(end not in _ROCM for end in ends):
            return None
        if self.first is None:
            return f"up to ROCm {_ROCM[ends[0]][1]}"
        begin = _ROCM[self.first][0]
        if self.last is None:
            return f"ROCm {begin} and later"
        end = _ROCM[self.last][1]
        return f"ROCm {begin}" if begin == end else f"ROCm {begin} to {end}"


def _dotted(version: Version | None) -> str:
    return ".".join(str(part) for part in version or ())


def name_all(releases: tuple[Releases, ...]) -> str:
    """``RCCL 2.26.6 and RCCLX have``; a sentence's subject and its verb."""
    names = [str(one) for one in releases]
    single = len(releases) == 1 and releases[0].first == releases[0].last
    if single:
        return f"{names[0]} has"
    return f"{' and '.join([', '.join(names[:-1])] * (len(names) > 1) + names[-1:])} have"
