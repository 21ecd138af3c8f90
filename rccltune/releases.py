"""Releases of RCCL, RCCLX and NCCL and what each does: one table, which all others ask.

Whose library it is and which number it has is read here too, and nowhere else is one number
compared with another. Which variants a release has is data of its own (``data/variants.yaml``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, TypeAlias

from rccltune.model.settings import Vendor, vendor_of

Version: TypeAlias = tuple[int, ...]
_NAMED: Final = re.compile(r"([RN]CCL)\s+(\d+(?:\.\d+)+)")
# As ROCm's builds have it in their version: RCCL 2.27.7+hip7.1.
_BUILT_FOR: Final = re.compile(r"hip(\d+\.\d+)")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)*")


class LibraryVendor(Enum):
    """Vendor of the library; RCCLX is Meta's variant of RCCL and prints RCCL's number."""

    RCCL = "RCCL"
    RCCLX = "RCCLX"
    NCCL = "NCCL"


def version_of(text: str | None) -> Version:
    """``(2, 28, 3)`` of ``2.28.3-foo``; empty where there is no number."""
    match = _NUMBER.match(text or "")
    return tuple(int(part[:9]) for part in match[0].split(".")) if match else ()


def dotted(version: Version | None) -> str:
    """``2.28.3`` of ``(2, 28, 3)``."""
    return ".".join(str(part) for part in version or ())


def parse_library(text: str | None) -> tuple[LibraryVendor, Version] | None:
    """Family and version of ``RCCL 2.22.3-develop:abc``; None for anything else."""
    match = _NAMED.match(text.strip()) if text else None
    return (LibraryVendor(match[1]), version_of(match[2])) if match else None


def name_library(version: str | None, arch: str | None) -> str | None:
    """A library with its family: benchmarks print ``2.26.6`` alone, and NCCL has such numbers too.

    Args:
        version: as a log or a file has it.
        arch: ``gfx942`` …, ``amd`` or ``nvidia``: RCCL alone serves AMD's GPUs, NCCL NVIDIA's.
    """
    vendor = vendor_of(arch)
    if version is None or vendor is None or not version[:1].isdigit():
        return version
    return f"{'RCCL' if vendor is Vendor.AMD else 'NCCL'} {version}"


def exact_release(library: str | None) -> str | None:
    """``NCCL 2.28.9`` of ``NCCL 2.28.9+cuda13.0``: what a rule file is bound to.

    Returns:
        None where the family or one of the three numbers is not known.
    """
    release = parse_library(library)
    if release is None or len(release[1]) != 3:
        return None
    return f"{release[0].value} {dotted(release[1])}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Behaviour of a library from one number on, up to the next line's.

    Attributes:
        family: RCCL or NCCL; RCCLX has no line of its own.
        first: builds between two releases have numbers too, and belong to the line below them.
        number: the release itself, the last one where several behave alike.
        name: of its line in docs/deploy.md; lines of one name are one line there.
        rocm: first and last ROCm that brought it (RCCL's CHANGELOG.md); None for NCCL.
        abi: newest version of the tuner interface that it looks up, 0 for none.
        reads_rules: whether it has a tuner for rule files itself. A build may differ from its
            number, so that a file at hand is asked by its content.
        limits_by_name: whether ``NCCL_ALGO=allreduce:tree`` acts on all_reduce alone.
        has_symmetric: whether buffers in symmetric windows go around a tuner.
        knows_cpx: whether it finds its way on partitioned GPUs.
        keeps_scratch: whether its ROCm keeps scratch memory between kernels.
        idle_source: where its log names no channels, the line of its source by which a tuner that
            answers nothing changes nothing; empty where the log says it itself, or nobody looked.
        remark: what else who deploys rules must know.
    """

    family: LibraryVendor
    first: Version
    number: str
    name: str
    rocm: tuple[str, str] | None = None
    abi: int
    reads_rules: bool = False
    limits_by_name: bool = False
    has_symmetric: bool = False
    knows_cpx: bool = True
    keeps_scratch: bool = True
    idle_source: str = ""
    remark: str = ""

    @property
    def version(self) -> str:
        """``RCCL 2.28.3``."""
        return f"{self.family.value} {self.number}"

    @property
    def loads_ours(self) -> bool:
        """Whether it looks for a tuner that our plugin can be: version 2 of the interface."""
        return self.abi >= 2

    @property
    def interfaces(self) -> tuple[int, ...]:
        """Versions that it looks up, newest first: 1 alone before 2.21, then every one but it."""
        return tuple(range(self.abi, 1, -1)) if self.loads_ours else (1,) * self.abi

    def was_in(self, rocm: Version) -> bool:
        """Whether a ROCm brought it."""
        return self.rocm is not None and (
            version_of(self.rocm[0]) <= rocm <= version_of(self.rocm[1])
        )


def _lines(oldest: Release, *changes: dict[str, Any]) -> tuple[Release, ...]:
    """Each line does what the one above it does, but for what it says."""
    lines = [oldest]
    for change in changes:
        lines.append(replace(lines[-1], **change))
    return tuple(lines)


PAIRS: Final = "only ring/ll, ring/simple and all_reduce's tree/ll can be chosen"
_AGAIN: Final = (
    "several nodes: the library chooses the protocol again; 7.2.4 was seen not to, 7.2.0 is not "
    "known"
)
_LOST: Final = "any plugin or file replaces its own table"
# rcclDdaEnabled, of which data/variants.yaml has the particulars.
_DDA: Final = "8 ranks on one node ask no tuner up to 8 MiB (MI300X), 128 MiB (MI350X)"
# Numbers and ROCm: RCCL's CHANGELOG.md, every release from 5.5 on; NCCL's tags. Which interface
# each looks up: src/plugin/tuner.cc, before 2.28 src/misc/tuner.cc.
_RCCL: Final = _lines(
    Release(
        family=LibraryVendor.RCCL,
        first=(0,),
        number="2.15.5",
        name="RCCL to 2.20.5 (ROCm to 6.2)",
        rocm=("5.5", "5.5"),
        abi=0,
        knows_cpx=False,
        keeps_scratch=False,
    ),
    {"first": (2, 16), "number": "2.16.2", "rocm": ("5.6", "5.6")},
    {"first": (2, 17), "number": "2.17.1", "rocm": ("5.7", "5.7")},
    {"first": (2, 18), "number": "2.18.3", "rocm": ("6.0", "6.0"), "abi": 1},
    {"first": (2, 18, 6), "number": "2.18.6", "rocm": ("6.1", "6.1")},
    # A line for every choice: src/enqueue.cc.
    {
        "first": (2, 20, 3),
        "number": "2.20.5",
        "rocm": ("6.2", "6.2"),
    },
    {
        "first": (2, 21),
        "number": "2.21.5",
        "rocm": ("6.3", "6.3"),
        "abi": 2,
        "name": "RCCL 2.21.5 (ROCm 6.3)",
        "remark": PAIRS,
        "knows_cpx": True,
        "idle_source": "RCCL 2.21.5, src/enqueue.cc:1652",
    },
    {
        "first": (2, 22),
        "number": "2.22.3",
        "rocm": ("6.4", "6.4"),
        "abi": 3,
        "name": "RCCL 2.22.3 (ROCm 6.4)",
        "remark": "",
        "keeps_scratch": True,
        "idle_source": "NCCL 2.22.3, which it is made of, src/enqueue.cc:1686",
    },
    {
        "first": (2, 26),
        "number": "2.26.6",
        "rocm": ("7.0", "7.0"),
        "abi": 4,
        "name": "RCCL 2.26.6, 2.27.7 (ROCm 7.0 to 7.2)",
        "idle_source": "",
        "remark": _AGAIN,
    },
    {"first": (2, 27), "number": "2.27.7", "rocm": ("7.1", "7.1")},
    {"rocm": ("7.2", "7.2")},  # 7.1's number
    {
        "first": (2, 28, 3),
        "number": "2.28.3",
        "rocm": ("7.11", "7.12"),
        "abi": 5,
        "name": "RCCL 2.28.3 (ROCm 7.11, 7.12)",
        "remark": "",
    },
    {
        "rocm": ("7.13", "7.13"),
        "reads_rules": True,
        "name": "RCCL 2.28.3 (ROCm 7.13)",
        "remark": _LOST,
    },
    {
        "first": (2, 30),
        "number": "2.30.4",
        "rocm": ("7.14", "10.0"),
        "abi": 6,
        "name": "RCCL 2.30.4 and later (ROCm 7.14, 10)",
        "remark": f"{_LOST}; {_DDA}",
    },
    {"first": (2, 30, 7), "number": "2.30.7", "rocm": ("10.1", "10.1")},
)
_NCCL: Final = _lines(
    Release(
        family=LibraryVendor.NCCL,
        first=(0,),
        number="2.18.6",
        name="NCCL to 2.20",
        abi=0,
    ),
    {"first": (2, 19), "number": "2.19.4", "abi": 1},
    {"first": (2, 20, 3), "number": "2.20.5"},
    {
        "first": (2, 21),
        "number": "2.21.5",
        "name": "NCCL 2.21",
        "abi": 2,
        "remark": PAIRS,
        "idle_source": "NCCL 2.21.5, src/enqueue.cc:1561",
    },
    {
        "first": (2, 22),
        "number": "2.23.4",
        "name": "NCCL 2.22, 2.23",
        "abi": 3,
        "remark": "",
        "idle_source": "NCCL 2.22.3, src/enqueue.cc:1686, and 2.23.4, :1929",
    },
    # RCCL takes a collective's name before a list too, from a list of names in another order
    # (rccltune.logs.library_log): in 2.27.7 allreduce: acts on reduce, reduce: on all_reduce.
    {
        "first": (2, 24),
        "number": "2.26.5",
        "name": "NCCL 2.24 to 2.27",
        "abi": 4,
        "idle_source": "",
        "limits_by_name": True,
    },
    {"first": (2, 27), "number": "2.27.7", "has_symmetric": True},
    {"first": (2, 28), "number": "2.29.7", "name": "NCCL 2.28, 2.29", "abi": 5},
    # From 2.31.2 on a call may be asked about three times (docs/plugin.md).
    # 2.32.3 (commit 12df1a11) ends at 6, 2.32.6 (2449986f) begins with 7; no RCCL with 7 was seen.
    {"first": (2, 30), "number": "2.32.3", "name": "NCCL 2.30, 2.31, 2.32.3", "abi": 6},
    {"first": (2, 32, 6), "number": "2.32.6", "name": "NCCL 2.32.6 and later", "abi": 7},
)
RELEASES: Final = (*_RCCL, *_NCCL)


def release_of(library: str | None) -> Release | None:
    """The line of ``RCCL 2.27.7+hip7.1``; None where it is no library of these families.

    Of lines with one number that is the one whose ROCm it names, else the last.
    """
    release = parse_library(library)
    if release is None:
        return None
    below = [one for one in RELEASES if one.family is release[0] and one.first <= release[1]]
    alike = [one for one in below if one.first == below[-1].first]
    built = _BUILT_FOR.search(library or "")
    rocm = version_of(built[1]) if built else ()
    return next((one for one in alike if one.was_in(rocm)), alike[-1])


def release_in(rocm: str | None) -> Release | None:
    """The RCCL that a ROCm brought, or one before it that is known; None where it has no number."""
    version = version_of(rocm)
    if not version:
        return None
    brought = (one for one in reversed(_RCCL) if one.rocm and version_of(one.rocm[0]) <= version)
    return next(brought, _RCCL[0])


# Replayed graphs compute wrong results in one process of five on MI300X; 7.1.1 and 7.13 do not
# (ROCm/clr issue 279).
_SPOILS_REPLAYS: Final = ((7, 2, 0), (7, 2, 3))


def spoils_replays(rocm: str | None) -> bool:
    """Whether a ROCm's HIP may compute wrong results in replayed graphs."""
    first, last = _SPOILS_REPLAYS
    version = (*version_of(rocm), 0, 0)[:3]
    return first <= version <= last


# amdsmi's CHANGELOG.md, 7.0.0: a memory mode waits for a reload of the driver.
_MEMORY_WAITS: Final = (7,)


def sets_memory_at_once(rocm: str | None) -> bool:
    """Whether a ROCm's amdsmi reloads the driver where it sets a memory mode."""
    return () < version_of(rocm) < _MEMORY_WAITS


def rocm_of(number: Version) -> tuple[str, str] | None:
    """First and last ROCm that brought an RCCL; None where that is not known."""
    rocms = [one.rocm for one in _RCCL if one.number == dotted(number) and one.rocm]
    return (rocms[0][0], rocms[-1][1]) if rocms else None


def since(does: Callable[[Release], bool]) -> str:
    """``RCCL 2.21.5 (ROCm 6.3) or NCCL 2.21``: from where on each family's releases all do.

    A family whose releases always did, or whose last one does not, is left out.
    """
    names = []
    for table in (_RCCL, _NCCL):
        lacking = [place for place, one in enumerate(table) if not does(one)]
        if not lacking or lacking[-1] == len(table) - 1:
            continue
        before, one = table[lacking[-1] :][:2]
        number = dotted(one.first) if one.rocm is None else f"{one.number} (ROCm {one.rocm[0]})"
        if one.rocm is not None and one.number == before.number:
            number = f"of ROCm {one.rocm[0]}"
        names.append(f"{one.family.value} {number}")
    return " or ".join(names)


# For sentences to users.
LOADING_OURS: Final = since(lambda one: one.loads_ours)
READING_RULES: Final = since(lambda one: one.reads_rules)
CHOOSING_FREELY: Final = since(lambda one: one.abi > 2)


def hosts_of(abi: int) -> str:
    """``ROCm 6.4, NCCL 2.22-2.23``: what looks up an interface and none that is newer."""
    rocm, nccl = ([one for one in table if one.abi == abi] for table in (_RCCL, _NCCL))
    last = dotted(version_of(nccl[-1].number)[:2])
    ends = [end for one in rocm if one.rocm for end in one.rocm]
    numbers = ((ends[0], ends[-1]), (dotted(nccl[0].first), last))
    return ", ".join(
        f"{name} {low}" if low == high else f"{name} {low}-{high}"
        for name, (low, high) in zip(("ROCm", "NCCL"), numbers, strict=True)
    )


def releases_of(pairs: Iterable[tuple[str, str]]) -> list[Release]:
    """Lines of RCCL by number and first ROCm."""
    wanted_pairs = set(pairs)
    return [one for one in _RCCL if one.rocm and (one.number, one.rocm[0]) in wanted_pairs]


def listed(releases: Sequence[Release]) -> str:
    """``RCCL 2.26.6 and 2.27.7 (ROCm 7.0 and 7.1)``."""
    numbers = " and ".join(dict.fromkeys(one.number for one in releases))
    return f"RCCL {numbers} (ROCm {' and '.join(one.rocm[0] for one in releases if one.rocm)})"
