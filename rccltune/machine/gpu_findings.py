"""The named situations that a node's GPUs can be in, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rccltune.machine.findings import Finding, Severity, notes, stops, warns
from rccltune.machine.kfd import NODES
from rccltune.machine.mode_change import list_commands
from rccltune.machine.products import find_product
from rccltune.machine.system import Oam, System
from rccltune.machine.visible_devices import find_visible_devices, read_visible_lists
from rccltune.model.errors import MachineError

_KFD: Final = f"/{NODES}"
_CONTAINER: Final = "start the container with --device=/dev/kfd --device=/dev/dri"
_NVIDIA: Final = "modprobe nvidia (root); start the container with --gpus all"


def find_gpu_findings(system: System, variables: Mapping[str, str]) -> tuple[Finding, ...]:
    """Everything about the GPUs themselves that changes what can be measured."""
    findings = (
        *_check_presence(system),
        *_check_hidden(system),
        *_check_partitions(system),
        *_check_modes(system),
        *_check_guests(system),
        *_check_sources(system),
        *_check_visible(system, variables),
    )
    if any(finding.severity is Severity.STOPS for finding in findings):
        return findings
    return (*findings, *_check_count(system, variables))


def _check_presence(system: System) -> Iterator[Finding]:
    models = dict.fromkeys(gpu.product for gpu in system.gpus if gpu.product)
    if system.vendor == "nvidia" and not models:
        yield stops(
            "no-gpu",
            f"NVIDIA's driver drives none of the {len(system.gpus)} GPUs on the PCI bus",
            "/proc/driver/nvidia",
            remedy=f"{_NVIDIA}.",
        )
    elif system.vendor == "nvidia" and len(models) > 1:
        yield notes(
            "nvidia-models",
            f"the GPUs are of {len(models)} models ({', '.join(models)}): a rule file of this "
            "node names none, and the plugin checks none here",
            "/proc/driver/nvidia/gpus",
            remedy="measure with one model alone (CUDA_VISIBLE_DEVICES), and give its rules to "
            "jobs on that model.",
        )
    elif system.has_no_gpu:
        yield stops(
            "no-gpu",
            "this machine has no GPU that AMD's or NVIDIA's driver drives",
            "/sys/bus/pci/drivers/amdgpu, /proc/driver/nvidia",
            remedy=f"AMD: modprobe amdgpu (root); {_CONTAINER}. NVIDIA: {_NVIDIA}. Without a GPU, "
            "use --simulate mi300x --mode cpx-nps4, or work on logs with rccltune import.",
        )
    elif system.vendor is None and not system.n_hidden:
        yield stops(
            "no-sysfs",
            "there is no /sys to look at, so nothing is known of the GPUs",
            "/sys/bus/pci/devices",
            remedy="mount sysfs into the sandbox or container (docker run mounts it by default).",
        )


def _check_hidden(system: System) -> Iterator[Finding]:
    unseen = [oam.address for oam in system.oams if oam.n_gpus == 0]
    if system.n_hidden:
        n_visible = len(system.gpus)
        yield (warns if n_visible else stops)(
            "hidden-gpus",
            f"{system.n_hidden} devices are denied to this process, {n_visible or 'none'} are left",
            _KFD,
            remedy=f"{_CONTAINER} and the groups video and render; or ask the scheduler for the "
            "whole node.",
            spoils=True,
        )
    elif unseen and system.gpus:
        yield warns(
            "hidden-gpus",
            f"amdgpu drives {', '.join(unseen)}, and KFD lists no device there",
            _KFD,
            remedy="dmesg | grep -i kfd says why; reload the driver: modprobe -r amdgpu; "
            "modprobe amdgpu (root).",
            spoils=True,
        )
    elif unseen:
        yield warns(
            "no-kfd",
            "KFD's topology cannot be seen, so the number of devices is not known",
            _KFD,
            remedy=f"{_CONTAINER}.",
        )
    closed = [gpu for gpu in system.gpus if gpu.can_open is False]
    if closed:
        yield (stops if len(closed) == len(system.gpus) else warns)(
            "hidden-gpus",
            f"{len(closed)} of {len(system.gpus)} devices have no render node here, such as "
            f"renderD{closed[0].render_minor} of {closed[0].address}; HIP will not see them",
            "/dev/dri",
            remedy="start the container with --device=/dev/dri, all of it.",
            spoils=True,
        )


def _check_partitions(system: System) -> Iterator[Finding]:
    short = [oam for oam in system.oams if oam.n_expected and 0 < oam.n_gpus < oam.n_expected]
    if not short or system.n_hidden:
        return
    expected = sum(oam.n_expected or oam.n_gpus for oam in system.oams if oam.n_gpus)
    words = "; ".join(f"{oam.address} lacks {_list_missing(system, oam)}" for oam in short)
    yield warns(
        "missing-partitions",
        f"{len(system.gpus)} devices of {expected}: {words}",
        _KFD,
        remedy="older kernels have 64 DRM minors and a display card (ast, mgag200) takes one: "
        "modprobe -r ast; modprobe -r amdgpu; modprobe amdgpu (root), or blacklist ast; else "
        f"sweep with --np {len(system.gpus)}, knowing that rules for {expected} ranks need all.",
        spoils=True,
    )


def _list_missing(system: System, oam: Oam) -> str:
    there = {gpu.partition for gpu in system.gpus if gpu.oam == oam.address}
    gone = [str(n) for n in range(oam.n_expected or 0) if n not in there]
    return f"partition {', '.join(gone)}"


def _check_modes(system: System) -> Iterator[Finding]:
    live = system.live_oams
    by_mode: dict[str, list[str]] = {}
    for oam in live:
        by_mode.setdefault(oam.mode_text, []).append(oam.address)
    if any(oam.contradiction for oam in live):
        yield stops(
            "mode-changing",
            system.reason or "driver and KFD disagree on the mode",
            "current_compute_partition and KFD",
            remedy="wait for the change to end, then look again; or set it anew (root): "
            "amd-smi set --gpu all --compute-partition SPX",
            spoils=True,
        )
        return
    if len({(oam.arch, oam.mode) for oam in live}) > len({oam.arch for oam in live}):
        words = "; ".join(f"{mode} on {', '.join(where)}" for mode, where in by_mode.items())
        yield stops(
            "mixed-modes",
            f"the GPUs are in different modes: {words}",
            "current_compute_partition, current_memory_partition",
            remedy=f"set one on all (root, idle GPUs){_hint_for_parted(system)}; or hide the "
            "others with ROCR_VISIBLE_DEVICES.",
            spoils=True,
        )
    elif len({(oam.arch, oam.device_id) for oam in live}) > 1:
        kinds = ", ".join(sorted({oam.product or oam.arch or "an unknown GPU" for oam in live}))
        yield warns(
            "mixed-gpus",
            f"the GPUs are not alike: {kinds}",
            _KFD,
            remedy="hide the ones that are not measured with ROCR_VISIBLE_DEVICES.",
            spoils=True,
        )
    if any(oam.mode is None and oam.n_gpus for oam in live):
        yield warns(
            "mode-unknown",
            "the driver does not say the compute mode",
            live[0].sources["compute"],
            remedy="say it with --mode, and RCCLTUNE_MODE for the plugin; "
            "a driver of 6.12.12 or newer has the file.",
        )
    elif any(oam.mode and oam.mode.compute and oam.mode.memory is None for oam in live):
        yield warns(
            "memory-mode-unknown",
            "the memory mode is not known; it does not follow from the memory's size",
            live[0].sources["memory"],
            remedy="amd-smi static --partition shows it (root); say it with --mode, and "
            "RCCLTUNE_MODE for the plugin.",
        )


def _check_guests(system: System) -> Iterator[Finding]:
    if any((oam.product or "").endswith(" VF") for oam in system.live_oams):
        yield notes(
            "sriov-guest",
            "the GPUs are virtual functions: the mode shown here is the guest's, not the host's",
            _KFD,
            remedy="tune in this guest, and use no rules of bare metal here.",
        )


def _hint_for_parted(system: System) -> str:
    """The commands for the mode in which AMD would have this part partitioned."""
    product = find_product(system.device_id)
    if product is None or product.parted is None:
        return ""
    return f", {product.parted} say: {'; '.join(list_commands(product.parted, system.rocm))}"


def _check_sources(system: System) -> Iterator[Finding]:
    if system.disagreements:
        first, *others = system.disagreements
        yield warns(
            "sources-disagree",
            first + (f"; {len(others)} more (rccltune detect --json)" if others else ""),
            system.amdsmi.source or "amdsmi",
            remedy="look again when no mode change is under way; the driver's own is used.",
            spoils=True,
        )


def _check_visible(system: System, variables: Mapping[str, str]) -> Iterator[Finding]:
    """Findings of a site's own choice of devices; the runtimes end a list without a word."""
    lists = read_visible_lists(system.vendor, variables)
    if not lists or not system.gpus:
        return
    lists_text = ", ".join(f"{name}={value}" for name, value in lists.items())
    where, unset = f"environment, {', '.join(lists)}", f"unset {' '.join(lists)}"
    try:
        visible = find_visible_devices(system.gpus, system.vendor, variables)
    except MachineError as error:
        yield warns("bad-visible-devices", error.message, where, remedy=unset, spoils=True)
        return
    if not visible:
        yield stops("no-visible-devices", f"{lists_text} hides every GPU", where, remedy=unset)
    elif len(visible) < min(len(one.split(",")) for one in lists.values()):
        yield warns(
            "bad-visible-devices",
            f"{lists_text}: {len(visible)} devices are left, since the runtime ends a list at a "
            "device that is not there, or is there twice",
            where,
            remedy=unset,
            spoils=True,
        )
    else:
        yield notes(
            "visible-devices",
            f"{lists_text} chooses and orders the devices of every job here",
            where,
            remedy=f"{unset}, unless it belongs to what is measured.",
            spoils=True,
        )
    n_oams = len({gpu.oam for gpu in visible})
    if visible and system.vendor == "amd" and n_oams < len(system.oams):
        yield notes(
            "all-gpus",
            f"{n_oams} of {len(system.oams)} OAMs are used, and each pair has a link of its own: "
            "bandwidth is a fraction of the node's",
            where,
            remedy="use all of them; where the job cannot, measure with more channels: sweep "
            "--env NCCL_MIN_NCHANNELS=32 (RCCL's tips), or 112 (AMD's article).",
        )


def _check_count(system: System, variables: Mapping[str, str]) -> Iterator[Finding]:
    """A finding where a collective has no second GPU on this host."""
    try:
        n_visible = len(find_visible_devices(system.gpus, system.vendor, variables))
    except MachineError:
        return
    if n_visible == 1:
        yield notes(
            "one-gpu",
            "1 GPU can be used here, and a collective needs two",
            "this host",
            remedy="measure on several hosts: --hostfile and --np.",
        )
