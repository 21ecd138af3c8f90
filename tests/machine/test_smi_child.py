"""The child's side, in this process, with a stand-in for the bindings."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from types import SimpleNamespace
from typing import Any

import pytest

from rccltune.machine import smi_child
from rccltune.machine.smi_child import main


class LibraryError(Exception):
    """As AmdSmiLibraryException: the code is an attribute."""

    def __init__(self, code: int) -> None:
        """Keep the code."""
        super().__init__(f"error {code}")
        self.err_code = code


class Bindings(SimpleNamespace):
    """Two OAMs in DPX; the second half of each answers nothing but its address."""

    def __init__(self, **more: object) -> None:
        """A node of four handles."""
        super().__init__(
            __version__="7.1.0",
            calls=[],
            AmdSmiComputePartitionType=SimpleNamespace(CPX=5, SPX=1),
            AmdSmiMemoryPartitionType=SimpleNamespace(NPS1=1, NPS4=4),
            amdsmi_init=lambda: None,
            amdsmi_shut_down=lambda: None,
            amdsmi_get_processor_handles=lambda: [0, 1, 2, 3],
            amdsmi_get_gpu_device_bdf=lambda h: f"0000:{5 + h // 2:02x}:00.{h % 2}",
            amdsmi_get_gpu_asic_info=lambda _: {"market_name": "AMD Instinct MI300X"},
            amdsmi_get_gpu_compute_partition=self.compute,
            amdsmi_set_gpu_compute_partition=lambda h, v: self.calls.append(("compute", h, v)),
            amdsmi_set_gpu_memory_partition=lambda h, v: self.calls.append(("memory", h, v)),
        )
        self.__dict__.update(more)

    @staticmethod
    def compute(handle: int) -> str:
        """Partition 0 alone answers."""
        if handle % 2:
            raise LibraryError(2)
        return "DPX"


def answer(monkeypatch: pytest.MonkeyPatch, bindings: object, **request: object) -> dict[str, Any]:
    """What the child would write."""
    monkeypatch.setitem(sys.modules, "amdsmi", bindings)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return smi_child._answer_request({"folder": "/proc/nowhere", **request})


def test_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question on its own: what one handle refuses the others still say."""
    said = answer(monkeypatch, Bindings(), action="query")
    assert said["version"] == "7.1.0"
    assert [gpu.get("compute") for gpu in said["gpus"]] == ["DPX", None, "DPX", None]
    assert said["gpus"][1]["asic"] == {"market_name": "AMD Instinct MI300X"}
    # Oldest bindings have no such function.
    assert said["gpus"][0]["memory"] is None


def test_setting_takes_partition_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, on the first handle of each OAM; an OAM that is not there is said."""
    bindings = Bindings()
    wanted = {"0000:05:00": "CPX", "0000:06:00": "CPX", "0000:07:00": "CPX"}
    said = answer(monkeypatch, bindings, action="set", what="compute", wanted=wanted)
    assert bindings.calls == [("compute", 0, 5), ("compute", 2, 5)]
    assert said["done"] == {"0000:05:00": "ok", "0000:06:00": "ok", "0000:07:00": "not found"}


def test_a_refused_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code is the answer."""

    def refuse(_handle: int, _value: int) -> None:
        raise LibraryError(30)

    bindings = Bindings(amdsmi_set_gpu_compute_partition=refuse)
    request = {"action": "set", "what": "compute", "wanted": {"0000:05:00": "SPX"}}
    assert answer(monkeypatch, bindings, **request)["done"] == {"0000:05:00": "code 30"}


def test_no_bindings_and_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that fails and a first call that fails are told apart."""
    assert answer(monkeypatch, None, action="query")["at"] == "import"
    broken = Bindings(amdsmi_init=lambda: 1 // 0)
    assert answer(monkeypatch, broken, action="query")["at"] == "first call"


def test_the_answer_goes_to_the_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the process leaves without the library's exit handlers."""
    monkeypatch.setitem(sys.modules, "amdsmi", Bindings())
    monkeypatch.setattr(sys, "path", list(sys.path))
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    with tempfile.TemporaryFile() as stream:
        request = {"folder": "/proc/nowhere", "action": "query", "answer": stream.fileno()}
        monkeypatch.setattr(sys, "argv", ["smi_child.py", json.dumps(request)])
        main()
        stream.seek(0)
        assert len(json.loads(stream.read())["gpus"]) == 4
    assert left == [0]
