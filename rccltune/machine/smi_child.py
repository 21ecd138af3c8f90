"""Runs in a child process, by path: ask AMD's amdsmi bindings, or have them set a mode.

Nothing of rccltune is imported here, and nothing is said on stdout, which the bindings print on.
The request is JSON in argv[1]; the answer is JSON on the file descriptor that it names.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any, Final, TypeAlias

# Foreign bindings have no types.
Bindings: TypeAlias = Any
_QUESTIONS: Final = {
    "address": "amdsmi_get_gpu_device_bdf",
    "asic": "amdsmi_get_gpu_asic_info",
    "compute": "amdsmi_get_gpu_compute_partition",
    "memory": "amdsmi_get_gpu_memory_partition",
}
_SETTERS: Final = {
    "compute": ("amdsmi_set_gpu_compute_partition", "AmdSmiComputePartitionType"),
    "memory": ("amdsmi_set_gpu_memory_partition", "AmdSmiMemoryPartitionType"),
}


def _said(error: BaseException) -> str:
    code = getattr(error, "err_code", None)
    return f"code {code}" if isinstance(code, int) else f"{type(error).__name__}: {error}"


def _ask(smi: Bindings, handle: Bindings) -> dict[str, Any]:
    """Ask one device; in CPX the secondary partitions refuse most questions."""
    answers: dict[str, Any] = {}
    for key, name in _QUESTIONS.items():
        with contextlib.suppress(Exception):
            answers[key] = getattr(smi, name)(handle)
    return answers


def _query(smi: Bindings, _request: dict[str, Any]) -> dict[str, Any]:
    handles = smi.amdsmi_get_processor_handles()
    return {"gpus": [_ask(smi, handle) for handle in handles]}


def _primaries(smi: Bindings) -> dict[str, Any]:
    """The first processor of each socket: partition 0, the only one that takes a mode."""
    handles: dict[str, Any] = {}
    for handle in smi.amdsmi_get_processor_handles():
        address = smi.amdsmi_get_gpu_device_bdf(handle)
        module, _, function = address.partition(".")
        if module not in handles or function == "0":
            handles[module] = handle
    return handles


def _set(smi: Bindings, request: dict[str, Any]) -> dict[str, Any]:
    setter, enumeration = _SETTERS[request["what"]]
    done: dict[str, str] = {}
    for module, value in request["wanted"].items():
        # A change makes every handle invalid, so each one is asked for again.
        handles = _primaries(smi)
        if module not in handles:
            done[module] = "not found"
            continue
        # By name: the numbers moved between releases.
        member = getattr(getattr(smi, enumeration), value)
        try:
            getattr(smi, setter)(handles[module], member)
            done[module] = "ok"
        except Exception as error:  # noqa: BLE001 - bindings raise anything
            done[module] = _said(error)
        smi.amdsmi_shut_down()
        smi.amdsmi_init()
    if request["what"] == "memory" and "ok" in done.values():
        done["reload"] = _reload(smi)
    return {"done": done}


def _reload(smi: Bindings) -> str:
    """Since ROCm 7.0 a memory mode waits for a reload; before, setting it reloads by itself."""
    if not hasattr(smi, "amdsmi_gpu_driver_reload"):
        return "by the setter"
    try:
        smi.amdsmi_gpu_driver_reload()
    except Exception as error:  # noqa: BLE001 - bindings raise anything
        return _said(error)
    return "ok"


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    actions: dict[str, Callable[[Bindings, dict[str, Any]], dict[str, Any]]]
    actions = {"query": _query, "set": _set}
    # The bindings' folder goes behind the standard library: it may hold more than the bindings.
    sys.path.append(request["folder"])
    try:
        amdsmi = importlib.import_module("amdsmi")
    except Exception as error:  # noqa: BLE001 - bindings raise anything
        return {"failed": _said(error), "at": "import"}
    try:
        amdsmi.amdsmi_init()
        answer = actions[request["action"]](amdsmi, request)
    except Exception as error:  # noqa: BLE001 - bindings raise anything
        return {"failed": _said(error), "at": "first call"}
    return {**answer, "version": str(getattr(amdsmi, "__version__", ""))}


def main() -> None:
    """Answer and leave without clean-up: a library's exit handlers may hang or crash."""
    request = json.loads(sys.argv[1])
    os.write(request["answer"], json.dumps(_answer(request), default=str).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
