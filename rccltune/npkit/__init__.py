"""The NPKit room: whether a library has it, what it dumped, and what makes a trace of that.

NPKit records events inside RCCL's kernels; a library must be built with it. docs/npkit.md.
"""

from rccltune.npkit.dump import Dump, read_dump, why_useless
from rccltune.npkit.generator import Tools, find_tools, next_command
from rccltune.npkit.library import has_npkit

__all__ = [
    "Dump",
    "Tools",
    "find_tools",
    "has_npkit",
    "next_command",
    "read_dump",
    "why_useless",
]
