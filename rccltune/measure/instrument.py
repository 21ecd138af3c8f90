"""The rank program on this machine or a simulated one, with its library and its launcher."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

from rccltune import overwritten
from rccltune.launch import launchers, overrides
from rccltune.launch.launchers import Launcher
from rccltune.machine import detection, placement
from rccltune.machine.installed_software import contains_any
from rccltune.machine.mode_change import check_mode
from rccltune.machine.placement import RankDevices
from rccltune.measure import rank_program, real_rccl
from rccltune.measure.launcher import check_reads_hosts, hosts_of, launcher_of, over_hosts
from rccltune.measure.library import digest_of, find_library, find_real, stand_in
from rccltune.measure.rank_program import LaunchSetup, LibraryUnderTest
from rccltune.measure.request import Request
from rccltune.measure.site import (
    RCCLX_SWITCH,
    Site,
    SiteRequest,
    changes_since,
    hidden_here,
    release_played,
    remarks_of,
    simulated_node,
    simulated_seating,
    system_here,
    variables_of,
)
from rccltune.measure.sweep_schema import PERF
from rccltune.model.errors import CommandLineError, MachineError, SessionError
from rccltune.model.measurement import Fingerprint
from rccltune.model.settings import RankLocation
from rccltune.model.text import join_lines
from rccltune.model.vocabulary import Collective, RankPlacement
from rccltune.ranks import plan
from rccltune.ranks.hangs_and_crashes import HUNG_AFTER_S
from rccltune.session import store
from rccltune.session.lock import refuse_file
from rccltune.session.store import SessionSetup, another
from rccltune.simulate.node import SimulatedNode

# Who starts ranks on one node: the rank program itself.
_LOCAL: Final = ("auto", "local", "none")
# Several communicators at once, and the placement of one of them.
_GROUPS: Final = {
    RankPlacement.EVERY_OAM: RankPlacement.ONE_OAM,
    RankPlacement.ACROSS_OAMS: RankPlacement.ONE_PER_OAM,
}
_SHOWN: Final = (
    "rccltune doctor says what is missing; --simulate mi300x --mode cpx-nps4 shows all of it "
    "without a GPU."
)
# Of a simulated machine that does not say its own name.
_HOST: Final = "simnode"
# Every simulated rank reads what all others sent, on this machine's few cores: results are checked
# up to so many bytes over the square of the ranks.
_CHECKED_NBYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """The rank program on a site.

    Attributes:
        checked_up_to: largest call in bytes whose results are checked; None checks all, 0 none.
    """

    site: Site
    ground: LaunchSetup
    checked_up_to: int | None = None


def find_instrument(
    request: SiteRequest, folder: Path, hung_after_s: float | None, *, must_choose: bool = True
) -> Instrument:
    """Look at what is there.

    Args:
        request: what the user says about where to run.
        folder: the session, which keeps the simulated node.
        hung_after_s: how long no rank may finish a step, None for the usual time.
        must_choose: whether the library must load our plugin, which older ones do not.

    Raises:
        MachineError: no library, no GPU, no launcher, or one that cannot be measured so.
        CommandLineError: what was said does not fit together.
    """
    check_placement(request.placement, "say --runner rccl-tests with it.")
    instrument = _simulated(request, folder) if request.simulate else _real(request)
    site, tunerless = instrument.site, instrument.site.tunerless
    if tunerless is not None and must_choose:
        raise MachineError(
            f"{tunerless} looks for no tuner that ours can be, so that rccltune-perf cannot choose",
            where=str(instrument.ground.library.file),
            hint="--runner rccl-tests forces settings by the library's own switches.",
        )
    remark = overwritten.remark(site.library, site.scale, site.fingerprint.arch)
    if remark is not None:
        site = replace(site, remarks=(*site.remarks, remark))
    limit = HUNG_AFTER_S if hung_after_s is None else hung_after_s
    return replace(instrument, site=site, ground=replace(instrument.ground, hung_after_s=limit))


def check_placement(placement: RankPlacement | None, hint: str) -> None:
    """Stop where ranks would be in several communicators.

    Raises:
        CommandLineError: they would.
    """
    if placement in _GROUPS:
        raise CommandLineError(
            f"rccltune-perf makes one communicator of all ranks, and '{placement.value}' has "
            "several",
            hint=hint,
        )


def _real(request: SiteRequest) -> Instrument:
    system = system_here()
    there = detection.add_nvidia(system, os.environ)
    variables = variables_of(request)
    try:
        library = find_library(request.librccl, variables)
    except MachineError as error:
        if there.has_no_gpu and request.librccl is None:
            raise MachineError(f"no GPU here (and {error.message})", hint=_SHOWN) from error
        raise
    if there.has_no_gpu:
        raise MachineError("no GPU here", where=library.what, hint=_SHOWN)
    check_mode(request.mode, system)
    launcher = _launcher(request)
    seating = placement.place_ranks(request.placement, request.n_ranks, there, variables)
    seating, hosts = over_hosts(request, launcher, seating, len(there.gpus))
    if not hosts:
        placement.check_visible_devices(seating.n_started, there, variables)
    hidden = hidden_here(system)
    known = detection.make_fingerprint(there)
    fingerprint = replace(
        known,
        hosts=hosts or known.hosts,
        mode=known.mode or request.mode,
        benchmark_sha256=digest_of(library.file),
        ranks_per_process=1,
    )
    site = _site(request, library, launcher, seating, fingerprint)
    site = replace(
        site,
        hosts=hosts,
        remarks=(f"Library: {_name_library(library)}", *site.remarks),
        hidden=hidden,
        changed=lambda: changes_since(system, hidden),
        is_rcclx=contains_any(library.file, RCCLX_SWITCH),
    )
    return Instrument(site=site, ground=_launch_setup(site, library))


def _name_library(library: LibraryUnderTest) -> str:
    """``RCCL 2.27.7, /opt/rocm/lib/librccl.so.1 (ROCm's)``."""
    version = library.version or "a library that does not say its version"
    over = "" if library.runtime is None else f" over {library.runtime}"
    return f"{version}, {library.file} ({library.what}){over}"


def _launcher(request: SiteRequest) -> Launcher:
    """Launcher of the ranks: on one node the rank program itself, unless a launcher is named."""
    if request.hostfile is None and request.launcher in _LOCAL:
        return Launcher()
    if request.launcher == "torchrun":
        if request.hostfile is not None:
            raise CommandLineError(
                "torchrun is used on one host here", hint="name another launcher, or no host file."
            )
        return launchers.LAUNCHERS["torchrun"](program=_python_with_torch())
    flavour = "none" if request.launcher == "local" else request.launcher
    launcher = launcher_of(flavour, None)
    if request.hostfile is not None:
        check_reads_hosts(launcher)
    return launcher


def _python_with_torch() -> Path:
    """Ours where it has torch, else ``python3`` on PATH.

    Raises:
        MachineError: there is none.
    """
    if importlib.util.find_spec("torch") is not None:
        return Path(sys.executable)
    python = shutil.which("python3")
    if python is None:
        raise MachineError(
            "there is no Python that torchrun could be of",
            hint="put the python3 that has torch on PATH, or leave --launcher out.",
        )
    # Not resolved: a virtual environment's Python is a link, and is told by its own path.
    return Path(python).absolute()


def _site(
    request: SiteRequest,
    library: LibraryUnderTest,
    launcher: Launcher,
    seating: RankDevices,
    fingerprint: Fingerprint,
) -> Site:
    added = (*launcher.environment, *request.added, *seating.environment)
    return Site(
        programs={collective: str(rank_program.program()) for collective in plan.COLLECTIVES},
        help_letters=frozenset(),
        launcher=launcher,
        scale=seating.place.scale,
        seating=seating,
        fingerprint=fingerprint,
        environment=added,
        cleared=seating.cleared,
        hostfile=request.hostfile,
        has_patched_library=False,
        node=None,
        remarks=remarks_of(seating),
        tunerless=overrides.tunerless(library.version),
        library=library.version,
        library_file=library.file,
    )


def _launch_setup(site: Site, library: LibraryUnderTest) -> LaunchSetup:
    return LaunchSetup(
        library=library,
        place=site.seating.place,
        launcher=site.launcher,
        hostfile=site.hostfile,
        added=site.environment,
        beside_plugin=beside_plugin(site),
        cleared=site.cleared,
        simulated=site.node is not None,
        bind=site.node is None,
        hosts=site.hosts,
    )


def beside_plugin(site: Site) -> tuple[tuple[str, str], ...]:
    """Variables that tell our plugin where it is, as far as no device does."""
    variables = [("RCCLTUNE_PLACEMENT", site.seating.place.name)]
    if site.fingerprint.simulated and site.fingerprint.mode is not None:
        variables.append(("RCCLTUNE_MODE", str(site.fingerprint.mode)))
    return tuple(variables)


def _simulated(request: SiteRequest, folder: Path) -> Instrument:
    node, mode = simulated_node(request)
    hardware = node.raw["hardware"]
    seating = simulated_seating(request, node)
    library = replace(stand_in(), version=f"RCCL {release_played(request, node)}")
    words = None
    checked = _CHECKED_NBYTES // seating.n_started**2
    if request.librccl is not None:
        library, words, checked = *_prepare_real(request.librccl, node, seating), 0
    fingerprint = Fingerprint(
        product=hardware.get("product"),
        arch=hardware.get("arch"),
        cu_count=hardware.get("compute_units"),
        mode=mode,
        hosts=(f"simulated {node.name}",),
        benchmark_sha256=digest_of(library.file),
        ranks_per_process=1,
        simulated=True,
        runner=words,
    )
    launcher = _launcher(request)
    site = _site(request, library, launcher, seating, fingerprint)
    remark = f"{words}; kernels are launched and not run: no result is checked"
    site = replace(
        site,
        node=node,
        hosts=hosts_of(request.hostfile, launcher, seating.n_started),
        environment=(
            *site.environment,
            ("RCCLTUNE_SIM_SEED", str(request.seed)),
            ("RCCLTUNE_SIM_NODE", str(folder.resolve() / store.NODE_FILE)),
        ),
        remarks=(*site.remarks, *([remark] if words else [])),
        is_rcclx=node.library == "rcclx",
    )
    ground = _launch_setup(site, library)
    if words is not None and site.scale.n_nodes > 1:
        each = site.scale.n_ranks // site.scale.n_nodes
        host = hardware.get("host", _HOST)
        hosts = tuple(f"{host}{rank // each}" for rank in range(site.scale.n_ranks))
        ground = replace(ground, host_ids=hosts, library=_over_network(library))
    return Instrument(site=site, ground=ground, checked_up_to=checked)


def _over_network(library: LibraryUnderTest) -> LibraryUnderTest:
    """The library with the simulated machine's own network."""
    return replace(library, needs=(*library.needs, ("NCCL_NET_PLUGIN", str(library.runtime))))


def _prepare_real(
    library: Path, node: SimulatedNode, seating: RankDevices
) -> tuple[LibraryUnderTest, str]:
    """The real library, and how everything made with it names it.

    Raises:
        MachineError: it is not there, or memory is short.
    """
    real_rccl.check_node(node)
    real = find_real(library, os.environ)
    scale = seating.place.scale
    real_rccl.check_real_memory(scale.n_ranks, scale.n_nodes, one_process=False)
    version, words = real_rccl.real_words(real.file)
    return replace(real, version=version), words


def check_collectives(collectives: tuple[Collective, ...]) -> None:
    """Stop where the rank program has no call for what is to be measured.

    Raises:
        CommandLineError: it has none.
    """
    for one in collectives:
        if one not in plan.COLLECTIVES:
            raise CommandLineError(
                f"rccltune-perf has no {one.value}",
                hint="say --runner rccl-tests with it.",
            )


def setup_of(request: SiteRequest, site: Site) -> SessionSetup:
    """Setup that all of a session is measured with."""
    return SessionSetup(
        runner=request.runner,
        library=site.library,
        environment=dict(request.added),
        placement=site.seating.place,
    )


def check_same_setup(folder: Path, mine: SessionSetup) -> None:
    """Stop where a session was measured with something else: its times are not to be mixed.

    Args:
        folder: the session, which need not be there.
        mine: what is to be measured with.

    Raises:
        SessionError: it was; the message has each difference.
    """
    if not (folder / store.HEADER).exists():
        return
    there = store.open_session(folder).setup
    if there.runner is None:
        return
    if there.placement is not None and mine.placement is not None:
        mine = replace(mine, placement=_without_usual(mine.placement, there.placement))
    differences = [
        f"  {one.name}: {_words(getattr(there, one.name))} in it, "
        f"{_words(getattr(mine, one.name))} now"
        for one in fields(SessionSetup)
        if getattr(there, one.name) != getattr(mine, one.name)
    ]
    if differences:
        raise SessionError(
            join_lines(["this session was measured with something else:", *differences]),
            where=str(folder),
            hint=f"say the same, or measure into a session of its own: -o {another(folder)}.",
        )


def _without_usual(mine: RankLocation, known: RankLocation) -> RankLocation:
    """A placement without what need not be said again: which others are alike, the whole node."""
    is_whole = mine.name == known.name == RankPlacement.NODE.value and not known.devices
    return replace(mine, equivalent=known.equivalent, devices=() if is_whole else mine.devices)


def _words(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={text}" for name, text in value.items()) or "nothing added"
    return "unknown" if value is None else str(value)


# Verbs that measure anew take -o; others have it as their argument.
_ANOTHER: Final = "name another session, as -o SESSION of sweep and tune."


def check_same_machine(folder: Path, site: Site, *, is_perf: bool = False) -> None:
    """Stop where a folder is a session of another machine, a file, or not empty and no session.

    Args:
        folder: the session.
        site: what is to be measured.
        is_perf: by the rank program, whose fingerprint tells its library.

    Raises:
        SessionError: it is.
    """
    refuse_file(folder)
    if (folder / "session.json").exists():
        known, mine = store.open_session(folder).fingerprint, site.fingerprint
        if (store.open_session(folder).setup.runner == PERF) is not is_perf:
            # Measured by the rank program, and now a benchmark is to be launched beside it (verify,
            # detect --links), or the other way round: they are two programs on one machine.
            mine = replace(mine, benchmark_sha256=known.benchmark_sha256, binding=known.binding)
        try:
            store.combined_fingerprint([(str(folder), known), ("this machine", mine)])
        except SessionError as error:
            raise SessionError(error.message, where=str(folder), hint=_ANOTHER) from error
    elif folder.is_dir() and any(not _is_ours(path.name) for path in folder.iterdir()):
        raise SessionError(
            "this folder is not empty and no session",
            where=str(folder),
            hint=_ANOTHER,
        )


def _is_ours(name: str) -> bool:
    """Whether a sweep that was killed in its first moment leaves a file of this name."""
    return name.startswith(("writer.lock", ".writer.lock.", ".session.json."))


def session_instrument(request: Request, folder: Path) -> Instrument:
    """The rank program on the machine of a session, whatever measured that.

    Args:
        request: of the session, as it was measured.
        folder: the session.

    Raises:
        RccltuneError: as :func:`find_instrument` does; another machine's session.
    """
    placement = request.site.placement
    one = _GROUPS[placement].value if placement in _GROUPS else ""
    check_placement(
        placement,
        f"sweep one of them (--rank-placement {one}) and verify the rules of that session.",
    )
    instrument = find_instrument(replace(request.site, runner=PERF), folder, request.timeout_s)
    check_same_machine(folder, instrument.site, is_perf=True)
    return instrument
