"""An archive of a session or of this machine to be sent: what these lists name, and no more.

Everything is taken by a list: files, fields, remarks, variables. What is not on one is left out;
nothing is searched for names. Host names and identities that are on a list become a keyed hash,
equal ones of an archive the same; the key is kept nowhere.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
import os
import re
import secrets
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rccltune.machine.gpu_findings import find_gpu_findings
from rccltune.machine.system import export_system
from rccltune.machine.this_machine import detect_this_machine
from rccltune.model.errors import CommandLineError, RccltuneError
from rccltune.model.schema import to_plain
from rccltune.session.files import read_regular, replacing
from rccltune.session.samples_csv import HEAD

MACHINE: Final = "machine"
LEFT_OUT: Final = "left-out"


def _name_words(words: str) -> frozenset[str]:
    return frozenset(words.split())


# ---- What is taken -----------------------------------------------------------------------------

_JSON: Final = re.compile(r"session\.json|(?:verdict|choice)\.json|runs/\d+/(?:run|ending)\.json")
_LINES: Final = re.compile(
    r"samples\.csv|runs/\d+/(?:plan\.txt|rank-\d+\.csv)|(?:[a-z0-9-]+/)?rccl_tuner[\w.-]*\.csv"
)
# Fields of a session's JSON files, at whatever depth they stand.
FIELDS: Final = _name_words(
    """
    format id tool simulated samples_of n_samples fingerprint product arch cu_count mode compute
    memory hosts devices benchmark_sha256 serves ranks_per_process binding runner setup name
    environment process plugin n_nodes n_ranks rank_placement
    library library_version runtime argv added started
    exit_code signal duration_s failure line collective setting algorithm protocol channels role
    words
    path sha256 rules_sha256 rules_before rules fallbacks replicates processes
    seconds verdicts standings cuts beside is_equal needs lost_needs confirmed
    ratio value low high n n_sizes n_undecided timing loop one_root registered bfloat16
    state gain min_nbytes max_nbytes num_pipe_ops reg_buff only_mode
    fallback key scale placement dtype op graph nbytes baseline_us tuned_us ran
    answer n_wrong cost_ns verdict rule before after reason why zones
    equivalent bits bits_times library_us rules_us fastest_us pin_us
    """
)
# Fields of what ``detect --json`` says of a machine.
MACHINE_FIELDS: Final = _name_words(
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
# Remarks of ranks' and rule files by their first word.
REMARKS: Final = _name_words(
    """
    rccltune-perf simulated version runtime plugin host rank device fact free numa failed
    variable done
    format rules end requires library bits needs section hole
    verified: UNPROVEN SIMULATED extrapolated fallback restores
    """
)
# Variables that choose, that a library reads, or that say which devices there are.
VARIABLES: Final = _name_words(
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
_HASHED: Final = {
    "hosts": "host",
    "host": "host",
    "devices": "device",
    "identity": "device",
    "boot_id": "boot",
}
_OF_VARIABLES: Final = ("environment", "added", "needs", "lost_needs")
_PATHS: Final = ("path", "library", "runtime", "plugin")
_FILES_KNOWN: Final = re.compile(
    r"rccl_tuner[\w.-]*\.csv|rules[\w.-]*\.csv|librccl-tuner-rccltune\.so|"
    r"lib(?:rccl|nccl|amdhip64|cudart)\.so[\d.]*"
)
_WORD: Final = re.compile(r"|[\w.:+=?*|-][\w./:+=?*|-]*")
_VALUE: Final = re.compile(r"[\w.,:;^=+-]*")
_PLAIN: Final = re.compile(r"[\w.,:;()%+<>=×·µ–−-][\w .,:;()%+<>=/×·µ–−-]{0,200}|")
_ABSOLUTE: Final = re.compile(r"(?:^|[\s=:,;(])/|\w@\w|//")


# ---- How it is taken ---------------------------------------------------------------------------


class NameHasher:
    """Stands for names by a keyed hash, equal ones by the same.

    Attributes:
        hosts: what stands for each; the owner's alone, never in the archive.
    """

    def __init__(self) -> None:
        """Begin with nobody, and a key of its own."""
        self._key = secrets.token_bytes(32)
        self.hosts: dict[str, str] = {}

    def name(self, kind: str, name: str) -> str:
        """``host-3f2a91c04d`` for a host, by its short name; nothing for nothing."""
        short = name.partition(".")[0] if kind == "host" else name
        if not short:
            return ""
        digits = hmac.new(self._key, f"{kind}:{short.lower()}".encode(), hashlib.sha256).hexdigest()
        alias = f"{kind}-{digits[:10]}"
        if kind == "host":
            self.hosts[short] = alias
        return alias


@dataclass
class ArchiveContent:
    """Content of the archive, and what is left out of it.

    Attributes:
        files: bytes by name below the archive's folder.
        left_out: why, by name, of files that are on the list; for the owner alone.
        n_unlisted: files that are not.
        hosts: what stands for each; for the owner alone.
    """

    what: str
    files: dict[str, bytes] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    n_unlisted: int = 0
    hosts: dict[str, str] = field(default_factory=dict)

    def contents(self) -> list[str]:
        """Lines that list the content, one for each kind of file."""
        sizes: dict[str, list[int]] = {}
        for name, data in self.files.items():
            kind = re.sub(r"(?<=/)\d+(?=/)|(?<=rank-)\d+", "*", name)
            sizes.setdefault(kind, []).append(len(data))
        width = max(map(len, sizes), default=0)
        return [
            f"{kind:{width}}  {len(each):5} file(s)  {sum(each):10,} bytes"
            for kind, each in sizes.items()
        ]

    def listing(self) -> list[str]:
        """Listing of the content, and for the owner of what is left out."""
        lines = [f"{self.what}, to be sent:", *(f"  {line}" for line in self.contents())]
        lines += [f"  {alias} stands for {name}" for name, alias in self.hosts.items()]
        lines += [f"  left out: {name} ({why})" for name, why in self.left_out.items()]
        return [*lines, f"  not on the list, and left out: {self.n_unlisted} files"]


def gather(what: Path) -> ArchiveContent:
    """A session by its folder, or this machine by the word ``machine``.

    Raises:
        CommandLineError: there is no such session.
    """
    return gather_machine() if str(what) == MACHINE else gather_session(what)


def gather_machine() -> ArchiveContent:
    """The listed fields of what ``detect --json`` says of this machine."""
    system, names = detect_this_machine(None), NameHasher()
    plain = to_plain(export_system(system, find_gpu_findings(system, os.environ)))
    text = _json_text(_listed(plain, "", MACHINE_FIELDS, names))
    files = {"machine/detect.json": text.encode()}
    return ArchiveContent(f"machine {system.host}", files, hosts=names.hosts)


def gather_session(folder: Path) -> ArchiveContent:
    """The listed parts of a session.

    Raises:
        CommandLineError: there is no session.
    """
    if not (folder / "session.json").is_file():
        raise CommandLineError(
            "there is no session here",
            where=str(folder),
            hint="name its folder; the word machine describes this machine.",
        )
    names = NameHasher()
    content = ArchiveContent(f"session {folder}", hosts=names.hosts)
    for path in sorted(one for one in folder.rglob("*") if one.is_symlink() or not one.is_dir()):
        name = path.relative_to(folder).as_posix()
        if not (_JSON.fullmatch(name) or _LINES.fullmatch(name)):
            content.n_unlisted += 1
        elif path.is_symlink():
            content.left_out[name] = "a link"
        else:
            try:
                text = _reduce_file(name, read_regular(path).decode(), names)
                content.files[f"session/{name}"] = text.encode()
            except (RccltuneError, ValueError, RecursionError):
                content.left_out[name] = "cannot be read"
    return content


def _reduce_file(name: str, text: str, names: NameHasher) -> str:
    """What may be sent of a file of a session; ValueError where it is none of ours."""
    if _JSON.fullmatch(name):
        return _json_text(_listed(json.loads(text), "", FIELDS, names))
    lines = text.splitlines()
    if name == "samples.csv" and lines[:1] != [HEAD]:
        raise ValueError("other columns")
    if name.endswith("plan.txt"):
        # Lines stay, since rows count them.
        rows = [" ".join(_word(word) or LEFT_OUT for word in line.split(" ")) for line in lines]
    else:
        rows = [row for line in lines if (row := _row(line, names))]
    return "".join(f"{row}\n" for row in rows)


def _json_text(plain: object) -> str:
    return json.dumps(plain, indent=1) + "\n"


def _listed(plain: Any, key: str, fields: frozenset[str], names: NameHasher) -> Any:  # noqa: ANN401 - JSON
    """What may be sent of a JSON value that is called ``key``."""
    if key == "argv":
        return _plugin_in(plain)
    if key in _OF_VARIABLES and isinstance(plain, dict | list):
        return _listed_variables(plain)
    if isinstance(plain, dict):
        return {n: _listed(one, n, fields, names) for n, one in plain.items() if n in fields}
    if isinstance(plain, list):
        return [_listed(one, key, fields, names) for one in plain]
    return _listed_text(plain, key, names) if isinstance(plain, str) else plain


def _plugin_in(argv: object) -> list[str]:
    """Option with the plugin that a command line names: it says which one was loaded."""
    words = [str(word) for word in argv] if isinstance(argv, list) else []
    after = words[words.index("--plugin") + 1 :] if "--plugin" in words else []
    return ["--plugin", _known_file(after[0])] if after else []


def _listed_variables(plain: dict[str, Any] | list[Any]) -> object:
    """Variables that are listed: of a mapping, of pairs, or by name."""
    if isinstance(plain, dict):
        return {n: _value(str(v)) for n, v in plain.items() if n in VARIABLES}
    pairs = [one for one in plain if isinstance(one, list) and [*map(type, one)] == [str, str]]
    alone = [one for one in plain if isinstance(one, str) and one in VARIABLES]
    return [[n, _value(v)] for n, v in pairs if n in VARIABLES] + alone


def _listed_text(text: str, key: str, names: NameHasher) -> str:
    """A line of our own words as it is; a path's last part; a host's hash."""
    if key == "words":
        return ""
    if key in _HASHED:
        return names.name(_HASHED[key], text)
    return _plain_text(_known_file(text) if key in _PATHS else text)


def _row(line: str, names: NameHasher) -> str:
    """What may be sent of a line of ranks', samples' or rules' files; nothing for nothing."""
    if not line.startswith("#"):
        return ",".join(map(_word, next(csv.reader([line]), [])))
    mark = "#@" if line.startswith("#@") else "#"
    word, _, rest = line.removeprefix(mark).strip().partition(" ")
    if word not in REMARKS:
        return ""
    if word == "host":
        rest = names.name("host", rest)
    elif word in ("variable", "needs"):
        pairs = [one.partition("=") for one in rest.split()]
        rest = " ".join(f"{n}={_value(v)}" for n, _, v in pairs if n in VARIABLES)
        if not rest:
            return ""
    elif word in ("failed", "numa"):
        # Behind it are the library's words.
        rest = rest.partition(" ")[0].rstrip(":")
    elif word in _PATHS and mark == "#":
        path, _, kind = rest.partition(" (")
        rest = f"{_known_file(path)}{f' ({kind}' if kind in ('hip)', 'cuda)') else ''}"
    return f"{mark} {word} {_plain_text(rest)}".rstrip()


def _word(text: str) -> str:
    """A cell or a word as it is; of a graph that was not captured, without the library's words."""
    return text if _WORD.fullmatch(text) else "graph" if text.startswith("graph:") else ""


def _plain_text(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and not _ABSOLUTE.search(text) else LEFT_OUT


def _known_file(path: str) -> str:
    """The last part of a path where it is one of ours or of the libraries'."""
    name = path.rpartition("/")[2]
    return name if _FILES_KNOWN.fullmatch(name) else LEFT_OUT


def _value(value: str) -> str:
    """A variable's value: a word, or the file of a path."""
    known = _known_file(value) if "/" in value else value
    return known if _VALUE.fullmatch(known) else LEFT_OUT


# ---- The archive -------------------------------------------------------------------------------


def check_free(target: Path) -> None:
    """Find out whether a file may be made.

    Raises:
        CommandLineError: it is there already.
    """
    if os.path.lexists(target):
        raise CommandLineError(f"{target} is there already; name another file with -o")


def write(content: ArchiveContent, target: Path) -> int:
    """Write the archive, whole or not at all, for its owner alone; returns its size in bytes.

    Raises:
        CommandLineError: the file is there already.
        SessionError: the disk refuses.
    """
    check_free(target)
    contents = "".join(f"{line}\n" for line in content.contents())
    with replacing(target, mode=0o600) as stream, tarfile.open(mode="w:gz", fileobj=stream) as tar:
        for name, data in {"CONTENTS.txt": contents.encode(), **content.files}.items():
            member = tarfile.TarInfo(f"rccltune-gathered/{name}")
            member.size, member.mode = len(data), 0o644
            tar.addfile(member, io.BytesIO(data))
    return target.stat().st_size
