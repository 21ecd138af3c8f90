"""The mode that is asked for against the one that is there, and ``--apply-mode``.

A memory mode holds only together with some compute modes (the library answers 55 to SPX under
NPS4), so more pieces of memory come after the compute mode and fewer come before it. A memory mode
takes a reload of the driver, which ROCm 6 does when the mode is set; from 7.0 on the mode waits for
one (amdsmi's CHANGELOG.md). So the mode is read again behind the setter, and the driver reloaded
where it is still the old one. A reload may reset the compute mode, which is looked at too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rccltune.launch import signals
from rccltune.machine.child_program import run_program
from rccltune.machine.kfd import list_processes
from rccltune.machine.products import find_product
from rccltune.machine.smi import Runner
from rccltune.machine.sysroot import SystemRoot
from rccltune.machine.system import System, format_mode
from rccltune.model.errors import MachineError
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Mode
from rccltune.model.text import join_lines
from rccltune.releases import sets_memory_at_once


def check_mode(wanted: Mode | None, system: System) -> None:
    """Stop where a sweep would measure another mode than the one asked for.

    Args:
        wanted: None takes the machine as it is.
        system: what was detected.

    Raises:
        MachineError: the modes differ, or the machine's own is not one that is known; the
            message has both, the hint the commands.
    """
    # Where the driver names no mode, the user's word is the only one there is.
    is_unknown = system.status == "known" and system.mode is None
    if wanted is None or is_unknown or fits(wanted, system):
        return
    product = find_product(system.device_id)
    if product is not None and product.lacks(wanted):
        raise MachineError(
            f"--mode {format_mode(wanted)} was asked for, and {product.name} has no "
            f"{wanted.memory}",
            where="/sys/bus/pci/drivers/amdgpu/*/device",
            hint=f"say --mode {product.parted or 'auto'}.",
        )
    mode = system.mode_text if system.status != "unknown" else f"not clear ({system.reason})"
    raise MachineError(
        f"--mode {format_mode(wanted)} was asked for, and the mode of this machine is {mode}",
        where="/sys/bus/pci/drivers/amdgpu/*/current_{compute,memory}_partition"
        if system.vendor == "amd"
        else None,
        hint=_hint_for(wanted, system),
    )


def fits(wanted: Mode, system: System) -> bool:
    """Whether the machine is in a mode; a memory mode that nobody knows or names fits any."""
    mode = system.mode
    if system.status == "unknown" or mode is None:
        return False
    return mode.compute == wanted.compute and (
        wanted.memory is None or mode.memory is None or mode.memory == wanted.memory
    )


RELOAD: Final = ("modprobe -r amdgpu", "modprobe amdgpu")


def list_commands(wanted: Mode, rocm: str | None) -> tuple[str, ...]:
    """Commands of an administrator to set a mode, as AMD's manuals of a ROCm order them."""
    compute = wanted.compute and f"amd-smi set --gpu all --compute-partition {wanted.compute}"
    memory = wanted.memory and f"amd-smi set --gpu all --memory-partition {wanted.memory}"
    reloads = bool(memory) and not sets_memory_at_once(rocm)
    lines = [memory, *RELOAD, compute] if reloads else [compute, memory]
    return tuple(line for line in lines if line)


def _hint_for(wanted: Mode, system: System) -> str:
    if system.vendor != "amd":
        return "say --mode none: these GPUs have no partitions."
    if wanted.compute is None:
        return "say --mode auto, or the mode that the machine is in."
    return join_lines(
        [
            "set it (idle GPUs; a memory mode takes a reload of the driver):",
            *(f"        sudo {command}" for command in list_commands(wanted, system.rocm)),
            f"      or let --apply-mode do it and put it back; or say --mode {system.mode_text}.",
        ]
    )


COMPUTE_TIMEOUT_S: Final = 120.0
MEMORY_TIMEOUT_S: Final = 400.0
_CODES: Final = {
    "code 2": "not supported: a virtual machine, or a driver without partitions",
    "code 10": "not permitted: it needs root",
    "code 30": "the GPU is busy: end every process that uses it",
    "code 55": "this compute mode does not go with the memory mode that is set",
}
Modes = Mapping[str, Mode]
# One call: ``compute`` or ``memory``, and the value for each OAM.
ModeCall = tuple[str, Mapping[str, str]]


def list_obstacles(system: System, wanted: Mode, *, is_root: bool) -> tuple[str, ...]:
    """Why a mode cannot be set, or could not be put back; empty where it can."""
    if system.vendor != "amd":
        return ("there is no AMD GPU",)
    reasons = [] if is_root else ["you are not root"]
    reasons += _list_users(system)
    product = find_product(system.device_id)
    if product is not None and product.lacks(wanted):
        reasons.append(f"{product.name} has no {wanted.memory}")
    for oam in system.oams:
        mode = oam.mode
        if mode is None or mode.compute is None or oam.contradiction:
            reasons.append(f"the mode of {oam.address} is not known, so it could not be put back")
        elif wanted.memory is not None and mode.memory is None:
            reasons.append(
                f"the memory mode of {oam.address} is not known and could not be put back"
            )
    return tuple(reasons)


def _list_users(system: System) -> list[str]:
    users = list_processes(SystemRoot(system.root))
    return [f"the GPUs are in use by process {', '.join(users)}"] if users else []


def reload_driver(system: System) -> None:
    """Unload the driver, which the kernel refuses while anything holds it, and load it again.

    Raises:
        MachineError: something holds a GPU, or the kernel refused.
    """
    reasons = _list_users(system)
    for command in () if reasons else RELOAD:
        ended = run_program(command.split(), timeout_s=MEMORY_TIMEOUT_S)
        if ended.code != 0:
            answer = (ended.err or ended.out).strip().splitlines()[-1:] or ["no answer"]
            reasons.append(f"{command}: {answer[0]}")
            break
    if reasons:
        raise MachineError(
            f"the memory mode waits for a reload of the driver: {'; '.join(reasons)}",
            hint=f"end whatever holds a GPU, then: sudo {' && sudo '.join(RELOAD)}",
        )


def plan_calls(now: Modes, wanted: Modes) -> list[ModeCall]:
    """The calls that lead from one set of modes to another, in an order that the driver takes."""
    compute = {a: m.compute for a, m in wanted.items() if m.compute and now[a].compute != m.compute}
    memory = {a: m.memory for a, m in wanted.items() if m.memory and now[a].memory != m.memory}
    fewer = any(_count_pieces(wanted[a].memory) < _count_pieces(now[a].memory) for a in memory)
    calls: list[ModeCall] = [("compute", compute), ("memory", memory)]
    return [call for call in (reversed(calls) if fewer else calls) if call[1]]


def _count_pieces(memory: str | None) -> int:
    return int(memory.removeprefix("NPS")) if memory else 1


@contextlib.contextmanager
def apply_mode(
    wanted: Mode,
    system: System,
    *,
    run: Runner,
    look: Callable[[], System],
    reporter: Reporter,
    is_root: bool | None = None,
    reload: Callable[[System], None] = reload_driver,
) -> Iterator[System]:
    """The machine in another mode for the time of a ``with`` block; gives it as detected then.

    The old mode is put back however the block ends: done, failed, interrupted or terminated. Only
    SIGKILL and a crash of the machine leave the new one; the command to go back is said first.

    Args:
        wanted: mode for every OAM.
        system: the machine as it is.
        run: puts a request to amdsmi, see ``smi.make_runner``.
        look: detects the machine again.
        reporter: says what is being done.
        is_root: whether this process is root, None to find out.
        reload: reloads the driver.

    Raises:
        MachineError: it cannot be set, or not put back; the message says which.
    """
    if fits(wanted, system):
        yield system
        return
    by_root = os.geteuid() == 0 if is_root is None else is_root
    obstacles = list_obstacles(system, wanted, is_root=by_root)
    if obstacles:
        raise MachineError(
            f"the mode cannot be set to {format_mode(wanted)}: {'; '.join(obstacles)}",
            hint=f"set it by hand: {'; '.join(list_commands(wanted, system.rocm))}",
        )
    before = {oam.address: oam.mode for oam in system.oams if oam.mode is not None}
    # A half that is not asked for stays as it is.
    target = {
        address: Mode(compute=wanted.compute or mode.compute, memory=wanted.memory or mode.memory)
        for address, mode in before.items()
    }
    back = "; ".join(list_commands(next(iter(before.values())), system.rocm))
    setter = _Setter(run=run, look=look, reload=reload, reporter=reporter)
    reporter.say(
        f"Setting {format_mode(wanted)} on all GPUs of the node; a new memory mode reloads the "
        f"driver. Should this be killed, go back by hand: {back}"
    )
    with signals.interruptible():
        try:
            yield setter.change(target)
        finally:
            with signals.held():
                _put_back(before, setter, system.rocm)


def _put_back(before: Modes, setter: _Setter, rocm: str | None) -> None:
    setter.reporter.say("Putting the mode back.")
    try:
        setter.change(before)
    except MachineError as error:
        words = "; ".join(f"{a} had {format_mode(m)}" for a, m in sorted(before.items()))
        raise MachineError(
            f"the mode was not put back: {error.message}",
            where=words,
            hint="; ".join(list_commands(next(iter(before.values())), rocm)),
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setter:
    """Sets modes on this machine."""

    run: Runner
    look: Callable[[], System]
    reload: Callable[[System], None]
    reporter: Reporter

    def change(self, wanted: Modes) -> System:
        """Call until the machine is there; a reset compute mode takes a second round."""
        system = self.look()
        for _ in range(2):
            now = {oam.address: oam.mode or Mode(compute=None, memory=None) for oam in system.oams}
            lost = wanted.keys() - now.keys()
            if lost:
                raise MachineError(f"{', '.join(sorted(lost))} went away during the change of mode")
            for what, values in plan_calls(now, wanted):
                words = ", ".join(sorted(set(values.values())))
                self.reporter.say(f"Setting the {what} mode: {words}")
                _call(what, values, self.run)
                if what == "memory":
                    self._reload(values, now)
            system = self.look()
            if all((oam := system.oam_at(a)) and oam.mode == m for a, m in wanted.items()):
                return system
        raise MachineError(
            f"the machine is in {system.mode_text} after the change, which is not what was set",
            hint="; ".join(list_commands(next(iter(wanted.values())), system.rocm))
            + "; dmesg says why it did not hold.",
        )

    def _reload(self, values: Mapping[str, str], before: Modes) -> None:
        """Reload the driver where it did not do so when the memory mode was set."""
        system = self.look()
        there = {oam.address: oam.mode.memory for oam in system.oams if oam.mode is not None}
        if all(there.get(address) == value for address, value in values.items()):
            return
        self.reporter.say("Reloading the driver for the memory mode.")
        try:
            self.reload(system)
        except MachineError:
            # What waits would come with the next reload, whoever asks for that.
            old = {address: before[address].memory or value for address, value in values.items()}
            _call("memory", old, self.run)
            raise


def _call(what: str, values: Mapping[str, str], run: Runner) -> None:
    limit = MEMORY_TIMEOUT_S if what == "memory" else COMPUTE_TIMEOUT_S
    status, answer = run({"action": "set", "what": what, "wanted": dict(values)}, limit)
    results = answer.get("done")
    if status != "answered" or not isinstance(results, dict):
        raise MachineError(f"amdsmi {status} while setting a mode: {answer.get('failed')}")
    refusals = {str(a): str(answer) for a, answer in results.items() if answer != "ok"}
    if refusals:
        words = "; ".join(
            f"{a}: {_CODES.get(answer, answer)}" for a, answer in sorted(refusals.items())
        )
        raise MachineError(f"amdsmi did not set the {what} mode: {words}")
