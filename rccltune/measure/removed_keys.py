"""Options of a sweep that went, as words of the command line and as keys of sweep.yaml.

A session of before has some of them at the value that is now the only one; that is no mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# What 0.1.0's files may say of it, and a session that was measured so.
WENT_WITH_TORCH: Final = (
    "nothing measures through PyTorch's calls any more, and rccltune 0.1.0 alone goes on with a "
    "session that was measured so: write librccl: torch, or import what "
    "examples/torch_all_reduce.py prints"
)


@dataclass(frozen=True, slots=True)
class RemovedOption:
    """An option that went.

    Attributes:
        said: what to use instead.
        now: what a file says of it where it changes nothing.
        harmless: whatever a file says of it changes nothing.
    """

    said: str
    now: str | None = None
    harmless: bool = False


_CALLS: Final = "a timing by rccl-tests has its own 20 calls after 5 untimed ones: more launches"
KEYS: Final[Mapping[str, RemovedOption]] = {
    "step": RemovedOption(
        "sizes grow by --factor; single ones are named in sweep.yaml under 'sizes'."
    ),
    "iters": RemovedOption(f"{_CALLS} (--communicators) make a time steadier.", "20"),
    "warmup": RemovedOption(f"{_CALLS} (--communicators) make a time steadier.", "5"),
    "check": RemovedOption("results are always checked: wrong ones must not become rules.", "true"),
    "method": RemovedOption(
        "rccl-tests measure one setting in each launch.",
        "auto",
    ),
    "repeats": RemovedOption(
        "--communicators N says how often everything is measured: in so many communicators, or "
        "with rccl-tests launches.",
        harmless=True,
    ),
    "graph": RemovedOption("--timing graph replays captured graphs, with rccl-tests by -G.", "0"),
    "exhaustive": RemovedOption(
        "rccltune-perf times every setting at every size: rccltune sweep without --runner.",
        "false",
    ),
    "force_tree_simple": RemovedOption(
        "Tree with Simple is measured with a library built after scripts/enable-tree-simple: "
        "--librccl FILE.",
        "false",
    ),
    "longest": RemovedOption("no launch measures many settings.", "120s"),
    "clear": RemovedOption("take a variable away before: env -u NAME rccltune sweep …"),
    "python": RemovedOption(WENT_WITH_TORCH),
    "backend": RemovedOption(WENT_WITH_TORCH),
    "no_environment": RemovedOption("a variant is tried only where it is named.", harmless=True),
    "placement_of_ranks": RemovedOption(
        "it is called --rank-placement now (rank_placement).", "node"
    ),
}


def message_for_removed(key: str, value: object) -> str | None:
    """What to say of a key of a file; None where it did not go, empty where it changes nothing.

    Args:
        key: as it is spelled inside.
        value: its text, or what is no text.
    """
    one = KEYS.get(key)
    if one is None:
        return None
    if one.harmless or value == one.now:
        return ""
    return f"'{key}' went: {one.said} rccltune 0.1.0 reads it"
