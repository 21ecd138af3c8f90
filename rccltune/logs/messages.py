"""What programs say, and what it means: the table in ``rccltune/data/messages.yaml``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReason:
    """A code with which our plugin begins what it refuses or decides.

    Attributes:
        code: ``R12``.
        name: ``mode-mismatch``.
        answer: the answer of ``rccltune why`` that it is.
        means: one sentence.
        remedy: one imperative sentence; None where nothing is to be mended.
    """

    code: str
    name: str
    answer: str
    means: str
    remedy: str | None = None


@cache
def _table() -> dict[str, list[dict[str, Any]]]:
    # Whoever fails at nothing needs no YAML.
    import yaml

    text = (files("rccltune") / "data" / "messages.yaml").read_text(encoding="utf-8")
    table: dict[str, list[dict[str, Any]]] = yaml.safe_load(text)
    return table


@cache
def plugin_reasons() -> dict[str, PluginReason]:
    """All codes of the plugin's."""
    return {one["code"]: PluginReason(**one) for one in _table()["reasons"]}


_VARIABLE: Final = re.compile(r"\b(?:RCCLTUNE_\w+|NCCL_TUNER_CONFIG_FILE)\b")


def find_reason(text: str) -> PluginReason | None:
    """The reason that a message of the plugin's begins with; its remedy names the variable."""
    reason = plugin_reasons().get(text[:3])
    if reason is None or "{variable}" not in (reason.remedy or ""):
        return reason
    variable = _VARIABLE.search(text)
    remedy = (reason.remedy or "").format(variable=variable[0] if variable else "the variable")
    return PluginReason(
        code=reason.code, name=reason.name, answer=reason.answer, means=reason.means, remedy=remedy
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLine:
    """A line of a library or of a tuner.

    Attributes:
        tells: the fact.
        word: stands in every such line.
        pattern: its groups are the fact's parts.
        means: what a remark says; groups of the pattern in braces.
        remedy: likewise.
        release: where not all have it.
        source: file of the library or plugin that prints it.
    """

    tells: str
    word: str
    pattern: re.Pattern[str]
    source: str
    means: str = ""
    remedy: str | None = None
    release: str = ""


@cache
def known_lines() -> tuple[KnownLine, ...]:
    """All known lines; the first whose pattern is found in a line counts."""
    return tuple(
        KnownLine(**{**one, "pattern": re.compile(one["pattern"])}) for one in _table()["lines"]
    )


@cache
def _failures() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(one["pattern"]), one["means"]) for one in _table()["failures"])


_MEMORY_FAULT: Final = re.compile(
    r"Memory access fault by GPU|illegal memory access|hipErrorIllegalAddress"
)
# Open MPI breaks its sentences at any blank.
_KILLED: Final = re.compile(
    r"exited\s+on\s+signal\s+9\b|Killed\s+\(signal\s+9\)|signal\s+9\s+\(Killed\)|"
    r"Signal\s+9\s+\(SIGKILL\)"
)
_CRASHED: Final = re.compile(
    r"Segmentation\s+fault|Aborted|Bus\s+error|[Ss]ignal:?\s+(4|6|7|8|11)\b"
)


def meaning_of(text: str) -> str | None:
    """Usual cause and remedy of an error; None where nothing in the text is known."""
    return next((meaning for pattern, meaning in _failures() if pattern.search(text)), None)


def is_memory_fault(text: str) -> bool:
    """Whether a GPU touched memory that is not its own; ROCm's and CUDA's texts."""
    return _MEMORY_FAULT.search(text) is not None


def was_killed(text: str) -> bool:
    """Whether a launcher says that a rank got SIGKILL, and none of them crashed before.

    Launchers kill the others when one rank crashes. Texts as Open MPI 5.0.11, MPICH 5.0.2 and
    torchrun of PyTorch 2.13 printed them.
    """
    return _KILLED.search(text) is not None and _CRASHED.search(text) is None
