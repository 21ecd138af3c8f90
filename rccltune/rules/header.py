"""What the header of a rule file says: whether it is simulated, and measured with which library."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from rccltune.model import grammar
from rccltune.model.settings import Scale
from rccltune.overwritten import losses
from rccltune.releases import name_library
from rccltune.rules.rule_file import RuleFile
from rccltune.rules.writer import VERIFIED_MARK

SIMULATED: Final = "SIMULATED: made from a stand-in benchmark, not from hardware"
# How everything made with the real library on a simulated node names it.
_REAL: Final = re.compile(r"RCCL \S+, real \([^()]+\); times simulated")
# Benchmarks print a release without its family, files of libraries have both.
_LIBRARIES: Final = re.compile(rb"^# library: (.+)$", re.MULTILINE)
_LIBRARY: Final = re.compile(r"(?:[RN]CCL )?\d+\.\d+\.\d+\S*")
_VERIFIED: Final = re.compile(rf"^# {VERIFIED_MARK}", re.MULTILINE)
# As a verification says it of a rule that the library wrote over (verify/verdict_file.py).
_RAN: Final = re.compile(r"\S+ was answered and \S+ ran at [\d.]+ \w+")


def simulated_over(path: Path) -> tuple[bool, str | None]:
    """Whether a rule file says that it is simulated, and over which real library."""
    comments = [
        line[2:] for line in grammar.lines(grammar.read_text(path)) if line.startswith("# ")
    ]
    real = _REAL.search(" ".join(comments))
    return any(line.startswith("SIMULATED") for line in comments), real and real[0]


def measured_with(content: bytes) -> tuple[str, ...]:
    """Libraries that the header of a rule file says the rules were measured with."""
    match = _LIBRARIES.search(content)
    names = match[1].decode("ascii", "replace").strip().split(", ") if match else []
    return tuple(name for name in names if _LIBRARY.fullmatch(name))


def written_over(content: bytes, file: RuleFile) -> tuple[str, ...]:
    """What the library writes over of a rule file, a sentence each.

    Of verified rules what the library itself ran at their ends; of others what is known of the
    release that they were measured with.
    """
    text = grammar.text_of(content)
    if _VERIFIED.search(text):
        # A comment is wrapped.
        ran = _RAN.findall(" ".join(text.split()).replace(" # ", " "))
        return tuple(f"when they were verified {said}" for said in dict.fromkeys(ran))
    scales = {
        Scale(n_nodes=rule.n_nodes or 1, n_ranks=rule.n_ranks or 8 * (rule.n_nodes or 1))
        for rule in file.rules
    }
    arch = dict(file.requires).get("arch")
    parts = (
        losses(name_library(one, file.arch_or_vendor), file.rules, sorted(scales, key=str), arch)
        for one in measured_with(content)
    )
    return tuple(dict.fromkeys(said for one in parts for said in one))
