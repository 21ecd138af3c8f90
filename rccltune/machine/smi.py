"""The vendors' own tools, asked in a child process: amdsmi and nvidia-smi.

amdsmi, asked in a child process: bindings of another release crash, hang and print on stdout.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rccltune.machine import files, pci
from rccltune.machine.files import Root
from rccltune.machine.records import Gpu, Smi, SmiGpu

QUERY_TIMEOUT_S: Final = 20.0
_SCRIPT: Final = Path(__file__).with_name("smi_child.py")
Answer = Mapping[str, Any]
Runner = Callable[[Mapping[str, Any], float], tuple[str, Answer]]


def bindings(rocm: Path | None, site_packages: Sequence[Path]) -> Path | None:
    """Folder to import amdsmi from: ROCm's own, which fits its library, before a wheel."""
    folders = [rocm / "share" / "amd_smi"] if rocm is not None else []
    for folder in (*folders, *site_packages):
        if (folder / "amdsmi" / "__init__.py").is_file():
            return folder
    return None


def runner(folder: Path, variables: Mapping[str, str]) -> Runner:
    """How to put a request to the bindings in a folder; gives (status, answer)."""

    def run(request: Mapping[str, Any], timeout_s: float) -> tuple[str, Answer]:
        with tempfile.TemporaryFile() as answer:
            whole = {**request, "folder": str(folder), "answer": answer.fileno()}
            ended = files.ask(
                [sys.executable, "-IS", str(_SCRIPT), json.dumps(whole)],
                timeout_s=timeout_s,
                variables=variables,
                answer=answer,
            )
            answer.seek(0)
            return _read(ended, answer.read(files.MAX_OUTPUT), timeout_s)

    return run


def _read(ended: files.Ended, raw: bytes, timeout_s: float) -> tuple[str, Answer]:
    if ended.timed_out:
        return "timed out", {"failed": f"no answer within {timeout_s:g} s"}
    try:
        answer = json.loads(raw)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        last = (ended.err or ended.out).strip().splitlines()[-1:]
        ending = f"signal {-ended.code}" if ended.code and ended.code < 0 else f"exit {ended.code}"
        return "crashed", {"failed": ": ".join([ending, *last])}
    if "failed" in answer:
        return "failed", {"failed": f"{answer['failed']} (at {answer.get('at', 'the call')})"}
    return "answered", answer


def query(run: Runner, folder: Path, timeout_s: float = QUERY_TIMEOUT_S) -> Smi:
    """Ask for every device; whatever goes wrong is part of the answer."""
    status, answer = run({"action": "query"}, timeout_s)
    gpus = answer.get("gpus")
    return Smi(
        status=status,
        source=str(folder),
        version=_word(answer.get("version")),
        library=_word(answer.get("library")),
        detail=_word(answer.get("failed")),
        gpus=tuple(_gpu(g) for g in gpus if isinstance(g, dict)) if isinstance(gpus, list) else (),
    )


def _gpu(said: Mapping[str, Any]) -> SmiGpu:
    asic, kfd = (_mapping(said.get(key)) for key in ("asic", "kfd"))
    device = _word(asic.get("device_id"))
    numa = said.get("numa_node")
    return SmiGpu(
        address=_word(said.get("address")),
        market_name=_word(asic.get("market_name")),
        arch=_word(asic.get("target_graphics_version")),
        device_id=_hex(device),
        cu_count=_whole(asic.get("num_compute_units")) or None,
        compute=_word(said.get("compute")),
        memory=_word(said.get("memory")),
        partition=_whole(kfd.get("current_partition_id")),
        node=_whole(kfd.get("node_id")),
        numa_node=_whole(numa),
        errors=tuple((str(k), str(v)) for k, v in sorted(_mapping(said.get("errors")).items())),
    )


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _word(value: object) -> str | None:
    """A word; the bindings' "N/A" and empty text are no answer."""
    return value if isinstance(value, str) and value not in ("", "N/A", "UNKNOWN") else None


def _whole(value: object) -> int | None:
    """A count; int32 −1 and unsigned maxima stand for "not known"."""
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 0xFFFFFFFF
    return int(str(value)) if usable else None


def _hex(text: str | None) -> int | None:
    try:
        return int(text, 16) if text is not None else None
    except ValueError:
        return None


_FOLDER: Final = "proc/driver/nvidia/gpus"
_LISTED: Final = re.compile(r"GPU (\d+): (.+?) \(UUID: ([\w-]+)\)")


def nvidia_gpus(root: Root, nvidia_smi: Path | None) -> tuple[Gpu, ...]:
    """The GPUs that a job can use: nvidia-smi's list, else the driver's, else the PCI bus."""
    listed = _from_program(nvidia_smi) if nvidia_smi is not None else ()
    return listed or _from_driver(root) or _from_bus(root)


def _from_program(program: Path) -> tuple[Gpu, ...]:
    ended = files.ask([str(program), "-L"], timeout_s=10)
    return tuple(
        Gpu(
            index=int(number),
            oam=f"gpu{number}",
            product=product,
            identity=uuid,
            sources=(("product", f"{program} -L"), ("identity", f"{program} -L")),
        )
        for number, product, uuid in _LISTED.findall(ended.out)
    )


def _from_driver(root: Root) -> tuple[Gpu, ...]:
    found = []
    for index, address in enumerate(root.entries(_FOLDER) or ()):
        place = f"{_FOLDER}/{address}/information"
        lines = root.read(place, 8192).data.decode("utf-8", "replace").splitlines()
        pairs = [line.split(":", 1) for line in lines if ":" in line]
        said = {key.strip(): value.strip() for key, value in pairs}
        found.append(
            Gpu(
                index=index,
                oam=address,
                product=said.get("Model"),
                identity=said.get("GPU UUID"),
                sources=(("product", f"/{place}"), ("identity", f"/{place}")),
            )
        )
    return tuple(found)


def _from_bus(root: Root) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(index=index, oam=address, sources=(("oam", f"/{pci.DEVICES}"),))
        for index, address in enumerate(pci.nvidia_addresses(root))
    )
