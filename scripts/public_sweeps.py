"""Published measurements as samples: AMD's table, and the public sweeps beside the repository."""

from __future__ import annotations

import csv
from pathlib import Path

from sample_rows import Sample

from rccltune.model.settings import (
    BASELINE,
    CurveKey,
    Scale,
    Setting,
)
from rccltune.model.vocabulary import Algorithm, Collective, Placement, Protocol

# AMD's article 'Optimizing MI300X Inter-Chiplet Communication via the RCCL Tuner API', its table
# of out-of-place times in µs: AllReduce, 64 ranks on one MI300X node in CPX/NPS4, ROCm 7.2.
SEED_SETTINGS = ("tree/ll", "ring/ll", "tree/ll128", "ring/ll128", "ring/simple", "tree/simple")
SEED_TABLE = {
    32: (76, 70, 106, 97, 198, 244),
    1 << 10: (94, 154, 123, 203, 268, 248),
    16 << 10: (87, 129, 111, 197, 271, 302),
    256 << 10: (119, 148, 143, 706, 306, 359),
    1 << 20: (286, 390, 258, 708, 314, 549),
    4 << 20: (831, 701, 652, 726, 418, 836),
    128 << 20: (21541, 18970, 13251, 11720, 9996, 19503),
}
NULL_COLLECTIVES = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast")
ONE_NODE = Scale(n_nodes=1, n_ranks=8)
TWO_NODES = Scale(n_nodes=2, n_ranks=16)


def key_of(
    setting: Setting,
    collective: Collective = Collective.ALL_REDUCE,
    placement: Placement = Placement.OUT_OF_PLACE,
    scale: Scale = ONE_NODE,
) -> CurveKey:
    """The key under which a row of these files belongs."""
    return CurveKey(
        collective=collective,
        setting=setting,
        placement=placement,
        scale=scale,
        dtype="float",
        op="sum" if collective is Collective.ALL_REDUCE else "none",
    )


def seed_samples() -> list[Sample]:
    """AMD's published table, of RCCL with LL128 forced and a patch for Tree with Simple."""
    scale = Scale(n_nodes=1, n_ranks=64)
    return [
        Sample(
            key=key_of(Setting.parse(name), scale=scale),
            launch="table",
            nbytes=nbytes,
            time_us=float(time_us),
        )
        for nbytes, row in SEED_TABLE.items()
        for name, time_us in zip(SEED_SETTINGS, row, strict=True)
    ]


def rccl_tests_csv(path: Path, setting: Setting, launch: str) -> list[Sample]:
    """Half-rows of ``-Z csv``, whose rows have one value more than the header has names."""
    with path.open(encoding="utf-8") as lines:
        rows = list(csv.reader(lines))[1:]
    scale = TWO_NODES if "_2n16r_" in path.name else ONE_NODE
    return [
        Sample(
            key=key_of(
                setting,
                Collective.parse(row[1]),
                Placement.IN_PLACE if row[9] == "1" else Placement.OUT_OF_PLACE,
                scale,
            ),
            launch=launch,
            nbytes=int(row[6]),
            time_us=float(row[10]),
        )
        for row in rows
    ]


def gpu107(data: Path, prefix: str) -> list[Sample]:
    """Forced arms of one campaign folder; the default is not among them."""
    made: list[Sample] = []
    for path in sorted((data / "sweeps/gpu107").glob(f"{prefix}_*.csv")):
        name = path.stem.removeprefix(f"{prefix}_")
        if not name.startswith("default"):
            made += rccl_tests_csv(path, Setting.parse(name.replace("_", "/")), name)
    return made


def channel_sweep(data: Path, channels: int | None = None) -> list[Sample]:
    """Sweep A: three pairs × ten channel counts, out of place; or one count of it."""
    path = data / "sweeps/mi355x_1n8r_allreduce_algo_proto_ch.csv"
    with path.open(encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row["requested"] == "forced"]
    return [
        Sample(
            key=key_of(
                Setting(
                    algorithm=Algorithm.parse(row["algo"]),
                    protocol=Protocol.parse(row["proto"]),
                    channels=int(row["nchannels"]),
                )
            ),
            launch="-".join(("median-of-3", row["algo"], row["proto"], row["nchannels"])),
            nbytes=int(row["size_bytes"]),
            time_us=float(row["time_oop_us"]),
        )
        for row in rows
        if channels in (None, int(row["nchannels"]))
    ]


def channel_default(data: Path) -> list[Sample]:
    """The library's own choice in sweep A."""
    path = data / "sweeps/mi355x_1n8r_allreduce_algo_proto_ch.csv"
    with path.open(encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row["requested"] == "default"]
    return [
        Sample(
            key=key_of(BASELINE),
            launch="default",
            nbytes=int(row["size_bytes"]),
            time_us=float(row["time_oop_us"]),
        )
        for row in rows
    ]


def null_sweep(data: Path) -> list[Sample]:
    """Eleven settings of a knob that does nothing, as eleven channel counts of one pair."""
    path = data / "sweeps/gpinkert_cta/float_rows.csv"
    with path.open(encoding="utf-8") as lines:
        rows = [r for r in csv.DictReader(lines) if r["collective"] in NULL_COLLECTIVES]
    number = {name: i + 1 for i, name in enumerate(sorted({r["config"] for r in rows}))}
    return [
        Sample(
            key=key_of(
                Setting(
                    algorithm=Algorithm.RING,
                    protocol=Protocol.SIMPLE,
                    channels=number[row["config"]],
                ),
                Collective.parse(row["collective"]),
                Placement.IN_PLACE if row["inplace"] == "1" else Placement.OUT_OF_PLACE,
            ),
            launch=row["config"],
            nbytes=int(row["size_bytes"]),
            time_us=float(row["time_us"]),
        )
        for row in rows
    ]


def find_data(stated: Path | None) -> Path | None:
    """The folder of public data: as stated, or ../shared/data beside the repository."""
    root = Path(__file__).resolve().parents[1]
    for folder in (stated, root.parent / "shared/data"):
        if folder is not None and (folder / "sweeps/gpu107").is_dir():
            return folder
    return None
