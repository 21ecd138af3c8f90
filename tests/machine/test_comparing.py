"""Hosts that are alike differ in nothing; one that is changed is named, whatever the others are."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from rccltune.machine.hosts import AS_SET, Host, as_asked, differences

THINGS = ("mode", "GPUs", "library", "plugin", "NCCL_IB_HCA", "HSA_NO_SCRATCH_RECLAIM")
values = st.text(alphabet="abc0", min_size=1, max_size=3)
facts = st.dictionaries(st.sampled_from(THINGS), values)


def hosts(n: int, said: dict[str, str], n_ranks: int = 8) -> list[Host]:
    """So many that say the same."""
    made = Host(name="node", boot_id="b", n_ranks=n_ranks, facts=tuple(said.items()))
    return [replace(made, name=f"node{number:03d}", boot_id=f"b{number}") for number in range(n)]


@given(st.integers(3, 20), facts, st.sampled_from(THINGS), values, st.data())
def test_a_changed_host_is_named_alone(
    n: int, said: dict[str, str], what: str, value: str, data: st.DataObject
) -> None:
    """One thing, two groups: all others first, then the one."""
    assume(said.get(what) != value)
    alike = hosts(n, said)
    odd = data.draw(st.integers(0, n - 1))
    other = replace(alike[odd], facts=tuple((said | {what: value}).items()))
    (found,) = differences([*alike[:odd], other, *alike[odd + 1 :]])

    assert found.what == what
    assert [group.value for group in found.groups] == [said.get(what), value]
    assert found.groups[1].hosts == (alike[odd].name,)
    assert len(found.groups[0].hosts) == n - 1


@given(st.lists(facts, min_size=1, max_size=6), st.randoms())
def test_every_host_is_in_one_group_in_any_order(
    said: list[dict[str, str]], random: object
) -> None:
    """Nobody is lost or counted twice, and the order of the answers is no matter."""
    made = [
        Host(name=f"n{number}", boot_id=str(number), n_ranks=8, facts=tuple(one.items()))
        for number, one in enumerate(said)
    ]
    shuffled = list(made)
    random.shuffle(shuffled)
    found = differences(made)
    for one in found:
        assert sorted(name for group in one.groups for name in group.hosts) == sorted(
            host.name for host in made
        )
        for group in one.groups:
            assert {dict(h.facts).get(one.what) for h in made if h.name in group.hosts} == {
                group.value
            }
    assert {one.what: one.groups for one in differences(shuffled)} == {
        one.what: one.groups for one in found
    }


def test_two_hosts_of_one_name_are_told_apart() -> None:
    """Containers are all called the same."""
    one = Host(name="gpu", boot_id="1234567890", n_ranks=8, facts=(("mode", "cpx-nps4"),))
    other = replace(one, boot_id="abcdefghij", facts=(("mode", "spx-nps1"),))
    (found,) = differences([one, other])
    assert [group.hosts for group in found.groups] == [("gpu (12345678)",), ("gpu (abcdefgh)",)]


def test_what_was_set_must_have_arrived() -> None:
    """Hosts that all lack a variable are alike, and wrong."""
    alike = hosts(2, {"NCCL_IB_HCA": "mlx5_0"})
    assert as_asked(alike, {"NCCL_IB_HCA": "mlx5_0"}) == ()
    (lost,) = as_asked(alike, {"NCCL_IB_HCA": "mlx5_0", "HSA_X": "1"})
    assert lost.what == "HSA_X"
    assert [(group.value, group.hosts) for group in lost.groups] == [
        (None, ("node000", "node001")),
        ("1", (AS_SET,)),
    ]
    # Of what hosts differ in already is told by that.
    assert as_asked(alike, {"HSA_X": "1"}, but=["HSA_X"]) == ()
    # A launcher's own variables are not the libraries'.
    assert as_asked(alike, {"PATH": "/x"}) == ()
