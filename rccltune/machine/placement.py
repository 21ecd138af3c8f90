"""The devices that ranks run on: which a placement means, and how they are chosen.

Eight ranks of one OAM and eight ranks one per OAM are the same scale to the library and to a
tuner, and as far apart in speed as two machines. So each is measured under a name of its own, on
devices that are chosen by number; numbers count in KFD's order, as ROCr and HIP do
(``Gpu.index``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.machine import records, situation
from rccltune.machine.links import choosing, chosen, heeded, n_usable
from rccltune.machine.records import Gpu, System
from rccltune.model.errors import CommandLineError, MachineError
from rccltune.model.measured import Launch
from rccltune.model.settings import Place, Scale
from rccltune.model.vocabulary import RankPlacement
from rccltune.simulate.node import SimulatedNode

_MASK: Final = "NCCL_TESTS_SPLIT_MASK"
_SPLIT: Final = "NCCL_TESTS_SPLIT"
# What of a site would part the ranks of a benchmark, or move them to other devices.
SPLITTING: Final = (_MASK, _SPLIT, "NCCL_TESTS_DEVICE")
_BESIDE: Final = (RankPlacement.EVERY_OAM, RankPlacement.ACROSS_OAMS)
_FEWEST: Final = 2
_BOTH: Final = (RankPlacement.ONE_OAM, RankPlacement.ONE_PER_OAM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a job that is started from here can use of a node.

    Attributes:
        gpus: in the order in which a job numbers them.
        n_there: devices of the node, those included that the job cannot use.
        n_oams: of the node's OAMs those that can be seen.
        per_oam: devices on the fullest of them.
        n_hidden: of those there, the ones of which nothing is known.
        all_linked: every two devices are one XGMI link apart.
    """

    gpus: tuple[Gpu, ...]
    n_there: int
    n_oams: int
    per_oam: int
    n_hidden: int
    all_linked: bool

    @property
    def is_whole(self) -> bool:
        """Whether no device of the node is hidden or left out."""
        return len(self.gpus) == self.n_there


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A placement on the devices that are there.

    Attributes:
        gpus: one for each rank that is started, in the order of the ranks.
        n_ranks: of one communicator.
        split: what parts the ranks into communicators that run side by side.
        alike: every placement that so many ranks can have here; empty where some have no name.
    """

    placement: RankPlacement
    gpus: tuple[Gpu, ...]
    n_ranks: int
    split: tuple[tuple[str, str], ...] = ()
    alike: tuple[RankPlacement, ...] = ()


def layout_of(system: System, variables: Mapping[str, str]) -> Layout:
    """The devices that a job sees, and those of the node.

    Args:
        system: what was detected.
        variables: the environment; one of ``*_VISIBLE_DEVICES`` may leave some out.

    Raises:
        MachineError: which number is which device is not certain.
    """
    shut = [gpu for gpu in system.gpus if gpu.can_open is False]
    if shut:
        raise MachineError(
            f"{len(shut)} of {len(system.gpus)} devices have no render node here, so that the "
            "runtime numbers them otherwise than the driver does",
            where=f"/dev/dri/renderD{shut[0].render_minor}",
            hint="start the container with --device=/dev/dri, all of it.",
        )
    if system.vendor == "nvidia" and system.product is None and _by_speed(variables):
        raise MachineError(
            "these GPUs are not alike, and CUDA numbers them by speed unless told otherwise",
            where="CUDA_VISIBLE_DEVICES",
            hint="set CUDA_DEVICE_ORDER=PCI_BUS_ID with it; that is how nvidia-smi numbers them.",
        )
    gpus = chosen(system.gpus, heeded(system.vendor, variables))
    counts: dict[str, int] = {}
    for gpu in system.gpus:
        counts[gpu.oam] = counts.get(gpu.oam, 0) + 1
    linked = {(link.origin, link.target) for link in system.links if link.hops in (0, 1)}
    return Layout(
        gpus=gpus,
        n_there=len(system.gpus) + system.n_hidden,
        n_oams=len(counts),
        per_oam=max(counts.values(), default=0),
        n_hidden=system.n_hidden,
        all_linked=all(
            (a.index, b.index) in linked for a in system.gpus for b in system.gpus if a is not b
        ),
    )


def _by_speed(variables: Mapping[str, str]) -> bool:
    """Whether the site's own list is in CUDA's order, which nothing here can tell."""
    given = "CUDA_VISIBLE_DEVICES" in variables
    return given and variables.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"


def place_ranks(wanted: RankPlacement | None, layout: Layout, n_ranks: int | None) -> Placed:
    """Put ranks on devices.

    Args:
        wanted: None takes the first devices, and names them by what they are.
        layout: what there is.
        n_ranks: ranks of a communicator, None for as many as the placement has.

    Raises:
        MachineError: the machine has no such placement.
        CommandLineError: the number of ranks does not fit it.
    """
    if wanted in _BESIDE:
        return _side_by_side(wanted, layout, n_ranks)
    gpus = _devices(wanted, layout, n_ranks)
    if n_ranks not in (None, len(gpus)):
        raise CommandLineError(
            f"{wanted.value if wanted else 'this machine'} has {len(gpus)} devices, and --np asks "
            f"for {n_ranks} ranks",
            hint="leave out --np, or say --rank-placement first.",
        )
    if len(gpus) < 2 and wanted is not None:
        raise MachineError(
            f"a placement of {len(gpus)} device{'' if len(gpus) == 1 else 's'} has nothing to "
            "communicate",
            hint="rccltune detect -v shows which devices lie where.",
        )
    return Placed(
        placement=_named(gpus, layout),
        gpus=gpus,
        n_ranks=len(gpus),
        alike=_alike(len(gpus), layout),
    )


def _devices(wanted: RankPlacement | None, layout: Layout, n_ranks: int | None) -> tuple[Gpu, ...]:
    oams = _by_oam(layout.gpus)
    if wanted is None:
        return layout.gpus[: n_ranks or len(layout.gpus)]
    if wanted is RankPlacement.NODE:
        return _whole(layout)
    if wanted is RankPlacement.ONE_OAM:
        whole = [gpus for gpus in oams.values() if len(gpus) == layout.per_oam]
        return _or_missing(wanted, tuple(whole[0]) if whole and layout.per_oam > 1 else ())
    if wanted is RankPlacement.ONE_PER_OAM:
        each = tuple(gpus[0] for gpus in oams.values())
        return _or_missing(wanted, each if len(each) == layout.n_oams else ())
    if wanted is RankPlacement.ONE_IOD:
        return _or_missing(wanted, _one_iod(layout.gpus))
    if n_ranks is None:
        raise CommandLineError(
            "how many of the first devices are meant is not said", hint="say it with --np."
        )
    return layout.gpus[:n_ranks]


def _whole(layout: Layout) -> tuple[Gpu, ...]:
    if not layout.is_whole:
        raise MachineError(
            f"{len(layout.gpus)} of the node's {layout.n_there} devices can be used here, which is "
            "not the placement 'node'",
            hint="unset *_VISIBLE_DEVICES or ask for the whole node; or leave out "
            "--rank-placement.",
        )
    return layout.gpus


def _or_missing(wanted: RankPlacement, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    if not gpus:
        raise MachineError(
            f"no devices that can be used here are placed as '{wanted.value}'",
            hint="rccltune detect -v shows which devices lie where.",
        )
    return gpus


def _by_oam(gpus: Sequence[Gpu]) -> dict[str, list[Gpu]]:
    oams: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        oams.setdefault(gpu.oam, []).append(gpu)
    return oams


def _one_iod(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """All devices of the first I/O die that has more than one."""
    dies: dict[tuple[str, int], list[Gpu]] = {}
    for gpu in gpus:
        if len(gpu.iods) == 1:
            dies.setdefault((gpu.oam, gpu.iods[0]), []).append(gpu)
    most = max((len(found) for found in dies.values()), default=0)
    return tuple(next((found for found in dies.values() if len(found) == most > 1), ()))


def _named(gpus: Sequence[Gpu], layout: Layout) -> RankPlacement:
    """What devices are, whoever asked for them: sessions of one placement must have one name."""
    oams = {gpu.oam for gpu in gpus}
    iods = {(gpu.oam, gpu.iods) for gpu in gpus}
    if len(gpus) >= layout.n_there:
        return RankPlacement.NODE
    if layout.per_oam < 2 or len(gpus) < 2:
        return RankPlacement.FIRST
    if len(oams) == 1 and len(gpus) == layout.per_oam:
        return RankPlacement.ONE_OAM
    if len(oams) == len(gpus) == layout.n_oams:
        return RankPlacement.ONE_PER_OAM
    if len(iods) == 1 and len(gpus[0].iods) == 1 and len(gpus) == len(_one_iod(layout.gpus)):
        return RankPlacement.ONE_IOD
    return RankPlacement.FIRST


def _alike(n_ranks: int, layout: Layout) -> tuple[RankPlacement, ...]:
    """All that so many ranks can be; four devices on two OAMs and the like have no name."""
    if n_ranks >= layout.n_there:
        return (RankPlacement.NODE,)
    if layout.n_hidden:
        return ()
    if layout.per_oam == 1:
        return (RankPlacement.FIRST,) if layout.all_linked else ()
    return _BOTH if n_ranks == layout.per_oam == layout.n_oams else ()


def _side_by_side(wanted: RankPlacement, layout: Layout, n_ranks: int | None) -> Placed:
    """All devices, parted into communicators of one OAM each, or across all OAMs."""
    oams = list(_by_oam(layout.gpus).values())
    per_oam = len(oams[0]) if oams else 0
    if per_oam < 2 or len(oams) < 2 or any(len(gpus) != per_oam for gpus in oams):
        raise MachineError(
            f"'{wanted.value}' needs several OAMs with several devices each, as many on every one",
            hint="rccltune detect -v shows which devices lie where.",
        )
    own = per_oam if wanted is RankPlacement.EVERY_OAM else len(oams)
    if n_ranks not in (None, own):
        raise CommandLineError(
            f"the groups of '{wanted.value}' have {own} ranks here, and --np asks for {n_ranks}",
            hint="leave out --np.",
        )
    return Placed(
        placement=wanted,
        gpus=tuple(gpu for gpus in oams for gpu in gpus),
        n_ranks=own,
        split=(_split(wanted, per_oam, len(layout.gpus)),),
        alike=_alike(own, layout),
    )


def _split(wanted: RankPlacement, per_oam: int, n_started: int) -> tuple[str, str]:
    """What groups ranks by OAM, or by their place in it; the mask is known to older benchmarks."""
    every = wanted is RankPlacement.EVERY_OAM
    if per_oam & (per_oam - 1):
        return _SPLIT, f"{'DIV' if every else 'MOD'}{per_oam}"
    bits = per_oam - 1
    return _MASK, hex(((1 << n_started.bit_length()) - 1) & ~bits if every else bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seating:
    """Where the ranks of every launch run.

    Attributes:
        n_started: ranks of a launch, those of all groups.
        environment: chooses the devices, and parts the ranks; set in every launch.
        cleared: the site's own choice, which would count within ours.
        gpus: where each rank is to be, by number; empty where nobody checks.
        remark: for the user, None where ranks run on the whole node.
    """

    place: Place
    n_started: int
    environment: tuple[tuple[str, str], ...] = ()
    cleared: tuple[str, ...] = ()
    gpus: tuple[records.Gpu, ...] = ()
    remark: str | None = None


def seating_of(
    wanted: RankPlacement | None,
    n_ranks: int | None,
    system: records.System,
    variables: Mapping[str, str],
) -> Seating:
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
    n_known = len(system.gpus) + system.n_hidden
    asks = wanted not in (None, RankPlacement.NODE)
    if not system.gpus and asks:
        raise MachineError(
            "which devices there are is not known, so that ranks cannot be placed on them",
            where=str(system.root / "sys/class/kfd/kfd/topology"),
            hint="rccltune doctor says what hides the GPUs; or leave out --rank-placement.",
        )
    if not asks and (not system.gpus or (n_ranks or 0) > len(system.gpus)):
        return _unchosen(n_ranks, n_known)
    try:
        layout = layout_of(system, variables)
    except MachineError:
        if asks:
            raise
        # Nobody asked for devices: the site's own choice passes on.
        return _unchosen(n_ranks, n_known, default=n_usable(system, variables))
    if not asks and n_ranks is None and len(layout.gpus) < _FEWEST:
        raise _too_few(layout, system, variables)
    placed = place_ranks(wanted, layout, n_ranks)
    place = Place(
        name=placed.placement.value,
        scale=Scale(n_nodes=1, n_ranks=placed.n_ranks),
        devices=tuple(gpu.index for gpu in placed.gpus),
        alike=tuple(one.value for one in placed.alike),
    )
    if placed.placement is RankPlacement.NODE:
        return Seating(place=place, n_started=len(placed.gpus))
    environment = (*choosing(system.vendor, *place.devices), *placed.split)
    return Seating(
        place=place,
        n_started=len(placed.gpus),
        environment=environment,
        cleared=(*situation.VISIBLE, *SPLITTING),
        gpus=placed.gpus,
        remark=_remark(place, environment),
    )


def _too_few(layout: Layout, system: records.System, variables: Mapping[str, str]) -> MachineError:
    """A rank by itself has nobody to communicate with."""
    return MachineError(
        f"{len(layout.gpus)} of {layout.n_there} GPUs can be used here, and a collective needs two",
        where=", ".join(heeded(system.vendor, variables)) or None,
        hint="rccltune detect shows what is there; on several hosts say --hostfile and --np.",
    )


def _unchosen(n_ranks: int | None, n_known: int, *, default: int | None = None) -> Seating:
    """Ranks wherever the launcher and the site put them."""
    n_started = n_ranks or default
    if n_started is None:
        raise CommandLineError(
            "how many ranks to start is not known",
            hint="say it with --np: one rank for each GPU or partition.",
        )
    is_node = n_started >= n_known
    name = RankPlacement.NODE if is_node else RankPlacement.FIRST
    scale = Scale(n_nodes=1, n_ranks=n_started)
    alike = (name.value,) if is_node else ()
    return Seating(place=Place(name=name.value, scale=scale, alike=alike), n_started=n_started)


def over_hosts(
    wanted: RankPlacement | None, seating: Seating, n_hosts: int, n_devices: int
) -> Seating:
    """The same ranks on several hosts, whose devices cannot be seen from here.

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
    n_started = seating.n_started
    is_node = n_started >= n_hosts * n_devices
    name = (RankPlacement.NODE if is_node else RankPlacement.FIRST).value
    scale = Scale(n_nodes=n_hosts, n_ranks=n_started)
    place = Place(name=name, scale=scale, alike=(name,) if is_node else ())
    return Seating(place=place, n_started=n_started)


def _remark(place: Place, environment: Sequence[tuple[str, str]]) -> str:
    exports = " ".join(f"{name}={value}" for name, value in environment)
    return f"Placement {place.name}: {place.scale}; every launch has {exports}"


def simulated_system(node: SimulatedNode) -> records.System:
    """The devices of one host of a simulated node, as a look at such a machine would find them."""
    per_oam, per_iod = node.devices_per_oam, node.devices_per_iod
    gpus = tuple(
        records.Gpu(
            index=index,
            # The buses of a real MI300X host, as the stand-in prints them.
            oam=f"{index // per_oam // 8:04x}:{5 + 0x20 * (index // per_oam % 8):02x}:00",
            partition=index % per_oam,
            iods=(index % per_oam // per_iod,) if per_iod else (),
        )
        for index in range(node.ranks // node.nodes)
    )
    links = tuple(
        records.Link(origin=a.index, target=b.index, hops=int(a.oam != b.oam), weight=0)
        for a in gpus
        for b in gpus
        if a is not b and node.raw["library"].get("all_xgmi", True)
    )
    return records.System(root=Path("/"), status="known", vendor="amd", gpus=gpus, links=links)


def n_started_in_groups(one: Launch) -> int | None:
    """Ranks of all groups of a launch, None where its ranks are one group."""
    pairs = dict(one.environment)
    if not any(name.startswith("NCCL_TESTS_SPLIT") for name in pairs):
        return None
    listed = next((pairs[name] for name in situation.VISIBLE if name in pairs), None)
    return None if listed is None else len(listed.split(","))
