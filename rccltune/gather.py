"""An archive of a session or of this machine to be sent: the fields that its lists name, no more.

Everything is taken by a list: files, fields, lines, columns, variables. What is not on one is left
out; nothing is searched for names. Host names and identities that are on a list become a keyed
hash, equal ones the same; the key stays in the user's own folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import json
import os
import re
import secrets
import stat
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from rccltune.machine.gpu_findings import gpu_findings
from rccltune.machine.records import system_json
from rccltune.machine.this_machine import local_system
from rccltune.model.errors import CommandLineError
from rccltune.model.schema import to_plain

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
    fallback key scale placement dtype op redop graph nbytes baseline_us tuned_us ran
    answer n_wrong cost_ns verdict rule before after reason why zones
    bits bits_times library_us rules_us fastest_us pin_us
    """
)
# Hashed where they stand; of these the list is of variables; of these only what is known below.
_HASHED = {
    "hosts": "host",
    "host": "host",
    "devices": "device",
    "identity": "device",
    "boot_id": "boot",
}
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

# Fields of what ``detect --json`` says of it.
MACHINE_FIELDS = _named(
    """
    format host status reason vendor product arch device_id mode n_hidden boot_id driver kernel rocm
    kfd_generation n_devices xgmi_hops disagreements
    oams address cu_count n_gpus n_expected numa_node identity contradiction compute memory
    gpus index oam partition xcds iods render_minor can_open mec_firmware
    libraries path owner version sha256 simulated
    benchmarks name mpi launchers flavour
    amdsmi
    findings severity spoils
    """
)

# ---- How it is taken ---------------------------------------------------------------------------

_TOP = "rccltune-gathered"
_LARGEST = 1 << 28
_WORD = re.compile(r"[\w.:+=-][\w./:+=-]*")
_CELL = re.compile(r"|[\w.:+?*|-][\w./:+?*|-]*")
_PLAIN = re.compile(r"[\w.,:;()%+<>=×·µ–−-][\w .,:;()%+<>=/×·µ–−-]{0,200}|")
_ABSOLUTE = re.compile(r"(?:^|[\s=:,;(])/|\w@\w|//")


class NameHasher:
    """Stands for names by a keyed hash, equal ones by the same.

    Attributes:
        names: (kind, name) to what stands for it; the owner's alone, never in the archive.
    """

    def __init__(self, key: bytes) -> None:
        """Begin with nobody."""
        self._key = key
        self.names: dict[tuple[str, str], str] = {}

    def name(self, kind: str, name: str) -> str:
        """``host-3f2a91c04d`` for a host, by its short name; nothing for nothing."""
        short = name.split(".", maxsplit=1)[0] if kind == "host" else name
        if not short:
            return ""
        digits = hmac.new(self._key, f"{kind}:{short.lower()}".encode(), hashlib.sha256).hexdigest()
        made = f"{kind}-{digits[:10]}"
        return self.names.setdefault((kind, short), made)

    @property
    def hosts(self) -> list[tuple[str, str]]:
        """(name, what stands for it) of the hosts."""
        return [(name, alias) for (kind, name), alias in self.names.items() if kind == "host"]


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
        CommandLineError: there is no session.
    """
    if not (folder / "session.json").is_file():
        raise CommandLineError(f"there is no session in {folder}; 'machine' describes this machine")
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
    made.hosts = names.hosts
    return made


def machine(key: bytes) -> ArchiveContent:
    """The listed parts of what ``detect --json`` says of this machine."""
    system, names = local_system(None), NameHasher(key)
    taker = _JsonFields(names, MACHINE_FIELDS)
    plain = taker.taken(to_plain(system_json(system, gpu_findings(system, os.environ))))
    made = ArchiveContent(f"machine {system.host}")
    made.files["machine/detect.json"] = (json.dumps(plain, indent=1) + "\n").encode()
    made.n_lines = taker.n_left_out
    made.hosts = names.hosts
    return made


_Cleaner = Callable[[str, NameHasher], tuple[str, int]]


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

    def __init__(self, names: NameHasher, fields: frozenset[str] = FIELDS) -> None:
        self.names = names
        self.fields = fields
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
            kept = [name for name in plain if name in self.fields]
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
    n_left_out = sum(a != b for a, b in zip(lines, made, strict=True))
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
        n_left_out += sum(cells[i] != cell for i, cell in zip(kept, taken, strict=True))
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


# ---- The archive -------------------------------------------------------------------------------


def gather(what: Path) -> ArchiveContent:
    """A session by its folder, or this machine by the word ``machine``.

    Raises:
        CommandLineError: there is no such session.
    """
    key = own_key()
    return machine(key) if str(what) == MACHINE else session(what, key)


def check_free(target: Path) -> None:
    """Find out whether a file may be made.

    Raises:
        CommandLineError: it is there already.
    """
    if os.path.lexists(target):
        raise CommandLineError(f"{target} is there already; name another file with -o")


def write(made: ArchiveContent, target: Path) -> int:
    """Write the archive, whole or not at all, for its owner alone; returns its size in bytes.

    Raises:
        CommandLineError: the file is there already.
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
