"""AMD's amdsmi, asked in a child process: bindings of another release crash, hang and print."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rccltune.machine import child_program
from rccltune.machine.pci import parse_memory_mode
from rccltune.machine.sysroot import is_file
from rccltune.machine.system import Oam, Smi, SmiGpu, System

QUERY_TIMEOUT_S: Final = 20.0
_SCRIPT: Final = Path(__file__).with_name("smi_child.py")
Answer = Mapping[str, Any]
Runner = Callable[[Mapping[str, Any], float], tuple[str, Answer]]


def find_bindings(rocm: Path, site_packages: Sequence[Path]) -> Path | None:
    """Folder to import amdsmi from: ROCm's own, which fits its library, before a wheel."""
    for folder in (rocm / "share" / "amd_smi", *site_packages):
        if is_file(folder / "amdsmi" / "__init__.py"):
            return folder
    return None


def make_runner(folder: Path, variables: Mapping[str, str]) -> Runner:
    """Make the runner that puts a request to the bindings in a folder; gives (status, answer)."""

    def run(request: Mapping[str, Any], timeout_s: float) -> tuple[str, Answer]:
        with tempfile.TemporaryFile() as answer:
            whole = {**request, "folder": str(folder), "answer": answer.fileno()}
            ended = child_program.run_program(
                [sys.executable, "-IS", str(_SCRIPT), json.dumps(whole)],
                timeout_s=timeout_s,
                variables=variables,
                answer=answer,
            )
            answer.seek(0)
            return _read_end(ended, answer.read(child_program.MAX_OUTPUT), timeout_s)

    return run


def _read_end(ended: child_program.ChildEnd, raw: bytes, timeout_s: float) -> tuple[str, Answer]:
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


def query_devices(run: Runner, folder: Path, timeout_s: float = QUERY_TIMEOUT_S) -> Smi:
    """Ask for every device; whatever goes wrong is part of the answer."""
    status, answer = run({"action": "query"}, timeout_s)
    return Smi(
        status=status,
        source=str(folder),
        version=_read_word(answer.get("version")),
        detail=_read_word(answer.get("failed")),
        gpus=tuple(
            _read_gpu(answers)
            for answers in answer.get("gpus", ())
            if _read_word(answers.get("address"))
        ),
    )


def _read_gpu(answers: Mapping[str, Any]) -> SmiGpu:
    answer = answers.get("asic")
    asic = answer if isinstance(answer, dict) else {}
    product = _read_word(asic.get("market_name"))
    return SmiGpu(
        address=str(answers["address"]),
        product=product.removeprefix("AMD Instinct ") if product else None,
        compute=_read_word(answers.get("compute")),
        memory=_read_word(answers.get("memory")),
    )


def _read_word(value: object) -> str | None:
    """A word; the bindings' "N/A" and empty text are no answer."""
    return value if isinstance(value, str) and value not in ("", "N/A", "UNKNOWN") else None


def add_amdsmi(system: System, answer: Smi) -> System:
    """The system with amdsmi's answer: its values where sysfs has none, and where they differ."""
    differences: list[str] = []
    if answer.gpus and len(answer.gpus) != len(system.gpus):
        differences.append(f"KFD lists {len(system.gpus)} devices, amdsmi {len(answer.gpus)}")
    oams = []
    for oam in system.oams:
        gpu = _find_primary(answer.gpus, oam.address)
        oams.append(oam if gpu is None else _fill_oam(oam, gpu))
        differences += [] if gpu is None else _list_differences(oam, gpu)
    system = replace(system, oams=tuple(oams), amdsmi=answer, disagreements=tuple(differences))
    modes = {oam.mode for oam in system.live_oams}
    known = system.status == "known" and len(modes) == 1
    return replace(system, mode=modes.pop()) if known else system


def _find_primary(gpus: Sequence[SmiGpu], address: str) -> SmiGpu | None:
    """The device that answers for an OAM: in CPX partition 0 alone knows the mode."""
    of_oam = sorted(
        (gpu for gpu in gpus if gpu.address.split(".", 1)[0].lower() == address),
        key=lambda gpu: (not (gpu.compute or gpu.memory), gpu.address),
    )
    return of_oam[0] if of_oam else None


def _fill_oam(oam: Oam, gpu: SmiGpu) -> Oam:
    place = f"amdsmi {gpu.address}"
    memory = parse_memory_mode(gpu.memory.encode("utf-8", "replace")) if gpu.memory else None
    if memory and oam.mode is not None and oam.mode.compute and oam.mode.memory is None:
        mode = replace(oam.mode, memory=memory)
        oam = replace(oam, mode=mode, sources={**oam.sources, "memory": place})
    if oam.product is None and gpu.product is not None:
        oam = replace(oam, product=gpu.product, sources={**oam.sources, "product": place})
    return oam


def _list_differences(oam: Oam, gpu: SmiGpu) -> list[str]:
    """A sentence for each value that both know and that is not the same."""
    mode = oam.mode
    pairs = (
        ("compute", mode and mode.compute, gpu.compute),
        ("memory", mode and mode.memory, gpu.memory),
    )
    return [
        f"the {what} mode of {oam.address} is {ours} to the driver and {theirs} to amdsmi"
        for what, ours, theirs in pairs
        if ours is not None and theirs is not None and ours != theirs
    ]
