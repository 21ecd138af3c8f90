"""One look at the machine: every source asked in turn, and what they say set beside each other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from rccltune.detect import nvidia, pci, smi, software
from rccltune.detect.compare import disagreements, with_smi
from rccltune.detect.files import Root
from rccltune.detect.found import Smi, Starter
from rccltune.detect.records import Gpu, Oam, System
from rccltune.detect.survey import Survey, survey
from rccltune.model import Fingerprint, Mode

_NONE: Final = Mode(compute=None, memory=None)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Where to look and whom to ask.

    Attributes:
        root: directory under which /sys, /proc and /dev are read; programs of the machine are
            asked only where it is ``/``.
        variables: the environment, which the room does not read itself.
        site_packages: folders whose wheels may bring amdsmi and librccl.
        programs: folders searched for launchers before PATH.
        rccl_tests: folder of the benchmarks, None to search.
        ask_smi: stands in for amdsmi; None asks the real one.
        deep: whether to hash files and start programs; without, only sysfs is read.
    """

    root: Path = Path("/")
    variables: Mapping[str, str] = field(default_factory=dict)
    site_packages: tuple[Path, ...] = ()
    programs: tuple[Path, ...] = ()
    rccl_tests: Path | None = None
    ask_smi: Callable[[], Smi] | None = None
    deep: bool = True


def look(where: Look) -> System:
    """Everything that can be known without changing it; no state of a machine raises."""
    root = Root(where.root)
    seen = survey(root, with_links=where.deep)
    system = _judged(root, seen)
    rocm = software.rocm_folder(root, where.variables)
    system = _with_circumstances(root, system, rocm)
    if not where.deep:
        return system
    said = _asked(root, where, rocm, found=bool(seen.oams))
    system = with_smi(system, said)
    if not system.oams:
        system = _with_nvidia(root, where, system)
    folders = software.benchmark_folders(root, where.rccl_tests, rocm, where.variables.get("PATH"))
    return replace(
        system,
        disagreements=disagreements(system),
        libraries=software.libraries(
            root, rocm, where.site_packages, where.variables.get("LD_LIBRARY_PATH")
        ),
        benchmarks=software.benchmarks(folders),
        starters=_starters(where) if root.is_live else None,
    )


def look_quickly(variables: Mapping[str, str]) -> System:
    """This machine's GPUs of either maker, without amdsmi and without hashing anything."""
    where = Look(variables=variables, deep=False)
    system = look(where)
    return system if system.oams else _with_nvidia(Root(where.root), where, system)


def fingerprint(system: System) -> Fingerprint:
    """What must agree inside a session, as far as the machine says it."""
    return Fingerprint(
        product=system.product,
        arch=system.arch,
        cu_count=system.cu_count,
        mode=system.mode,
        hosts=(system.host,) if system.host else (),
        devices=tuple(f"{g.address} {g.identity or ''}".rstrip() for g in system.gpus),
    )


def changes(before: System, after: System) -> tuple[str, ...]:
    """What became another between two looks; results of both must not be pooled."""
    said = [
        f"{what} was {old or 'unknown'}, is {new or 'unknown'}"
        for what, old, new in (
            ("the start of the machine", before.boot_id, after.boot_id),
            ("KFD's generation", before.generation, after.generation),
            ("the driver", before.driver, after.driver),
            ("the mode", before.mode_text, after.mode_text),
        )
        if old != new
    ]
    old_oams = {oam.address: oam for oam in before.oams}
    new_oams = {oam.address: oam for oam in after.oams}
    for address in sorted(old_oams.keys() | new_oams.keys()):
        old, new = (_state(oams.get(address)) for oams in (old_oams, new_oams))
        if old != new:
            said.append(f"{address} was {old}, is {new}")
    return tuple(said)


def _state(oam: Oam | None) -> str:
    return f"{oam.mode_text} with {oam.n_gpus} devices ({oam.identity})" if oam else "not there"


def _judged(root: Root, seen: Survey) -> System:
    """The common answer for the machine, as the plugin gives it where no HIP names a GPU."""
    system = System(
        root=root.path,
        status="unknown",
        oams=seen.oams,
        gpus=seen.gpus,
        links=seen.links,
        n_hidden=seen.n_hidden,
        vendor="amd" if seen.oams else None,
    )
    n_visible = len(seen.gpus)
    live = [o for o in seen.oams if o.n_gpus or (n_visible == 0 and seen.n_hidden == 0)]
    if not live and seen.n_hidden:
        return replace(system, reason="all GPUs are hidden from this process")
    if not live and pci.can_be_listed(root):
        return replace(system, status="none", mode=_NONE)
    if not live:
        return replace(system, reason="/sys/bus/pci cannot be read")
    first = live[0]
    system = _alike(system, live)
    if len({(o.arch, o.device_id, o.mode) for o in live}) > 1:
        mixed = any(o.mode != first.mode for o in live if o.arch == first.arch)
        return replace(system, reason="the GPUs are not alike", is_mixed=mixed)
    wrong = next((o.contradiction for o in live if o.contradiction), None)
    if wrong is not None:
        return replace(system, reason=wrong, mode=None)
    return replace(system, status="known")


def _alike(system: System, live: Sequence[Oam]) -> System:
    """The system with what all its OAMs agree on."""

    def common(values: Iterable[T]) -> T | None:
        found = set(values)
        return found.pop() if len(found) == 1 else None

    return replace(
        system,
        product=common(oam.product for oam in live),
        arch=common(oam.arch for oam in live),
        device_id=common(oam.device_id for oam in live),
        cu_count=common(oam.cu_count for oam in live),
        mode=common(oam.mode for oam in live),
    )


def _with_circumstances(root: Root, system: System, rocm: Path | None) -> System:
    driver = root.text("sys/module/amdgpu/version") or root.text("sys/module/amdgpu/srcversion")
    version = None
    if rocm is not None:
        text = Root(rocm).text(".info/version")
        version = text.split("-")[0] if text else None
    return replace(
        system,
        host=root.text("proc/sys/kernel/hostname"),
        boot_id=root.text("proc/sys/kernel/random/boot_id"),
        generation=root.text("sys/class/kfd/kfd/topology/generation_id"),
        driver=driver,
        kernel=root.text("proc/sys/kernel/osrelease"),
        rocm=version,
    )


def _asked(root: Root, where: Look, rocm: Path | None, *, found: bool) -> Smi:
    """Ask amdsmi, which speaks of the running machine: a captured tree is never held against it."""
    if where.ask_smi is not None:
        return where.ask_smi()
    if not root.is_live:
        return Smi(status="not asked", detail="it speaks of the running machine alone")
    folder = smi.bindings(rocm, where.site_packages)
    if folder is None:
        return Smi(status="not installed")
    if not found and not root.at("dev/kfd").exists():
        return Smi(status="not asked", source=str(folder), detail="there is no AMD GPU")
    return smi.query(smi.runner(folder, where.variables), folder)


def _with_nvidia(root: Root, where: Look, system: System) -> System:
    program = shutil.which("nvidia-smi", path=where.variables.get("PATH")) if root.is_live else None
    gpus = nvidia.gpus(root, Path(program) if program else None)
    if not gpus:
        return system
    names = {gpu.product for gpu in gpus}
    return replace(
        system,
        status="none",
        reason=None,
        vendor="nvidia",
        gpus=gpus,
        product=names.pop() if len(names) == 1 else None,
        mode=_NONE,
        driver=root.text("sys/module/nvidia/version"),
    )


def _starters(where: Look) -> tuple[Starter, ...]:
    folders = [*map(str, where.programs), where.variables.get("PATH", "")]
    found: list[Path] = []
    for name in ("mpirun", "srun"):
        for folder in folders:
            program = shutil.which(name, path=folder)
            if program is not None and Path(program) not in found:
                found.append(Path(program))
    return software.starters(found)


def devices_of(system: System, oam: Oam) -> tuple[Gpu, ...]:
    """The devices on one OAM."""
    return tuple(gpu for gpu in system.gpus if gpu.oam == oam.address)
