"""Hosts as their ranks say themselves, compared before anything is timed.

At the head of its rows each rank says its host, facts that must be the same on all hosts, and the
variables that libraries read (``native_plugin/perf/host.h``); after the first communicator also
those that a library took from files of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from rccltune.model.errors import MachineError
from rccltune.model.reporter import Reporter
from rccltune.model.schema import Line, Text, Whole
from rccltune.model.text import JoinedLines, join_lines
from rccltune.session import store

HOSTS_FILE: Final = "hosts.json"
# What stands in a table for what every rank was to have.
AS_SET: Final = "as rccltune set it"
_RANKS: Final = "ranks"
_NOT_SET: Final = "(not set)"
# Of variables that ranks say: each run, rank or host has its own.
_OWN: Final = ("RCCLTUNE_RUN_ID", "NCCL_HOSTID")
# Each rank may have a device of its own, by number or by a name that no other host has.
_DEVICES: Final = re.compile(r"\w+_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL")
# As ranks say them: prefixes are those of is_told() in host.c. LD_LIBRARY_PATH is none of them:
# launchers put a folder of their own before it on other hosts.
_SAID: Final = re.compile(
    r"(NCCL|RCCL|RCCLTUNE|MSCCL|MSCCLPP|HSA|HIP|ROCR|ROCM|GPU|AMD|CUDA|UCX|FI|NVSHMEM|TORCH_NCCL|"
    r"TORCH_SYMM_MEM)_\w+|LD_PRELOAD"
)
# Values of one thing that are shown, how long each may be, and hosts that are named.
_GROUPS: Final = 6
_LONGEST: Final = 60
_NAMED: Final = 4

# What hosts differ in, and who has which value (None: they have no such thing), most hosts first.
Differences: TypeAlias = "dict[str, list[tuple[str | None, tuple[str, ...]]]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host as its ranks say it.

    Attributes:
        name: its own, as ``uname -n`` has it; a host file may call it otherwise.
        boot_id: tells hosts of one name apart.
        n_ranks: started there.
        facts: (what, value) that must be alike on all hosts, in the order in which they are shown.
    """

    name: Line
    boot_id: Line = ""
    n_ranks: Whole
    facts: tuple[tuple[Line, Text], ...] = ()


def hosts_of(ranks: Iterable[Sequence[str]]) -> tuple[Host, ...]:
    """Hosts in the order of their names.

    Args:
        ranks: lines that each rank wrote.
    """
    by_host: dict[tuple[str, str], list[dict[str, dict[str, str]]]] = {}
    for lines in ranks:
        values: dict[str, dict[str, str]] = {"fact": {}, "variable": {}}
        who = {"host": "", "boot": ""}
        for line in lines:
            word, _, rest = line.removeprefix("# ").partition(" ")
            if word in values:
                name, _, value = rest.partition("=")
                values[word][name] = value
            elif word in who:
                who[word] = rest
        by_host.setdefault((who["host"].partition("/")[0], who["boot"]), []).append(values)
    return tuple(
        Host(name=name, boot_id=boot, n_ranks=len(group), facts=_facts(group))
        for (name, boot), group in sorted(by_host.items())
    )


def _facts(ranks: Sequence[Mapping[str, Mapping[str, str]]]) -> tuple[tuple[str, str], ...]:
    """Facts that ranks of one host say; where they differ, every value, in a comparable form."""
    facts: dict[str, set[str]] = {}
    for one in ranks:
        for name, value in one["fact"].items():
            facts.setdefault(name, set()).add(value)
    names = sorted({name for one in ranks for name in one["variable"] if _is_compared(name)})
    for name in names:
        facts[name] = {_plain(name, one["variable"].get(name)) for one in ranks}
    return tuple((name, " | ".join(sorted(values))) for name, values in facts.items())


def _is_compared(name: str) -> bool:
    return _SAID.fullmatch(name) is not None and name not in _OWN


def _plain(name: str, value: str | None) -> str:
    """Value of a variable; of devices by serial number how many there are."""
    if value is None:
        return _NOT_SET
    if _DEVICES.fullmatch(name) is None:
        return value
    parts = [part.strip() for part in value.split(",") if part.strip()]
    return ",".join(parts) if all(map(str.isdigit, parts)) else f"{len(parts)} by name"


def find_differences(hosts: Sequence[Host], variables: Mapping[str, str]) -> Differences:
    """All in which hosts differ from each other, or from what every rank was to have.

    Args:
        hosts: as they say themselves.
        variables: that were set for every rank.
    """
    names = [host.name for host in hosts]
    by_host = {
        f"{host.name} ({host.boot_id[:8]})" if names.count(host.name) > 1 else host.name: {
            _RANKS: str(host.n_ranks),
            **dict(host.facts),
        }
        for host in hosts
    }
    compared = {name: value for name, value in variables.items() if _is_compared(name)}
    set_by_us = {name: _plain(name, value) for name, value in compared.items()}
    differences: Differences = {}
    for what in dict.fromkeys([*(what for one in by_host.values() for what in one), *set_by_us]):
        groups: dict[str | None, list[str]] = {}
        for name, facts in by_host.items():
            groups.setdefault(facts.get(what), []).append(name)
        if what in set_by_us:
            groups.setdefault(set_by_us[what], []).append(AS_SET)
        if len(groups) > 1:
            pairs = [(value, tuple(sorted(who))) for value, who in groups.items()]
            differences[what] = sorted(pairs, key=lambda one: (-len(one[1]), one[1]))
    return differences


def table_of(differences: Differences) -> JoinedLines:
    """One block for each thing, one line for each value, with the hosts that have it."""
    rows = []
    for what, groups in differences.items():
        for number, (value, who) in enumerate(groups[:_GROUPS]):
            rows.append(("" if number else what, _short(value), named_hosts(who)))
        if others := groups[_GROUPS:]:
            who = tuple(name for _, names in others for name in names)
            rows.append(("", f"… {len(others)} more values", named_hosts(who)))
    widths = [max((len(row[at]) for row in rows), default=0) for at in (0, 1)]
    return join_lines(
        f"  {what:<{widths[0]}}  {value:<{widths[1]}}  {hosts}".rstrip()
        for what, value, hosts in rows
    )


def _short(value: str | None) -> str:
    if value is None:
        return "–"
    # Lists of libraries and devices differ at either end.
    half = (_LONGEST - 1) // 2
    return value if len(value) <= _LONGEST else f"{value[:half]}…{value[-half:]}"


def named_hosts(names: Iterable[str]) -> str:
    """Names for people: the first few, node9 before node10, and how many there are."""

    def by_number(name: str) -> list[tuple[int, str]]:
        parts = re.split(r"(\d+)", name)
        return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]

    hosts = sorted(set(names), key=by_number)
    if len(hosts) <= _NAMED:
        return ", ".join(hosts)
    return f"{', '.join(hosts[:_NAMED])}, … ({len(hosts)} hosts)"


@dataclass(slots=True, kw_only=True)
class HostComparison:
    """Comparison of the hosts that ranks run on; stops where they differ.

    Attributes:
        named: hosts of the host file that ranks are put on; fewer than two are not compared.
        session: the folder, whose hosts.json keeps what they are.
        reporter: told of hosts that are alike, or measured all the same.
        force: go on though they differ.
        sentence: what was told; empty before.
    """

    named: tuple[str, ...]
    session: Path
    reporter: Reporter
    force: bool
    sentence: str = ""

    def check(self, ranks: Sequence[Sequence[str]], variables: Mapping[str, str]) -> None:
        """Compare hosts.

        Args:
            ranks: lines that each rank wrote.
            variables: that were set for every rank.

        Raises:
            MachineError: they are not as many as were named, or differ; the table names them.
        """
        if len(self.named) < 2:
            return
        hosts = hosts_of(ranks)
        record = {"format": 2, "hosts": hosts}
        where = str(store.write_derived(self.session, HOSTS_FILE, record))
        names = named_hosts(host.name for host in hosts)
        if len(hosts) != len(self.named):
            raise MachineError(
                f"the host file names {len(self.named)} hosts ({named_hosts(self.named)}), and "
                f"ranks run on {len(hosts)} ({names})",
                where=where,
                hint="name each host once: the library counts hosts by their own names, and rules "
                "are for the number that it counts.",
            )
        sentence: str = f"{len(hosts)} hosts are alike: {names}"
        if differences := find_differences(hosts, variables):
            sentence = join_lines(["the hosts are not alike:", table_of(differences)])
            if not self.force:
                raise MachineError(
                    sentence,
                    where=where,
                    hint="make them alike, or leave the odd hosts out of the host file; --force "
                    "measures all the same, and nothing then says which host a time is of.",
                )
            sentence = join_lines(["Measured all the same: ", sentence], gap="")
        # Before the first communicator a library may still read a file that differs.
        if not self.sentence and any(line[:1].isdigit() for line in ranks[0]):
            self.sentence = sentence
            self.reporter.say(sentence)
