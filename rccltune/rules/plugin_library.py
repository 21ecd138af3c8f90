"""A stand-in host: loads the real plugin at any version of the tuner ABI and asks it.

It does what a library does (one symbol of one version, init, getCollInfo per call, finalize), so
what it answers is what a job would get. Layouts: ``native_plugin/include/tuner_abi.h``; facts from
NCCL 2.30.7 ``src/include/plugin/tuner/tuner_v{2..6}.h``, NCCL 2.32.6 ``tuner_v7.h``.

Shapes and units: a cost table is rows of algorithms, each of as many protocols, in µs; a negative
cell cannot be chosen. Sizes are bytes in total over all ranks where the collective counts so.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, final

from rccltune.model.errors import InputFileError, MachineError
from rccltune.model.text import join_lines
from rccltune.model.vocabulary import Collective

ABI_VERSIONS: Final = (2, 3, 4, 5, 6, 7)
CostTable = tuple[tuple[float, ...], ...]
# Everything the plugin reads (docs/plugin.md): a question must not depend on the caller's shell.
PLUGIN_VARIABLES: Final = (
    "NCCL_TUNER_CONFIG_FILE",
    "RCCLTUNE_CONFIG_DIR",
    "RCCLTUNE_MODE",
    "RCCLTUNE_PLACEMENT",
    "RCCLTUNE_ON_ERROR",
    "RCCLTUNE_STRICT",
    "RCCLTUNE_LOG",
    "RCCLTUNE_RECORD",
    "RCCLTUNE_SYSROOT",
)
_SUCCESS = 0
_SYSTEM_ERROR = 2
_FIRST_ABI_WITH_REG_BUFF = 4
_FIRST_ABI_WITH_ID = 5
_int_p = ctypes.POINTER(ctypes.c_int)
_float_p = ctypes.POINTER(ctypes.c_float)
_size = ctypes.c_size_t
_void_p = ctypes.c_void_p
_INIT_OLD = ctypes.CFUNCTYPE(ctypes.c_int, _size, _size, _void_p, ctypes.POINTER(_void_p))
_INIT_NEW = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.POINTER(_void_p),
    ctypes.c_uint64,
    _size,
    _size,
    _void_p,
    _void_p,
    _void_p,
)
_GET_V2 = ctypes.CFUNCTYPE(
    ctypes.c_int,
    _void_p,
    ctypes.c_int,
    _size,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    _int_p,
    _int_p,
    _int_p,
)
_GET_V3 = ctypes.CFUNCTYPE(
    ctypes.c_int,
    _void_p,
    ctypes.c_int,
    _size,
    ctypes.c_int,
    _float_p,
    ctypes.c_int,
    ctypes.c_int,
    _int_p,
)
_GET_V4 = ctypes.CFUNCTYPE(
    ctypes.c_int,
    _void_p,
    ctypes.c_int,
    _size,
    ctypes.c_int,
    _float_p,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    _int_p,
)
_FINISH = ctypes.CFUNCTYPE(ctypes.c_int, _void_p)


class _Members(ctypes.Structure):
    """The four members that all versions begin with, as addresses."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("init", _void_p),
        ("get_coll_info", _void_p),
        ("finish", _void_p),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginAnswer:
    """Answer that the plugin left in the cost table after one call.

    Attributes:
        table: the cost table afterwards; version 2 hosts have none, so there it is the table
            passed in with 0.0 in the cell that was named.
        channels: the channel count, 0 as the host sets it unless a rule gave one.
        cell: (algorithm, protocol) indices of the cell that the call made the winner, or None.
    """

    table: CostTable
    channels: int
    cell: tuple[int, int] | None


class PluginLibrary:
    """One plugin library; communicators are made from it.

    Raises:
        MachineError: the file is missing, cannot be loaded or exports no known version.
    """

    def __init__(self, path: Path) -> None:
        """Load the library as RCCL does: RTLD_NOW, RTLD_LOCAL."""
        self.path = path
        try:
            self._library = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        except OSError as error:
            raise MachineError(
                f"The tuner plugin cannot be loaded: {error}.",
                where=str(path),
                hint="Run 'rccltune plugin --check'.",
            ) from error
        self.abi_versions = tuple(v for v in ABI_VERSIONS if self._has(v))
        if not self.abi_versions:
            raise MachineError("This library exports no tuner of versions 2 to 7.", where=str(path))

    def _has(self, abi: int) -> bool:
        return hasattr(self._library, f"ncclTunerPlugin_v{abi}")

    def name(self, abi: int) -> str:
        """The name that the plugin gives itself at this version."""
        return (self._members(abi).name or b"").decode("utf-8", "replace")

    def _members(self, abi: int) -> _Members:
        if abi not in self.abi_versions:
            raise MachineError(f"The plugin has no version {abi}.", where=str(self.path))
        return _Members.in_dll(self._library, f"ncclTunerPlugin_v{abi}")

    def communicator(
        self,
        *,
        abi: int,
        n_nodes: int,
        n_ranks: int,
        env: Mapping[str, str] | None = None,
        comm_id: int = 0,
    ) -> PluginCommunicator:
        """Initialise the plugin for one communicator.

        Args:
            abi: version of the tuner interface, 2 to 7.
            n_nodes: nodes of the communicator.
            n_ranks: ranks of the communicator.
            env: the plugin's environment; every variable of PLUGIN_VARIABLES that is not in it is
                unset during init. Other variables stay as they are.
            comm_id: the identifier that versions from 5 on pass on.

        Raises:
            InputFileError: init refused for a reason that is the same on every rank.
            MachineError: init refused for a reason that may concern this machine alone.
        """
        return PluginCommunicator(
            self._members(abi),
            abi=abi,
            n_nodes=n_nodes,
            n_ranks=n_ranks,
            env={} if env is None else env,
            comm_id=comm_id,
        )


@final
class PluginCommunicator:
    """One communicator's context; close it, or use it in a ``with``. Not for several threads."""

    def __init__(
        self,
        members: _Members,
        *,
        abi: int,
        n_nodes: int,
        n_ranks: int,
        env: Mapping[str, str],
        comm_id: int,
    ) -> None:
        """Call init with the environment in place; see Host.communicator."""
        self.abi = abi
        self._context = _void_p()
        self._members = members
        self._open = False
        with _environment(env), captured_stderr() as said:
            if abi < _FIRST_ABI_WITH_ID:
                result = _INIT_OLD(members.init)(
                    n_ranks, n_nodes, None, ctypes.byref(self._context)
                )
            else:
                result = _INIT_NEW(members.init)(
                    ctypes.byref(self._context), comm_id, n_ranks, n_nodes, None, None, None
                )
        self.said = "".join(said)
        if result != _SUCCESS:
            kind = MachineError if result == _SYSTEM_ERROR else InputFileError
            lines = self.said.strip().split("\n")
            raise kind(join_lines([f"The plugin refused to start (result {result}):", *lines]))
        self._open = True
        get = {2: _GET_V2, 3: _GET_V3}.get(abi, _GET_V4)
        self._get = get(members.get_coll_info)

    def ask(
        self,
        collective: Collective | int,
        nbytes: int,
        table: Sequence[Sequence[float]],
        *,
        num_pipe_ops: int = 1,
        reg_buff: int = 0,
        channels: int = 0,
    ) -> PluginAnswer:
        """Ask as a library does before it launches a collective.

        Args:
            collective: one of the five tunable ones, or any ncclFunc_t number.
            nbytes: message size as the tuner sees it.
            table: µs per (algorithm, protocol); rows of equal length. Not changed.
            num_pipe_ops: operations aggregated in the group, 1 and up.
            reg_buff: 1 where the buffers are registered. Versions 2 and 3 cannot say it: 0.
            channels: what the host puts in before the call; real hosts put 0.

        Raises:
            ValueError: the table's rows differ in length, or the communicator is closed.
        """
        if not self._open:
            raise ValueError("the communicator is closed")
        func = collective if isinstance(collective, int) else collective.func_index
        n_protocols = len(table[0]) if table else 0
        flat = [cell for row in table for cell in row]
        if len(flat) != len(table) * n_protocols:
            raise ValueError("the rows of a cost table are equally long")
        cells = (ctypes.c_float * max(1, len(flat)))(*flat)
        before = tuple(cells[: len(flat)])
        n_channels = ctypes.c_int(channels)
        cell: tuple[int, int] | None = None
        head = (self._context, func, nbytes)
        if self.abi == ABI_VERSIONS[0]:
            algorithm, protocol = ctypes.c_int(-1), ctypes.c_int(-1)
            self._get(
                *head,
                0,
                0,
                num_pipe_ops,
                ctypes.byref(algorithm),
                ctypes.byref(protocol),
                ctypes.byref(n_channels),
            )
            if algorithm.value >= 0 and protocol.value >= 0:
                cell = (algorithm.value, protocol.value)
                cells[cell[0] * n_protocols + cell[1]] = 0.0
        else:
            registered = () if self.abi < _FIRST_ABI_WITH_REG_BUFF else (reg_buff,)
            self._get(
                *head,
                num_pipe_ops,
                cells,
                len(table),
                n_protocols,
                *registered,
                ctypes.byref(n_channels),
            )
        after = tuple(cells[: len(flat)])
        changed = [i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
        if cell is None and changed:
            cell = divmod(changed[0], n_protocols)
        rows = (after[i : i + n_protocols] for i in range(0, len(after), max(1, n_protocols)))
        return PluginAnswer(table=tuple(rows), channels=n_channels.value, cell=cell)

    def asking(
        self,
        collective: Collective,
        table: Sequence[Sequence[float]],
        *,
        num_pipe_ops: int = 1,
        reg_buff: int = 0,
    ) -> Callable[[int], tuple[tuple[int, int] | None, int]]:
        """One question for many sizes: cell and channels of :meth:`ask`, many times faster.

        Rule files have had tens of thousands of bounds, each asked at every version.
        """
        n_channels, size = ctypes.c_int(0), _size(0)
        # Ready values take half the time that converting each argument of each call does.
        get = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.cast(self._get, _void_p).value or 0)
        head = (self._context, ctypes.c_int(collective.func_index), size)
        in_group, channels_out = ctypes.c_int(num_pipe_ops), ctypes.byref(n_channels)
        if self.abi == ABI_VERSIONS[0]:
            algorithm, protocol = ctypes.c_int(-1), ctypes.c_int(-1)
            arguments = (ctypes.byref(algorithm), ctypes.byref(protocol), channels_out)
            old = (*head, ctypes.c_int(0), ctypes.c_int(0), in_group, *arguments)

            def ask_old(nbytes: int) -> tuple[tuple[int, int] | None, int]:
                algorithm.value = protocol.value = -1
                n_channels.value, size.value = 0, nbytes
                get(*old)
                is_cell = algorithm.value >= 0 and protocol.value >= 0
                return (algorithm.value, protocol.value) if is_cell else None, n_channels.value

            return ask_old
        flat = [cell for row in table for cell in row]
        cells = (ctypes.c_float * len(flat))(*flat)
        before, width = bytes(cells), len(table[0])
        known: dict[bytes, tuple[int, int] | None] = {before: None}
        shape = (cells, ctypes.c_int(len(table)), ctypes.c_int(width))
        registered = () if self.abi < _FIRST_ABI_WITH_REG_BUFF else (ctypes.c_int(reg_buff),)
        new = (*head, in_group, *shape, *registered, channels_out)

        def ask(nbytes: int) -> tuple[tuple[int, int] | None, int]:
            n_channels.value, size.value = 0, nbytes
            get(*new)
            after = bytes(cells)
            if after != before:
                if after not in known:
                    changed = next(i for i, old in enumerate(flat) if cells[i] != old)
                    known[after] = divmod(changed, width)
                ctypes.memmove(cells, before, len(before))
            return known[after], n_channels.value

        return ask

    def close(self) -> None:
        """Call destroy or finalize, where record and summary are written; twice is allowed."""
        if self._open:
            self._open = False
            _FINISH(self._members.finish)(self._context)

    def __enter__(self) -> PluginCommunicator:
        """The communicator itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


# The environment and file descriptor 2 belong to the whole process: one init at a time.
_process_lock = threading.RLock()


@contextmanager
def _environment(env: Mapping[str, str]) -> Iterator[None]:
    """Put the plugin's variables in place for getenv, and back afterwards."""
    names = (*PLUGIN_VARIABLES, *env)
    with _process_lock:
        before = {name: os.environ.get(name) for name in names}
        try:
            for name in names:
                _set_variable(name, env.get(name))
            yield
        finally:
            for name, value in before.items():
                _set_variable(name, value)


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


@contextmanager
def captured_stderr() -> Iterator[list[str]]:
    """Collect what native code writes to file descriptor 2 into the list that is yielded."""
    lines: list[str] = []
    with _process_lock, tempfile.TemporaryFile() as file:
        saved = os.dup(2)
        try:
            os.dup2(file.fileno(), 2)
            yield lines
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            lines.append(file.read().decode("utf-8", "replace"))
