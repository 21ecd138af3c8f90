"""Hosts by the heads of their ranks' rows: alike they differ in nothing, and an odd one is named."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rccltune.measure.hosts import (
    AS_SET,
    Host,
    HostComparison,
    find_differences,
    hosts_of,
    named_hosts,
    table_of,
)
from rccltune.model.errors import MachineError

THINGS = ("mode", "GPUs", "library", "plugin", "NCCL_IB_HCA", "HSA_NO_SCRATCH_RECLAIM")
values = st.text(alphabet="abc0", min_size=1, max_size=3)
facts = st.dictionaries(st.sampled_from(THINGS), values)


def head(
    host: str,
    facts: Mapping[str, str] = {},
    variables: Mapping[str, str] = {},
    boot: str = "b",
) -> list[str]:
    """What a rank writes before its rows."""
    return [
        "# rccltune-perf 1",
        f"# host {host}",
        f"# boot {boot}",
        *(f"# fact {name}={value}" for name, value in facts.items()),
        *(f"# variable {name}={value}" for name, value in variables.items()),
        "line,communicator,step",
    ]


ROW = "2,0,communicator"


@dataclass
class Heard:
    """What a reporter was told."""

    said: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Keep it."""
        self.said.append(text)

    def progress(self, done: object) -> None:
        """Nothing."""


def hosts(n: int, said: Mapping[str, str], n_ranks: int = 8) -> list[Host]:
    """So many that say the same."""
    made = Host(name="node", boot_id="b", n_ranks=n_ranks, facts=tuple(said.items()))
    return [replace(made, name=f"node{at:03d}", boot_id=f"b{at}") for at in range(1, n + 1)]


# --- from lines to hosts --------------------------------------------------------------------------


def test_ranks_of_a_host_become_one() -> None:
    """One of them says digests; where they say different things, both are said."""
    found = hosts_of(
        [
            head("b", {"mode": "spx-nps1", "NUMA": "1"}),
            head("a", {"library": "2.27.7 0f", "mode": "cpx-nps4", "NUMA": "0"}, {"NCCL_X": "1"}),
            head("a/host0", {"mode": "cpx-nps4", "NUMA": "1"}),
        ]
    )
    assert [(one.name, one.n_ranks) for one in found] == [("a", 2), ("b", 1)]
    assert found[0].facts == (
        ("library", "2.27.7 0f"),
        ("mode", "cpx-nps4"),
        ("NUMA", "0 | 1"),
        ("NCCL_X", "(not set) | 1"),
    )


@pytest.mark.parametrize(
    ("name", "compared"),
    [
        ("NCCL_ALGO", True),
        ("RCCL_LL128_FORCE_ENABLE", True),
        ("HSA_NO_SCRATCH_RECLAIM", True),
        ("HIP_FORCE_DEV_KERNARG", True),
        ("ROCR_VISIBLE_DEVICES", True),
        ("RCCLTUNE_RECORD", True),
        ("LD_PRELOAD", True),
        ("RCCLTUNE_RUN_ID", False),
        ("NCCL_HOSTID", False),
        ("OMPI_COMM_WORLD_RANK", False),
        ("LD_LIBRARY_PATH", False),
    ],
)
def test_what_the_libraries_read_is_compared(name: str, compared: bool) -> None:
    """Not what a launcher gives every rank for itself."""
    found = hosts_of([head("a", variables={name: "1"}), head("b", variables={name: "2"})])
    assert list(find_differences(found, {})) == [name] * compared


@given(st.permutations([str(number) for number in range(8)]))
def test_a_device_for_each_rank_is_alike_on_every_host(order: list[str]) -> None:
    """Ranks start in any order."""
    ranks = [
        head(host, variables={"ROCR_VISIBLE_DEVICES": one})
        for host, devices in (("a", order), ("b", sorted(order)))
        for one in devices
    ]
    assert find_differences(hosts_of(ranks), {}) == {}


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [("GPU-1a,GPU-2b", "GPU-3c,GPU-4d", True), ("GPU-1a,GPU-2b", "GPU-3c", False)],
)
def test_devices_by_serial_number_count_only(one: str, other: str, alike: bool) -> None:
    """No other host has them; a rank that sees more devices is still another thing."""
    ranks = [
        head(host, variables={"X_VISIBLE_DEVICES": seen, "HIP_VISIBLE_DEVICES": seen})
        for host, seen in (("a", one), ("b", other))
    ]
    assert (find_differences(hosts_of(ranks), {}) == {}) is alike


# --- differences ----------------------------------------------------------------------------------


@given(st.integers(3, 20), facts, st.sampled_from(THINGS), values, st.data())
def test_a_changed_host_is_named_alone(
    n: int, said: dict[str, str], what: str, value: str, data: st.DataObject
) -> None:
    """One thing, two groups: all others first, then the one."""
    assume(said.get(what) != value)
    alike = hosts(n, said)
    odd = data.draw(st.integers(0, n - 1))
    other = replace(alike[odd], facts=tuple((said | {what: value}).items()))
    found = find_differences([*alike[:odd], other, *alike[odd + 1 :]], {})

    assert list(found) == [what]
    most, alone = found[what]
    assert (most[0], len(most[1])) == (said.get(what), n - 1)
    assert alone == (value, (alike[odd].name,))


def test_a_rank_more_on_one_host_is_a_difference() -> None:
    """Nothing else need differ."""
    found = find_differences([*hosts(2, {}), replace(hosts(1, {})[0], name="odd", n_ranks=7)], {})
    assert found == {"ranks": [("8", ("node001", "node002")), ("7", ("odd",))]}


def test_two_hosts_of_one_name_are_told_apart() -> None:
    """Containers are all called the same."""
    ranks = [
        head("gpu", {"mode": mode}, boot=boot)
        for mode, boot in (("x", "12345678-9"), ("y", "abcdefgh-i"))
    ]
    found = find_differences(hosts_of(ranks), {})
    assert [who for _, who in found["mode"]] == [("gpu (12345678)",), ("gpu (abcdefgh)",)]


def test_what_was_set_must_have_arrived() -> None:
    """Hosts that all lack a variable are alike, and wrong."""
    alike = hosts(2, {"NCCL_IB_HCA": "mlx5_0"})
    assert find_differences(alike, {"NCCL_IB_HCA": "mlx5_0"}) == {}
    assert find_differences(alike, {"NCCL_IB_HCA": "mlx5_0", "HSA_X": "1"}) == {
        "HSA_X": [(None, ("node001", "node002")), ("1", (AS_SET,))]
    }
    # A launcher's own variables are not the libraries'.
    assert find_differences(alike, {"PATH": "/x"}) == {}


# --- tables ---------------------------------------------------------------------------------------


def odd_one(n: int, odd: int) -> list[Host]:
    """So many in cpx-nps4, and one of them not."""
    made = hosts(n, {"mode": "cpx-nps4"})
    made[odd - 1] = replace(made[odd - 1], facts=(("mode", "spx-nps1"),))
    return made


def test_two_hosts() -> None:
    """The value of each, with its name."""
    table = table_of(find_differences(odd_one(2, 2), {}))
    assert table == "  mode  cpx-nps4  node001\n        spx-nps1  node002"


def test_two_hundred_hosts_need_no_more_lines() -> None:
    """One odd host among them is found at a look."""
    one, other = table_of(find_differences(odd_one(200, 77), {})).splitlines()
    assert one == "  mode  cpx-nps4  node001, node002, node003, node004, … (199 hosts)"
    assert other == "        spx-nps1  node077"


def test_many_values_are_six_lines_and_one() -> None:
    """The last says how many more there are, and of whom."""
    made = [replace(one, facts=(("x", one.name),)) for one in hosts(9, {})]
    assert table_of(find_differences(made, {})).splitlines()[-1] == (
        "     … 3 more values  node007, node008, node009"
    )


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


# --- what comes of it -----------------------------------------------------------------------------

ALIKE = [head("a", {"mode": "x"}), head("b", {"mode": "x"})]
UNLIKE = [head("a", {"mode": "x"}), head("b", {"mode": "y"})]


def comparison(
    folder: Path, named: Sequence[str] = ("a", "b"), *, force: bool = False
) -> HostComparison:
    """Of a session."""
    return HostComparison(named=tuple(named), session=folder, reporter=Heard(), force=force)


def said_of(made: HostComparison) -> list[str]:
    """What it told."""
    assert isinstance(made.reporter, Heard)
    return made.reporter.said


def test_alike_hosts_are_told_once_and_kept(tmp_path: Path) -> None:
    """When the first communicator is there, since a library reads files of its own until then."""
    made = comparison(tmp_path)
    made.check(ALIKE, {})
    assert said_of(made) == []
    for _ in range(2):
        made.check([[*one, ROW] for one in ALIKE], {})
    assert said_of(made) == ["2 hosts are alike: a, b"]
    kept = json.loads((tmp_path / "hosts.json").read_text())["hosts"]
    assert [(one["name"], one["n_ranks"], one["facts"]) for one in kept] == [
        ("a", 1, [["mode", "x"]]),
        ("b", 1, [["mode", "x"]]),
    ]


def test_unlike_hosts_stop_it_before_there_is_a_communicator(tmp_path: Path) -> None:
    """With the table; hosts.json has them all the same."""
    with pytest.raises(MachineError, match="not alike") as caught:
        comparison(tmp_path).check(UNLIKE, {})
    assert str(caught.value).splitlines()[1:3] == ["  mode  x  a", "        y  b"]
    assert len(json.loads((tmp_path / "hosts.json").read_text())["hosts"]) == 2


def test_a_file_of_the_library_that_one_host_has_stops_it(tmp_path: Path) -> None:
    """Said by that host's ranks after the first communicator."""
    made = comparison(tmp_path)
    made.check(ALIKE, {})
    with pytest.raises(MachineError, match="NCCL_ALGO"):
        made.check([[*ALIKE[0], ROW], [*ALIKE[1], "# variable NCCL_ALGO=Ring", ROW]], {})


def test_force_measures_all_the_same(tmp_path: Path) -> None:
    """And says how they differ."""
    made = comparison(tmp_path, force=True)
    made.check([[*one, ROW] for one in UNLIKE], {})
    (said,) = said_of(made)
    assert said.startswith("Measured all the same: the hosts are not alike:\n  mode  x  a")


def test_a_host_that_is_named_twice_is_one(tmp_path: Path) -> None:
    """Rules would be for more nodes than the library counts."""
    with pytest.raises(MachineError, match=r"names 2 hosts .* run on 1"):
        comparison(tmp_path, ("a", "a.example.org")).check([ALIKE[0], ALIKE[0]], {})


def test_one_host_is_not_compared(tmp_path: Path) -> None:
    """Nothing is said or kept."""
    comparison(tmp_path, ()).check(UNLIKE, {})
    assert list(tmp_path.iterdir()) == []
