"""Tables name hosts, and are as short with two hundred as with two."""

from __future__ import annotations

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
