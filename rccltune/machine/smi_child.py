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
# Newest name first, with the keys that lead to its answer: ROCm 10 has deprecated the names of 6.x
# that stand last (amdsmi's CHANGELOG.md, 10.0.0), and 6.0 to 6.2 have no others.
_QUESTIONS: Final = {
    "address": (("amdsmi_get_gpu_device_bdf", ()),),
    "asic": (("amdsmi_get_gpu_asic_info", ()),),
    "compute": (
        ("amdsmi_get_gpu_accelerator_partition_profile", ("partition_profile", "profile_type")),
        ("amdsmi_get_gpu_compute_partition", ()),
    ),
    "memory": (
        ("amdsmi_get_gpu_memory_partition_config", ("mp_mode",)),
        ("amdsmi_get_gpu_memory_partition", ()),
    ),
}
_NO_ANSWER: Final = (None, "", "N/A")


def _describe_error(error: BaseException) -> str:
    code = getattr(error, "err_code", None)
    return f"code {code}" if isinstance(code, int) else f"{type(error).__name__}: {error}"


def _ask(smi: Bindings, handle: Bindings) -> dict[str, Any]:
    """Ask one device; in CPX the secondary partitions refuse most questions."""
    return {key: _ask_first(smi, handle, names) for key, names in _QUESTIONS.items()}


def _ask_first(
    smi: Bindings, handle: Bindings, names: tuple[tuple[str, tuple[str, ...]], ...]
) -> Any:  # noqa: ANN401 - whatever the bindings give
    """What the first function says that these bindings have and that knows."""
    for name, keys in names:
        with contextlib.suppress(Exception):
            answer = getattr(smi, name)(handle)
            for key in keys:
                answer = answer[key]
            if answer not in _NO_ANSWER:
                return answer
    return None


def _query(smi: Bindings, _request: dict[str, Any]) -> dict[str, Any]:
    handles = smi.amdsmi_get_processor_handles()
    return {"gpus": [_ask(smi, handle) for handle in handles]}


def _find_primaries(smi: Bindings) -> dict[str, Any]:
    """The first processor of each socket: partition 0, the only one that takes a mode."""
    handles: dict[str, Any] = {}
    for handle in smi.amdsmi_get_processor_handles():
        address = smi.amdsmi_get_gpu_device_bdf(handle)
        module, _, function = address.partition(".")
        if module not in handles or function == "0":
            handles[module] = handle
    return handles


def _set(smi: Bindings, request: dict[str, Any]) -> dict[str, Any]:
    results: dict[str, str] = {}
    for module, value in request["wanted"].items():
        # A change makes every handle invalid, so each one is asked for again.
        handles = _find_primaries(smi)
        if module not in handles:
            results[module] = "not found"
            continue
        for setter in _SETTERS[request["what"]]:
            try:
                setter(smi, handles[module], value)
            except Exception as error:  # noqa: BLE001 - bindings raise anything
                # That these bindings lack a name says nothing of the GPU.
                if module not in results or not isinstance(error, AttributeError):
                    results[module] = _describe_error(error)
            else:
                results[module] = "ok"
                break
        smi.amdsmi_shut_down()
        smi.amdsmi_init()
    return {"done": results}


def _set_profile(smi: Bindings, handle: Bindings, value: str) -> None:
    profiles = smi.amdsmi_get_gpu_accelerator_partition_profile_config(handle)["profiles"]
    index = next(one["profile_index"] for one in profiles if one["profile_type"] == value)
    smi.amdsmi_set_gpu_accelerator_partition_profile(handle, index)


def _set_compute(smi: Bindings, handle: Bindings, value: str) -> None:
    # By name: the numbers moved between releases.
    member = getattr(smi.AmdSmiComputePartitionType, value)
    smi.amdsmi_set_gpu_compute_partition(handle, member)


def _set_memory_mode(smi: Bindings, handle: Bindings, value: str) -> None:
    member = getattr(smi.AmdSmiMemoryPartitionType, value)
    smi.amdsmi_set_gpu_memory_partition_mode(handle, member)


def _set_memory(smi: Bindings, handle: Bindings, value: str) -> None:
    member = getattr(smi.AmdSmiMemoryPartitionType, value)
    smi.amdsmi_set_gpu_memory_partition(handle, member)


# Newest name first, as for questions.
_SETTERS: Final = {
    "compute": (_set_profile, _set_compute),
    "memory": (_set_memory_mode, _set_memory),
}


def _answer_request(request: dict[str, Any]) -> dict[str, Any]:
    actions: dict[str, Callable[[Bindings, dict[str, Any]], dict[str, Any]]]
    actions = {"query": _query, "set": _set}
    # The bindings' folder goes behind the standard library: it may hold more than the bindings.
    sys.path.append(request["folder"])
    try:
        amdsmi = importlib.import_module("amdsmi")
    except Exception as error:  # noqa: BLE001 - bindings raise anything
        return {"failed": _describe_error(error), "at": "import"}
    try:
        amdsmi.amdsmi_init()
        answer = actions[request["action"]](amdsmi, request)
    except Exception as error:  # noqa: BLE001 - bindings raise anything
        return {"failed": _describe_error(error), "at": "first call"}
    return {**answer, "version": str(getattr(amdsmi, "__version__", ""))}


def main() -> None:
    """Answer and leave without clean-up: a library's exit handlers may hang or crash."""
    request = json.loads(sys.argv[1])
    os.write(request["answer"], json.dumps(_answer_request(request), default=str).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
