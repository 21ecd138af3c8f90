"""Changes of the plugin's answer, found by asking it; and that it loads and answers."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rccltune import plugin
from rccltune.model.errors import InputFileError, VerificationError
from rccltune.model.settings import Setting
from rccltune.model.units import MAX_NBYTES
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.rules.plugin_library import PluginCommunicator, PluginLibrary, captured_stderr

# µs in a cell that may be chosen; any number from 0 up says so, and the plugin writes 0.
_OFFERED = 10.0
_IGNORED = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An interval of sizes with one answer; ``setting`` is None where the library decides."""

    min_nbytes: int
    max_nbytes: int
    setting: Setting | None


def cost_table(offered: Iterable[tuple[Algorithm, Protocol]]) -> tuple[tuple[float, ...], ...]:
    """A table of 7 x 3 cells, as RCCL since 2.23 passes it, in which only some may be chosen."""
    cells = set(offered)
    return tuple(
        tuple(_OFFERED if (a, p) in cells else _IGNORED for p in Protocol) for a in Algorithm
    )


def find_decisions(
    communicator: PluginCommunicator,
    collective: Collective,
    table: Sequence[Sequence[float]],
    hints: Iterable[int],
    *,
    num_pipe_ops: int = 1,
    reg_buff: int = 0,
) -> tuple[Decision, ...]:
    """Every change of the answer between 0 and 2^63-1, exact to the byte.

    Args:
        communicator: open, of one scale.
        collective: one that asks a tuner.
        table: which cells may be chosen.
        hints: sizes near which the answer may change for a short range only (the bounds of
            the rules); between two asked sizes with the same answer nothing is looked for.
        num_pipe_ops: operations in a group.
        reg_buff: whether buffers are registered, where the host can say it.
    """
    ask = communicator.asking(collective, table, num_pipe_ops=num_pipe_ops, reg_buff=reg_buff)
    sizes = sorted(_points(hints))
    # What the plugin warns of are a job's calls, and these are none.
    with captured_stderr():
        answers = [ask(nbytes) for nbytes in sizes]
        starts = [(sizes[0], answers[0])]
        for start, end, answer, last in zip(sizes, sizes[1:], answers, answers[1:], strict=False):
            low, before = start, answer
            while before != last:
                high, answer_there = end, last
                while high - low > 1:
                    middle = (low + high) // 2
                    if (there := ask(middle)) == before:
                        low = middle
                    else:
                        high, answer_there = middle, there
                starts.append((high, answer_there))
                low, before = high, answer_there
    ends = [start - 1 for start, _ in starts[1:]] + [MAX_NBYTES]
    return tuple(
        Decision(min_nbytes=start, max_nbytes=end, setting=_setting(*answer))
        for (start, answer), end in zip(starts, ends, strict=True)
    )


def _points(hints: Iterable[int]) -> set[int]:
    """Powers of two with their neighbours, and each bound with the size before it.

    Where the answer changes, a rule begins there or ends just before: the last size of every
    range is a bound or the one before a bound.
    """
    powers = {1 << shift for shift in range(63)}
    near = {power + 1 for power in powers}
    near.update(each for value in {*hints, *powers} for each in (value - 1, value))
    return {0, MAX_NBYTES} | {value for value in near if 0 <= value <= MAX_NBYTES}


@lru_cache(maxsize=1024)
def _setting(cell: tuple[int, int] | None, n_channels: int) -> Setting | None:
    channels = n_channels if n_channels > 0 else None
    if cell is None:
        return None if channels is None else Setting(channels=channels)
    algorithm, protocol = cell
    return Setting(
        algorithm=tuple(Algorithm)[algorithm],
        protocol=tuple(Protocol)[protocol],
        channels=channels,
    )


# A machine, and a file for another one.
_INFORMATION = "proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H200\n"
_OF_ANOTHER = "#@ requires product=NVIDIA-H100\n"
# ring/ll is the one answer that even hosts of ABI version 2 may be given.
_RULE = "allreduce,1024,4096,ring,ll,4,1,8\n"
_EXPECTED = Setting.parse("ring/ll/4")


def check_plugin(path: Path) -> list[str]:
    """Load the file and ask it at every version of the interface, inside a rule and outside.

    Returns:
        What the file is, and one line for each version.

    Raises:
        MachineError: it cannot be loaded.
        VerificationError: an answer is wrong.
    """
    host = PluginLibrary(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    built = plugin.build_info()
    how = f"version {built['version']}, {built['build_type']} build by {built['compiler']}"
    lines = [f"{path}", f"  {how}, sha256 {digest}"]
    table = cost_table((a, p) for a in Algorithm for p in Protocol)
    with tempfile.TemporaryDirectory(prefix="rccltune-") as folder:
        rules = Path(folder) / "rules.csv"
        rules.write_text(_RULE, encoding="utf-8")
        env = {"NCCL_TUNER_CONFIG_FILE": str(rules)}
        for abi in host.abi_versions:
            with host.communicator(abi=abi, n_nodes=1, n_ranks=8, env=env) as communicator:
                answers = find_decisions(communicator, Collective.ALL_REDUCE, table, (1024, 4096))
            told = [(d.min_nbytes, d.max_nbytes) for d in answers if d.setting == _EXPECTED]
            if told != [(1024, 4096)] or len(answers) != 3:
                raise VerificationError(
                    f"ABI version {abi}: a rule for 1024 to 4096 bytes is answered as {answers}",
                    where=str(path),
                    hint="install rccltune again; if it stays so, please report it.",
                )
            lines.append(f"  tuner interface v{abi}: loads, applies a rule, leaves the rest alone")
        rules.write_text(_OF_ANOTHER + _RULE, encoding="utf-8")
        information = Path(folder) / _INFORMATION[0]
        information.parent.mkdir(parents=True)
        information.write_text(_INFORMATION[1], encoding="utf-8")
        _check_refusal(host, {**env, "RCCLTUNE_SYSROOT": folder})
        lines.append("  a file for another GPU: refused")
    return lines


def _check_refusal(host: PluginLibrary, env: Mapping[str, str]) -> None:
    """Start the plugin with a file for another machine.

    Raises:
        VerificationError: it takes the file.
    """
    try:
        taken = host.communicator(abi=max(host.abi_versions), n_nodes=1, n_ranks=8, env=env)
    except InputFileError as error:
        if "requires another machine" in error.message:
            return
        raise
    taken.close()
    raise VerificationError(
        "a file for another machine is not refused",
        where=str(host.path),
        hint="install rccltune again; if it stays so, please report it.",
    )
