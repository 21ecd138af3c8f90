"""What detection reads of a machine, as one text from which the same machine can be made again.

Reads and changes nothing. Equal names, serial numbers and addresses are replaced by equal ones.
``tests/machine/gathered.py`` makes a machine of the text.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import pwd
import re
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator, Match

from .scrub import Scrubber
from .variables import is_listed

FORMAT = "# rccltune gathered system, format 1"
HEAD = f"""{FORMAT}
# What detection reads of a machine, as rccltune gather found it (docs/how-to-send.md).
# Names of hosts and users, serial numbers, UUIDs and addresses are replaced. Of libraries and
# benchmarks only version and hash are here (excerpt). Read this file before you send it: any
# block may be taken out. A block is a line 'KIND NAME' and its content behind tabs.
"""
MAX_BYTES = 1 << 16
MAX_OUTPUT = 1 << 18
PROGRAM_S = 20.0

NODES = "sys/class/kfd/kfd/topology/nodes"
DEVICES = "sys/bus/pci/devices"
DRIVER = "sys/bus/pci/drivers/amdgpu"
CPUS = "sys/devices/system/cpu"
HOST_NAME = "proc/sys/kernel/hostname"
GPU_MAKERS = ("0x1002", "0x10de")
# An empty folder says something else than none.
FOLDERS = (NODES, DEVICES, DRIVER, "dev", "dev/dri", "dev/shm", "sys/class/infiniband")
FILES = (
    "sys/class/kfd/kfd/topology/generation_id",
    f"{NODES}/*/gpu_id",
    f"{NODES}/*/properties",
    f"{NODES}/*/io_links/*/properties",
    f"{DEVICES}/*/vendor",
    f"{DEVICES}/*/class",
    f"{CPUS}/cpu[0-9]*/cpufreq/scaling_governor",
    f"{CPUS}/cpu0/cpuidle/state2/disable",
    "sys/devices/system/node/node*/cpulist",
    "sys/devices/system/node/node*/distance",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/module/amdgpu/version",
    "sys/module/amdgpu/srcversion",
    "sys/module/nvidia/version",
    "proc/driver/nvidia/gpus/*/information",
    HOST_NAME,
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/random/boot_id",
    "proc/cpuinfo",
    "proc/cmdline",
    "opt/rocm/.info/version",
    "etc/rccl.conf",
    "etc/nccl.conf",
)
OF_A_GPU = (
    "device",
    "subsystem_vendor",
    "subsystem_device",
    "numa_node",
    "current_compute_partition",
    "available_compute_partition",
    "current_memory_partition",
    "available_memory_partition",
    "power_dpm_force_performance_level",
    "mem_info_vram_used",
    "mem_info_vram_total",
    "current_link_speed",
    "current_link_width",
    "hwmon/*/power1_cap",
    "hwmon/*/power1_cap_default",
    "hwmon/*/temp*_input",
)
# Names alone; what is inside is nobody's business.
NAMES = (
    "dev/kfd",
    "dev/dri/renderD*",
    "dev/shm/nccl-*",
    "sys/class/infiniband/*",
    "sys/class/kfd/kfd/proc/*",
)
# Which device a render node belongs to; a partition has one of its own.
CARDS = "sys/class/drm/*"
LINK_KEYS = ("type", "node_from", "node_to", "weight", "min_bandwidth", "max_bandwidth")
KERNEL_WORDS = re.compile(
    r"(?:(?:amd_|intel_)?iommu|pci|pcie_\w+|amdgpu\.\w+|numa_balancing|transparent_hugepage|"
    r"modprobe\.blacklist|mitigations|intel_idle\.\w+|processor\.\w+|nosmt|isolcpus)(?:=\S*)?"
)
SYSTEM_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib")
WHEELS = ("torch/lib", "_rocm_sdk_libraries_*/lib", "nvidia/nccl/lib")
LIBRARIES = ("librccl.so.1", "librccl.so", "libnccl.so.2")
BENCHMARKS = (
    "all_reduce_perf",
    "all_gather_perf",
    "reduce_scatter_perf",
    "broadcast_perf",
    "reduce_perf",
    "alltoall_perf",
    "sendrecv_perf",
)
MARKS = re.compile(
    rb"[RN]CCL version *:? *\d+\.\d+\.\d+[\w.+:-]*|[rn]ccl-tests(?:: Version| version) *:? *"
    rb"\d[\w.+-]*|libmpi\.so\.\d+|# SIMULATED"
)
PROGRAMS = (
    ("amd-smi", "version"),
    ("amd-smi", "list"),
    ("amd-smi", "static"),
    ("amd-smi", "partition"),
    ("amd-smi", "topology"),
    ("rocm-smi", "--showtopo"),
    ("nvidia-smi", "-L"),
    ("nvidia-smi", "topo", "-m"),
    (
        "nvidia-smi",
        "--query-gpu=index,name,pci.bus_id,driver_version,mig.mode.current",
        "--format=csv",
    ),
    ("mpirun", "--version"),
    ("srun", "--version"),
    ("numactl", "--hardware"),
    ("ldd", "--version"),
)


@dataclass(frozen=True)
class Block:
    """One thing that was found.

    Attributes:
        kind: file, excerpt (what matters of a file), link, folder, denied, unreadable (a file
            that cannot be read), told (a program's words), variable or fact.
        text: its content, of a file each byte as one character.
    """

    kind: str
    name: str
    text: str = ""

    def written(self) -> str:
        """As it stands in the file; a last line without an end is marked."""
        if not self.text:
            return f"{self.kind} {self.name}\n"
        ended = self.text.endswith("\n")
        lines = (self.text[:-1] if ended else self.text).split("\n")
        mark = "" if ended else "\\\n"
        return f"{self.kind} {self.name}\n" + "".join(f"\t{line}\n" for line in lines) + mark


class Machine:
    """A machine's files below a root, read as detection reads them."""

    def __init__(self, root: Path, names: Scrubber) -> None:
        """Learn first which names must not be passed on."""
        self.root = root
        self.names = names
        self.is_live = root == Path("/")
        host = (self.read(HOST_NAME) or b"").decode("latin-1").strip()
        names.know_host(host)
        if self.is_live:
            know_oneself(names)

    def read(self, name: str) -> bytes | None:
        """A small file's bytes, None where it cannot be read."""
        try:
            with (self.root / name).open("rb") as stream:
                return stream.read(MAX_BYTES)
        except OSError:
            return None

    def found(self, pattern: str) -> list[str]:
        """Names below the root that a pattern matches, a name of one line each."""
        found = (str(path.relative_to(self.root)) for path in self.root.glob(pattern))
        return sorted(name for name in found if name.isprintable())

    def blocks(self) -> Iterator[Block]:
        """Everything, in the order of the file."""
        yield from (Block("folder", name) for name in FOLDERS if (self.root / name).is_dir())
        for pattern in FILES:
            for name in self.found(pattern):
                yield from self.file(name)
        yield from self.gpus()
        yield from self.bare_names()
        yield from self.watchers()
        yield from self.software()
        if self.is_live:
            yield from self.circumstances()

    def file(self, name: str) -> Iterator[Block]:
        """A file as it is, or that it is there and cannot be read."""
        try:
            with (self.root / name).open("rb") as stream:
                data = stream.read(MAX_BYTES)
        except OSError as error:
            is_denied = error.errno in (errno.EPERM, errno.EACCES)
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                yield Block("denied" if is_denied else "unreadable", name)
            return
        yield Block("file", name, self.cleaned(name, data.decode("latin-1")))

    def cleaned(self, name: str, text: str) -> str:
        """The content without what is nobody's business."""
        if name.startswith(NODES):
            if "/io_links/" in name:
                return _lines(text, lambda line: line.split(" ")[0] in LINK_KEYS)
            return re.sub(r"(?m)^(unique_id|hive_id) (\d+)", self._numbered, text)
        if name == HOST_NAME:
            return f"{self.names.host(text.strip())}\n" if text.strip() else text
        if name == "proc/cmdline":
            return " ".join(filter(KERNEL_WORDS.fullmatch, text.split())) + "\n"
        if name == "proc/cpuinfo":
            # One core is as all; some ARM boards add their serial number behind the last.
            text = text.split("\n\n", maxsplit=1)[0] + "\n"
        elif name.endswith("/information"):
            text = _lines(text, lambda line: line.startswith(("Model", "GPU UUID")))
        elif name.endswith(".conf"):
            text = _lines(text, _is_ours)
        self.names.learner.text(text)
        return self.names.text(text, addresses=name.endswith(".conf"))

    def _numbered(self, found: Match[str]) -> str:
        return f"{found[1]} {self.names.number(int(found[2]))}"

    def gpus(self) -> Iterator[Block]:
        """What amdgpu drives, and what the PCI bus says of every GPU."""
        driven = [name for name in self.found(f"{DRIVER}/*:*:*") if "." in name]
        addresses = [name.rsplit("/", 1)[-1] for name in driven]
        for address in addresses:
            yield Block("link", f"{DRIVER}/{address}", f"../../devices/{address}\n")
        for name in self.found(f"{DEVICES}/*"):
            maker = (self.read(f"{name}/vendor") or b"").decode("latin-1").strip()
            if maker in GPU_MAKERS or name.rsplit("/", 1)[-1] in addresses:
                yield Block("folder", name)
                for pattern in OF_A_GPU:
                    for found in self.found(f"{name}/{pattern}"):
                        yield from self.file(found)

    def bare_names(self) -> Iterator[Block]:
        """Device nodes, shared memory, network cards and who uses the GPUs, by name."""
        for pattern in NAMES:
            for name in self.found(pattern):
                may_open = os.access(self.root / name, os.R_OK | os.W_OK)
                is_device = name.startswith(("dev/kfd", "dev/dri/"))
                kind = "folder" if name.startswith("sys/") else "file"
                kind = "denied" if is_device and not may_open else kind
                yield Block(kind, self.names.text(name, addresses=False))

    def watchers(self) -> Iterator[Block]:
        """Of all processes the daemon that moves memory."""
        for name in self.found("proc/[0-9]*/comm"):
            if (self.read(name) or b"").strip() == b"numad":
                yield Block("file", name, "numad\n")
                return

    def software(self) -> Iterator[Block]:
        """Version and hash of every library that a job could load, and of the benchmarks."""
        if (self.root / "opt/rocm").is_dir():
            yield Block("folder", "opt/rocm")
        packages = [Path(p) for p in sys.path if p.endswith("-packages")] if self.is_live else []
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            base = os.environ.get(variable) if self.is_live else None
            packages += Path(base).glob("lib/python3*/site-packages") if base else []
        wheels = [folder for base in packages for one in WHEELS for folder in base.glob(one)]
        searched = self.searched("LD_LIBRARY_PATH")
        system = [self.root / name for name in ("opt/rocm/lib", *SYSTEM_LIBRARIES)]
        yield from self.excerpts([*searched, *system, *wheels], LIBRARIES)
        tests = [self.root / name for name in ("opt/rocm/bin", "opt/rccl-tests/build")]
        yield from self.excerpts([*self.searched("PATH"), *tests], BENCHMARKS)

    def searched(self, variable: str) -> list[Path]:
        """The folders of a list in the environment."""
        value = os.environ.get(variable, "") if self.is_live else ""
        return [Path(part) for part in value.split(":") if part.startswith("/")]

    def excerpts(self, folders: list[Path], names: tuple[str, ...]) -> Iterator[Block]:
        """What stands in files that are too large to send, each file once."""
        known: set[Path] = set()
        for path in (folder / name for folder in folders for name in names):
            real = path.resolve()
            if not path.is_file() or path in known or self.root not in real.parents:
                continue
            place, target = (str(p.relative_to(self.root)) for p in (path, real))
            if real not in known:
                yield Block("excerpt", self.names.text(target, addresses=False), _excerpt(real))
            if real != path:
                step = os.path.relpath(target, str(Path(place).parent))
                place = self.names.text(place, addresses=False)
                yield Block("link", place, self.names.text(step, addresses=False) + "\n")
            known |= {path, real}

    def circumstances(self) -> Iterator[Block]:
        """What programs say, limits of a process, and variables that matter."""
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
        hidden = [home / ".rccl.conf", home / ".nccl.conf", os.environ.get("NCCL_CONF_FILE")]
        for path in (str(name).lstrip("/") for name in hidden if name and str(name).isprintable()):
            for block in self.file(path):
                text = self.names.text(_lines(block.text, _is_ours))
                yield Block(block.kind, self.names.text(f"/{path}").lstrip("/"), text)
        for argv in PROGRAMS:
            said = _asked(argv)
            if said is not None:
                self.names.learner.text(said)
                yield Block("told", " ".join(argv), self.names.text(said))
        cards = (
            f"{Path(name).name} {os.path.realpath(f'/{name}')}\n" for name in self.found(CARDS)
        )
        yield Block("told", CARDS, "".join(cards))
        yield Block("fact", "home", f"{self.names.text(str(home))}\n")
        yield Block("fact", "cores", f"{len(os.sched_getaffinity(0))}\n")
        for name in ("nofile", "memlock"):
            soft = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[0]
            yield Block("fact", name, f"{soft}\n")
        yield from self.variables()

    def variables(self) -> Iterator[Block]:
        """Those that choose or that a library reads; of all others not even the names."""
        for name in sorted(os.environ):
            if is_listed(name):
                yield Block("variable", name, self.names.text(os.environ[name]) + "\n")


def _lines(text: str, wanted: Callable[[str], object]) -> str:
    return "".join(f"{line}\n" for line in text.split("\n") if line and wanted(line))


def _is_ours(line: str) -> bool:
    return is_listed(line.split("=", 1)[0].strip())


def _excerpt(path: Path) -> str:
    """The marks that say which release a file is, as they stand in it, and its hash."""
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as m:
            marks = dict.fromkeys(found.decode("ascii") for found in MARKS.findall(m))
            digest = hashlib.sha256(m).hexdigest()
            return "".join(f"{mark}\n" for mark in marks) + f"sha256 {digest} of {len(m)} bytes\n"
    except (OSError, ValueError):
        return "cannot be read\n"


def _asked(argv: tuple[str, ...]) -> str | None:
    """What a program prints; None where there is none. One that hangs is left behind."""
    if shutil.which(argv[0]) is None:
        return None
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROGRAM_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"(it did not answer: {error})\n"
    text = done.stdout[:MAX_OUTPUT].decode("utf-8", "replace")
    return f"(exit {done.returncode})\n{text.rstrip()}\n"


def know_oneself(names: Scrubber) -> None:
    """The names of this host and of who asks, and the secrets that the environment has."""
    names.know_host(os.uname().nodename)
    person = pwd.getpwuid(os.getuid())
    for name in (person.pw_name, person.pw_gecos.split(",")[0], Path(person.pw_dir).name):
        names.know_user(name)
    for name, value in os.environ.items():
        names.learner.text(f"{name}={value}")


def gather(root: Path, names: Scrubber) -> list[Block]:
    """Everything of the machine below ``root``, each name once."""
    found: dict[tuple[str, str], Block] = {}
    for block in Machine(root.resolve(), names).blocks():
        found.setdefault((block.kind, block.name), block)
    return list(found.values())


def dropped() -> set[str]:
    """The variables of the environment that are not listed, and so not sent."""
    return {name for name in os.environ if not is_listed(name)}


def as_text(blocks: list[Block], names: Scrubber) -> str:
    """The file; a name that only a later block gave away is replaced in all of them."""
    return names.text(HEAD + "".join(block.written() for block in blocks), addresses=False)
