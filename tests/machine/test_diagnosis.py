"""Every finding fires on a machine that has the problem, and is silent on one that has not."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from trees import NODES, add, put, seen, write

from rccltune.cli import run
from rccltune.machine import nvidia
from rccltune.machine.diagnosis import diagnose_host
from rccltune.machine.findings import Finding, Severity
from rccltune.machine.host_state import HostState
from rccltune.machine.kfd import list_processes
from rccltune.machine.sysroot import SystemRoot
from rccltune.machine.system import Benchmark, LauncherProgram, Library

OAMS = tuple(f"0000:{bus}:00" for bus in ("05", "15", "65", "75", "85", "95", "e5", "f5"))
DEVICE = "sys/bus/pci/devices/0000:05:00.0"
AMD_CPU = "processor : 0\nvendor_id : AuthenticAMD\nflags : fpu vme"
GIB = 1 << 30
LIBRARY = Library(
    path=Path("/opt/rocm/lib/librccl.so.1.0.70204"),
    owner="ROCm",
    version="RCCL 2.27.7",
    sha256="a",
)
BENCHMARK = Benchmark(
    name="all_reduce_perf",
    path=Path("/opt/all_reduce_perf"),
    version="2.17.6",
    sha256="b",
    mpi="openmpi",
    simulated=False,
)
LAUNCHER = LauncherProgram(path=Path("/usr/bin/mpirun"), flavour="openmpi", version="5.0.8")


@dataclass
class Patient:
    """A machine that is well, to be made ill in one way at a time."""

    root: Path
    machine: str = "mi300x-spx-nps1"
    variables: dict[str, str] = field(default_factory=dict)
    limits: Mapping[str, int | None] = field(
        default_factory=lambda: {"nofile": 65536, "memlock": None}
    )
    libraries: tuple[Library, ...] = (LIBRARY,)
    benchmarks: tuple[Benchmark, ...] = (BENCHMARK,)
    launchers: tuple[LauncherProgram, ...] | None = (LAUNCHER,)
    n_cpus: int = 192
    free: int = 64 * GIB

    def write(self) -> None:
        """A node as its administrator should leave it."""
        root = write(self.machine, self.root)
        for index in range(len(list((root / NODES).iterdir())) - 2):
            add(root, index + 2, {"fw_version": 177, "drm_render_minor": 128 + index})
            put(root, f"dev/dri/renderD{128 + index}", "")
        for name, text in {
            "proc/sys/kernel/numa_balancing": "0",
            "proc/sys/kernel/osrelease": "6.8.0-60-generic",
            "proc/cmdline": "BOOT_IMAGE=/vmlinuz iommu=pt pci=realloc=off",
            "proc/cpuinfo": AMD_CPU,
            "proc/1/comm": "systemd",
            "sys/module/amdgpu/version": "6.14.14",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
            "sys/devices/system/cpu/cpu0/cpuidle/state2/disable": "1",
            "opt/rocm/.info/version": "7.2.4-81",
            "dev/kfd": "",
        }.items():
            put(root, name, text)
        (root / "dev/shm").mkdir()
        for oam in OAMS:
            folder = root / f"sys/bus/pci/devices/{oam}.0"
            if folder.is_dir():
                self.fit_out(f"sys/bus/pci/devices/{oam}.0")

    def fit_out(self, device: str) -> None:
        """Clocks, power and memory of one OAM."""
        put(self.root, f"{device}/power_dpm_force_performance_level", "auto")
        put(self.root, f"{device}/mem_info_vram_used", str(300 << 20))
        put(self.root, f"{device}/hwmon/hwmon3/power1_cap", "750000000")
        put(self.root, f"{device}/hwmon/hwmon3/power1_cap_default", "750000000")
        put(self.root, f"{device}/config", config(source_validation=False))

    def put(self, name: str, text: str | bytes) -> None:
        """Change one file."""
        put(self.root, name, text)

    def findings(self) -> tuple[Finding, ...]:
        """What the doctor says."""
        system = replace(
            seen(self.root),
            libraries=self.libraries,
            benchmarks=self.benchmarks,
            launchers=self.launchers,
        )
        return diagnose_host(
            HostState(
                system=system,
                variables=self.variables,
                home=Path("/home/ada"),
                limits=self.limits,
                n_cpus=self.n_cpus,
                shm_free=self.free,
                gpu_processes=list_processes(SystemRoot(self.root)),
            )
        )

    def named(self, name: str) -> list[Finding]:
        """Findings of one name."""
        return [finding for finding in self.findings() if finding.name == name]


def config(*, source_validation: bool) -> bytes:
    """A PCIe configuration space: 0x100 is error reporting, which leads to ACS at 0x140."""
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | 0x140 << 20)
    struct.pack_into("<IHH", space, 0x140, 0x000D | 1 << 16, 0x5F, int(source_validation))
    return bytes(space)


Ill = Callable[[Patient], None]


def file(name: str, text: str | bytes) -> Ill:
    """An illness that is one file."""
    return lambda patient: patient.put(name, text)


def variable(**pairs: str) -> Ill:
    """An illness that is in the environment."""
    return lambda patient: patient.variables.update(pairs)


def known(**values: object) -> Ill:
    """An illness that the process knows of itself."""

    def change(patient: Patient) -> None:
        for name, value in values.items():
            setattr(patient, name, value)

    return change


def gone(name: str) -> Ill:
    """A file that is not there."""
    return lambda patient: (patient.root / name).unlink()


def stale_and_full(patient: Patient) -> None:
    """Little memory is left where dead jobs have some."""
    patient.put("dev/shm/nccl-4Xb2", "")
    patient.free = 1 * GIB


S, W, N = Severity.STOPS, Severity.WARNS, Severity.NOTES
CPUS = "sys/devices/system/cpu"
# (finding, severity, spoils repeatability, illness, a word of its remedy); facts §6 and the seeds.
ILLNESSES: tuple[tuple[str, Severity, bool, Ill, str], ...] = (
    (
        "numa-balancing",
        W,
        True,
        file("proc/sys/kernel/numa_balancing", "1"),
        "sysctl kernel.numa_balancing=0",
    ),
    ("numad", W, True, file("proc/812/comm", "numad"), "systemctl disable --now numad"),
    ("kernel-parameters", W, False, file("proc/cmdline", "pci=realloc=off"), "grub"),
    ("kernel-parameters", W, False, file("proc/cmdline", "iommu=pt"), "grub"),
    (
        "pci-acs",
        W,
        False,
        file(f"{DEVICE}/config", config(source_validation=True)),
        "setpci -s 0000:05:00.0",
    ),
    (
        "cpu-governor",
        W,
        True,
        file(f"{CPUS}/cpu3/cpufreq/scaling_governor", "powersave"),
        "cpupower frequency-set",
    ),
    (
        "cpu-idle",
        N,
        True,
        file(f"{CPUS}/cpu0/cpuidle/state2/disable", "0"),
        "cpupower idle-set -d 2",
    ),
    ("few-cores", W, True, known(n_cpus=4), "exclusive"),
    ("open-files", W, False, known(limits={"nofile": 1024}), "ulimit -n 65536"),
    ("shared-memory", W, False, known(free=64 << 20), "--shm-size"),
    ("shared-memory", W, False, stale_and_full, "rm /dev/shm/nccl-*"),
    ("device-nodes", S, False, gone("dev/kfd"), "--device=/dev/kfd"),
    (
        "mec-firmware",
        W,
        True,
        lambda p: add(p.root, 4, {"fw_version": 168}),
        "HSA_NO_SCRATCH_RECLAIM=1",
    ),
    (
        "scratch-reclaim",
        W,
        True,
        file("opt/rocm/.info/version", "6.3.1-48"),
        "HSA_NO_SCRATCH_RECLAIM=1",
    ),
    # ROCm/clr issue 279: 7.2.0 to 7.2.3; right with 7.1.1 and 7.13.
    (
        "graph-replays",
        W,
        False,
        file("opt/rocm/.info/version", "7.2.0-81"),
        "--timing loop",
    ),
    ("graph-replays", W, False, file("opt/rocm/.info/version", "7.2.3-21"), "--timing loop"),
    ("clocks", W, True, file(f"{DEVICE}/power_dpm_force_performance_level", "low"), "rocm-smi"),
    ("power-cap", W, True, file(f"{DEVICE}/hwmon/hwmon3/power1_cap", "500000000"), "power-cap"),
    ("other-users", W, True, file("sys/class/kfd/kfd/proc/4711/vram_1", "0"), "ps -o"),
    ("memory-in-use", W, True, file(f"{DEVICE}/mem_info_vram_used", str(40 * GIB)), "fuser"),
    ("kernarg", W, True, variable(HIP_FORCE_DEV_KERNARG="0"), "HIP_FORCE_DEV_KERNARG=1"),
    ("passed-variables", N, True, variable(HSA_ENABLE_SDMA="0"), "same"),
    ("choosing-variables", W, True, variable(NCCL_ALGO="Ring"), "unset NCCL_ALGO"),
    ("passed-variables", N, True, variable(NCCL_SOCKET_IFNAME="eth0"), "job"),
    ("no-visible-devices", S, False, variable(ROCR_VISIBLE_DEVICES=""), "unset"),
    ("bad-visible-devices", W, True, variable(HIP_VISIBLE_DEVICES="0,1,1"), "unset"),
    ("bad-visible-devices", W, True, variable(ROCR_VISIBLE_DEVICES="0,64"), "unset"),
    ("visible-devices", N, True, variable(ROCR_VISIBLE_DEVICES="0,1"), "unset"),
    ("hidden-file", W, True, file("home/ada/.rccl.conf", "NCCL_PROTO=LL # mine"), "mv "),
    ("hidden-file", W, True, file("etc/rccl.conf", "NCCL_PROTO=LL"), "mv "),
    ("no-library", W, False, known(libraries=()), "--librccl"),
    (
        "several-libraries",
        W,
        True,
        known(libraries=(LIBRARY, replace(LIBRARY, owner="PyTorch", sha256="c"))),
        "--librccl",
    ),
    (
        "launcher-mismatch",
        W,
        False,
        known(launchers=(replace(LAUNCHER, flavour="mpich"),)),
        "mpirun of openmpi",
    ),
    (
        "benchmark-without-mpi",
        W,
        False,
        known(benchmarks=(replace(BENCHMARK, mpi="none"),)),
        "MPI=1",
    ),
    ("all-gpus", N, False, variable(ROCR_VISIBLE_DEVICES="0,1,2,3"), "NCCL_MIN_NCHANNELS=32"),
    ("channels", W, True, variable(NCCL_MIN_NCHANNELS="112"), "unset NCCL_MIN_NCHANNELS"),
)


@pytest.fixture
def patient(tmp_path: Path) -> Patient:
    """A machine that is well."""
    found = Patient(tmp_path)
    found.write()
    return found


def test_a_machine_that_is_well(patient: Patient) -> None:
    """Nothing is found but what its library does by itself: 8 ranks of RCCL 2.27.7 gather directly."""
    (one,) = patient.findings()
    assert (one.name, one.severity, one.spoils) == ("past-the-tuner", N, False)
    assert one.message.startswith(
        "RCCL 2.27.7, 8 ranks: all_reduce calls up to 20 MiB may ask no tuner"
    )
    assert (
        "all_gather calls up to 4 MiB ask no tuner here: direct AllGather takes them" in one.message
    )
    assert "RCCL_DIRECT_ALLGATHER_DISABLE=1" in one.message


@pytest.mark.parametrize(
    ("version", "variables", "said"),
    [
        # rocm-systems 006a440c projects/rccl/src/rccl_wrap.cc rcclDdaEnabled: gfx942 8 MiB, 8 ranks.
        (
            "RCCL 2.30.4",
            {},
            "all_reduce, reduce_scatter, all_gather calls up to 8 MiB ask no tuner here: DDA",
        ),
        (
            "RCCL 2.30.4",
            {"RCCL_DDA_ENABLE": "0"},
            "RCCL 2.30.4, 8 ranks: all_gather calls up to 4 MiB",
        ),
        ("RCCL 2.30.4", {"ROCR_VISIBLE_DEVICES": "0,1,2,3"}, None),
        ("RCCL 2.20.5", {"ROCR_VISIBLE_DEVICES": "0"}, None),
    ],
)
def test_what_asks_no_tuner_is_told_for_the_ranks_that_are_here(
    patient: Patient, version: str, variables: dict[str, str], said: str | None
) -> None:
    """Path, sizes and switch, by release, GPUs and variables."""
    patient.libraries = (replace(LIBRARY, version=version),)
    patient.variables |= variables
    found = patient.named("past-the-tuner")
    assert [said in one.message for one in found] == ([] if said is None else [True])


@pytest.mark.parametrize(
    ("name", "severity", "spoils", "illness", "remedy"),
    ILLNESSES,
    ids=[f"{number}-{illness[0]}" for number, illness in enumerate(ILLNESSES)],
)
def test_each_finding_fires(
    patient: Patient, name: str, severity: Severity, spoils: bool, illness: Ill, remedy: str
) -> None:
    """On the machine with the problem, with a remedy; the well one above is silent."""
    illness(patient)
    found = patient.named(name)
    assert len(found) == 1
    assert (found[0].severity, found[0].spoils) == (severity, spoils)
    assert remedy in found[0].remedy
    assert found[0].where


@pytest.mark.parametrize(
    ("machine", "name", "severity"),
    [
        ("mi300x-mixed", "mixed-modes", S),
        ("mode-change-under-way", "mode-changing", S),
        ("container-no-gpu", "hidden-gpus", S),
        ("no-amd-gpu", "no-gpu", S),
        ("mi300x-cpx-63-of-64", "missing-partitions", W),
        ("sriov-guest", "sriov-guest", N),
    ],
)
def test_situations_are_findings(
    machine: str, name: str, severity: Severity, tmp_path: Path
) -> None:
    """What detect names, the doctor weighs."""
    findings = diagnose_host(HostState(system=seen(write(machine, tmp_path))))
    assert [f.severity for f in findings if f.name == name] == [severity]


def test_a_machine_with_rocm_and_nothing_else_is_ready(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rank program measures, and rccltune starts it: no rccl-tests, no MPI, no torch."""
    patient.put("opt/rocm/lib/librccl.so.1", b"RCCL version 2.27.7+hip7.2\0")
    monkeypatch.setenv("RCCLTUNE_SYSROOT", str(patient.root))
    assert run(["doctor", "--strict"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("notes  past-the-tuner: RCCL 2.27.7+hip7.2, 8 ranks: ")
    assert said.out.endswith("\n\nReady: nothing here stops a measurement.\n")
    assert "Next: rccltune tune" in said.err


def test_findings_are_in_order_of_harm(patient: Patient) -> None:
    """What stops a sweep, what makes its figures unrepeatable, other warnings, notes."""
    patient.variables |= {"ROCR_VISIBLE_DEVICES": "", "NCCL_SOCKET_IFNAME": "eth0"}
    patient.put("proc/cmdline", "quiet")
    patient.put("proc/sys/kernel/numa_balancing", "1")
    names = [finding.name for finding in patient.findings()]
    assert names == [
        "no-visible-devices", "numa-balancing", "kernel-parameters", "passed-variables"
    ]  # fmt: skip


def test_remedies_on_nvidia_are_nvidias(tmp_path: Path) -> None:
    """No /dev/kfd, no iommu=pt, no ROCm is a fault there; the other findings name its tools."""
    root = write("no-amd-gpu", tmp_path)
    put(root, "proc/driver/nvidia/gpus/0000:0f:00.0/information", "Model: NVIDIA H200")
    put(root, "proc/cmdline", "quiet")
    put(root, "proc/cpuinfo", AMD_CPU)
    put(root, "proc/sys/kernel/numa_balancing", "1")
    put(root, "home/ada/.nccl.conf", "NCCL_ALGO=Ring")
    put(root, f"{DEVICE}/config", config(source_validation=True))
    (root / "dev").mkdir()
    host = HostState(
        system=replace(
            seen(root),
            benchmarks=(replace(BENCHMARK, mpi="none"), replace(BENCHMARK, mpi="mpich")),
            launchers=(LAUNCHER,),
        ),
        home=Path("/home/ada"),
        gpu_processes=("4711",),
    )
    findings = diagnose_host(host)
    assert {finding.name for finding in findings} == {
        "numa-balancing",
        "pci-acs",
        "hidden-file",
        "other-users",
        "no-library",
        "benchmark-without-mpi",
        "launcher-mismatch",
        "one-gpu",
    }
    told = " ".join(f"{finding.where} {finding.remedy}" for finding in findings)
    assert "nccl-tests" in told
    assert not re.search("rccl-tests|kfd|rocm|amd", told)


@pytest.mark.parametrize("said", ["4711\n4712\n4711\n", "No running processes found\n"])
def test_processes_on_nvidia_are_those_that_nvidia_smi_lists(tmp_path: Path, said: str) -> None:
    """Each once; a sentence is no process."""
    program = put(tmp_path, "nvidia-smi", f"#!/bin/sh\nprintf '{said}'")
    program.chmod(0o755)
    expected = ("4711", "4712") if said[0] == "4" else ()
    assert nvidia.list_processes({"PATH": str(tmp_path)}) == expected
    assert nvidia.list_processes({"PATH": str(tmp_path / "nowhere")}) == ()


def test_the_doctor_changes_nothing(patient: Patient) -> None:
    """Every file is as it was."""

    def state() -> dict[Path, tuple[bytes, int]]:
        files = [path for path in patient.root.rglob("*") if path.is_file()]
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    before = state()
    patient.findings()
    assert state() == before
