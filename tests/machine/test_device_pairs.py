"""Which pairs a link map measures: classes from the topology, and a few pairs of each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import add_links, seen, write

from rccltune.cli.detect import detect
from rccltune.machine.device_pairs import choose_pairs, find_usable_devices, pair_devices
from rccltune.machine.system import Gpu, System
from rccltune.model.errors import MachineError
from rccltune.model.link_map import LinkClass


def system_of(name: str, root: Path, *, with_links: bool = True) -> System:
    """A described machine as it is seen."""
    write(name, root)
    if with_links:
        add_links(root)
    return seen(root)


def classes(system: System) -> dict[LinkClass, int]:
    """How many pairs of each class a machine has."""
    return dict(Counter(pair.link for pair in pair_devices(system.gpus, system.links)))


# Closed forms: an OAM has four pairs on one IOD and 28 in all; 64 devices have 2016, 63 have 1953,
# and partition 7 that is missing there had one pair on its IOD and six others in its OAM.
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "mi300x-cpx-nps4",
            {LinkClass.SAME_IOD: 32, LinkClass.SAME_OAM: 192, LinkClass.ONE_LINK: 1792},
        ),
        (
            "mi300x-cpx-63-of-64",
            {LinkClass.SAME_IOD: 31, LinkClass.SAME_OAM: 186, LinkClass.ONE_LINK: 1736},
        ),
        ("mi300x-spx-nps1", {LinkClass.ONE_LINK: 28}),
    ],
)
def test_classes_follow_from_the_topology(
    name: str, expected: dict[LinkClass, int], tmp_path: Path
) -> None:
    """Same IOD, same OAM, one XGMI link; whole GPUs have the last alone."""
    assert classes(system_of(name, tmp_path)) == expected


def gpus(*places: tuple[str, int | None, tuple[int, ...]]) -> tuple[Gpu, ...]:
    """Devices from (oam, partition, iods)."""
    return tuple(
        Gpu(index=i, oam=oam, partition=partition, iods=iods)
        for i, (oam, partition, iods) in enumerate(places)
    )


def test_representatives_are_spread(tmp_path: Path) -> None:
    """Three pairs of a class lie on different OAMs, and those across IODs join different IODs."""
    system = system_of("mi300x-cpx-nps4", tmp_path)
    chosen = choose_pairs(pair_devices(system.gpus, system.links), 3)
    assert [pair.link for pair in chosen] == [
        *[LinkClass.SAME_IOD] * 3,
        *[LinkClass.SAME_OAM] * 3,
        *[LinkClass.ONE_LINK] * 3,
    ]
    for link in (LinkClass.SAME_IOD, LinkClass.SAME_OAM):
        assert len({pair.first.oam for pair in chosen if pair.link is link}) == 3
    across = {(pair.first.iods[0], pair.second.iods[0]) for pair in chosen[3:6]}
    # Four IODs in a square have two diagonals. Whichever the numbering, one of them is here.
    for diagonals in ({(0, 3), (1, 2)}, {(0, 2), (1, 3)}, {(0, 1), (2, 3)}):
        assert across & diagonals
    assert len({(pair.first.oam, pair.second.oam) for pair in chosen[6:]}) == 3


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), min_size=2, max_size=9),
    st.integers(1, 40),
)
def test_representatives_are_as_many_as_asked_for(
    places: Sequence[tuple[str, int]], wanted: int
) -> None:
    """Each class has so many pairs, or all that there are, and none twice."""
    devices = gpus(*((oam, at, (at // 2,)) for oam, at in places))
    every = pair_devices(devices, ())
    chosen = choose_pairs(every, wanted)
    there, taken = (Counter(pair.link for pair in found) for found in (every, chosen))
    assert taken == {link: min(n, wanted) for link, n in there.items()}
    assert len({(pair.first.index, pair.second.index) for pair in chosen}) == len(chosen)
    assert len(every) == len(list(combinations(places, 2)))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"ROCR_VISIBLE_DEVICES": "2,5"}, [2, 5]),
        ({"HIP_VISIBLE_DEVICES": "7, 0"}, [7, 0]),
        # As the runtimes read it: a word that is no device, or one that was there, ends the list.
        ({"CUDA_VISIBLE_DEVICES": "1,2,99,3"}, [1, 2]),
        ({"CUDA_VISIBLE_DEVICES": "1,2,1,3"}, [1, 2]),
    ],
)
def test_the_sites_own_choice_of_devices_counts(
    variables: dict[str, str], expected: list[int], tmp_path: Path
) -> None:
    """A scheduler that gave us two GPUs did not give us the others."""
    system = system_of("mi300x-spx-nps1", tmp_path)
    assert [gpu.index for gpu in find_usable_devices(system, variables)] == expected


@pytest.mark.parametrize(
    ("variables", "message", "where"),
    [
        ({"ROCR_VISIBLE_DEVICES": "3"}, "1 of 8 can be used", "ROCR_VISIBLE_DEVICES"),
        ({"ROCR_VISIBLE_DEVICES": ""}, "0 of 8 can be used", "ROCR_VISIBLE_DEVICES"),
        ({"HIP_VISIBLE_DEVICES": "GPU-,1"}, "by an identity", "HIP_VISIBLE_DEVICES=GPU-,1"),
    ],
)
def test_variables_that_leave_no_pair(
    variables: dict[str, str], message: str, where: str, tmp_path: Path
) -> None:
    """What, where, and what to do."""
    system = system_of("mi300x-spx-nps1", tmp_path)
    with pytest.raises(MachineError, match=message) as caught:
        find_usable_devices(system, variables)
    assert where in (caught.value.where or "")
    assert caught.value.hint


@pytest.mark.parametrize("machine", ["no-amd-gpu", "no-sysfs"])
def test_a_machine_without_gpus(machine: str, tmp_path: Path) -> None:
    """It proposes no option that detect refuses."""
    with pytest.raises(MachineError) as caught:
        find_usable_devices(system_of(machine, tmp_path, with_links=False), {})
    hint = caught.value.hint or ""
    assert "rccltune" in hint
    known = {option for one in detect.params for option in one.opts}
    assert set(re.findall(r"(?<!\S)--[a-z-]+", hint)) <= known
