"""A workload as a verb tells it: what matters, and what the figures do not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from rccltune.model import schema
from rccltune.model.brief import brief
from rccltune.workload.records import CallSource, RecordingEnd, Workload
from rccltune.workload.shares import Share, shares_of

# What neither source sees, in the words of the contract.
_BLIND: Final = {
    CallSource.RECORD: "records do not see replays of captured graphs, point-to-point, paths that "
    "ask no tuner, nor how grouped calls were split",
    CallSource.INSPECTOR: "Inspector writes calls below 8 KiB only under "
    "NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES",
}


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSummary:
    """Summary of what a job asks for.

    Attributes:
        shares: what matters most first.
        remarks: what the figures do not hold, one sentence each.
    """

    workload: Workload
    shares: tuple[Share, ...]
    remarks: tuple[str, ...]

    def as_plain(self) -> dict[str, Any]:
        """Plain form for --json."""
        whole = self.workload
        return {
            "calls": whole.calls,
            "bytes": whole.total_nbytes,
            "recorders": schema.to_plain(whole.recorders),
            "ranks": {scale.short: whole.ranks_at(scale) for scale in whole.scales},
            "aside": dict(whole.aside),
            "counts": [_plain(share) for share in self.shares],
            "remarks": list(self.remarks),
        }


def summary_of(whole: Workload) -> WorkloadSummary:
    """Say of a workload what matters."""
    return WorkloadSummary(workload=whole, shares=shares_of(whole), remarks=tuple(_remarks(whole)))


def _plain(share: Share) -> dict[str, Any]:
    count = share.count
    return {
        "collective": count.collective.value,
        "n_ranks": count.scale.n_ranks,
        "n_nodes": count.scale.n_nodes,
        "nbytes": count.nbytes,
        "min_nbytes": count.min_nbytes,
        "max_nbytes": count.max_nbytes,
        "calls": count.calls,
        "total_nbytes": count.total_nbytes,
        "of_calls": share.of_calls,
        "of_bytes": share.of_bytes,
    }


def _remarks(whole: Workload) -> list[str]:
    """Remarks that must be known to trust the figures."""
    sources = {recorder.source for recorder in whole.recorders} or {CallSource.RECORD}
    remarks = [*whole.cuts, *(_BLIND[source] for source in CallSource if source in sources)]
    open_ended = [
        recorder for recorder in whole.recorders if recorder.state is RecordingEnd.UNFINISHED
    ]
    beyond = sum(recorder.beyond for recorder in whole.recorders)
    missing = sum(recorder.missing for recorder in whole.recorders)
    unknown = sum(recorder.unknown for recorder in whole.recorders)
    if open_ended:
        remarks.append(
            f"{len(open_ended)} of {len(whole.recorders)} recordings were never finished: their "
            "process was killed or still runs, and what it called since its last snapshot is lost"
        )
    if beyond or any(not count.is_exact for count in whole.counts):
        remarks.append(
            f"{beyond} calls had more sizes than are kept one by one; they stand in rows of a "
            "power of two each"
        )
    if missing:
        remarks.append(
            f"{missing} calls are not in the dump, by its own numbers: too small, or more than its "
            "buffer held"
        )
    if unknown:
        remarks.append(f"{unknown} calls were of a collective that has no name here")
    if whole.aside:
        listed = ", ".join(f"{calls} {name}" for name, calls in whole.aside.items())
        remarks.append(f"seen beside them, and not tuned: {listed}")
    return remarks
