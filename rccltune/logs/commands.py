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
# jsrun counts resource sets, each of which has tasks of its own.
_PER_SET: Final = re.compile(r"(?<=\s)(?:-a|--tasks_per_rs)[\s=]*(\d{1,4})(?=\s|$)")
_OWN_RANKS: Final = re.compile(r"(?<=\s)(?:-[gt]|--ngpus|--nthreads)[\s=]+(\d{1,4})(?=\s|$)")
_NEGATED: Final = re.compile(r"\b(?:without|not|no|instead|unless|if|than|never)\b", re.IGNORECASE)
_TITLE: Final = re.compile(
    r"(?:[\w ]{1,40}:|\W*(?:now |re)?(?:run|test|case|config|setting|using|with|env|experiment"
    r"|benchmark)\w*\b[^=]*)?\W*",
    re.IGNORECASE,
)
# Short names that scripts give them in their own marks.
_SHORT: Final = re.compile(r"(?<![\w-])(ALGO|PROTO)(?=\s*[=:])")
_FIRST: Final = re.compile(r"\W*(\w+)\s*[=:]")
# Kubernetes and compose write a name and its value on two lines.
_NAMED: Final = re.compile(rf"[\s-]*name:\s*[\"']?({_NAME})[\"']?\s*$")
_VALUED: Final = re.compile(r"\s*value:(.*)$")


class Commands:
    """Commands and variables in force at one line of a file.

    Attributes:
        collective: the benchmark that was named last, for the next table.
        n_ranks: ranks of the last command, as far as it says them.
        is_alone: no launcher started it, so that all of its ranks are on one node.
        mentioned: line and variable that somebody's sentence names, which sets nothing.
        is_told: some command or variable was seen at all.
    """

    def __init__(self) -> None:
        """Begin with nothing in force."""
        self.collective: Collective | None = None
        self.n_ranks: int | None = None
        self.is_alone = False
        self.mentioned: tuple[int, str] | None = None
        self.is_told = False
        self._exported: dict[str, str] = {}
        self._bare: dict[str, str] = {}
        self._given: dict[str, str] = {}
        self._head = self._name = ""
        self._is_used = False

    @property
    def variables(self) -> dict[str, str]:
        """Variables of a table that begins now."""
        return {**self._exported, **self._bare, **self._given}

    def used(self) -> None:
        """A table began under these variables."""
        self._is_used = True

    def heading(self) -> None:
        """A heading: what a bare line above a table assigned is not said of the next one."""
        if self._is_used:
            self._bare, self._is_used = {}, False

    def see(self, number: int, text: str) -> None:
        """Take a line that is neither a row nor one of the benchmark's own.

        Args:
            number: of its last part, where backslashes joined several.
            text: without what wraps it.
        """
        if (match := _NAMED.match(text)) is not None:
            self._name = match[1]
            return
        if self._name and (match := _VALUED.match(text)) is not None:
            text = f"{self._name}:{match[1]}"
        self._name = ""
        text = _SHORT.sub(r"NCCL_\1", text)
        launcher = _LAUNCHER.match(text)
        is_command = launcher is not None or _ALONE.match(text) is not None
        named = benchmark_of_command(text)
        self.collective = named or (None if is_command else self.collective)
        found = _assigned(text)
        unset = [name for match in _UNSET.finditer(text) for name in match[1].split()]
        for name in unset:
            for held in (self._exported, self._bare, self._given):
                held.pop(name, None)
        found = {name: value for name, value in found.items() if name not in unset}
        is_order = is_command or _is_order(text)
        if not is_order and not unset and any(name in text for name in CHOOSING - {TUNER}):
            self.mentioned = self.mentioned or (number, text.strip()[:100])
        if is_order and (found or is_command):
            self._take(text, found, is_command=is_command)
        elif (head := _FIRST.match(text)) is not None and head[1] == self._head:
            # Scripts that number their runs name what each has, which may be nothing.
            self._bare, self._is_used = {}, False
        if is_command:
            self._started(text, launcher)

    def _take(self, text: str, found: Mapping[str, str], *, is_command: bool) -> None:
        self.is_told = True
        exports = _EXPORT.search(text) is not None
        if self._is_used and not exports:
            self._bare, self._is_used = {}, False
        if is_command:
            self._given = {}
        into = self._given if is_command else self._exported if exports else self._bare
        for name, value in found.items():
            for held in (self._bare, self._given):
                held.pop(name, None)
            into[name] = value
            if not value:
                del into[name]
        if not is_command:
            head = _FIRST.match(text)
            self._head = head[1] if head is not None and head[1] not in found else ""

    def _started(self, text: str, launcher: re.Match[str] | None) -> None:
        """A command line: on how many ranks it says that it runs."""
        program = _PROGRAM.search(text)
        own, counts = 1, _OWN_RANKS.findall(text[program.end() :]) if program else []
        for count in counts:
            own *= int(count)
        self.n_ranks, self.is_alone = None, False
        if launcher is None:
            self.is_alone = bool(counts)
            self.n_ranks = own if counts else None
            return
        options = text[launcher.end() : program.start() if program else None]
        given = _RANKS.findall(options)
        # A colon sets the ranks of several programs apart.
        if len(given) == 1 and launcher[1] != "torchrun" and " : " not in text:
            sets = _PER_SET.search(options) if launcher[1] == "jsrun" else None
            self.n_ranks = int(given[0]) * own * (int(sets[1]) if sets else 1)


def benchmark_of_command(text: str) -> Collective | None:
    """The one benchmark that a line names; None where it names several or none."""
    names: set[Collective | None] = set()
    for name in _PROGRAM.findall(text):
        try:
            names.add(Collective.parse(name))
        except ValueError:
            names.add(None)
    return names.pop() if len(names) == 1 else None


def _assigned(text: str) -> dict[str, str]:
    """Variables that a line assigns, without quotes and without what follows in a sentence."""
    found: dict[str, str] = {}
    for name, value in (*_ASSIGNED.findall(text), *_SPACED.findall(text)):
        # Commas join several: --export=ALL,NCCL_ALGO=Ring,NCCL_PROTO=LL.
        for pair in re.split(rf",(?={_NAME}=)", f"{name}={value}"):
            one, _, its = pair.partition("=")
            is_quoted = its[:1] in ('"', "'", "`") and len(its) > 1
            if READ_VARIABLE.fullmatch(one):
                found[one] = its[1:-1] if is_quoted else its.rstrip(",:;.)]}*")
    return found


def _is_order(text: str) -> bool:
    """Whether a line that is no command sets variables, rather than saying something about them."""
    first = _ASSIGNED.search(text) or _SPACED.search(text)
    if first is None or _NEGATED.search(text) is not None:
        return False
    is_comment = not text.lstrip()[:1].isalnum()
    if is_comment or any(sign.search(text) for sign in (_EXPORT, _OPTION, _PROGRAM)):
        return True
    rest = _ASSIGNED.sub("", re.sub(r"\b[a-z]\w*=\S+", "", text[first.start() :]))
    return _TITLE.fullmatch(text[: first.start()]) is not None and not re.search(r"\w", rest)
