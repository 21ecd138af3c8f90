"""The devices that ranks run on: which a placement means, and how they are chosen.

Eight ranks of one OAM and eight ranks one per OAM are the same scale to the library and to a
tuner, and as far apart in speed as two machines. So each is measured under a name of its own, on
devices that are chosen by number; numbers count in KFD's order, as ROCr and HIP do
(``Gpu.index``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.machine.system import Gpu, System, XgmiLink
from rccltune.machine.visible_devices import (
    VISIBLE,
    find_visible_devices,
    make_device_variables,
    read_visible_lists,
)
from rccltune.model.errors import CommandLineError, MachineError
from rccltune.model.settings import RankLocation, Scale
from rccltune.model.vocabulary import RankPlacement
from rccltune.simulate.node import SimulatedNode

_MASK: Final = "NCCL_TESTS_SPLIT_MASK"
_SPLIT: Final = "NCCL_TESTS_SPLIT"
# What of a site would part the ranks of a benchmark, or move them to other devices.
SPLITTING: Final = (_MASK, _SPLIT, "NCCL_TESTS_DEVICE")
_WHERE: Final = "rccltune detect -v shows which devices lie where."


@dataclass(frozen=True, slots=True, kw_only=True)
class RankDevices:
    """Devices and environment of the ranks of every launch.

    Attributes:
        n_started: ranks of a launch, those of all groups.
        environment: chooses the devices, and parts the ranks; set in every launch.
        cleared: the site's own choice, which would count within ours.
        gpus: where each rank is to be, by number; empty where nobody checks.
        remark: for the user, None where ranks run on the whole node.
    """

    place: RankLocation
    n_started: int
    environment: tuple[tuple[str, str], ...] = ()
    cleared: tuple[str, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    remark: str | None = None


def place_ranks(
    wanted: RankPlacement | None,
    n_ranks: int | None,
    system: System,
    variables: Mapping[str, str],
) -> RankDevices:
    """Put ranks on the devices of one node.

    Args:
        wanted: None is the whole node, or its first devices where ``n_ranks`` is fewer.
        n_ranks: of a communicator, None for as many as the placement has.
        system: what was detected.
        variables: the site's environment.

    Raises:
        MachineError: the machine has no such placement, or which device has which number is not
            certain.
        CommandLineError: the number of ranks does not fit, or is not known.
    """
    asks = wanted not in (None, RankPlacement.NODE)
    if not system.gpus and asks:
        raise MachineError(
            "which devices there are is not known, so that ranks cannot be placed on them",
            where=str(system.root / "sys/class/kfd/kfd/topology"),
            hint="rccltune doctor says what hides the GPUs; or leave out --rank-placement.",
        )
    if not asks and (not system.gpus or (n_ranks or 0) > len(system.gpus)):
        return _leave_to_site(n_ranks, count_devices(system))
    try:
        _check_numbers(system, variables)
        gpus = find_visible_devices(system.gpus, system.vendor, variables)
    except MachineError:
        if asks:
            raise
        # Nobody asked for devices: the site's own choice passes on.
        return _leave_to_site(n_ranks or _count_visible(system, variables), count_devices(system))
    if not asks and n_ranks is None and len(gpus) < 2:
        # A rank by itself has nobody to communicate with.
        raise MachineError(
            f"{len(gpus)} of {count_devices(system)} GPUs can be used here, and a collective "
            "needs two",
            where=", ".join(read_visible_lists(system.vendor, variables)) or None,
            hint="rccltune detect shows what is there; on several hosts say --hostfile and --np.",
        )
    if wanted in (RankPlacement.EVERY_OAM, RankPlacement.ACROSS_OAMS):
        return _place_side_by_side(wanted, gpus, system, n_ranks)
    chosen = _choose_devices(wanted, gpus, system, n_ranks)
    if n_ranks not in (None, len(chosen)):
        raise CommandLineError(
            f"{wanted.value if wanted else 'this machine'} has {len(chosen)} devices, and --np "
            f"asks for {n_ranks} ranks",
            hint="leave out --np, or say --rank-placement first.",
        )
    if len(chosen) < 2 and wanted is not None:
        raise MachineError("a placement of one device has nothing to communicate", hint=_WHERE)
    return _place_on(_name_devices(chosen, gpus, system), chosen, len(chosen), system)


def count_devices(system: System) -> int:
    """Devices of the node, those included that a job cannot use."""
    return len(system.gpus) + system.n_hidden


def check_devices(n_ranks: int, n_devices: int) -> None:
    """Stop where a rank would have no device, before anything is planned.

    Raises:
        MachineError: there are more ranks than devices.
    """
    if n_ranks > n_devices:
        raise MachineError(
            f"{n_ranks} ranks need as many GPUs, and {n_devices} can be used here",
            hint="say fewer ranks with --np; rccltune detect shows the devices.",
        )


def check_visible_devices(n_ranks: int, system: System, variables: Mapping[str, str]) -> None:
    """Stop where a rank of this host would have no device, as far as devices are known.

    Raises:
        MachineError: there are more ranks than devices that a job sees.
    """
    n_devices = _count_visible(system, variables)
    if n_devices is not None:
        check_devices(n_ranks, n_devices)


def _check_numbers(system: System, variables: Mapping[str, str]) -> None:
    """Stop where which number is which device is not certain."""
    closed = [gpu for gpu in system.gpus if gpu.can_open is False]
    if closed:
        raise MachineError(
            f"{len(closed)} of {len(system.gpus)} devices have no render node here, so that the "
            "runtime numbers them otherwise than the driver does",
            where=f"/dev/dri/renderD{closed[0].render_minor}",
            hint="start the container with --device=/dev/dri, all of it.",
        )
    by_speed = variables.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"
    is_mixed = system.vendor == "nvidia" and system.product is None
    if is_mixed and by_speed and "CUDA_VISIBLE_DEVICES" in variables:
        raise MachineError(
            "these GPUs are not alike, and CUDA numbers them by speed unless told otherwise",
            where="CUDA_VISIBLE_DEVICES",
            hint="set CUDA_DEVICE_ORDER=PCI_BUS_ID with it; that is how nvidia-smi numbers them.",
        )


def _count_visible(system: System, variables: Mapping[str, str]) -> int | None:
    """Number of devices that a job sees, though not which; None where that is uncertain, too."""
    there = [gpu for gpu in system.gpus if gpu.can_open is not False]
    try:
        return len(find_visible_devices(there, system.vendor, variables)) or None
    except MachineError:
        return None


def _leave_to_site(n_ranks: int | None, n_devices: int, n_hosts: int = 1) -> RankDevices:
    """Ranks wherever the launcher and the site put them."""
    if n_ranks is None:
        raise CommandLineError(
            "how many ranks to start is not known",
            hint="say it with --np: one rank for each GPU or partition.",
        )
    is_node = n_ranks >= n_hosts * n_devices
    name = (RankPlacement.NODE if is_node else RankPlacement.FIRST).value
    scale = Scale(n_nodes=n_hosts, n_ranks=n_ranks)
    place = RankLocation(name=name, scale=scale, equivalent=(name,) if is_node else ())
    return RankDevices(place=place, n_started=n_ranks)


def _choose_devices(
    wanted: RankPlacement | None, gpus: tuple[Gpu, ...], system: System, n_ranks: int | None
) -> tuple[Gpu, ...]:
    """The devices of a placement, one for each rank."""
    oams = _group_by_oam(gpus)
    chosen: Sequence[Gpu] = ()
    if wanted is None:
        return gpus[: n_ranks or len(gpus)]
    if wanted is RankPlacement.NODE:
        if len(gpus) < count_devices(system):
            raise MachineError(
                f"{len(gpus)} of the node's {count_devices(system)} devices can be used here, "
                "which is not the placement 'node'",
                hint="unset *_VISIBLE_DEVICES or ask for the whole node; or leave out "
                "--rank-placement.",
            )
        return gpus
    if wanted is RankPlacement.FIRST:
        if n_ranks is None:
            raise CommandLineError(
                "how many of the first devices are meant is not said", hint="say it with --np."
            )
        return gpus[:n_ranks]
    if wanted is RankPlacement.ONE_OAM and _count_per_oam(system) > 1:
        chosen = next((oam for oam in oams if len(oam) == _count_per_oam(system)), ())
    elif wanted is RankPlacement.ONE_PER_OAM and len(oams) == len(_group_by_oam(system.gpus)):
        chosen = [oam[0] for oam in oams]
    elif wanted is RankPlacement.ONE_IOD:
        chosen = _find_one_iod(gpus)
    if not chosen:
        raise MachineError(
            f"no devices that can be used here are placed as '{wanted.value}'", hint=_WHERE
        )
    return tuple(chosen)


def _group_by_oam(gpus: Iterable[Gpu]) -> list[list[Gpu]]:
    oams: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        oams.setdefault(gpu.oam, []).append(gpu)
    return list(oams.values())


def _count_per_oam(system: System) -> int:
    """Devices on the fullest of the node's OAMs that can be seen."""
    return max(map(len, _group_by_oam(system.gpus)), default=0)


def _find_one_iod(gpus: Sequence[Gpu]) -> list[Gpu]:
    """All devices of the first I/O die that has more than one."""
    dies: dict[tuple[str, int], list[Gpu]] = {}
    for gpu in gpus:
        if len(gpu.iods) == 1:
            dies.setdefault((gpu.oam, gpu.iods[0]), []).append(gpu)
    most = max(map(len, dies.values()), default=0)
    return next((there for there in dies.values() if len(there) == most > 1), [])


def _name_devices(chosen: Sequence[Gpu], gpus: Sequence[Gpu], system: System) -> RankPlacement:
    """Name of a set of devices, whoever asked for them: one placement has one name."""
    n_oams = len({gpu.oam for gpu in chosen})
    per_oam = _count_per_oam(system)
    if len(chosen) >= count_devices(system):
        return RankPlacement.NODE
    if per_oam < 2 or len(chosen) < 2:
        return RankPlacement.FIRST
    if n_oams == 1 and len(chosen) == per_oam:
        return RankPlacement.ONE_OAM
    if n_oams == len(chosen) == len(_group_by_oam(system.gpus)):
        return RankPlacement.ONE_PER_OAM
    on_one_iod = len({(gpu.oam, gpu.iods) for gpu in chosen}) == 1 and len(chosen[0].iods) == 1
    if on_one_iod and len(chosen) == len(_find_one_iod(gpus)):
        return RankPlacement.ONE_IOD
    return RankPlacement.FIRST


def _list_equivalent(n_ranks: int, system: System) -> tuple[RankPlacement, ...]:
    """Placements that ranks can have; four devices on two OAMs and the like are nameless."""
    per_oam = _count_per_oam(system)
    if n_ranks >= count_devices(system):
        return (RankPlacement.NODE,)
    if system.n_hidden:
        return ()
    if per_oam == 1:
        return (RankPlacement.FIRST,) if _are_all_linked(system) else ()
    if n_ranks == per_oam == len(_group_by_oam(system.gpus)):
        return (RankPlacement.ONE_OAM, RankPlacement.ONE_PER_OAM)
    return ()


def _are_all_linked(system: System) -> bool:
    """Whether every two devices are one XGMI link apart at most."""
    linked = {(link.origin, link.target) for link in system.links if link.hops in (0, 1)}
    numbers = [gpu.index for gpu in system.gpus]
    return all((a, b) in linked for a in numbers for b in numbers if a != b)


def _place_side_by_side(
    wanted: RankPlacement, gpus: tuple[Gpu, ...], system: System, n_ranks: int | None
) -> RankDevices:
    """All devices, parted into communicators of one OAM each, or across all OAMs."""
    oams = _group_by_oam(gpus)
    per_oam = len(oams[0]) if oams else 0
    if per_oam < 2 or len(oams) < 2 or any(len(oam) != per_oam for oam in oams):
        raise MachineError(
            f"'{wanted.value}' needs several OAMs with several devices each, as many on every one",
            hint=_WHERE,
        )
    group_size = per_oam if wanted is RankPlacement.EVERY_OAM else len(oams)
    if n_ranks not in (None, group_size):
        raise CommandLineError(
            f"the groups of '{wanted.value}' have {group_size} ranks here, and --np asks for "
            f"{n_ranks}",
            hint="leave out --np.",
        )
    side_by_side = tuple(gpu for oam in oams for gpu in oam)
    return _place_on(
        wanted, side_by_side, group_size, system, _split_by_oam(wanted, per_oam, len(gpus))
    )


def _split_by_oam(wanted: RankPlacement, per_oam: int, n_started: int) -> tuple[str, str]:
    """Return what groups ranks by OAM, or by place in it; older benchmarks know the mask."""
    every = wanted is RankPlacement.EVERY_OAM
    if per_oam & (per_oam - 1):
        return _SPLIT, f"{'DIV' if every else 'MOD'}{per_oam}"
    bits = per_oam - 1
    return _MASK, hex(((1 << n_started.bit_length()) - 1) & ~bits if every else bits)


def _place_on(
    name: RankPlacement,
    gpus: tuple[Gpu, ...],
    n_ranks: int,
    system: System,
    *split: tuple[str, str],
) -> RankDevices:
    """Ranks on these devices, in communicators of ``n_ranks``."""
    place = RankLocation(
        name=name.value,
        scale=Scale(n_nodes=1, n_ranks=n_ranks),
        devices=tuple(gpu.index for gpu in gpus),
        equivalent=tuple(one.value for one in _list_equivalent(n_ranks, system)),
    )
    if name is RankPlacement.NODE:
        return RankDevices(place=place, n_started=len(gpus))
    environment = (*make_device_variables(system.vendor, *place.devices), *split)
    exports = " ".join(f"{variable}={value}" for variable, value in environment)
    return RankDevices(
        place=place,
        n_started=len(gpus),
        environment=environment,
        cleared=(*VISIBLE, *SPLITTING),
        gpus=gpus,
        remark=f"Placement {place.name}: {place.scale}; every launch has {exports}",
    )


def place_over_hosts(
    wanted: RankPlacement | None, seating: RankDevices, n_hosts: int, n_devices: int
) -> RankDevices:
    """Ranks of one host put on several, whose devices cannot be seen from here.

    Args:
        wanted: as said.
        seating: on one host.
        n_hosts: two or more.
        n_devices: of this host; the others are taken to have as many.

    Raises:
        CommandLineError: a placement other than all devices was asked for.
    """
    if wanted not in (None, RankPlacement.NODE):
        raise CommandLineError(
            f"ranks on several hosts cannot be placed as '{wanted.value}': the devices of other "
            "hosts cannot be seen from here",
            hint="sweep the placement on one host, or leave out --rank-placement.",
        )
    return _leave_to_site(seating.n_started, n_devices, n_hosts)


def make_simulated_system(node: SimulatedNode) -> System:
    """The devices of one host of a simulated node, as a look at such a machine would find them."""
    per_oam, per_iod = node.devices_per_oam, node.devices_per_iod
    gpus = tuple(
        Gpu(
            index=index,
            # The buses of a real MI300X host, as the stand-in prints them.
            oam=f"{index // per_oam // 8:04x}:{5 + 0x20 * (index // per_oam % 8):02x}:00",
            partition=index % per_oam,
            iods=(index % per_oam // per_iod,) if per_iod else (),
        )
        for index in range(node.ranks // node.nodes)
    )
    links = tuple(
        XgmiLink(origin=a.index, target=b.index, hops=int(a.oam != b.oam))
        for a in gpus
        for b in gpus
        if a is not b and node.raw["library"].get("all_xgmi", True)
    )
    return System(root=Path("/"), status="known", vendor="amd", gpus=gpus, links=links)
