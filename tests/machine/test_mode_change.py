"""The wished mode against the machine's, and setting one that is put back whatever happens."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from smi_bindings import reload_driver, write_bindings
from test_smi import environment
from trees import put, seen, write
from wording import lacks

from rccltune.machine import mode_change
from rccltune.machine.gpu_findings import find_gpu_findings
from rccltune.machine.mode_change import (
    apply_mode,
    check_mode,
    list_obstacles,
    plan_calls,
)
from rccltune.machine.smi import make_runner, query_devices
from rccltune.machine.system import Smi, System
from rccltune.model.errors import MachineError
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Mode

CPX4, CPX1, SPX1 = (Mode.parse(text) for text in ("cpx-nps4", "cpx-nps1", "spx-nps1"))
BUSES = ("05", "15", "65", "75", "85", "95", "e5", "f5")


@pytest.mark.parametrize(
    ("wish", "machine"),
    [
        ("cpx-nps4", "mi300x-cpx-nps4"),
        ("cpx", "mi300x-cpx-nps4"),
        ("none", "mi250x"),
        ("none", "no-amd-gpu"),
        # Where the driver does not say, the user's word is the only one there is.
        ("cpx-nps4", "old-driver-cpx"),
        ("dpx-nps1", "old-driver-multi-xcc"),
    ],
)
def test_modes_that_fit(wish: str, machine: str, tmp_path: Path) -> None:
    """Nothing happens."""
    check_mode(Mode.parse(wish), seen(write(machine, tmp_path)))


@pytest.mark.parametrize(
    ("wish", "machine", "found"),
    [
        ("cpx-nps4", "mi300x-spx-nps1", "spx-nps1"),
        ("cpx-nps4", "mi300x-cpx-nps1", "cpx-nps1"),
        ("spx", "mi300x-cpx-nps4", "cpx-nps4"),
        ("spx-nps1", "old-driver-cpx", "cpx-?"),
        ("cpx-nps4", "mi300x-mixed", "not clear"),
        ("spx-nps1", "mode-change-under-way", "not clear"),
        ("cpx-nps4", "no-amd-gpu", "none"),
        ("none", "mi300x-spx-nps1", "spx-nps1"),
    ],
)
def test_modes_that_do_not(wish: str, machine: str, found: str, tmp_path: Path) -> None:
    """The message has both, the exit code is 4."""
    with pytest.raises(MachineError) as caught:
        check_mode(Mode.parse(wish), seen(write(machine, tmp_path)))
    assert f"--mode {wish}" in caught.value.message
    assert found in caught.value.message
    assert caught.value.exit_code == 4


def test_on_nvidia_nothing_of_amds_driver_is_named(tmp_path: Path) -> None:
    """Neither where to look nor what to do."""
    root = write("nvidia-h200", tmp_path)
    with pytest.raises(MachineError) as caught:
        check_mode(CPX4, seen(root))
    assert caught.value.where is None
    assert caught.value.hint == "say --mode none: these GPUs have no partitions."


COMPUTE = "sudo amd-smi set --gpu all --compute-partition CPX"
MEMORY = "sudo amd-smi set --gpu all --memory-partition NPS4"


@pytest.mark.parametrize(
    ("rocm", "lines"),
    [
        ("6.4.3-128", [COMPUTE, MEMORY]),
        # amdsmi docs/conceptual/partition.md: memory, reload, accelerator; since ROCm 7.0.
        ("7.0.0-38", [MEMORY, "sudo modprobe -r amdgpu", "sudo modprobe amdgpu", COMPUTE]),
        ("10.0.0", [MEMORY, "sudo modprobe -r amdgpu", "sudo modprobe amdgpu", COMPUTE]),
    ],
)
def test_the_hint_has_the_commands(rocm: str, lines: list[str], tmp_path: Path) -> None:
    """As AMD's manual of that ROCm orders them."""
    root = write("mi300x-spx-nps1", tmp_path)
    put(root, "opt/rocm/.info/version", rocm)
    with pytest.raises(MachineError) as caught:
        check_mode(CPX4, seen(root))
    hint = str(caught.value.hint)
    found = [line.strip() for line in hint.splitlines() if line.strip().startswith("sudo")]
    assert found == lines
    assert "--apply-mode" in hint


def test_a_part_that_lacks_the_mode_says_which_it_has(tmp_path: Path) -> None:
    """MI350X and MI355X have no NPS4: AMD names DPX with NPS2 there."""
    system = seen(write("mi355x-spx-nps1", tmp_path))
    with pytest.raises(MachineError, match="MI355X has no NPS4") as caught:
        check_mode(CPX4, system)
    assert caught.value.hint == "say --mode dpx-nps2."
    assert list_obstacles(system, CPX4, is_root=True) == ("MI355X has no NPS4",)
    assert list_obstacles(system, Mode.parse("dpx-nps2"), is_root=True) == ()


@pytest.mark.parametrize(
    ("machine", "wanted"),
    [
        ("container-no-kfd", "cpx-nps4 say: amd-smi set --gpu all --memory-partition NPS4"),
        ("mi355x-no-kfd", "dpx-nps2 say: amd-smi set --gpu all --memory-partition NPS2"),
    ],
)
def test_the_remedy_for_mixed_modes_knows_the_product(
    machine: str, wanted: str, tmp_path: Path
) -> None:
    """MI300X in CPX/NPS4, MI355X in DPX/NPS2."""
    root = write(machine, tmp_path)
    put(root, "sys/bus/pci/devices/0000:05:00.0/current_compute_partition", "CPX")
    [finding] = [
        one for one in find_gpu_findings(seen(root, deep=False), {}) if one.name == "mixed-modes"
    ]
    assert wanted in finding.remedy


def test_more_memory_parts_come_last_and_fewer_first() -> None:
    """SPX under NPS4 is refused by the library with code 55."""
    there = plan_calls({"a": SPX1}, {"a": CPX4})
    back = plan_calls({"a": CPX4}, {"a": SPX1})
    assert there == [("compute", {"a": "CPX"}), ("memory", {"a": "NPS4"})]
    assert back == [("memory", {"a": "NPS1"}), ("compute", {"a": "SPX"})]
    assert plan_calls({"a": CPX4}, {"a": CPX4}) == []


class Node(Reporter):
    """A node in memory: what is set is what is seen, and every request is kept."""

    def __init__(self, root: Path, machine: str) -> None:
        """Write the tree."""
        self.root = write(machine, root)
        self.said: list[str] = []
        self.refuse: str | None = None
        self.resets = False
        self.interrupts = False

    def say(self, text: str) -> None:
        """Put it down."""
        self.said.append(text)

    def run(self, request: Mapping[str, Any], _timeout_s: float) -> tuple[str, Mapping[str, Any]]:
        """Set a mode in the tree, as the driver would."""
        what = request["what"]
        if self.interrupts:
            os.kill(os.getpid(), signal.SIGINT)
        self.said.append(f"{what} {sorted(set(request['wanted'].values()))}")
        if self.refuse == what:
            return "answered", {"done": dict.fromkeys(request["wanted"], "code 30")}
        for oam, value in request["wanted"].items():
            self.set(oam, what, value)
            if what == "memory" and self.resets:
                self.set(oam, "compute", "SPX")
        return "answered", {"done": dict.fromkeys(request["wanted"], "ok")}

    def set(self, oam: str, what: str, value: str) -> None:
        """One attribute, and what KFD shows then."""
        put(self.root, f"sys/bus/pci/devices/{oam}.0/current_{what}_partition", value)

    def look(self) -> System:
        """The tree as it is; KFD's nodes are left out, as right after a change."""
        return seen(self.root, deep=False)

    def applied(self, wish: Mode, *, is_root: bool = True) -> Any:  # noqa: ANN401 - whatever the block gives
        """The context manager over this node."""
        return apply_mode(
            wish, self.look(), run=self.run, look=self.look, reporter=self, is_root=is_root
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node whose KFD is hidden, so that the tree stays sound when the mode changes."""
    return Node(tmp_path, "container-no-kfd")


def test_set_and_put_back(node: Node) -> None:
    """Compute then memory, and the other way round afterwards."""
    with node.applied(CPX4) as system:
        assert system.mode == CPX4
    assert node.look().mode == SPX1
    calls = [line for line in node.said if "[" in line]
    assert calls == ["compute ['CPX']", "memory ['NPS4']", "memory ['NPS1']", "compute ['SPX']"]
    assert lacks(node.said[0], "--gpu", "--compute-partition", "SPX") == []


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_put_back_after_failure(node: Node, error: type[BaseException]) -> None:
    """Whatever ends the block."""
    with pytest.raises(error), node.applied(CPX4):
        raise error
    assert node.look().mode == SPX1


@pytest.fixture
def heard() -> Iterator[None]:
    """No signal ignored: tests that are started in the background inherit some that are."""
    usual = {
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGINT: signal.default_int_handler,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = [signal.signal(number, handler) for number, handler in usual.items()]
    yield
    for number, handler in zip(usual, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_put_back_after_a_signal(node: Node, number: signal.Signals) -> None:
    """A scheduler's SIGTERM unwinds the block as Ctrl-C does; handlers are as before."""
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
    with pytest.raises(KeyboardInterrupt), node.applied(CPX4):
        os.kill(os.getpid(), number)
    assert node.look().mode == SPX1
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)] == before


@pytest.mark.usefixtures("heard")
def test_nobody_interrupts_the_way_back(node: Node) -> None:
    """A second Ctrl-C while the mode is put back waits for it."""

    def end() -> None:
        node.interrupts = True
        raise RuntimeError

    with pytest.raises(KeyboardInterrupt), node.applied(CPX4):
        end()
    assert node.look().mode == SPX1


def test_half_a_change_is_put_back(node: Node) -> None:
    """The compute mode is set, the memory mode is refused: the compute mode goes back."""
    node.refuse = "memory"
    with pytest.raises(MachineError, match="busy"), node.applied(CPX4):
        pytest.fail("the block must not run")
    assert node.look().mode == SPX1


def test_a_reload_that_resets_the_compute_mode(node: Node) -> None:
    """It is set again, in both directions."""
    node.resets = True
    with node.applied(CPX4) as system:
        assert system.mode == CPX4
    assert node.look().mode == SPX1


def test_not_put_back_is_said(node: Node) -> None:
    """With what each OAM had and the commands."""
    with pytest.raises(MachineError, match="back") as caught, node.applied(CPX4):
        node.refuse = "compute"
    assert "0000:05:00 had spx-nps1" in str(caught.value.where)
    assert "--compute-partition SPX" in str(caught.value.hint)


def test_a_mode_that_is_there_needs_nothing(node: Node) -> None:
    """Not even root."""
    with node.applied(SPX1, is_root=False):
        pass
    assert node.said == []


def test_mixed_modes_go_back_one_by_one(node: Node) -> None:
    """Each OAM gets its own mode again."""
    node.set("0000:15:00", "compute", "CPX")
    node.set("0000:15:00", "memory", "NPS4")
    with node.applied(CPX4):
        assert {oam.mode for oam in node.look().oams} == {CPX4}
    modes = {oam.address: oam.mode for oam in node.look().oams}
    assert modes.pop("0000:15:00") == CPX4
    assert set(modes.values()) == {SPX1}


def test_what_stands_in_the_way(tmp_path: Path) -> None:
    """No root, GPUs in use, a mode that could not be put back, no AMD GPU."""
    root = write("mi300x-spx-nps1", tmp_path / "a")
    put(root, "sys/class/kfd/kfd/proc/4711/vram_1", "1")
    said = list_obstacles(seen(root), CPX4, is_root=False)
    assert [line.split()[0] for line in said] == ["you", "the"]
    assert "4711" in said[1]
    half = list_obstacles(seen(write("old-driver-cpx", tmp_path / "b")), CPX4, is_root=True)
    assert "could not be put back" in half[0]
    assert list_obstacles(seen(write("no-amd-gpu", tmp_path / "c")), CPX4, is_root=True)
    assert list_obstacles(seen(write("mi300x-spx-nps1", tmp_path / "d")), CPX4, is_root=True) == ()


@pytest.mark.parametrize(("release", "case"), [("6.4.4", "reset"), ("7.0.2", "")])
def test_through_the_real_bindings(
    release: str, case: str, smi_release: Callable[[str], Path], tmp_path: Path
) -> None:
    """Enumerations by name, handles asked for again: the stand-in library's node changes and returns."""
    folder = smi_release(release)
    state = put(folder, "state", "SPX NPS1")
    root = write("container-no-kfd", tmp_path)

    def look() -> System:
        compute, memory = state.read_text(encoding="ascii").split()
        for bus in BUSES:
            device = f"sys/bus/pci/devices/0000:{bus}:00.0"
            put(root, f"{device}/current_compute_partition", compute)
            put(root, f"{device}/current_memory_partition", memory)
        return seen(root, deep=False, ask_smi=Smi)

    run = make_runner(folder / "python", environment(folder, case))
    with apply_mode(CPX4, look(), run=run, look=look, reporter=Reporter(), is_root=True) as system:
        assert system.mode == CPX4
        assert state.read_text(encoding="ascii") == "CPX NPS4\n"
    assert state.read_text(encoding="ascii") == "SPX NPS1\n"


DPX2 = Mode.parse("dpx-nps2")


class Releases:
    """An MI355X node under the bindings of one ROCm, whose driver reloads when it is told to."""

    def __init__(self, release: int, tmp_path: Path) -> None:
        """Write both."""
        self.folder = tmp_path / "smi"
        self.state = write_bindings(self.folder, release)
        self.root = write("mi355x-no-kfd", tmp_path / "root")
        self.n_reloads = 0

    def look(self) -> System:
        """What sysfs says then."""
        compute, memory = self.state.read_text(encoding="ascii").split()
        for bus in BUSES:
            device = f"sys/bus/pci/devices/0000:{bus}:00.0"
            put(self.root, f"{device}/current_compute_partition", compute)
            put(self.root, f"{device}/current_memory_partition", memory)
        return seen(self.root, deep=False, ask_smi=Smi)

    def reload(self, _system: System) -> None:
        """As the kernel does."""
        self.n_reloads += 1
        reload_driver(self.folder)

    def applied(self, reload: Callable[[System], None]) -> Any:  # noqa: ANN401 - as above
        """The context manager over this node."""
        run = make_runner(self.folder, {})
        return apply_mode(
            DPX2, self.look(), run=run, look=self.look, reporter=Reporter(), is_root=True,
            reload=reload,
        )  # fmt: skip


@pytest.mark.parametrize(("release", "n_reloads"), [(6, 0), (7, 2), (10, 2)])
def test_each_release_of_the_bindings_sets_the_mode(
    release: int, n_reloads: int, tmp_path: Path
) -> None:
    """ROCm 6 reloads by itself; 7 and 10 leave that to us, and 10 is asked by its new names."""
    node = Releases(release, tmp_path)
    asked = query_devices(make_runner(node.folder, {}), node.folder)
    assert (asked.gpus[0].compute, asked.gpus[0].memory) == ("SPX", "NPS1")
    with node.applied(node.reload) as system:
        assert system.mode == DPX2
        assert len(query_devices(make_runner(node.folder, {}), node.folder).gpus) == 16
    assert node.look().mode == SPX1
    assert node.n_reloads == n_reloads
    assert not (node.folder / "deprecated").exists()


def test_a_driver_that_cannot_be_reloaded(tmp_path: Path) -> None:
    """The mode that waits is taken back, and the commands are said."""
    node = Releases(10, tmp_path)

    def hold(system: System) -> None:
        put(node.root, "sys/class/kfd/kfd/proc/4711/vram_1", "1")
        mode_change.reload_driver(system)

    waits = pytest.raises(MachineError, match="waits for a reload of the driver")
    with waits as caught, node.applied(hold):
        pytest.fail("the block must not run")
    assert "4711" in caught.value.message
    assert "sudo modprobe -r amdgpu && sudo modprobe amdgpu" in str(caught.value.hint)
    assert (node.folder / "waiting").read_text(encoding="ascii") == "NPS1"
    assert node.look().mode == SPX1


@pytest.mark.parametrize(
    ("refusal", "asked"),
    [("", ["-r amdgpu", "amdgpu"]), ("FATAL: Module amdgpu is in use.", ["-r amdgpu"])],
)
def test_the_driver_is_reloaded_by_modprobe(
    refusal: str, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unloaded and loaded; what the kernel refuses is said in its words, with the commands."""
    system = seen(write("mi300x-spx-nps1", tmp_path / "root"))
    log = tmp_path / "log"
    ending = f"echo '{refusal}' >&2; exit 1" if refusal else "exit 0"
    modprobe = put(tmp_path, "bin/modprobe", f'#!/bin/sh\necho "$@" >> {log}\n{ending}')
    modprobe.chmod(0o755)
    monkeypatch.setenv("PATH", f"{modprobe.parent}:{os.environ['PATH']}")
    if refusal:
        with pytest.raises(MachineError, match=refusal) as caught:
            mode_change.reload_driver(system)
        assert "sudo modprobe -r amdgpu && sudo modprobe amdgpu" in str(caught.value.hint)
    else:
        mode_change.reload_driver(system)
    assert log.read_text(encoding="utf-8").splitlines() == asked


def test_a_refusal_of_the_library(smi_release: Callable[[str], Path], tmp_path: Path) -> None:
    """Its code 30, in words."""
    folder = smi_release("7.0.2")
    put(folder, "state", "SPX NPS1")
    root = write("container-no-kfd", tmp_path)

    def look() -> System:
        return seen(root, deep=False)

    run = make_runner(folder / "python", environment(folder, "refuse"))
    context = apply_mode(CPX4, look(), run=run, look=look, reporter=Reporter(), is_root=True)
    with pytest.raises(MachineError, match="busy"), context:
        pytest.fail("the block must not run")
