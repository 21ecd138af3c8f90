"""AMD's own bindings of two releases over our stand-in library, and everything that goes wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from trees import put, seen, write
from wording import lacks

from rccltune.machine.gpu_findings import find_gpu_findings
from rccltune.machine.smi import add_amdsmi, find_bindings, make_runner, query_devices
from rccltune.machine.system import Smi, SmiGpu

Releases = Callable[[str], Path]
RELEASES = pytest.mark.parametrize("release", ["6.4.4", "7.0.2"])


def ask(folder: Path, state: str, case: str = "", timeout_s: float = 20) -> Smi:
    """The bindings of one release over a node in some state."""
    put(folder, "state", state)
    return query_devices(
        make_runner(folder / "python", environment(folder, case)), folder / "python", timeout_s
    )


def environment(folder: Path, case: str = "") -> Mapping[str, str]:
    """What makes the bindings find our library, and the library its case."""
    return {
        "ROCM_HOME": str(folder / "rocm"),
        "SMI_STUB_STATE": str(folder / "state"),
        "SMI_STUB_CASE": case,
    }


@RELEASES
def test_eight_devices_in_spx(release: str, smi_release: Releases) -> None:
    """SPX/NPS1: one device per OAM, though the library prints on stdout."""
    said = ask(smi_release(release), "SPX NPS1")
    assert (said.status, said.version) == ("answered", release)
    assert len(said.gpus) == 8
    first = said.gpus[0]
    found = (first.address, first.compute, first.memory, first.product)
    assert found == ("0000:05:00.0", "SPX", "NPS1", "MI300X")


@RELEASES
def test_agrees_with_sysfs(release: str, smi_release: Releases, tmp_path: Path) -> None:
    """On the same machine nothing disagrees, with every getter or on partition 0 alone."""
    root = write("mi300x-cpx-nps4", tmp_path)
    for case in ("", "primary-only"):
        said = ask(smi_release(release), "CPX NPS4", case)
        system = seen(root, ask_smi=lambda said=said: said)
        assert system.disagreements == ()
        assert find_gpu_findings(system, {}) == ()


def test_primary_only_answers(smi_release: Releases) -> None:
    """56 of 64 handles say "not supported"; the eight that answer are enough."""
    said = ask(smi_release("7.0.2"), "CPX NPS4", "primary-only")
    assert len([gpu for gpu in said.gpus if gpu.memory == "NPS4"]) == 8
    assert said.gpus[55].address == "0000:e5:00.7"
    assert said.gpus[1].memory is None


def test_63_devices(smi_release: Releases, tmp_path: Path) -> None:
    """One source with 63 and one with 64 is said; two with 63 agree."""
    said = ask(smi_release("7.0.2"), "CPX NPS4", "63")
    assert len(said.gpus) == 63
    short = seen(write("mi300x-cpx-63-of-64", tmp_path / "a"), ask_smi=lambda: said)
    assert short.disagreements == ()
    whole = seen(write("mi300x-cpx-nps4", tmp_path / "b"), ask_smi=lambda: said)
    assert whole.disagreements == ("KFD lists 64 devices, amdsmi 63",)


def test_not_permitted(smi_release: Releases, tmp_path: Path) -> None:
    """A getter that is denied leaves sysfs' own answer alone."""
    said = ask(smi_release("7.0.2"), "CPX NPS4", "no-perm")
    assert said.gpus[0].compute is None
    system = seen(write("mi300x-cpx-nps4", tmp_path), ask_smi=lambda: said)
    assert (system.mode_text, system.disagreements) == ("cpx-nps4", ())


@RELEASES
def test_no_library_is_a_key_error(release: str, smi_release: Releases, tmp_path: Path) -> None:
    """The import prints on stdout and raises KeyError; both stay in the child."""
    python = smi_release(release) / "python"
    said = query_devices(make_runner(python, {"ROCM_HOME": str(tmp_path)}), python)
    assert said.status == "failed"
    assert "KeyError" in str(said.detail)
    assert "import" in str(said.detail)


def test_a_hang_is_ended(smi_release: Releases) -> None:
    """amdsmi_init on a wedged GPU never returns."""
    start = time.monotonic()
    said = ask(smi_release("7.0.2"), "SPX NPS1", "hang", timeout_s=1.0)
    assert said.status == "timed out"
    assert time.monotonic() - start < 8


def test_a_crash_is_survived(smi_release: Releases) -> None:
    """Bindings older than the library take the process down."""
    said = ask(smi_release("7.0.2"), "SPX NPS1", "crash")
    assert said.status == "crashed"
    assert "signal 6" in str(said.detail)


def test_error_at_the_first_call(tmp_path: Path) -> None:
    """From ROCm 7.14 the import succeeds and the first call raises OSError."""
    put(
        tmp_path,
        "amdsmi/__init__.py",
        "def amdsmi_init():\n    raise OSError('AMD SMI shared library could not be loaded')\n",
    )
    said = query_devices(make_runner(tmp_path, {}), tmp_path)
    assert said.status == "failed"
    assert lacks(str(said.detail), "OSError", "AMD", "SMI") == []


@pytest.mark.parametrize(
    "answer",
    ["import sys; sys.exit(3)", "import os; os._exit(0)", "raise SystemExit", "raise MemoryError"],
)
def test_odd_bindings_are_survived(answer: str, tmp_path: Path) -> None:
    """Whatever a foreign package does at import."""
    put(tmp_path, "amdsmi/__init__.py", answer)
    assert query_devices(make_runner(tmp_path, {}), tmp_path).status in ("failed", "crashed")


def test_failing_bindings_change_nothing(tmp_path: Path) -> None:
    """The answer of sysfs stands; detect says that they failed."""
    said = Smi(status="timed out", source="/opt/rocm/share/amd_smi", detail="no answer within 20 s")
    system = seen(write("mi300x-spx-nps1", tmp_path), ask_smi=lambda: said)
    assert (system.amdsmi.status, find_gpu_findings(system, {})) == ("timed out", ())
    assert system.mode_text == "spx-nps1"


def test_rocms_own_bindings_go_first(tmp_path: Path) -> None:
    """They fit the installed library; a wheel of another release may not."""
    wheels, rocm = tmp_path / "site-packages", tmp_path / "rocm"
    put(wheels, "amdsmi/__init__.py", "")
    assert find_bindings(rocm, [wheels]) == wheels
    put(rocm, "share/amd_smi/amdsmi/__init__.py", "")
    assert find_bindings(rocm, [wheels]) == rocm / "share" / "amd_smi"
    assert find_bindings(tmp_path / "no-rocm", []) is None


def test_a_missing_half_is_filled(tmp_path: Path) -> None:
    """Where the driver has no memory file amdsmi's answer is taken, and its source kept."""
    gpus = tuple(
        SmiGpu(address=f"0000:05:00.{n}", memory="NPS4" if n == 0 else None) for n in range(8)
    )
    before = seen(write("old-driver-cpx", tmp_path))
    after = add_amdsmi(before, Smi(status="answered", gpus=gpus))
    assert (before.mode_text, after.mode_text) == ("cpx-?", "cpx-nps4")
    assert after.oams[0].sources["memory"] == "amdsmi 0000:05:00.0"


def test_sources_that_differ_are_shown(tmp_path: Path) -> None:
    """sysfs is used, both are named, in one finding for all OAMs."""
    gpus = tuple(
        SmiGpu(address=f"0000:{bus}:00.0", compute="CPX", memory="NPS4")
        for bus in ("05", "15", "65", "75", "85", "95", "e5", "f5")
    )
    root = write("mi300x-spx-nps1", tmp_path)
    system = seen(root, ask_smi=lambda: Smi(status="answered", gpus=gpus))
    assert system.mode_text == "spx-nps1"
    assert len(system.disagreements) == 2 * 8
    (finding,) = find_gpu_findings(system, {})
    assert finding.name == "sources-disagree"
    assert lacks(finding.message, "0000:05:00", "SPX", "CPX", "15 more") == []


def test_a_captured_tree_is_not_held_against_this_machine(tmp_path: Path) -> None:
    """amdsmi speaks of the running machine alone."""
    assert seen(write("mi300x-spx-nps1", tmp_path)).amdsmi.status == "not asked"
