"""Reports of several hosts, and whether they are one machine.

Launchers forward what ranks write in pieces, and MPICH's tears lines that were written in two. So
an answer is cut into short lines, each written at once, that say whose they are and how many; an
answer of which a line is missing or torn is not there at all.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rccltune.model.schema import Line, Text, Whole
from rccltune.model.vocabulary import JoinedLines, join_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host as it says itself.

    Attributes:
        name: its own, as ``uname -n`` has it; a host file may call it otherwise.
        boot_id: tells hosts of one name apart, None where the kernel does not say.
        n_ranks: started there.
        facts: (what, value) that must be alike on all hosts, in the order in which they are shown;
            what a host does not have is not listed.
    """

    name: Line
    boot_id: Line | None = None
    n_ranks: Whole
    facts: tuple[tuple[Line, Text], ...] = ()

    def __post_init__(self) -> None:
        """A name for each fact, and at least one rank."""
        if self.n_ranks < 1:
            raise ValueError(f"{self.name} answered without a rank")
        names = [what for what, _ in self.facts]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.name} says something twice")


# All that the libraries read. LD_LIBRARY_PATH is left out: launchers put a folder of their own
# before it on other hosts, and the hash of the library that it leads to is compared.
_COMPARED: Final = re.compile(
    r"(NCCL|RCCL|RCCLTUNE|MSCCL|MSCCLPP|HSA|HIP|ROCR|ROCM|GPU|AMD|CUDA|UCX|FI|NVSHMEM|TORCH_NCCL|"
    r"TORCH_SYMM_MEM)_\w+|LD_PRELOAD"
)
# Of one job and not of a host.
_OF_THE_JOB: Final = ("RCCLTUNE_RUN_ID",)
# Each rank may have a device of its own, by number or by a name that no other host has.
_DEVICES: Final = re.compile(r"\w+_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL")


def compares(name: str) -> bool:
    """Whether a variable must be the same on all hosts."""
    return _COMPARED.fullmatch(name) is not None and name not in _OF_THE_JOB


def value_of(name: str, values: Iterable[str | None]) -> str:
    """Value of a variable over the ranks of one host, in a form that other hosts may equal.

    Ranks of one host may differ; then every value is said. Of devices that are named by a
    serial number only how many there are is.

    Args:
        name: of the variable.
        values: of all ranks of the host, None where it is not set.
    """
    found = {"(not set)" if one is None else _plain(name, one) for one in values}
    return " | ".join(sorted(found))


def _plain(name: str, value: str) -> str:
    if _DEVICES.fullmatch(name) is None:
        return value
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if all(part.isdigit() for part in parts):
        return ",".join(parts)
    return f"{len(parts)} by name"


_SHOWN: Final = 4


def named_hosts(names: Iterable[str]) -> str:
    """Names for people: the first few, and how many there are."""
    wanted = sorted(set(names), key=_by_number)
    if len(wanted) <= _SHOWN:
        return ", ".join(wanted)
    return f"{', '.join(wanted[:_SHOWN])}, … ({len(wanted)} hosts)"


def _by_number(name: str) -> list[tuple[int, str]]:
    """A key that puts node9 before node10."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]


RANKS: Final = "ranks"
# What stands in a table for what every rank was to have.
AS_SET: Final = "as rccltune set it"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostGroup:
    """Hosts that say the same; ``value`` is None where they have no such thing."""

    value: str | None
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDifference:
    """Something in which the hosts differ; every host is in one group, the largest comes first."""

    what: str
    groups: tuple[HostGroup, ...]


def differences(hosts: Sequence[Host]) -> tuple[HostDifference, ...]:
    """All in which hosts differ, in the order in which the hosts say it; empty where alike."""
    values = {
        name: {RANKS: str(host.n_ranks), **dict(host.facts)}
        for name, host in zip(_distinct(hosts), hosts, strict=True)
    }
    differing = []
    for what in dict.fromkeys(what for one in values.values() for what in one):
        groups = _grouped({name: one.get(what) for name, one in values.items()})
        if len(groups) > 1:
            differing.append(HostDifference(what=what, groups=groups))
    return tuple(differing)


def as_asked(
    hosts: Sequence[Host], wanted: Mapping[str, str], but: Iterable[str] = ()
) -> tuple[HostDifference, ...]:
    """Variables that did not reach every rank as they were set, though the hosts may be alike.

    Args:
        hosts: as they answered.
        wanted: what every rank was to have.
        but: variables that are known to differ already.
    """
    known = set(but)
    names = _distinct(hosts)
    differing = []
    for name, value in sorted(wanted.items()):
        if not compares(name) or name in known:
            continue
        values = (dict(host.facts).get(name) for host in hosts)
        said = {AS_SET: value_of(name, [value]), **dict(zip(names, values, strict=True))}
        groups = _grouped(said)
        if len(groups) > 1:
            differing.append(HostDifference(what=name, groups=groups))
    return tuple(differing)


def _grouped(said: Mapping[str, str | None]) -> tuple[HostGroup, ...]:
    """Names by what they say, the largest group first."""
    groups: dict[str | None, list[str]] = {}
    for name, value in said.items():
        groups.setdefault(value, []).append(name)
    made = (HostGroup(value=value, hosts=tuple(sorted(names))) for value, names in groups.items())
    return tuple(sorted(made, key=lambda one: (-len(one.hosts), one.hosts)))


def _distinct(hosts: Sequence[Host]) -> list[str]:
    """Names, with the start of the boot id where two hosts have one name."""
    seen = [host.name for host in hosts]
    return [
        f"{host.name} ({(host.boot_id or '?')[:8]})" if seen.count(host.name) > 1 else host.name
        for host in hosts
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """Report of one rank.

    Attributes:
        facts: of its host, None from ranks that leave this to another.
        variables: of its own environment.
    """

    host: Line
    boot_id: Line | None
    facts: dict[Line, Text] | None
    variables: dict[Line, Text] = field(default_factory=dict)


def merged(answers: Iterable[RankReport]) -> tuple[Host, ...]:
    """Hosts in the order of their names.

    Raises:
        ValueError: no rank of a host said what it is.
    """
    by_host: dict[tuple[str, str], list[RankReport]] = {}
    for report in answers:
        by_host.setdefault((report.host, report.boot_id or ""), []).append(report)
    return tuple(_host(found) for _, found in sorted(by_host.items()))


def _host(answers: list[RankReport]) -> Host:
    first = answers[0]
    facts = next((one.facts for one in answers if one.facts is not None), None)
    if facts is None:
        raise ValueError(f"no rank of {first.host} said what the host is")
    names = sorted({name for one in answers for name in one.variables if compares(name)})
    said = [(name, value_of(name, (one.variables.get(name) for one in answers))) for name in names]
    return Host(
        name=first.host,
        boot_id=first.boot_id,
        n_ranks=len(answers),
        facts=(*facts.items(), *said),
    )


_DIGEST: Final = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
# Values of one thing that are shown, and how long each may be.
_GROUPS: Final = 6
_LONGEST: Final = 60


def table_of(hosts_differences: Sequence[HostDifference]) -> JoinedLines:
    """One block for each thing, one line for each value, with the hosts that have it."""
    rows = [row for one in hosts_differences for row in _rows(one)]
    widths = [max((len(row[at]) for row in rows), default=0) for at in (0, 1)]
    return join_lines(
        f"  {what:<{widths[0]}}  {value:<{widths[1]}}  {hosts}".rstrip()
        for what, value, hosts in rows
    )


def _rows(difference: HostDifference) -> list[tuple[str, str, str]]:
    first, rest = difference.groups[:_GROUPS], difference.groups[_GROUPS:]
    rows = [
        ("" if number else difference.what, _short(group), named_hosts(group.hosts))
        for number, group in enumerate(first)
    ]
    if rest:
        others = named_hosts(name for group in rest for name in group.hosts)
        rows.append(("", f"… {len(rest)} more values", others))
    return rows


def _short(group: HostGroup) -> str:
    if group.value is None:
        return "–"
    text = _DIGEST.sub(r"\1…", group.value)
    if len(text) <= _LONGEST:
        return text
    # Lists of libraries and devices differ at either end.
    half = (_LONGEST - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


_TAG: Final = "RCCLTUNE-ANSWER"
# A pipe takes lines up to PIPE_BUF (4096 bytes) in one piece.
_PIECE: Final = 2000
_LINE: Final = re.compile(rf"{_TAG} (\S+) (\d+)/(\d+) ([0-9a-f]{{8}}) (.*)")


def lines_of(answer: object, who: str) -> tuple[str, ...]:
    """An answer as lines, each with its end.

    Args:
        answer: plain data.
        who: of nobody else; without blanks.
    """
    text = json.dumps(answer, separators=(",", ":"))
    pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    total = len(pieces)
    return tuple(
        f"{_TAG} {who} {number}/{total} {_sum(piece)} {piece}\n"
        for number, piece in enumerate(pieces, start=1)
    )


def read_lines(text: str) -> tuple[bytes, ...]:
    """JSON of whole answers, in the order in which they began; all else is passed over."""
    pieces: dict[tuple[str, int], dict[int, str]] = {}
    for line in text.split("\n"):
        # A rank of another kind may have written half a line before.
        match = _LINE.search(line)
        if match is not None and _sum(match[5]) == match[4]:
            pieces.setdefault((match[1], int(match[3])), {})[int(match[2])] = match[5]
    return tuple(
        "".join(found[number] for number in range(1, total + 1)).encode()
        for (_, total), found in pieces.items()
        if _is_whole(found, total)
    )


def _is_whole(found: Iterable[int], total: int) -> bool:
    return set(found) == set(range(1, total + 1))


def _sum(piece: str) -> str:
    return f"{zlib.crc32(piece.encode()):08x}"
