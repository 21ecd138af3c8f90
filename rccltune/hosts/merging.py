"""The answers of ranks, put together to one for each host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rccltune.fields import Line, Text
from rccltune.hosts.records import Host
from rccltune.hosts.variables import compares, value_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one rank says.

    Attributes:
        facts: of its host, None from ranks that leave this to another.
        variables: of its own environment.
    """

    host: Line
    boot_id: Line | None
    facts: dict[Line, Text] | None
    variables: dict[Line, Text] = field(default_factory=dict)


def merged(answers: Iterable[Answer]) -> tuple[Host, ...]:
    """Hosts in the order of their names.

    Raises:
        ValueError: no rank of a host said what it is.
    """
    by_host: dict[tuple[str, str], list[Answer]] = {}
    for one in answers:
        by_host.setdefault((one.host, one.boot_id or ""), []).append(one)
    return tuple(_host(found) for _, found in sorted(by_host.items()))


def _host(answers: list[Answer]) -> Host:
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
