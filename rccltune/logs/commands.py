"""Settings in commands, scripts and comments of a log, from the line that says them on.

A script that shows what it does, or whose output was pasted with its commands, has them anywhere
between rows and tables. An exported variable holds for every command that follows, one on a command
line until the next command. What the library's own log says of its process is kept beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from rccltune.model.settings import BASELINE, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Protocol

# Variables that choose, or that load what does. Those that bound channels act beside every choice.
CHOOSING: Final = (
    r"(?:NCCL_ALGO|NCCL_PROTO|NCCL_TUNER_PLUGIN|NCCL_TUNER_CONFIG_FILE|RCCL_OVERRIDE_ALGO"
    r"|RCCL_OVERRIDE_PROTO|NCCL_M(?:IN|AX)_(?:NCHANNELS|CTAS)|NCCL_NTHREADS"
    r"|RCCL_LL128_FORCE_ENABLE|RCCL_MSCCL\w*|RCCLTUNE_CONFIG_DIR)"
)
# What our own reader of the library's log adds: the tuner that it says it uses.
TUNER: Final = "tuner"
# Applied last, so that the other one is not looked at.
_FORCED: Final = {
    "ALGO": ("RCCL_OVERRIDE_ALGO", "NCCL_ALGO"),
    "PROTO": ("RCCL_OVERRIDE_PROTO", "NCCL_PROTO"),
}
_LOADS: Final = ("NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE", "RCCLTUNE_CONFIG_DIR", TUNER)
_ASSIGNED: Final = re.compile(
    rf"(?:^|[\s,;'\"=(\[{{])({CHOOSING})[\"']?\]?\s?[=:]\s?"
    r"[\"']?([^\s\"';]*?)(?=[\s\"';)\]}]|,[A-Z_]+=|,?\s|$)"
)
_WORDS: Final = re.compile(rf"(?:-genv|--?env|setenv|SetEnv)\s+({CHOOSING})\s+([^\s;'\"=]+)")
_UNSET: Final = re.compile(rf"(?:unset|unsetenv|env\s+-u|export\s+-n)\s.*?({CHOOSING})\b")
_EXPORT: Final = re.compile(r"(?:^|[\s;+&])(?:export|setenv|declare\s+-x|os\.environ)[\s\[.]")
_COMMAND: Final = re.compile(r"\b([a-z]+(?:_[a-z]+)*)_perf(?:_mpi)?\b")
_LAUNCHER: Final = re.compile(r"(?:^|[\s/])(?:mpirun|mpiexec|prterun|srun|torchrun)(?=\s)")
_OWN_RANKS: Final = re.compile(r"(?<=\s)-([gt])\s+(\d{1,4})(?=\s|$)")
# What makes a line a command and not prose about one.
_IS_ORDER: Final = re.compile(
    r"(?:^|\s)(?:-x|-e|-genv|--?env|--export|env|export|setenv|declare)(?=[\s=])|_perf\b"
    rf"|^[+$]?\s*{CHOOSING}\s*[=:]|os\.environ|^[A-Z_]+=\S+\s|^[\w ]{{1,24}}:\s+{CHOOSING}="
    r"|^\W*(?:now |re)?(?:run|test|case|config|setting|using|with|experiment|benchmark)\w*\b",
    re.IGNORECASE,
)
_MARKER: Final = re.compile(
    r"\b(?:N?CCL_|RCCL_)?(ALGO|PROTO)\s*[=:]\s*(\w+)(?![\w,;:^])", re.IGNORECASE
)
# A section whose whole title is that nothing is forced, with or without the sizes.
_UNFORCED: Final = re.compile(r"[#=\s]*(?:default|baseline)(?:\s+\w+=\S+)*[#=:\s]*", re.IGNORECASE)
_NEGATED: Final = re.compile(r"\b(?:without|not|no|instead|unless|if|than|never)\b", re.IGNORECASE)
# What titles have around the names of a setting.
_AROUND: Final = frozenset(
    ("algo", "algorithm", "proto", "protocol", "nccl", "rccl", "run", "test", "only", "forced")
)
_FIRST: Final = re.compile(r"\s*(\w+)\s*[=:]")


def benchmark_of_command(text: str) -> Collective | None:
    """The one benchmark that a command line names; None where it names several or none."""
    names: set[Collective | None] = set()
    for name in _COMMAND.findall(text):
        try:
            names.add(Collective.parse(name))
        except ValueError:
            names.add(None)
    return names.pop() if len(names) == 1 else None


def _alone(text: str) -> int | None:
    """Ranks of a benchmark that no launcher starts: GPUs times threads of one process."""
    counts = {name: int(number) for name, number in _OWN_RANKS.findall(text)}
    if not counts or _LAUNCHER.search(text) is not None:
        return None
    return counts.get("g", 1) * counts.get("t", 1)


def setting_of_mark(text: str) -> Setting | None:
    """Setting in a section mark of somebody's script, such as ``### ALGO=Ring size=8``."""
    if _UNFORCED.fullmatch(text):
        return BASELINE
    algorithm: Algorithm | None = None
    protocol: Protocol | None = None
    for what, value in _MARKER.findall(text):
        if value.lower() in ("auto", "default", "none"):
            return BASELINE
        try:
            if what.upper() == "ALGO":
                algorithm = Algorithm.parse(value)
            else:
                protocol = Protocol.parse(value)
        except ValueError:
            return None
    if algorithm is None and protocol is None:
        return _named(text)
    return Setting(algorithm=algorithm, protocol=protocol)


def _named(text: str) -> Setting | None:
    """Setting of a title that is nothing but names: ``### Ring LL128 ###``."""
    words = [word.lower() for word in re.findall(r"\w+", text) if not word[0].isdigit()]
    words = [word for word in words if word not in _AROUND]
    algorithms = [each for each in Algorithm if each.value in words]
    protocols = [each for each in Protocol if each.value in words]
    if len(algorithms) != 1 or len(protocols) > 1 or len(words) > 1 + len(protocols):
        return None
    return Setting(algorithm=algorithms[0], protocol=protocols[0] if protocols else None)


def words_of(series: str) -> tuple[str, str]:
    """Algorithm and protocol in the name of somebody's series; empty where it has none."""
    words = re.findall(r"[a-z0-9]+", series.lower())
    algorithm = next((each.value for each in Algorithm if each.value in words), "")
    return algorithm, next((each.value for each in Protocol if each.value in words), "")


def forcing_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables that force a choice, the ones that are applied last alone."""
    forcing = {}
    for names in _FORCED.values():
        name = next((name for name in names if name in variables), None)
        if name is not None:
            forcing[name] = variables[name]
    return forcing


def forced_setting(variables: Mapping[str, str]) -> Setting | None:
    """Setting that variables force; None where they force none, or several to choose among."""
    words = [
        f"{name.rpartition('_')[2]}={value}" for name, value in forcing_variables(variables).items()
    ]
    return setting_of_mark(" ".join(words))


def tuner(variables: Mapping[str, str]) -> str:
    """The tuner that variables or the library's log name, in words; empty without one."""
    named = {name: variables[name] for name in _LOADS if name in variables}
    if named.get("NCCL_TUNER_PLUGIN", "").lower() == "none":
        named = {name: value for name, value in named.items() if name != "NCCL_TUNER_PLUGIN"}
        if set(named) <= {"NCCL_TUNER_CONFIG_FILE"}:
            return ""
    return ", ".join(f"{n}={v}" if n != TUNER else v for n, v in named.items())


def other_variables(variables: Mapping[str, str]) -> str:
    """Variables beside the choice that change what rows show; empty without any."""
    known = {name for names in _FORCED.values() for name in names} | set(_LOADS)
    return ", ".join(f"{n}={v}" for n, v in sorted(variables.items()) if n not in known)


def choice_facts(variables: Mapping[str, str]) -> dict[str, Any]:
    """Facts about the choice from variables and the library's log, by the field that takes them."""
    setting = forced_setting(variables)
    several = (
        "" if setting else ", ".join(f"{n}={v}" for n, v in forcing_variables(variables).items())
    )
    chosen_by = tuner(variables) or several or other_variables(variables) or None
    return {"setting": setting, "chosen_by": chosen_by}


class CommandContext:
    """Command, variables and marks in force at one line of a file."""

    def __init__(self) -> None:
        """Begin with nothing in force."""
        self.collective: Collective | None = None
        self.n_ranks: int | None = None
        self.mark: Setting | None = None
        self._exported: dict[str, str] = {}
        self._given: dict[str, str] = {}
        self._goes_on = False
        self._order = (-1, "")

    @property
    def variables(self) -> dict[str, str]:
        """Variables of a command that starts now."""
        return {**self._exported, **self._given}

    def take_command(self) -> tuple[Collective | None, int | None]:
        """Benchmark of the last command and its ranks on one node, which hold for one table."""
        found = self.collective, self.n_ranks
        self.collective, self.n_ranks = None, None
        return found

    def section(self, mark: Setting | None) -> None:
        """Take a script's mark: no command above it holds any longer."""
        self.mark = mark
        self._given = {}
        if mark is not None and mark is not BASELINE:
            for names in _FORCED.values():
                for name in names:
                    self._exported.pop(name, None)

    def see(self, line: int, text: str, *, comment: bool) -> bool:
        """Take one line that is neither a row nor one of the benchmark's own.

        Args:
            line: its number.
            text: without its prefixes.
            comment: a comment sign stood before it.

        Returns:
            whether what follows is known to run otherwise than what stands above.
        """
        before = (self.variables, self.mark)
        self._take(line, text, comment=comment)
        return before != (self.variables, self.mark)

    def _take(self, line: int, text: str, *, comment: bool) -> None:
        names_benchmark = "_perf" in text
        starts = _LAUNCHER.search(text) is not None or (names_benchmark and not self._goes_on)
        head = _FIRST.match(text)
        # Scripts that number their runs name what each of them has, which may be nothing.
        again = head is not None and head[1] == self._order[1]
        marked = setting_of_mark(text) if comment and not _NEGATED.search(text) else None
        assigned = [*_ASSIGNED.findall(text), *_WORDS.findall(text)]
        unset = _UNSET.findall(text)
        assigned = [one for one in assigned if one[0] not in unset]
        is_order = starts or self._goes_on or _IS_ORDER.search(text) is not None or comment
        if not starts and not self._goes_on and _NEGATED.search(text):
            is_order = False
        for name in unset:
            self._exported.pop(name, None)
            self._given.pop(name, None)
        if (is_order and (starts or assigned)) or again or marked is not None:
            exports = _EXPORT.search(text) is not None
            follows = self._goes_on or line == self._order[0] + 1
            if starts or (not follows and not exports):
                self._given = {}
            new = dict(assigned)
            if marked is not None and not forcing_variables(new):
                new |= _as_variables(marked)
            self._assign(new, exports=exports)
            if forcing_variables(new) or marked is not None or again:
                self.mark = BASELINE if marked is BASELINE else None
            self._order = (line, head[1] if head is not None else "")
        if names_benchmark:
            self.collective = benchmark_of_command(text) or self.collective
            self.n_ranks = None if self._goes_on else _alone(text)
        self._goes_on = text.rstrip().endswith("\\")

    def _assign(self, new: Mapping[str, str], *, exports: bool) -> None:
        """Set variables; an empty value takes one away."""
        for name, value in new.items():
            self._given.pop(name, None)
            into = self._exported if exports else self._given
            into[name] = value
            if not value:
                del into[name]


def _as_variables(setting: Setting) -> dict[str, str]:
    """The variables that a mark stands for."""
    variables = {}
    if setting.algorithm is not None:
        variables["NCCL_ALGO"] = setting.algorithm.value
    if setting.protocol is not None:
        variables["NCCL_PROTO"] = setting.protocol.value
    return variables
