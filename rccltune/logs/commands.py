"""Commands and variables that a log shows above its tables.

An exported variable holds for every command that follows, one on a command line until the next
command. A line of assignments alone holds for the tables below it: until the next command, heading
or line of assignments behind a table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from rccltune.logs.forced_variables import CHOOSING, READ_VARIABLE, TUNER
from rccltune.model.vocabulary import Collective

_NAME: Final = r"[A-Z][A-Z0-9]*_[A-Z0-9_]+"
_QUOTED: Final = r"\"[^\"]*\"|'[^']*'|`[^`]*`"
# As shells, YAML, JSON, Python, and tables of Markdown assign.
_ASSIGNED: Final = re.compile(
    rf"(?<![\w^$/.-])[\"'`*]*({_NAME})[\"'`*]*\]?\s*(?:=|:\s|\|)\s*({_QUOTED}|[^\s\"'`|]*)"
)
_SPACED: Final = re.compile(rf"(?:-genv|--?env|setenv|SetEnv)\s+({_NAME})\s+([^\s;'\"=]+)")
_UNSET: Final = re.compile(r"(?:^|[\s;+&])(?:unset|unsetenv|env\s+-u|export\s+-n)((?:\s+\w+)+)")
_EXPORT: Final = re.compile(r"(?:^|[\s;+&])(?:export|setenv|declare\s+-x|os\.environ)[\s\[.]")
_OPTION: Final = re.compile(r"(?:^|\s)(?:-x|-e|-genv|--?env|--export)(?=[\s=])")
_PROGRAM: Final = re.compile(r"\b([a-z]+(?:_[a-z]+)*)_perf(?:_mpi)?\b")
# What may stand before the first word of a command: a prompt, variables, another command's help.
_PROMPT: Final = (
    r"[\s$+>#%`|*-]*(?:(?:[A-Z]\w*=\S*|env|time|exec|sudo|nohup|numactl(?:\s+-\S+)*)\s+)*"
)
_LAUNCHER: Final = re.compile(
    rf"{_PROMPT}(?:\S*/)?(mpirun|mpiexec|orterun|prterun|prun|srun|jsrun|aprun|ibrun|torchrun"
    r"|flux run)[.\w-]*(?=\s)"
)
_ALONE: Final = re.compile(rf"{_PROMPT}(?:\S*/)?[a-z_]+_perf(?:_mpi)?(?=\s|$)")
_RANKS: Final = re.compile(r"(?<=\s)(?:-np|--np|-n|--n|--ntasks)[\s=]*(\d{1,7})(?=\s|$)")
_OWN_RANKS: Final = re.compile(r"(?<=\s)(?:-[gt]|--ngpus|--nthreads)[\s=]+(\d{1,4})(?=\s|$)")
_NEGATED: Final = re.compile(r"\b(?:without|not|no|instead|unless|if|than|never)\b", re.IGNORECASE)
_TITLE: Final = re.compile(
    r"(?:[\w ]{1,40}:|\W*(?:now |re)?(?:run|test|case|config|setting|using|with|env|experiment"
    r"|benchmark)\w*\b[^=]*)?\W*",
    re.IGNORECASE,
)
# Short names that scripts give them in their own marks.
_SHORT: Final = re.compile(r"(?<![\w-])(ALGO|PROTO)(?=\s*[=:])")


class Commands:
    """Commands and variables in force at one line of a file.

    Attributes:
        collective: the benchmark that was named last, for the next table.
        n_ranks: ranks of the last command, as far as it says them.
        is_alone: no launcher started it, so that all of its ranks are on one node.
        mention: line and variable that somebody's sentence names, which sets nothing.
        names_environment: some command or variable was seen at all.
    """

    def __init__(self) -> None:
        """Begin with nothing in force."""
        self.collective: Collective | None = None
        self.n_ranks: int | None = None
        self.is_alone = False
        self.mention: tuple[int, str] | None = None
        self.names_environment = False
        self._exports: dict[str, str] = {}
        self._lines: dict[str, str] = {}
        self._on_command: dict[str, str] = {}
        self._has_table = False

    @property
    def variables(self) -> dict[str, str]:
        """Variables of a table that begins now."""
        return {**self._exports, **self._lines, **self._on_command}

    def begin_table(self) -> None:
        """A table began under these variables."""
        self._has_table = True

    def begin_section(self) -> None:
        """A heading: what a bare line above a table assigned is not said of the next one."""
        if self._has_table:
            self._lines, self._has_table = {}, False

    def read_line(self, number: int, text: str) -> None:
        """Take a line that is neither a row nor one of the benchmark's own.

        Args:
            number: of its last part, where backslashes joined several.
            text: without what wraps it.
        """
        text = _SHORT.sub(r"NCCL_\1", text)
        launcher = _LAUNCHER.match(text)
        is_command = launcher is not None or _ALONE.match(text) is not None
        self.collective = find_benchmark(text) or (None if is_command else self.collective)
        assigned = _find_assignments(text)
        unset = [name for match in _UNSET.finditer(text) for name in match[1].split()]
        for name in unset:
            for held in (self._exports, self._lines, self._on_command):
                held.pop(name, None)
        assigned = {name: value for name, value in assigned.items() if name not in unset}
        sets_variables = is_command or _sets_variables(text)
        if not sets_variables and not unset and any(name in text for name in CHOOSING - {TUNER}):
            self.mention = self.mention or (number, text.strip()[:100])
        if sets_variables and (assigned or is_command):
            self._set_variables(text, assigned, is_command=is_command)
        if is_command:
            self._read_command(text, launcher)

    def _set_variables(self, text: str, assigned: Mapping[str, str], *, is_command: bool) -> None:
        self.names_environment = True
        exports = _EXPORT.search(text) is not None
        if self._has_table and not exports:
            self._lines, self._has_table = {}, False
        if is_command:
            self._on_command = {}
        into = self._on_command if is_command else self._exports if exports else self._lines
        for name, value in assigned.items():
            for held in (self._lines, self._on_command):
                held.pop(name, None)
            into[name] = value
            if not value:
                del into[name]

    def _read_command(self, text: str, launcher: re.Match[str] | None) -> None:
        """A command line: on how many ranks it says that it runs."""
        program = _PROGRAM.search(text)
        per_process, factors = 1, _OWN_RANKS.findall(text[program.end() :]) if program else []
        for factor in factors:
            per_process *= int(factor)
        self.n_ranks, self.is_alone = None, False
        if launcher is None:
            self.is_alone = bool(factors)
            self.n_ranks = per_process if factors else None
            return
        options = text[launcher.end() : program.start() if program else None]
        counts = _RANKS.findall(options)
        # These two count nodes or sets of ranks; a colon sets the ranks of several programs apart.
        is_count_of_ranks = launcher[1] not in ("torchrun", "jsrun") and " : " not in text
        if len(counts) == 1 and is_count_of_ranks:
            self.n_ranks = int(counts[0]) * per_process


def find_benchmark(text: str) -> Collective | None:
    """The one benchmark that a line names; None where it names several or none."""
    names: set[Collective | None] = set()
    for name in _PROGRAM.findall(text):
        try:
            names.add(Collective.parse(name))
        except ValueError:
            names.add(None)
    return names.pop() if len(names) == 1 else None


def _find_assignments(text: str) -> dict[str, str]:
    """Variables that a line assigns, without quotes and without what follows in a sentence."""
    assigned: dict[str, str] = {}
    for name, value in (*_ASSIGNED.findall(text), *_SPACED.findall(text)):
        # Commas join several: --export=ALL,NCCL_ALGO=Ring,NCCL_PROTO=LL.
        for pair in re.split(rf",(?={_NAME}=)", f"{name}={value}"):
            one, _, its = pair.partition("=")
            is_quoted = its[:1] in ('"', "'", "`") and len(its) > 1
            if READ_VARIABLE.fullmatch(one):
                assigned[one] = its[1:-1] if is_quoted else its.rstrip(",:;.)]}*")
    return assigned


def _sets_variables(text: str) -> bool:
    """Whether a line that is no command sets variables, rather than saying something about them."""
    first = _ASSIGNED.search(text) or _SPACED.search(text)
    if first is None or _NEGATED.search(text) is not None:
        return False
    is_comment = not text.lstrip()[:1].isalnum()
    if is_comment or any(sign.search(text) for sign in (_EXPORT, _OPTION, _PROGRAM)):
        return True
    rest = _ASSIGNED.sub("", re.sub(r"\b[a-z]\w*=\S+", "", text[first.start() :]))
    return _TITLE.fullmatch(text[: first.start()]) is not None and not re.search(r"\w", rest)
