"""Placements of ranks: on which devices, by numbers that are certain, or an error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rccltune.machine.placement import RankDevices, place_ranks
from rccltune.machine.system import Gpu, System, XgmiLink
from rccltune.machine.visible_devices import make_device_variables
from rccltune.model.errors import CommandLineError, MachineError, RccltuneError
from rccltune.model.vocabulary import RankPlacement as P


def machine(oams: int, per_oam: int, *, per_iod: int = 0, n_hidden: int = 0) -> System:
    """A node whose OAMs are numbered one after the other, fully meshed."""
    gpus = tuple(
        Gpu(
            index=oam * per_oam + part,
            oam=f"0000:{oam:02x}:00",
            partition=part,
            iods=(part // per_iod,) if per_iod else (),
        )
        for oam in range(oams)
        for part in range(per_oam)
    )
    links = tuple(
        XgmiLink(origin=a.index, target=b.index, hops=int(a.oam != b.oam))
        for a in gpus
        for b in gpus
        if a is not b
    )
    return System(
        root=Path("/"), status="known", vendor="amd", gpus=gpus, links=links, n_hidden=n_hidden
    )


def placed(
    wished: P | None, system: System, n_ranks: int | None = None, **site: str
) -> RankDevices:
    """The placement in a site's environment."""
    return place_ranks(wished, n_ranks, system, site)


def numbers(found: RankDevices) -> list[int]:
    """Devices in the order of the ranks."""
    return list(found.place.devices)


def color(found: RankDevices, rank: int) -> int:
    """The group of a rank, as nccl-tests works it out from the two variables."""
    pairs = dict(found.environment)
    if "NCCL_TESTS_SPLIT_MASK" in pairs:
        return rank & int(pairs["NCCL_TESTS_SPLIT_MASK"], 16)
    value = pairs["NCCL_TESTS_SPLIT"]
    number = int(value[3:])
    return rank // number if value.startswith("DIV") else rank % number


CPX = machine(8, 8, per_iod=2)
SPX = machine(8, 1)


@pytest.mark.parametrize(
    ("wished", "system", "devices"),
    [
        (P.ONE_OAM, CPX, [0, 1, 2, 3, 4, 5, 6, 7]),
        (P.ONE_PER_OAM, CPX, [0, 8, 16, 24, 32, 40, 48, 56]),
        (P.ONE_IOD, CPX, [0, 1]),
        (P.NODE, SPX, [0, 1, 2, 3, 4, 5, 6, 7]),
        (None, CPX, list(range(64))),
    ],
)
def test_placements_of_an_mi300x(wished: P | None, system: System, devices: list[int]) -> None:
    """AMD's own instructions for one OAM say ROCR_VISIBLE_DEVICES=0,…,7."""
    assert numbers(placed(wished, system)) == devices


@given(st.integers(2, 8), st.integers(2, 8), st.sampled_from([P.EVERY_OAM, P.ACROSS_OAMS]))
def test_groups_have_one_oam_each_or_one_device_of_every_oam(
    oams: int, per_oam: int, wished: P
) -> None:
    """Whatever the numbers, powers of two or not: the benchmark's own split makes them."""
    found = placed(wished, machine(oams, per_oam))
    groups: dict[int, list[str]] = {}
    for rank, gpu in enumerate(found.gpus):
        groups.setdefault(color(found, rank), []).append(gpu.oam)

    assert sorted(numbers(found)) == list(range(oams * per_oam))
    assert {len(own) for own in groups.values()} == {found.place.scale.n_ranks}
    each = {len(set(own)) for own in groups.values()}
    assert each == ({1} if wished is P.EVERY_OAM else {oams})


@given(st.integers(1, 8), st.integers(1, 8), st.integers(2, 64))
def test_the_first_devices_have_the_name_of_what_they_are(
    oams: int, per_oam: int, n_ranks: int
) -> None:
    """Two sessions of the same devices must not have two names."""
    system = machine(oams, per_oam)
    assume(oams * per_oam > 1)
    n = min(n_ranks, oams * per_oam)
    found = placed(None, system, n)

    assert numbers(found) == list(range(n))
    if n == oams * per_oam:
        assert found.place.name == "node"
    elif n == per_oam > 1:
        assert found.place.name == "one-oam"
    else:
        assert found.place.name == "first"


def test_rules_are_for_any_placement_only_where_all_of_them_have_a_name() -> None:
    """Eight of 64 are the two extremes; four of 64 can lie in ways that have none."""
    both = ("one-oam", "one-per-oam")
    for wished in (P.ONE_OAM, P.ONE_PER_OAM, P.EVERY_OAM):
        assert placed(wished, CPX).place.equivalent == both
    assert placed(None, CPX, 4).place.equivalent == ()
    assert placed(None, SPX, 4).place.equivalent == ("first",)
    assert placed(None, replace(SPX, links=()), 4).place.equivalent == ()
    # Of what is hidden nobody knows how it lies.
    hidden = placed(None, machine(1, 8, n_hidden=7)).place
    assert (hidden.name, hidden.equivalent) == ("one-oam", ())


@pytest.mark.parametrize("variable", ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"])
def test_a_site_that_restricts_devices_is_chosen_from(variable: str) -> None:
    """In its order, by numbers of the whole node."""
    allowed = [*range(3, 8), *range(23, 7, -1)]
    site = {variable: ",".join(map(str, allowed))}

    assert numbers(placed(P.ONE_OAM, CPX, **site)) == [23, 22, 21, 20, 19, 18, 17, 16]
    assert numbers(placed(None, CPX, 4, **site)) == [3, 4, 5, 6]
    with pytest.raises(MachineError, match="21 of the node's 64"):
        placed(P.NODE, CPX, **site)
    with pytest.raises(MachineError, match="one-per-oam"):
        placed(P.ONE_PER_OAM, CPX, **site)
    with pytest.raises(MachineError, match="many"):
        placed(P.EVERY_OAM, CPX, **site)


IDENTIFIED = replace(
    SPX, gpus=tuple(replace(gpu, identity=f"{gpu.index:016x}") for gpu in SPX.gpus)
)


@pytest.mark.parametrize(
    ("site", "devices"),
    [
        # HIP counts within what ROCr leaves, and reads CUDA's list only without one of its own.
        ({"ROCR_VISIBLE_DEVICES": "4,5,6", "HIP_VISIBLE_DEVICES": "0,1"}, [4, 5]),
        ({"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "0,1,2,3"}, [4, 5]),
        ({"HIP_VISIBLE_DEVICES": "4,5", "CUDA_VISIBLE_DEVICES": "1,2"}, [4, 5]),
        ({"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "1,2"}, [1, 2]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-0000000000000003,GPU-0000000000000004"}, [3, 4]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-0000000000000003,1,GPU-0000000000000003"}, [3, 1]),
    ],
)
def test_a_sites_lists_are_read_as_the_runtimes_do(
    site: dict[str, str], devices: list[int]
) -> None:
    """ROCclr's rocdevice.cpp for HIP; identities where each is one device's."""
    found = placed(None, IDENTIFIED, **site)
    assert (numbers(found), found.place.name) == (devices, "first")
    assert found.environment == (("ROCR_VISIBLE_DEVICES", ",".join(map(str, devices))),)
    assert "HIP_VISIBLE_DEVICES" in found.cleared


def test_an_identity_of_several_devices_is_not_certain() -> None:
    """Eight partitions have their OAM's: a placement is refused, a number of ranks asked for."""
    same = replace(CPX, gpus=tuple(replace(gpu, identity="12ab") for gpu in CPX.gpus))
    site = {"ROCR_VISIBLE_DEVICES": "GPU-12ab"}
    with pytest.raises(MachineError, match="identity") as caught:
        placed(P.ONE_OAM, same, **site)
    assert caught.value.exit_code == 4
    with pytest.raises(CommandLineError, match="ranks"):
        placed(None, same, **site)
    assert placed(None, same, 2, **site).n_started == 2


@pytest.mark.parametrize(
    "site",
    [
        # Nothing is left: HIP's numbers are those of the node.
        {"ROCR_VISIBLE_DEVICES": "4,5", "HIP_VISIBLE_DEVICES": "4,5"},
        {"ROCR_VISIBLE_DEVICES": "GPU-00000000000000ff"},
        {"ROCR_VISIBLE_DEVICES": ""},
    ],
)
def test_lists_that_leave_too_little_are_an_error(site: dict[str, str]) -> None:
    """The error names them."""
    with pytest.raises(MachineError, match="0 of 8 GPUs") as caught:
        placed(None, IDENTIFIED, **site)
    assert caught.value.where == ", ".join(site)


def test_a_device_without_a_render_node_shifts_the_numbers() -> None:
    """ROCr leaves it out and numbers the others anew: no placement, one rank fewer."""
    shut = replace(CPX.gpus[3], can_open=False, render_minor=131)
    system = replace(CPX, gpus=(*CPX.gpus[:3], shut, *CPX.gpus[4:]))
    with pytest.raises(MachineError, match="render"):
        placed(P.ONE_OAM, system)
    assert placed(None, system).n_started == 63


def test_numbers_by_speed_are_not_numbers_by_address() -> None:
    """CUDA's own order matters only where the GPUs differ."""
    alike = replace(SPX, vendor="nvidia", product="H200")
    mixed = replace(alike, product=None)
    by_address = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    listed = {"CUDA_VISIBLE_DEVICES": "2,3"}

    assert numbers(placed(None, alike, **listed)) == [2, 3]
    assert numbers(placed(None, mixed, **listed, **by_address)) == [2, 3]
    with pytest.raises(MachineError, match="not alike"):
        placed(P.FIRST, mixed, 2, **listed)


@pytest.mark.parametrize(
    ("wished", "n_ranks", "error"),
    [
        (P.ONE_OAM, 4, CommandLineError),
        (P.NODE, 8, CommandLineError),
        (P.FIRST, None, CommandLineError),
        (P.FIRST, 1, MachineError),
        (P.EVERY_OAM, 64, CommandLineError),
    ],
)
def test_ranks_that_do_not_fit_are_refused(
    wished: P, n_ranks: int | None, error: type[RccltuneError]
) -> None:
    """Nothing else is measured under the name that was asked for."""
    with pytest.raises(error):
        placed(wished, CPX, n_ranks)


@pytest.mark.parametrize("wished", [P.ONE_OAM, P.ONE_IOD, P.EVERY_OAM, P.ACROSS_OAMS])
def test_a_machine_without_partitions_has_no_such_placement(wished: P) -> None:
    """Each OAM is one device there."""
    with pytest.raises(MachineError):
        placed(wished, SPX)
    assert placed(P.ONE_PER_OAM, SPX).place.name == "node"


@pytest.mark.parametrize(
    ("vendor", "pairs"),
    [
        ("amd", (("ROCR_VISIBLE_DEVICES", "0,8,16"),)),
        ("nvidia", (("CUDA_DEVICE_ORDER", "PCI_BUS_ID"), ("CUDA_VISIBLE_DEVICES", "0,8,16"))),
    ],
)
def test_devices_are_chosen_by_the_vendors_variable(
    vendor: str, pairs: tuple[tuple[str, str], ...]
) -> None:
    """In the order of the ranks."""
    assert make_device_variables(vendor, 0, 8, 16) == pairs
