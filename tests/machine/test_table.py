"""Tables name hosts, and are as short with two hundred as with two."""

from __future__ import annotations

import re

import pytest

from rccltune.machine.hosts import Host, differences, named_hosts, table_of


def hosts(n: int, odd: dict[int, tuple[str, str]], what: str = "mode") -> list[Host]:
    """Of ``n`` hosts in cpx-nps4, some say something else."""
    return [
        Host(
            name=f"node{number:03d}",
            boot_id=str(number),
            n_ranks=64,
            facts=((what, "cpx-nps4"),) if number not in odd else (odd[number],),
        )
        for number in range(1, n + 1)
    ]


def test_two_hosts() -> None:
    """The value of each, with its name."""
    table = table_of(differences(hosts(2, {2: ("mode", "spx-nps1")})))
    assert table == "  mode  cpx-nps4  node001\n        spx-nps1  node002"


def test_two_hundred_hosts_need_no_more_lines() -> None:
    """One odd host among them is found at a look."""
    table = table_of(differences(hosts(200, {77: ("mode", "spx-nps1")})))
    one, other = table.splitlines()
    assert one == "  mode  cpx-nps4  node001, node002, node003, node004, … (199 hosts)"
    assert other == "        spx-nps1  node077"


def test_two_hundred_values_are_not_all_shown() -> None:
    """Each host its own: six are enough to see that, and nobody is left out of the count."""
    odd = {number: ("driver", f"6.{number}") for number in range(1, 201)}
    table = table_of(differences(hosts(200, odd, "driver")))
    lines = table.splitlines()
    assert len(lines) == 7
    assert "… 194 more values" in lines[-1]
    assert lines[-1].endswith("node007, node008, node009, node010, … (194 hosts)")


def test_long_values_are_cut_and_hashes_short() -> None:
    """A line stays a line."""
    odd = {1: ("mode", "RCCL 2.26.6 " + "a" * 64), 2: ("mode", "x" * 500)}
    table = table_of(differences(hosts(2, odd)))
    assert f"RCCL 2.26.6 {'a' * 12}…" in table
    assert max(map(len, table.splitlines())) < 100


def test_what_a_host_has_not_is_a_dash() -> None:
    """Not an empty place, which could be a value."""
    found = differences(hosts(2, {2: ("other", "")}))
    assert "mode   cpx-nps4  node001" in table_of(found)
    assert re.search(r"–\s+node002", table_of(found))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a"], "a"),
        (["b", "a", "b"], "a, b"),
        (["n10", "n9"], "n9, n10"),
        (["a", "b", "c", "d", "e"], "a, b, c, d, … (5 hosts)"),
        (["10.0.0.10", "10.0.0.2"], "10.0.0.2, 10.0.0.10"),
    ],
)
def test_names_in_few_words(names: list[str], text: str) -> None:
    """Each host once, in the order of their numbers."""
    assert named_hosts(names) == text
