"""Command lines in a log: which benchmark they start, and what they force upon the library.

A script that shows what it does, or whose output was pasted with its commands, has them above the
tables. An exported variable holds for every command that follows, one on a command line for that.
"""

from __future__ import annotations

import re
from typing import Final

from rccltune.model import Collective

_COMMAND: Final = re.compile(r"\b([a-z]+(?:_[a-z]+)*)_perf(?:_mpi)?\b")
_LAUNCHER: Final = re.compile(r"(?:^|[\s/])(?:mpirun|mpiexec|prterun|srun|torchrun)(?=\s)")
_ASSIGNED: Final = re.compile(
    r"(?:^|[\s,;'\"=])NCCL_(ALGO|PROTO)=[\"']?([^\s\"';]+?)(?=[\s\"';]|,[A-Z_]+=|$)"
)
_GENV: Final = re.compile(r"-genv\s+NCCL_(ALGO|PROTO)\s+(\S+)")
_EXPORT: Final = re.compile(r"(?:^|[\s;+])export\s")
_UNSET: Final = re.compile(r"(?:^|[\s;+])unset\s.*?NCCL_(ALGO|PROTO)\b")
# What makes a line a command and not prose about one.
_IS_ORDER: Final = re.compile(
    r"(?:^|\s)(?:-x|-genv|--?env|--export|env|export)(?=[\s=])|_perf\b|^[+$]?\s*NCCL_\w+="
)


def commanded(text: str) -> Collective | None:
    """The one benchmark that a command line names; None where it names several or none."""
    names = {_collective(name) for name in _COMMAND.findall(text)}
    return names.pop() if len(names) == 1 else None


class Commands:
    """Those met so far."""

    def __init__(self) -> None:
        """None was."""
        self.collective: Collective | None = None
        self._exported: dict[str, str] = {}
        self._given: dict[str, str] = {}
        self._goes_on = False

    def see(self, text: str) -> None:
        """Take one line that is neither a row nor one of the benchmark's own."""
        names_benchmark = "_perf" in text and not text.startswith("Collective test")
        if not (names_benchmark or "NCCL_" in text or _LAUNCHER.search(text) or self._goes_on):
            return
        begins = _LAUNCHER.search(text) is not None or (names_benchmark and not self._goes_on)
        if begins:
            self._given = {}
        for what in _UNSET.findall(text):
            self._exported.pop(what, None)
        if self._goes_on or begins or _IS_ORDER.search(text):
            into = self._exported if _EXPORT.search(text) else self._given
            into.update([*_ASSIGNED.findall(text), *_GENV.findall(text)])
        if names_benchmark:
            self.collective = commanded(text) or self.collective
        self._goes_on = text.rstrip().endswith("\\")

    def take(self) -> tuple[Collective | None, dict[str, str]]:
        """What the table that begins now was started with: a benchmark, and variables."""
        forced = {**self._exported, **self._given}
        found, self.collective, self._given = self.collective, None, {}
        return found, forced


def _collective(name: str) -> Collective | None:
    try:
        return Collective.parse(name)
    except ValueError:
        return None
