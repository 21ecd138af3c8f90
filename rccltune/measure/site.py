"""Site of a sweep: benchmarks, launcher, library, and the machine as far as it is known."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rccltune import overwritten, plugin
from rccltune.launch import overrides
from rccltune.launch.launchers import Launcher
from rccltune.machine import (
    conf_files,
    detection,
    installed_software,
    smi,
    this_machine,
)
from rccltune.machine.installed_software import contains_any
from rccltune.machine.mode_change import apply_mode, check_mode, list_commands
from rccltune.machine.placement import (
    RankDevices,
    check_devices,
    check_visible_devices,
    make_simulated_system,
    place_over_hosts,
    place_ranks,
)
from rccltune.machine.sysroot import SystemRoot
from rccltune.machine.system import System
from rccltune.measure import benchmarks
from rccltune.measure.benchmarks import over_real
from rccltune.measure.launcher import binding_of, hosts_of, launcher_of, over_hosts, remarks
from rccltune.model import defaults
from rccltune.model.errors import CommandLineError, MachineError
from rccltune.model.measurement import Fingerprint
from rccltune.model.reporter import Reporter
from rccltune.model.settings import TREE_SIMPLE_FORCED, Mode, Scale
from rccltune.model.vocabulary import TREE_SIMPLE_NEEDS_NODES, Collective, RankPlacement
from rccltune.session.files import sha256_of
from rccltune.simulate import compiled, sources
from rccltune.simulate.node import SimulatedNode

# A library built after scripts/enable-tree-simple asks for this variable by name.
TREE_SIMPLE_SWITCH: Final = TREE_SIMPLE_FORCED[0].encode()
# RCCLX prints RCCL's number; this variable is its own (torchcomms, comms/rcclx).
RCCLX_SWITCH: Final = b"RCCL_LOW_PRECISION_ENABLE"
# GPUs whose RCCL leaves LL128 and Tree with Simple out on one node.
_GATED: Final = ("gfx94", "gfx95")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRequest:
    """Answers of the user to where to run.

    Attributes:
        simulate: name or path of a node file; None measures this machine.
        runner: ``rccl-tests`` or ``perf``.
        placement: None is the whole node, or its first devices where ``n_ranks`` is fewer.
        added: --env, wins over the site's environment in every launch.
    """

    mode: Mode | None = None
    simulate: str | None = None
    rccl_tests: Path | None = None
    librccl: Path | None = None
    runner: str = defaults.RUNNER
    launcher: str = defaults.LAUNCHER
    hostfile: Path | None = None
    n_ranks: int | None = None
    placement: RankPlacement | None = None
    added: tuple[tuple[str, str], ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Machine, library, launcher and ranks of a sweep, as they were found.

    Attributes:
        help_letters: option letters of the benchmark.
        scale: of a communicator; where ranks are parted into groups there are several.
        hosts: of the host file, those that ranks are put on; empty without one.
        seating: which devices the ranks are on, and how many are started.
        environment: set in every launch, baseline included.
        node: the simulated node, None on a real machine.
        binding: what ranks are bound to, as the launcher could; None leaves it alone.
        remarks: what the user should know of all this.
        start_s: what a launch is known to take.
        hidden: files that set variables of the library behind everybody's back.
        changed: what of the machine is no longer as it was found.
        tunerless: the library (``RCCL 2.20.5``) where it is too old to load the plugin; None where
            it loads it or is not known.
        library: what it calls itself (``RCCL 2.28.3``), None where that is not known.
        library_file: the file with it, None where that is not seen or is played.
        is_rcclx: whether it is Meta's RCCLX, None where that is not known.
    """

    programs: Mapping[Collective, str]
    help_letters: frozenset[str]
    launcher: Launcher
    scale: Scale
    seating: RankDevices
    fingerprint: Fingerprint
    environment: tuple[tuple[str, str], ...]
    cleared: tuple[str, ...]
    hostfile: Path | None
    has_patched_library: bool
    node: SimulatedNode | None
    hosts: tuple[str, ...] = ()
    # A simulated node's ranks have no memory to be near to.
    binding: str | None = "none"
    remarks: tuple[str, ...] = ()
    start_s: float | None = None
    hidden: tuple[conf_files.LibraryConfFile, ...] = ()
    changed: Callable[[], tuple[str, ...]] = tuple
    tunerless: str | None = None
    library: str | None = None
    library_file: Path | None = None
    is_rcclx: bool | None = None

    @property
    def is_gated(self) -> bool:
        """Whether the library here leaves LL128, and Tree with Simple, out by itself."""
        arch = self.fingerprint.arch or ""
        return arch.startswith(_GATED) and self.scale.n_nodes < TREE_SIMPLE_NEEDS_NODES

    @property
    def files(self) -> tuple[Path, ...]:
        """Programs that a launch starts: every benchmark."""
        return tuple(sorted({Path(program) for program in self.programs.values()}))


def find_site(request: SiteRequest) -> Site:
    """Look at what is there.

    Raises:
        MachineError: no benchmark, no launcher, or a simulated benchmark given as a real one.
        CommandLineError: what was said does not fit together.
    """
    site = _simulated(request) if request.simulate else _real(request)
    remark = overwritten.remark(site.library, site.scale, site.fingerprint.arch)
    return site if remark is None else replace(site, remarks=(*site.remarks, remark))


def _real(request: SiteRequest) -> Site:
    system = system_here()
    try:
        bench = benchmarks.find_benchmarks(request.rccl_tests)
    except MachineError as error:
        if detection.add_nvidia(system, os.environ).has_no_gpu:
            hint = (
                "rccltune doctor says what is missing; --simulate mi300x --mode cpx-nps4 shows all "
                "of it without a GPU."
            )
            raise MachineError(f"no GPU here (and {error.message})", hint=hint) from error
        raise
    check_mode(request.mode, system)
    # What detect shows: NVIDIA's GPUs name themselves through a program, asked once.
    there = detection.add_nvidia(system, os.environ)
    seating = place_ranks(request.placement, request.n_ranks, there, variables_of(request))
    n_started = seating.n_started
    library = (
        None if request.librccl is None else installed_software.find_named_library(request.librccl)
    )
    launcher = launcher_of(request.launcher, bench.linked)
    seating, hosts = over_hosts(request, launcher, seating, len(there.gpus))
    if not hosts:
        check_visible_devices(n_started, there, variables_of(request))
    added = (*benchmarks.variables_to_load(library), *request.added, *seating.environment)
    environment = tuple({**dict(launcher.environment), **dict(added)}.items())
    binding = binding_of(launcher, n_started, hostfile=request.hostfile, added=environment)
    known = detection.make_fingerprint(there)
    hidden = hidden_here(system)
    loaded = benchmarks.find_loaded(bench.linked, library, environment)
    version = installed_software.read_version(loaded) if loaded is not None else None
    return Site(
        programs=bench.programs,
        help_letters=bench.letters,
        launcher=launcher,
        scale=seating.place.scale,
        seating=seating,
        fingerprint=replace(
            known,
            # Ranks on other hosts are another machine than this one.
            hosts=hosts or known.hosts,
            binding=binding.bind,
            mode=known.mode or request.mode,
            benchmark_sha256=bench.sha256,
            ranks_per_process=1,
        ),
        environment=environment,
        cleared=seating.cleared,
        hostfile=request.hostfile,
        hosts=hosts,
        has_patched_library=library is not None and contains_any(library, TREE_SIMPLE_SWITCH),
        node=None,
        binding=binding.bind,
        remarks=(*remarks(binding), *remarks_of(seating)),
        hidden=hidden,
        changed=lambda: changes_since(system, hidden),
        tunerless=overrides.tunerless(version),
        library=version,
        library_file=loaded,
        is_rcclx=contains_any(loaded, RCCLX_SWITCH) if loaded is not None else None,
    )


def hidden_here(system: System) -> tuple[conf_files.LibraryConfFile, ...]:
    """Configuration files that the library would read in every rank."""
    return conf_files.find_conf_files(
        SystemRoot(system.root), os.environ, conf_files.find_home(), amd=system.vendor == "amd"
    )


def changes_since(
    system: System, hidden: tuple[conf_files.LibraryConfFile, ...]
) -> tuple[str, ...]:
    """Changes of the machine, and hidden files that came, went or say something else."""
    names = sorted({str(one.path) for one in set(hidden) ^ set(hidden_here(system))})
    return (
        *detection.compare_systems(system, system_here()),
        *(f"{name} is not what it was" for name in names),
    )


def variables_of(request: SiteRequest) -> dict[str, str]:
    """The site's environment with --env, before devices are chosen."""
    return dict(os.environ) | dict(request.added)


def remarks_of(seating: RankDevices) -> tuple[str, ...]:
    """Tell the user where ranks are put, where that is not the whole node."""
    return () if seating.remark is None else (seating.remark,)


def system_here() -> System:
    """This machine, from sysfs alone: quick enough to look before and after each launch."""
    return detection.detect_system(variables=os.environ, deep=False)


@contextmanager
def in_mode(mode: Mode | None, *, apply: bool, reporter: Reporter) -> Iterator[None]:
    """The machine in the mode that is asked for, where that was asked for; put back afterwards.

    Raises:
        MachineError: the mode cannot be set, or not put back.
        CommandLineError: no mode is named.
    """
    if not apply:
        yield
        return
    if mode is None:
        raise CommandLineError(
            "--apply-mode needs a mode", hint="say which with --mode, e.g. --mode cpx-nps4."
        )
    system = system_here()
    if system.vendor != "amd":
        # There is nothing to set: the mode is none, or this says so.
        check_mode(mode, system)
        yield
        return
    rocm = installed_software.find_rocm(SystemRoot(), os.environ)
    folder = smi.find_bindings(rocm, this_machine.list_site_packages())
    if folder is None:
        raise MachineError(
            "amdsmi is not installed, so the mode cannot be set",
            hint=f"set it by hand: {'; '.join(list_commands(mode, system.rocm))}.",
        )
    run = smi.make_runner(folder, os.environ)
    with apply_mode(mode, system, run=run, look=system_here, reporter=reporter):
        yield


def _simulated(request: SiteRequest) -> Site:
    folder = plugin.native_folder() / "sim"
    node, mode = simulated_node(request)
    hardware = node.raw["hardware"]
    programs = benchmarks.programs_in(folder)
    one_process = request.launcher == "none"
    launcher = launcher_of(request.launcher, None)
    seating = simulated_seating(request, node)
    hosts = hosts_of(request.hostfile, launcher, seating.n_started)
    environment = [*launcher.environment, *request.added, *seating.environment]
    environment.append(("RCCLTUNE_SIM_SEED", str(request.seed)))
    if one_process:
        environment.append(("RCCLTUNE_SIM_RANKS", str(seating.n_started)))
    played = Site(
        programs=programs,
        help_letters=_simulated_letters(next(iter(programs.values())), node),
        launcher=launcher,
        scale=seating.place.scale,
        seating=seating,
        fingerprint=Fingerprint(
            product=hardware.get("product"),
            arch=hardware.get("arch"),
            cu_count=hardware.get("compute_units"),
            mode=mode,
            hosts=(f"simulated {node.name}",),
            benchmark_sha256=sha256_of(Path(next(iter(programs.values())))),
            ranks_per_process=1,
            simulated=True,
        ),
        environment=tuple(environment),
        cleared=seating.cleared,
        remarks=remarks_of(seating),
        hostfile=request.hostfile,
        hosts=hosts,
        has_patched_library=True,
        node=node,
        # Simulated collectives are not waited for, the library's start-up is.
        start_s=1.0 + float(node.raw.get("start", {}).get("startup_s", 0)),
        tunerless=overrides.tunerless(f"RCCL {release_played(request, node)}"),
        library=f"RCCL {release_played(request, node)}",
        is_rcclx=node.library == "rcclx",
    )
    if request.librccl is None:
        return played
    return over_real(played, node, request.librccl, one_process=one_process)


def simulated_node(request: SiteRequest) -> tuple[SimulatedNode, Mode]:
    """Load the node that is simulated, and its mode.

    Raises:
        MachineError: it is in another mode than was asked for.
    """
    name = str(request.simulate)
    node = sources.load_node(sources.node_path(name, str(request.mode) if request.mode else None))
    mode = Mode.parse(node.raw["hardware"].get("mode", "none"))
    if request.mode not in (None, mode):
        raise MachineError(
            f"the simulated node {node.name} is in mode {mode}, not {request.mode}",
            hint=f"say --mode {mode}, or simulate another node.",
        )
    return node, mode


def simulated_seating(request: SiteRequest, node: SimulatedNode) -> RankDevices:
    """A node file of several hosts is played as a whole, or as one host where ranks are fewer."""
    system = make_simulated_system(node)
    check_devices(request.n_ranks or node.ranks, node.ranks)
    if node.nodes == 1:
        return place_ranks(request.placement, request.n_ranks, system, variables_of(request))
    whole = place_ranks(None, request.n_ranks or node.ranks, system, variables_of(request))
    if whole.n_started < node.ranks and request.placement in (None, RankPlacement.NODE):
        return whole
    return place_over_hosts(request.placement, whole, node.nodes, len(system.gpus))


def release_played(request: SiteRequest, node: SimulatedNode) -> str:
    """The library's release that is played."""
    return dict(request.added).get("RCCLTUNE_SIM_RELEASE") or str(node.raw["release"]["rccl"])


def _simulated_letters(program: str, node: SimulatedNode) -> frozenset[str]:
    """The stand-in's options depend on the benchmark release that its node names."""
    with tempfile.NamedTemporaryFile(suffix=".node") as stream:
        # Its times are nearly all of the file, and no option depends on them.
        stream.write(compiled.compile_node(replace(node, curves=())))
        stream.flush()
        return benchmarks.letters_of(program, {**os.environ, "RCCLTUNE_SIM_NODE": stream.name})
