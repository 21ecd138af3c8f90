"""An archive of a session or of this machine to be sent: the fields that its lists name, no more.

Needs Python 3.8 and its standard library alone and imports nothing of rccltune, so that this one
file can be copied to where nothing is installed: ``python3 gather.py [-o FILE] [SESSION|machine]``.

Everything is taken by a list: files, fields, lines, columns, variables. What is not on one is left
out; nothing is searched for names. Host names and identities that are on a list become a keyed
hash, equal ones the same; the key stays in the user's own folder.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import hashlib
import hmac
import io
import json
import mmap
import os
import re
import resource
import secrets
import shutil
import stat
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterator, Match

DEFAULT_SESSION = Path("rccltune-session")
DEFAULT_OUTPUT = Path("rccltune-gathered.tar.gz")
MACHINE = "machine"
LEFT_OUT = "left-out"


def _named(words: str) -> frozenset[str]:
    return frozenset(words.split())


# ---- What is taken of a session ----------------------------------------------------------------

# Fields of its JSON files, at whatever depth they stand.
FIELDS = _named(
    """
    format id tool simulated samples_of n_samples fingerprint product arch cu_count mode compute
    memory hosts devices benchmark_sha256 serves ranks_per_process binding runner setup name
    environment process plugin n_nodes n_ranks rank_placement
    library library_version runtime argv added started
    exit_code signal duration_s failure line collective setting algorithm protocol channels role
    words
    path sha256 rules_sha256 rules_before rules fallbacks replicates processes
    seconds verdicts standings cuts beside is_equal needs lost_needs confirmed
    ratio value low high n n_sizes n_undecided clock loop one_root registered bfloat16
    state gain min_nbytes max_nbytes num_pipe_ops reg_buff only_mode
    fallback key scale placement dtype op redop graph nbytes baseline_us tuned_us interval ran
    answer n_launches n_wrong cost_ns judgement judgements rule before after reason why zones zone
    bits bits_times library_us rules_us fastest_us pin_us
    """
)
# Hashed where they stand; of these the list is of variables; of these only what is known below.
_HASHED = {"hosts": "host", "devices": "device"}
_VARIABLES = ("environment", "added", "needs", "lost_needs")
_PATHS = ("path", "library", "runtime")
# Remarks of a rank's file by their first word.
REMARKS = _named(
    "rccltune-perf simulated library version runtime plugin host rank device fact free numa failed "
    "variable done"
)
COLUMNS = _named(
    "collective n_nodes n_ranks rank_placement dtype op placement setting role "
    "clock nbytes calls time_us slowest_us wrong ran library registered trees signature unusable "
    "purpose rough "
    "run process communicator pass line"
)
# Lines of a rule file: of ours by their first word, of comments by how they begin.
_STATEMENTS = _named("format rules end requires library bits needs section hole")
_COMMENTS = ("verified:", "UNPROVEN", "SIMULATED", "extrapolated", "fallback")
_FILES_KNOWN = re.compile(
    r"rccl_tuner[\w.-]*\.csv|rules[\w.-]*\.csv|librccl-tuner-rccltune\.so|"
    r"lib(?:rccl|nccl|amdhip64|cudart)\.so[\d.]*"
)
# Variables that choose, that a library reads, or that say which devices there are.
VARIABLES = _named(
    """
    NCCL_ALGO NCCL_ALLOC_P2P_NET_LL_BUFFERS NCCL_BUFFSIZE NCCL_COLLNET_ENABLE NCCL_CROSS_NIC
    NCCL_CUMEM_ENABLE NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_DMABUF_ENABLE NCCL_GRAPH_REGISTER
    NCCL_IB_DISABLE NCCL_IB_GID_INDEX NCCL_IB_HCA NCCL_IB_QPS_PER_CONNECTION NCCL_IB_TC
    NCCL_IGNORE_CPU_AFFINITY NCCL_LL128_BUFFSIZE NCCL_LL_BUFFSIZE NCCL_LOCAL_REGISTER NCCL_MAX_CTAS
    NCCL_MAX_NCHANNELS NCCL_MIN_CTAS NCCL_MIN_NCHANNELS NCCL_NCHANNELS_PER_NET_PEER NCCL_NET
    NCCL_NET_GDR_LEVEL NCCL_NET_PLUGIN NCCL_NTHREADS NCCL_NVLS_ENABLE NCCL_P2P_DISABLE
    NCCL_P2P_LEVEL NCCL_PROTO NCCL_PXN_DISABLE NCCL_SHM_DISABLE NCCL_SOCKET_FAMILY
    NCCL_SOCKET_IFNAME NCCL_TUNER_CONFIG_FILE NCCL_TUNER_PLUGIN RCCL_DDA_ENABLE RCCL_DDA_THRESHOLD
    RCCL_DIRECT_ALLGATHER_DISABLE RCCL_DIRECT_ALLGATHER_THRESHOLD
    RCCL_DIRECT_REDUCE_SCATTER_DISABLE RCCL_DIRECT_REDUCE_SCATTER_THRESHOLD RCCL_FORCE_TREE_SIMPLE
    RCCL_LL128_FORCE_ENABLE RCCL_MSCCLPP_ENABLE RCCL_MSCCLPP_FORCE_ENABLE RCCL_MSCCLPP_THRESHOLD
    RCCL_MSCCL_ENABLE RCCL_MSCCL_FORCE_ENABLE RCCL_OVERRIDE_ALGO RCCL_OVERRIDE_PROTO
    RCCL_P2P_BATCH_ENABLE RCCL_P2P_BATCH_THRESHOLD RCCL_THREADS_PER_BLOCK RCCL_TUNER_EMBEDDED_CONFIG
    RCCL_UNROLL_FACTOR RCCLTUNE_CONFIG_DIR RCCLTUNE_MODE RCCLTUNE_ON_ERROR RCCLTUNE_PLACEMENT
    RCCLTUNE_SIM_LAUNCH RCCLTUNE_SIM_SEED RCCLTUNE_STRICT CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL
    GPU_MAX_HW_QUEUES HIP_FORCE_DEV_KERNARG HIP_VISIBLE_DEVICES HSA_ENABLE_IPC_MODE_LEGACY
    HSA_ENABLE_SDMA HSA_FORCE_FINE_GRAIN_PCIE HSA_NO_SCRATCH_RECLAIM HSA_OVERRIDE_GFX_VERSION
    HSA_XNACK ROCR_VISIBLE_DEVICES SLURM_CPU_BIND SLURM_JOB_NUM_NODES SLURM_TASKS_PER_NODE
    """
)

# ---- What is taken of a machine ----------------------------------------------------------------

FORMAT = "# rccltune gathered system, format 1"
_HEAD = f"""{FORMAT}
# What detection reads of a machine, as rccltune gather found it (docs/troubleshooting.md). Names of
# hosts, serial numbers and UUIDs are keyed hashes. Of libraries and benchmarks only version and
# hash are here (excerpt). A block is a line 'KIND NAME' and its content behind tabs.
"""
NODES = "sys/class/kfd/kfd/topology/nodes"
DEVICES = "sys/bus/pci/devices"
DRIVER = "sys/bus/pci/drivers/amdgpu"
_CPUS = "sys/devices/system/cpu"
_HOST_NAME = "proc/sys/kernel/hostname"
_BOOT = "proc/sys/kernel/random/boot_id"
_GPU_MAKERS = ("0x1002", "0x10de")
# An empty folder says something else than none.
FOLDERS = (NODES, DEVICES, DRIVER, "dev", "dev/dri", "dev/shm", "sys/class/infiniband", "opt/rocm")
FILES = (
    "sys/class/kfd/kfd/topology/generation_id",
    f"{NODES}/*/gpu_id",
    f"{NODES}/*/properties",
    f"{NODES}/*/io_links/*/properties",
    f"{DEVICES}/*/vendor",
    f"{DEVICES}/*/class",
    f"{_CPUS}/cpu[0-9]*/cpufreq/scaling_governor",
    f"{_CPUS}/cpu0/cpuidle/state2/disable",
    "sys/devices/system/node/node*/cpulist",
    "sys/devices/system/node/node*/distance",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/module/amdgpu/version",
    "sys/module/amdgpu/srcversion",
    "sys/module/nvidia/version",
    "proc/driver/nvidia/gpus/*/information",
    _HOST_NAME,
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/numa_balancing",
    _BOOT,
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
_PROPERTY = re.compile(r"[a-z0-9_]+ \d+")
_LINK_KEYS = ("type", "node_from", "node_to", "weight", "min_bandwidth", "max_bandwidth")
_CPU_KEYS = ("processor", "vendor_id", "model name", "siblings", "cpu cores", "flags")
_KERNEL_WORDS = re.compile(
    r"(?:(?:amd_|intel_)?iommu|pci|pcie_\w+|amdgpu\.\w+|numa_balancing|transparent_hugepage|"
    r"mitigations|intel_idle\.\w+|processor\.\w+|nosmt|isolcpus)(?:=[\w.,:+-]*)?"
)
_PLACES = ("opt/rocm", "opt/rccl-tests", "usr/lib", "usr/lib64", "usr/local/lib")
_LIBRARY_FOLDERS = (
    "opt/rocm/lib",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/lib",
)
_BENCHMARK_FOLDERS = ("opt/rocm/bin", "opt/rccl-tests/build")
_WHEELS = ("torch/lib", "_rocm_sdk_libraries_*/lib", "nvidia/nccl/lib")
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
_MARKS = re.compile(
    rb"[RN]CCL version *:? *\d+\.\d+\.\d+[\w.+:-]*|[rn]ccl-tests(?:: Version| version) *:? *"
    rb"\d[\w.+-]*|libmpi\.so\.\d+|# SIMULATED"
)
_GPU_QUERY = "--query-gpu=index,name,pci.bus_id,driver_version,mig.mode.current"
# A program, and which of its lines are taken.
_AMD_SMI = re.compile(
    r"\s*(?:- )?(?:GPU|BDF|MARKET_NAME|VENDOR_ID|DEVICE_ID|REV_ID|TARGET_GRAPHICS_VERSION|"
    r"NUM_COMPUTE_UNITS|(?:ACCELERATOR|COMPUTE|MEMORY)_PARTITION|PARTITION_ID): *[\w .:/()-]*"
)
_VERSION = re.compile(r"(?:AMDSMI|mpirun|mpiexec|HYDRA|Intel|slurm|ldd|    Version:).{0,80}")
PROGRAMS = (
    (("amd-smi", "version"), _VERSION),
    (("amd-smi", "list"), _AMD_SMI),
    (("amd-smi", "static"), _AMD_SMI),
    (("nvidia-smi", _GPU_QUERY, "--format=csv"), re.compile(r"[\w .,:/()\[\]-]+")),
    (("mpirun", "--version"), _VERSION),
    (("srun", "--version"), _VERSION),
    (("ldd", "--version"), _VERSION),
)
_MAX_BYTES = 1 << 16
_PROGRAM_S = 20.0

# ---- How it is taken ---------------------------------------------------------------------------

_TOP = "rccltune-gathered"
_LARGEST = 1 << 28
_WORD = re.compile(r"[\w.:+=-][\w./:+=-]*")
_CELL = re.compile(r"|[\w.:+?*|-][\w./:+?*|-]*")
_PLAIN = re.compile(r"[\w.,:;()%+<>=×·µ–−-][\w .,:;()%+<>=/×·µ–−-]{0,200}|")
_ABSOLUTE = re.compile(r"(?:^|[\s=:,;(])/|\w@\w|//")


class GatherError(Exception):
    """Raised where nothing can be gathered, with the reason."""


class NameHasher:
    """Stands for names by a keyed hash, equal ones by the same.

    Attributes:
        names: (kind, name) to what stands for it; the owner's alone, never in the archive.
    """

    def __init__(self, key: bytes) -> None:
        """Begin with nobody."""
        self._key = key
        self.names: dict[tuple[str, str], str] = {}

    def _digits(self, kind: str, name: str) -> str:
        return hmac.new(self._key, f"{kind}:{name.lower()}".encode(), hashlib.sha256).hexdigest()

    def name(self, kind: str, name: str) -> str:
        """``host-3f2a91c04d`` for a host, by its short name; nothing for nothing."""
        short = name.split(".", maxsplit=1)[0] if kind == "host" else name
        if not short:
            return ""
        made = f"{kind}-{self._digits(kind, short)[:10]}"
        return self.names.setdefault((kind, short), made)

    def number(self, number: int) -> int:
        """Another number for an identity; 0, which is none, stays."""
        return int(self._digits("number", str(number))[:12], 16) if number else 0

    def uuid(self, uuid: str) -> str:
        """Another UUID."""
        d = self._digits("uuid", uuid)
        return f"{d[:8]}-{d[8:12]}-{d[12:16]}-{d[16:20]}-{d[20:32]}"


@dataclass
class ArchiveContent:
    """Content of the archive, byte by byte, and what is left out of it.

    Attributes:
        files: by name below the archive's folder.
        left_out: (name, why) of files; for the owner alone.
        n_lines: lines, cells and fields of files that are taken and that are on no list.
        hosts: (name, what stands for it); for the owner alone.
    """

    what: str
    files: dict[str, bytes] = field(default_factory=dict)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    n_lines: int = 0
    hosts: list[tuple[str, str]] = field(default_factory=list)

    def contents(self) -> list[str]:
        """Lines that list the content, one for each kind of file."""
        rows: dict[str, tuple[int, int]] = {}
        for name, data in self.files.items():
            kind = re.sub(r"(?<=/)\d+(?=/)|(?<=rank-)\d+", "*", name)
            n, nbytes = rows.get(kind, (0, 0))
            rows[kind] = (n + 1, nbytes + len(data))
        width = max(map(len, rows), default=0)
        return [
            f"{kind:{width}}  {n:5} file{'s' if n > 1 else ' '}  {nbytes:10,} bytes"
            for kind, (n, nbytes) in rows.items()
        ] + [f"fields, lines and cells left out of these: {self.n_lines}"]

    def listing(self) -> list[str]:
        """Listing of the content, and for the owner of what is left out."""
        lines = [f"{self.what}, to be sent:", *(f"  {line}" for line in self.contents())]
        lines += [f"  {alias} stands for {name}" for name, alias in self.hosts]
        lines += [f"  left out: {name} ({why})" for name, why in self.left_out]
        return lines


def own_key() -> bytes:
    """The user's key; one for this archive alone where their folder cannot be written."""
    try:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        path = state / "rccltune" / "gather.key"
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError), _created(path) as stream:
            stream.write(secrets.token_hex(32).encode())
        return bytes.fromhex(path.read_text(encoding="ascii").strip()) or secrets.token_bytes(32)
    except (OSError, RuntimeError, ValueError):
        return secrets.token_bytes(32)


def _created(path: Path) -> BinaryIO:
    """A new file that its owner alone may read."""
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    return os.fdopen(handle, "wb")


# ---- A session ---------------------------------------------------------------------------------


def session(folder: Path, key: bytes) -> ArchiveContent:
    """The listed parts of a session.

    Raises:
        GatherError: there is no session.
    """
    if not (folder / "session.json").is_file():
        raise GatherError(f"there is no session in {folder}; 'machine' describes this machine")
    made, names = ArchiveContent(f"session {folder}"), NameHasher(key)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        cleaned = _cleaner(name)
        if path.is_dir() and not path.is_symlink():
            continue
        if cleaned is None:
            made.left_out.append((name, "not on the list"))
            continue
        try:
            text = _read(path).decode()
            taken, n_lines = cleaned(text, names)
        except (OSError, ValueError, RecursionError) as error:
            made.left_out.append((name, getattr(error, "strerror", None) or "cannot be read"))
            continue
        made.files[f"session/{name}"] = taken.encode()
        made.n_lines += n_lines
    made.left_out = _shortened(made.left_out)
    made.hosts = [(name, alias) for (kind, name), alias in names.names.items() if kind == "host"]
    return made


_Cleaner = Callable[[str, NameHasher], "tuple[str, int]"]


def _cleaner(name: str) -> _Cleaner | None:
    """Choose what cleans a file, by its name below the session; None where it stays."""
    for pattern, cleaner in _OF_A_SESSION:
        if pattern.fullmatch(name):
            return cleaner
    return None


def _shortened(files: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Join the files of a folder that are left out for one reason into a count."""
    by: dict[tuple[str, str], list[str]] = {}
    for name, why in files:
        by.setdefault((name.split("/", maxsplit=1)[0], why), []).append(name)
    return [
        (names[0] if len(names) == 1 else f"{len(names)} files of {top}/", why)
        for (top, why), names in by.items()
    ]


def _read(path: Path) -> bytes:
    """A regular file's bytes; a link or a pipe is an error."""
    # Without O_NONBLOCK a pipe would be waited for.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as stream:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "no regular file")
        if found.st_size > _LARGEST:
            raise OSError(0, f"larger than {_LARGEST >> 20} MiB")
        return stream.read(_LARGEST)


def _is_plain(text: str) -> bool:
    return bool(_PLAIN.fullmatch(text)) and not _ABSOLUTE.search(text)


def _known_file(path: str) -> str:
    """The last part of a path where it is one of ours or of the libraries'."""
    name = path.rsplit("/", 1)[-1]
    return name if _FILES_KNOWN.fullmatch(name) else LEFT_OUT


def _value(value: str) -> str:
    """A variable's value: a word, or the file of a path."""
    known = _known_file(value) if "/" in value else value
    return known if re.fullmatch(r"[\w.,:;^=+-]*", known) else LEFT_OUT


def _plugin_in(argv: object) -> list[str]:
    """Option with the plugin that a command line names: it says which one was loaded."""
    words = [str(word) for word in argv] if isinstance(argv, list) else []
    after = words[words.index("--plugin") + 1 :] if "--plugin" in words else []
    return ["--plugin", _known_file(after[0])] if after else []


class _JsonFields:
    """Takes fields of JSON."""

    def __init__(self, names: NameHasher) -> None:
        self.names = names
        self.n_left_out = 0

    def taken(self, plain: Any, key: str = "") -> Any:  # noqa: ANN401 - whatever stands there
        """Return what may be sent of a value that is called ``key``."""
        if key == "words":
            return ""
        if key == "argv":
            return _plugin_in(plain)
        if key in _VARIABLES:
            return self.variables(plain)
        if isinstance(plain, dict):
            kept = [name for name in plain if name in FIELDS]
            self.n_left_out += len(plain) - len(kept)
            return {name: self.taken(plain[name], name) for name in kept}
        if isinstance(plain, list):
            return [self.taken(one, key) for one in plain]
        return self.text(plain, key) if isinstance(plain, str) else plain

    def text(self, text: str, key: str) -> str:
        """A line of our own words as it is; a path's last part; a host's hash."""
        if key in _HASHED:
            return self.names.name(_HASHED[key], text)
        made = _known_file(text) if key in _PATHS else text
        if _is_plain(made):
            return made
        self.n_left_out += 1
        return LEFT_OUT

    def variables(self, plain: Any) -> Any:  # noqa: ANN401 - whatever stands there
        """Keep the variables that are listed: of names, of pairs, or by name."""
        if isinstance(plain, dict):
            made: Any = {n: _value(str(v)) for n, v in plain.items() if n in VARIABLES}
        elif isinstance(plain, list):
            pairs = [one for one in plain if isinstance(one, list) and len(one) == 2]
            made = [[n, _value(str(v))] for n, v in pairs if n in VARIABLES]
            made += [one for one in plain if isinstance(one, str) and one in VARIABLES]
        else:
            # A ratio, and no variables: verdict.json has both by one name.
            return plain if isinstance(plain, (int, float)) else None
        self.n_left_out += len(plain) - len(made)
        return made


def _json(text: str, names: NameHasher) -> tuple[str, int]:
    plain = json.loads(text)
    if not isinstance(plain, dict):
        raise ValueError("no record")  # noqa: TRY004 - a file's mistake
    taker = _JsonFields(names)
    return json.dumps(taker.taken(plain), indent=1) + "\n", taker.n_left_out


def _plan(text: str, _names: NameHasher) -> tuple[str, int]:
    """Lines stay, since rows count them; a word that may be a path does not."""
    lines = [line.split(" ") for line in text.splitlines()]
    made = [[w if _WORD.fullmatch(w) else LEFT_OUT for w in words] for words in lines]
    n_left_out = sum(a != b for a, b in zip(lines, made))
    return "".join(f"{' '.join(words)}\n" for words in made), n_left_out


def _rank(text: str, names: NameHasher) -> tuple[str, int]:
    """Rows, and the remarks that are listed; lines that are left out are no rows."""
    made, n_left_out = [], 0
    for line in text.splitlines():
        if line.startswith("#"):
            said = _remark(line[1:].strip(), names)
            made += [] if said is None else [f"# {said}"]
            n_left_out += said is None
            continue
        *cells, note = line.split(",", 16)
        if line.startswith("line,"):
            made.append(line)
        elif all(map(_CELL.fullmatch, cells)):
            # A graph that could not be captured; the words are the library's.
            kept = note if note == "" or len(cells) < 16 else note.split(":", 1)[0][:5]
            kept = kept if kept in ("", "graph") else ""
            made.append(",".join((*cells, kept)))
            n_left_out += kept != note
        else:
            n_left_out += 1
    return "".join(f"{line}\n" for line in made), n_left_out


def _remark(text: str, names: NameHasher) -> str | None:
    """Return what may be sent of a remark; None for nothing."""
    word, _, rest = text.partition(" ")
    if word not in REMARKS:
        return None
    if word in ("library", "runtime", "plugin"):
        path, _, kind = rest.partition(" (")
        return f"{word} {_known_file(path)}{f' ({kind}' if kind in ('hip)', 'cuda)') else ''}"
    if word == "host":
        return f"host {names.name('host', rest)}"
    if word == "variable":
        name, _, value = rest.partition("=")
        return f"variable {name}={_value(value)}" if name in VARIABLES else None
    if word in ("failed", "numa"):
        return f"{word} {rest.split(' ')[0].rstrip(':')}"
    return text if _is_plain(text) else None


def _samples(text: str, _names: NameHasher) -> tuple[str, int]:
    head, *rows = text.splitlines() or [""]
    columns = head.split(",")
    kept = [number for number, name in enumerate(columns) if name in COLUMNS]
    made, n_left_out = [",".join(columns[i] for i in kept)], len(columns) - len(kept)
    for row in rows:
        cells = row.split(",")
        if len(cells) != len(columns):
            n_left_out += 1
            continue
        taken = [cells[i] if _CELL.fullmatch(cells[i]) else "" for i in kept]
        n_left_out += sum(cells[i] != cell for i, cell in zip(kept, taken))
        made.append(",".join(taken))
    return "".join(f"{line}\n" for line in made), n_left_out


def _rules(text: str, _names: NameHasher) -> tuple[str, int]:
    lines = text.splitlines()
    made = [said for said in map(_rule_line, lines) if said is not None]
    return "".join(f"{line}\n" for line in made), sum(a not in made for a in lines)


def _rule_line(line: str) -> str | None:
    if line.startswith("#@"):
        words = line[2:].split()
        if words[:1] == ["needs"]:
            pairs = [word.partition("=") for word in words[1:]]
            kept = [f"{n}={_value(v)}" for n, _, v in pairs if n in VARIABLES]
            return " ".join(("#@ needs", *kept)) if kept else None
        return line if words and words[0] in _STATEMENTS and _is_plain(line[2:].strip()) else None
    if line.startswith("#"):
        said = line[1:].strip()
        return line if said.startswith(_COMMENTS) and _is_plain(said) else None
    return line if re.fullmatch(r"[a-z][a-z0-9,_-]*", line) else None


_RULE_FILE = r"rccl_tuner[\w.-]*\.csv"
# Files of a session by their names, and what is taken of each.
_OF_A_SESSION = tuple(
    (re.compile(pattern), cleaner)
    for pattern, cleaner in (
        (r"session\.json", _json),
        (r"(?:verdict|choice)[\w-]*\.json", _json),
        (r"samples\.csv", _samples),
        (r"runs/\d+/(?:run|ending)\.json", _json),
        (r"runs/\d+/plan\.txt", _plan),
        (r"runs/\d+/rank-\d+\.csv", _rank),
        (rf"(?:[a-z0-9-]+/)?{_RULE_FILE}", _rules),
    )
)


# ---- A machine ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArchiveBlock:
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
        """Text of a file as it stands; a last line without an end is marked."""
        if not self.text:
            return f"{self.kind} {self.name}\n"
        ended = self.text.endswith("\n")
        lines = (self.text[:-1] if ended else self.text).split("\n")
        mark = "" if ended else "\\\n"
        return f"{self.kind} {self.name}\n" + "".join(f"\t{line}\n" for line in lines) + mark


def machine(key: bytes, root: Path = Path("/")) -> ArchiveContent:
    """Collect what detection reads of the machine below ``root``, as one text."""
    names = NameHasher(key)
    found: dict[tuple[str, str], ArchiveBlock] = {}
    for block in _MachineFiles(root.resolve(), names).blocks():
        found.setdefault((block.kind, block.name), block)
    text = _HEAD + "".join(block.written() for block in found.values())
    made = ArchiveContent(f"machine {os.uname().nodename if root == Path('/') else root}")
    made.files["machine/gathered-system.txt"] = text.encode("utf-8", "replace")
    made.hosts = [(name, alias) for (_, name), alias in names.names.items()]
    return made


class _MachineFiles:
    """A machine's files below a root, read as detection reads them."""

    def __init__(self, root: Path, names: NameHasher) -> None:
        self.root = root
        self.names = names
        self.is_live = root == Path("/")
        self.n_elsewhere: dict[str, int] = {}

    def read(self, name: str) -> bytes | None:
        """A small file's bytes, None where it cannot be read."""
        try:
            with (self.root / name).open("rb") as stream:
                return stream.read(_MAX_BYTES)
        except OSError:
            return None

    def found(self, pattern: str) -> list[str]:
        """Names below the root that a pattern matches, plain ones alone."""
        found = (str(path.relative_to(self.root)) for path in self.root.glob(pattern))
        return sorted(name for name in found if re.fullmatch(r"[\w./:+-]+", name))

    def blocks(self) -> Iterator[ArchiveBlock]:
        """Everything, in the order of the file."""
        yield from (ArchiveBlock("folder", name) for name in FOLDERS if (self.root / name).is_dir())
        for pattern in FILES:
            for name in self.found(pattern):
                yield from self.file(name)
        yield from self.gpus()
        yield from self.bare_names()
        for name in self.found("proc/[0-9]*/comm"):
            # Of all processes the daemon that moves memory.
            if (self.read(name) or b"").strip() == b"numad":
                yield ArchiveBlock("file", name, "numad\n")
                break
        yield from self.software()
        if self.is_live:
            yield from self.circumstances()

    def file(self, name: str) -> Iterator[ArchiveBlock]:
        """A file without what is not listed, or that it is there and cannot be read."""
        try:
            with (self.root / name).open("rb") as stream:
                data = stream.read(_MAX_BYTES)
        except OSError as error:
            is_denied = error.errno in (errno.EPERM, errno.EACCES)
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                yield ArchiveBlock("denied" if is_denied else "unreadable", name)
            return
        yield ArchiveBlock("file", name, self.cleaned(name, data.decode("latin-1")))

    def cleaned(self, name: str, text: str) -> str:
        """Keep the lines of a file that are listed."""
        if name.endswith("/properties"):
            is_link = "/io_links/" in name
            kept = _lines(
                text,
                lambda line: (
                    bool(_PROPERTY.fullmatch(line))
                    and (not is_link or line.split(" ")[0] in _LINK_KEYS)
                ),
            )
            return re.sub(r"(?m)^(unique_id|hive_id) (\d+)", self._numbered, kept)
        if name.endswith("/information"):
            kept = _lines(text, lambda line: line.startswith(("Model", "GPU UUID")))
            return re.sub(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", self._uuid, kept)
        if name.endswith(".conf"):
            return self.settings(text)
        return self._of_the_kernel(name, text)

    def _of_the_kernel(self, name: str, text: str) -> str:
        said = text.strip()
        if name == _HOST_NAME and said:
            return f"{self.names.name('host', said)}\n"
        if name == _BOOT:
            return f"{self.names.uuid(said)}\n"
        if name == "proc/cmdline":
            return " ".join(filter(_KERNEL_WORDS.fullmatch, said.split())) + "\n"
        if name == "proc/cpuinfo":
            # One core is as all.
            one = text.split("\n\n", maxsplit=1)[0]
            return _lines(one, lambda line: line.split("\t")[0].strip() in _CPU_KEYS)
        return text

    def _numbered(self, found: Match[str]) -> str:
        return f"{found[1]} {self.names.number(int(found[2]))}"

    def _uuid(self, found: Match[str]) -> str:
        return self.names.uuid(found[0])

    @staticmethod
    def settings(text: str) -> str:
        """Variables of a configuration file that are listed."""
        pairs = [line.partition("=")[::2] for line in text.split("\n")]
        named = [(name.strip(), value.strip()) for name, value in pairs]
        return "".join(f"{n}={_value(v)}\n" for n, v in named if n in VARIABLES)

    def gpus(self) -> Iterator[ArchiveBlock]:
        """Collect the GPUs that amdgpu drives, and what the PCI bus says of every GPU."""
        driven = [name for name in self.found(f"{DRIVER}/*:*:*") if "." in name]
        addresses = [name.rsplit("/", 1)[-1] for name in driven]
        for address in addresses:
            yield ArchiveBlock("link", f"{DRIVER}/{address}", f"../../devices/{address}\n")
        for name in self.found(f"{DEVICES}/*"):
            maker = (self.read(f"{name}/vendor") or b"").decode("latin-1").strip()
            if maker in _GPU_MAKERS or name.rsplit("/", 1)[-1] in addresses:
                yield ArchiveBlock("folder", name)
                for pattern in OF_A_GPU:
                    for found in self.found(f"{name}/{pattern}"):
                        yield from self.file(found)

    def bare_names(self) -> Iterator[ArchiveBlock]:
        """Device nodes, shared memory, network cards and who uses the GPUs, by name."""
        for pattern in NAMES:
            for name in self.found(pattern):
                may_open = os.access(self.root / name, os.R_OK | os.W_OK)
                is_device = name.startswith(("dev/kfd", "dev/dri/"))
                kind = "folder" if name.startswith("sys/") else "file"
                yield ArchiveBlock("denied" if is_device and not may_open else kind, name)

    def software(self) -> Iterator[ArchiveBlock]:
        """Version and hash of every library that a job could load, and of the benchmarks."""
        packages = [Path(p) for p in sys.path if p.endswith("-packages")] if self.is_live else []
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            base = os.environ.get(variable) if self.is_live else None
            packages += Path(base).glob("lib/python3*/site-packages") if base else []
        wheels = [folder for base in packages for one in _WHEELS for folder in base.glob(one)]
        system = [self.root / name for name in _LIBRARY_FOLDERS]
        yield from self.excerpts([*self.searched("LD_LIBRARY_PATH"), *system, *wheels], LIBRARIES)
        tests = [self.root / name for name in _BENCHMARK_FOLDERS]
        yield from self.excerpts([*self.searched("PATH"), *tests], BENCHMARKS)

    def searched(self, variable: str) -> list[Path]:
        """The folders of a list in the environment."""
        value = os.environ.get(variable, "") if self.is_live else ""
        return [Path(part) for part in value.split(":") if part.startswith("/")]

    def excerpts(self, folders: list[Path], names: tuple[str, ...]) -> Iterator[ArchiveBlock]:
        """Collect excerpts of files that are too large to send, each file once."""
        known: set[Path] = set()
        for path in (folder / name for folder in folders for name in names):
            real = path.resolve()
            if not path.is_file() or path in known or self.root not in real.parents:
                continue
            place, target = self.place(path), self.place(real)
            if real not in known:
                yield ArchiveBlock("excerpt", target, _excerpt(real))
            if place != target:
                step = os.path.relpath(target, str(Path(place).parent))
                yield ArchiveBlock("link", place, f"{step}\n")
            known |= {path, real}

    def place(self, path: Path) -> str:
        """Path of a file without the folders of a person or a project."""
        name = str(path.relative_to(self.root))
        if name.startswith(_PLACES) and re.fullmatch(r"[\w./+-]+", name):
            return name
        folder = str(path.parent)
        number = self.n_elsewhere.setdefault(folder, len(self.n_elsewhere) + 1)
        last = path.name if re.fullmatch(r"[\w.]*ccl\.so[\d.]*|\w+_perf", path.name) else "file"
        return f"elsewhere/{number}/{last}"

    def circumstances(self) -> Iterator[ArchiveBlock]:
        """Collect what programs say, limits of a process, and variables that matter."""
        for name in (".rccl.conf", ".nccl.conf"):
            try:
                text = (Path.home() / name).read_text(encoding="utf-8", errors="replace")
            except (OSError, RuntimeError):
                continue
            yield ArchiveBlock("file", f"home/user/{name}", self.settings(text))
        yield ArchiveBlock("fact", "home", "/home/user\n")
        for argv, wanted in PROGRAMS:
            said = _asked(argv)
            if said is not None:
                text = _lines(said, wanted.fullmatch)
                yield ArchiveBlock("told", " ".join(argv), text)
        yield ArchiveBlock("fact", "cores", f"{len(os.sched_getaffinity(0))}\n")
        for name in ("nofile", "memlock"):
            soft = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[0]
            yield ArchiveBlock("fact", name, f"{soft}\n")
        for name in sorted(VARIABLES & os.environ.keys()):
            yield ArchiveBlock("variable", name, f"{_value(os.environ[name])}\n")


def _lines(text: str, wanted: Callable[[str], object]) -> str:
    return "".join(f"{line}\n" for line in text.split("\n") if line and wanted(line))


def _excerpt(path: Path) -> str:
    """The marks that say which release a file is, as they stand in it, and its hash."""
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as m:
            marks = dict.fromkeys(found.decode("ascii") for found in _MARKS.findall(m))
            digest = hashlib.sha256(m).hexdigest()
            return "".join(f"{mark}\n" for mark in marks) + f"sha256 {digest} of {len(m)} bytes\n"
    except (OSError, ValueError):
        return "cannot be read\n"


def _asked(argv: tuple[str, ...]) -> str | None:
    """Run a program and return what it prints; None where there is none or it hangs."""
    if shutil.which(argv[0]) is None:
        return None
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROGRAM_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout[: 4 * _MAX_BYTES].decode("utf-8", "replace")


# ---- The archive -------------------------------------------------------------------------------


def gather(what: Path) -> ArchiveContent:
    """A session by its folder, or this machine by the word ``machine``.

    Raises:
        GatherError: there is no such session.
    """
    key = own_key()
    return machine(key) if str(what) == MACHINE else session(what, key)


def check_free(target: Path) -> None:
    """Find out whether a file may be made.

    Raises:
        GatherError: it is there already.
    """
    if os.path.lexists(target):
        raise GatherError(f"{target} is there already; name another file with -o")


def write(made: ArchiveContent, target: Path) -> int:
    """Write the archive, whole or not at all, for its owner alone; returns its size in bytes.

    Raises:
        GatherError: the file is there already.
        OSError: the disk refuses.
    """
    check_free(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    contents = "".join(f"{line}\n" for line in made.contents())
    try:
        with _created(half) as stream:
            with tarfile.open(mode="w:gz", fileobj=stream) as tar:
                for name, data in {"CONTENTS.txt": contents.encode(), **made.files}.items():
                    member = tarfile.TarInfo(f"{_TOP}/{name}")
                    member.size, member.mode = len(data), 0o644
                    tar.addfile(member, io.BytesIO(data))
            stream.flush()
            os.fsync(stream.fileno())
        half.rename(target)
    finally:
        if half.exists():
            half.unlink()
    return target.stat().st_size


def main(arguments: list[str] | None = None) -> int:
    """Gather where rccltune is not installed; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Makes one archive to send of a session, or of this machine ('machine'), from "
        "a list of files and fields. It changes nothing and sends nothing."
    )
    parser.add_argument("-o", "--output", type=Path, default=DEFAULT_OUTPUT, metavar="FILE")
    parser.add_argument("what", nargs="?", type=Path, default=DEFAULT_SESSION)
    options = parser.parse_args(arguments)
    try:
        check_free(options.output)
        made = gather(options.what)
        print("\n".join(made.listing()), flush=True)
        nbytes = write(made, options.output)
    except (GatherError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    print(f"{options.output}: {nbytes:,} bytes. Nothing was sent. Read it before you send it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
