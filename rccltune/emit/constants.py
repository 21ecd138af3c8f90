"""Changes of a library's constants as a file: an experiment that nothing applies by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rccltune.emit.lines import comment
from rccltune.model import CellChange

# Indices of ncclTunerConstants_v5_t as RCCL has it since rocm-systems #3757: hwLatencies by link
# (0 inside a node), bwRatio by nodes (0 up to two).
_INSIDE: Final = 0
_MARK: Final = (
    "EXPERIMENT: constants for the library's own model, not rules; off unless somebody applies "
    "them. For communicators on one node alone. They change every choice that no rule makes, at "
    "sizes and collectives that were not measured too"
)


def render_constants(provenance: Iterable[str], changes: Sequence[CellChange]) -> str:
    """The file's text: a row for each field, with +µs to add or *ratio to multiply by."""
    lines = ["#@ format 1", "#@ constants experiment"]
    lines += [line for text in (_MARK, *provenance) for line in comment(text)]
    lines.append("# columns: field,index,algorithm,protocol,change")
    for one in changes:
        lines += _rows(one)
    return "\n".join(lines) + "\n"


def _rows(one: CellChange) -> Iterator[str]:
    cell = f"{_INSIDE},{one.algorithm.value},{one.protocol.value}"
    yield from comment(
        f"{one.n_sizes} sizes: the model was {100 * one.error_before:.0f} % off in the median, and "
        f"is {100 * one.error_after:.0f} % with this"
    )
    yield f"hwLatencies,{cell},{one.latency_us:+.6g}"
    yield f"bwRatio,{cell},*{one.ratio:.6g}"
