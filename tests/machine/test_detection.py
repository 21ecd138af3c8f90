"""Every made-up machine is seen as it is, and as the plugin sees it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import all_machines
from trees import MI325X, NODES, add_links, named, put, seen, write
from wording import lacks

from rccltune.machine.detection import compare_systems, make_fingerprint
from rccltune.machine.findings import Severity
from rccltune.machine.gpu_findings import find_gpu_findings
from rccltune.machine.pci import parse_address
from rccltune.machine.system import Oam, System
from rccltune.model.settings import Mode
from rccltune.rules.emission import requirements_of

# From the machines' descriptions and facts §3.3: (product, arch, mode, devices, CUs, OAMs).
EXPECTED = {
    "mi300x-spx-nps1": ("MI300X", "gfx942", "spx-nps1", 8, 304, 8),
    "mi300x-dpx-nps2": ("MI300X", "gfx942", "dpx-nps2", 16, 152, 8),
    "mi300x-qpx-nps1": ("MI300X", "gfx942", "qpx-nps1", 32, 76, 8),
    "mi300x-cpx-nps1": ("MI300X", "gfx942", "cpx-nps1", 64, 38, 8),
    "mi300x-cpx-nps4": ("MI300X", "gfx942", "cpx-nps4", 64, 38, 8),
    "mi300x-cpx-nps4-new-kfd": ("MI300X", "gfx942", "cpx-nps4", 64, 38, 8),
    "mi300x-cpx-63-of-64": ("MI300X", "gfx942", "cpx-nps4", 63, 38, 8),
    "mi300a-tpx-nps1": ("MI300A", "gfx942", "tpx-nps1", 12, 76, 4),
    "mi308x-cpx-nps1": ("MI308X", "gfx942", "cpx-nps1", 32, 20, 8),
    "mi325x-spx-nps1": ("MI325X", "gfx942", "spx-nps1", 8, 304, 8),
    "mi355x-spx-nps1": ("MI355X", "gfx950", "spx-nps1", 8, 256, 8),
    "mi355x-cpx-nps2": ("MI355X", "gfx950", "cpx-nps2", 64, 32, 8),
    "mi250x": ("MI250X", "gfx90a", "none", 4, 110, 4),
    "sriov-guest": ("MI300X VF", "gfx942", "spx-nps1", 2, 304, 2),
    "sriov-guest-no-memory-file": ("MI300X VF", "gfx942", "spx-?", 1, 304, 1),
    "old-driver-cpx": ("MI300X", "gfx942", "cpx-?", 8, 38, 1),
    "old-driver-multi-xcc": ("MI300X", "gfx942", "?", 2, 152, 1),
    "mode-unknown-text": ("MI300X", "gfx942", "?", 1, 304, 1),
    "container-no-kfd": ("MI300X", "gfx942", "spx-nps1", 0, None, 8),
    "container-one-oam": ("MI300X", "gfx942", "cpx-nps4", 8, 38, 8),
    "mi300x-mixed": ("MI300X", "gfx942", "?", 36, None, 8),
    "no-amd-gpu": (None, None, "none", 0, None, 0),
    "no-sysfs": (None, None, "?", 0, None, 0),
}
SITUATIONS = {
    "mi300x-spx-nps1": set(),
    "mi300x-cpx-nps4": set(),
    "mi250x": set(),
    "mi300x-cpx-63-of-64": {"missing-partitions"},
    "mi300x-mixed": {"mixed-modes"},
    "mi300x-and-igpu": {"mixed-gpus"},
    "container-one-oam": {"hidden-gpus"},
    "container-no-gpu": {"hidden-gpus"},
    "container-no-kfd": {"no-kfd"},
    "sriov-guest": {"sriov-guest"},
    "sriov-guest-no-memory-file": {"sriov-guest", "memory-mode-unknown", "one-gpu"},
    "mode-change-under-way": {"mode-changing"},
    "mode-unknown-text": {"mode-unknown", "one-gpu"},
    "old-driver-cpx": {"memory-mode-unknown"},
    "no-amd-gpu": {"no-gpu"},
    "no-sysfs": {"no-sysfs"},
    "nvidia-h200": set(),
    "nvidia-two-models": {"nvidia-models"},
}
MACHINES = (*all_machines(), MI325X)


@pytest.mark.parametrize("name", EXPECTED)
def test_seen_as_it_is(name: str, tmp_path: Path) -> None:
    """Product, arch, mode, devices, CUs and OAMs; an unknown half is never filled in."""
    system = seen(write(name, tmp_path))
    assert (
        system.product,
        system.arch,
        system.mode_text,
        len(system.gpus),
        system.cu_count,
        len(system.oams),
    ) == EXPECTED[name]


@pytest.mark.parametrize("name", SITUATIONS)
def test_situations_are_named(name: str, tmp_path: Path) -> None:
    """Each odd machine has its name and a remedy; ordinary ones have none."""
    found = find_gpu_findings(seen(write(name, tmp_path)), {})
    assert {finding.name for finding in found} == SITUATIONS[name]
    assert all(finding.remedy and finding.where for finding in found)


def _live(system: System) -> list[Oam]:
    return [oam for oam in system.oams if oam.n_gpus or not (system.gpus or system.n_hidden)]


def _as_probe(system: System, hip: str = "") -> dict[str, str]:
    """A system in the words of rccltune-probe, seen from the GPU that HIP names."""
    common = {
        # The plugin counts what KFD lists.
        "visible": "0" if system.vendor == "nvidia" else str(len(system.gpus)),
        "hidden": str(system.n_hidden),
        "sockets": str(len([oam for oam in system.oams if oam.n_gpus])),
    }
    if not hip:
        known = system.status == "known"
        words = {
            "status": system.status,
            "arch": system.arch or "",
            "device": f"0x{system.device_id or 0:x}",
            "cus": str(system.cu_count or 0),
            "mode": system.mode_text,
        }
        live = _live(system)
        if len({oam.cu_count for oam in live}) > 1:
            del words["cus"]  # the plugin names those of whichever GPU it read first
        if 0 < len([oam for oam in live if oam.contradiction]) < len(live):
            return common  # the plugin looks at whichever GPU it read first, ours at all
        # Where GPUs differ the plugin names none of them; ours shows what they have in common.
        return common | (words if known or system.status == "none" else {"status": system.status})
    address = parse_address(hip)
    oam = system.oam_at(address) if address is not None else None
    if oam is None or oam.contradiction is not None:
        return common | {"status": "unknown"}
    live = _live(system)
    return common | {
        "status": "known",
        "arch": oam.arch or "",
        "device": f"0x{oam.device_id or 0:x}",
        "cus": str(oam.cu_count or 0),
        "mode": oam.mode_text,
        "mixed": str(int(any(o.arch == oam.arch and o.mode != oam.mode for o in live))),
        "on_socket": str(oam.n_gpus),
    }


def _ask(probe: Path, root: Path, hip: str = "") -> dict[str, str]:
    run = subprocess.run(
        [probe, root, *([hip] if hip else [])],
        check=True,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=30,
    )
    return dict(line.split("=", 1) for line in run.stdout.splitlines())


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_python_and_plugin_agree(machine: object, probe: Path, tmp_path: Path) -> None:
    """On every tree, for the machine as a whole and seen from each of its GPUs."""
    tmp_path.joinpath("keep").mkdir()
    system = seen(machine.write(tmp_path))
    for hip in ("", *(f"{oam.address}.0" for oam in system.oams), "0000:7f:00.0"):
        ours, theirs = _as_probe(system, hip), _ask(probe, tmp_path, hip)
        assert {key: theirs[key] for key in ours} == ours


@pytest.mark.parametrize(
    "name",
    [
        "nvidia-h200",
        "nvidia-h100",
        "nvidia-two-models",
        "nvidia-without-model",
        "nvidia-old-driver",
        "no-amd-gpu",
    ],
)
def test_python_and_plugin_name_one_product(name: str, probe: Path, tmp_path: Path) -> None:
    """What a rule file of an NVIDIA machine requires is what the plugin finds on it."""
    required = dict(requirements_of(make_fingerprint(seen(write(name, tmp_path))))).get(
        "product", ""
    )
    assert required == _ask(probe, tmp_path)["product"]


FILES = (
    f"{NODES}/2/properties",
    f"{NODES}/2/gpu_id",
    f"{NODES}/3/properties",
    f"{NODES}/2/io_links/0/properties",
    "sys/bus/pci/devices/0000:05:00.0/current_compute_partition",
    "sys/bus/pci/devices/0000:05:00.0/current_memory_partition",
    "sys/bus/pci/devices/0000:05:00.0/device",
    "sys/bus/pci/devices/0000:05:00.0/numa_node",
    "sys/module/amdgpu/version",
    "proc/sys/kernel/hostname",
)
LINES = st.sampled_from(
    (
        b"num_xcc 8",
        b"simd_count 99999999999",
        b"simd_per_cu 0",
        b"location_id 1283",
        b"CPX",
        b"NPS16",
        b"NPS017",
        b"domain 1",
        b"gfx_target_version 90402",
        b"device_id 29857",
        b"-1",
        b"0x74a1",
        b"0",
        b"\xb2",
        b"1\xa02",
        b" 7 \r",
        b"location_id 4294967296",
        b"location_id 0" + b"0" * 5000 + b"9",
    )
)
JUNK = st.binary(max_size=300) | st.lists(LINES, max_size=12).map(b"\n".join)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small node of which properties spoil a file at a time."""
    root = write("mi300x-spx-nps1", tmp_path_factory.mktemp("tree"))
    add_links(root)
    return root


@given(name=st.sampled_from(FILES), junk=JUNK)
def test_random_bytes_never_crash_detection(
    tree: Path, probe: Path, name: str, junk: bytes
) -> None:
    """Whatever stands in a file of sysfs, both detectors answer, and the same."""
    path = tree / name
    before = path.read_bytes() if path.exists() else None
    put(tree, name, junk)
    try:
        system = seen(tree)
        find_gpu_findings(system, {})
        ours, theirs = _as_probe(system), _ask(probe, tree)
        assert {key: theirs[key] for key in ours} == ours
    finally:
        path.unlink()
        if before is not None:
            path.write_bytes(before)


@pytest.mark.parametrize(
    ("name", "index", "xcds", "iods"),
    [
        # Two XCDs per I/O die on the MI300X.
        ("mi300x-cpx-nps4", 0, (0,), (0,)),
        ("mi300x-cpx-nps4", 3, (3,), (1,)),
        ("mi300x-cpx-nps4-new-kfd", 15, (7,), (3,)),
        ("mi300x-qpx-nps1", 1, (2, 3), (1,)),
        ("mi300x-dpx-nps1", 1, (4, 5, 6, 7), (2, 3)),
        ("mi300x-spx-nps1", 0, (0, 1, 2, 3, 4, 5, 6, 7), (0, 1, 2, 3)),
        ("mi300a-tpx-nps1", 2, (4, 5), (2,)),
        # Four on each of two in the MI355X; how an MI308X is laid out is not published.
        ("mi355x-cpx-nps2", 5, (5,), (1,)),
        ("mi308x-cpx-nps1", 2, (2,), ()),
        ("mi250x", 0, (), ()),
    ],
)
def test_dies_under_a_partition(
    name: str, index: int, xcds: tuple[int, ...], iods: tuple[int, ...], tmp_path: Path
) -> None:
    """Partitions take XCDs in order; where the layout is not known nothing is said."""
    gpu = seen(write(name, tmp_path)).gpus[index]
    assert (gpu.xcds, gpu.iods) == (xcds, iods)


def test_every_value_has_a_source(tmp_path: Path) -> None:
    """Mode from the PCI directory, devices from KFD, dies derived and said to be."""
    system = seen(write("mi300x-cpx-nps4", tmp_path))
    sources = system.oams[0].sources
    assert sources["compute"].endswith("0000:05:00.0/current_compute_partition")
    assert sources["memory"].endswith("0000:05:00.0/current_memory_partition")
    assert sources["arch"] == f"/{NODES}/2/properties"
    assert sources["iods"].startswith("partition id")
    assert system.gpus[9].source == f"/{NODES}/11/properties"


def test_fingerprint_tells_machines_and_modes_apart(tmp_path: Path) -> None:
    """Product, arch, CUs, mode and each device in order."""
    one = make_fingerprint(seen(write("mi300x-cpx-nps4", tmp_path / "a")))
    assert (one.product, one.arch, one.cu_count) == ("MI300X", "gfx942", 38)
    assert one.mode == Mode.parse("cpx-nps4")
    assert one.devices[9] == "0000:15:00.1 0000000000000016"
    assert one != make_fingerprint(seen(write("mi300x-cpx-nps1", tmp_path / "b")))
    assert one != make_fingerprint(seen(write("mi300x-cpx-63-of-64", tmp_path / "c")))


def test_changes_between_two_looks(tmp_path: Path) -> None:
    """A mode, a lost device, a restart; and nothing where nothing changed."""
    root = write("mi300x-cpx-nps4", tmp_path / "a")
    put(root, "proc/sys/kernel/random/boot_id", "first")
    before = seen(root, deep=False)
    assert compare_systems(before, seen(root, deep=False)) == ()
    put(root, "proc/sys/kernel/random/boot_id", "second")
    put(root, "sys/bus/pci/devices/0000:15:00.0/current_memory_partition", "NPS1")
    said = compare_systems(before, seen(root, deep=False))
    assert any("start of the machine" in line for line in said)
    assert any(line.startswith("0000:15:00 was cpx-nps4") for line in said)


def test_a_machine_without_a_gpu_is_told_of_both_drivers(tmp_path: Path) -> None:
    """Whose GPU ought to be there nobody knows."""
    (finding,) = find_gpu_findings(seen(named("no-amd-gpu").write(tmp_path)), {})
    assert (finding.name, finding.severity) == ("no-gpu", Severity.STOPS)
    said = f"{finding.message} {finding.remedy}"
    assert lacks(said, "NVIDIA", "AMD", "modprobe amdgpu", "modprobe nvidia", "--gpus all") == []


def test_nvidia_s_gpus_without_a_driver_are_told_of_it(tmp_path: Path) -> None:
    """They stand on the PCI bus alone (10de, a 3D controller); amdgpu is no remedy."""
    root = named("no-amd-gpu").write(tmp_path)
    put(root, "sys/bus/pci/devices/0000:0f:00.0/vendor", "0x10de")
    put(root, "sys/bus/pci/devices/0000:0f:00.0/class", "0x030200")
    (finding,) = find_gpu_findings(seen(root), {})
    assert (finding.name, finding.severity) == ("no-gpu", Severity.STOPS)
    assert lacks(finding.remedy, "modprobe nvidia", "--gpus all") == []
    assert "amdgpu" not in f"{finding.message} {finding.remedy}"


def test_nvidia_is_seen_in_proc(tmp_path: Path) -> None:
    """Mode none, the GPUs named, and not taken for a machine without GPUs."""
    root = named("no-amd-gpu").write(tmp_path)
    text = "Model: \t\t NVIDIA H200\nIRQ: 1\nGPU UUID: \t GPU-0a\n"
    put(root, "proc/driver/nvidia/gpus/0000:0f:00.0/information", text)
    system = seen(root)
    assert (system.vendor, system.product, system.mode_text) == ("nvidia", "NVIDIA H200", "none")
    # ROCr's list hides none of them.
    (finding,) = find_gpu_findings(system, {"ROCR_VISIBLE_DEVICES": ""})
    assert finding.name == "one-gpu"
    assert make_fingerprint(system).devices == ("0000:0f:00.0 GPU-0a",)
