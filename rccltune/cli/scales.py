"""The model over scales as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rccltune.cli.console import table

if TYPE_CHECKING:
    from rccltune.model import ScaleError, ScaleModel


def scale_text(models: tuple[ScaleModel, ...]) -> str:
    """Latency of each hop, bandwidth of each slowest link, and the error at scales left out."""
    columns = (
        *("collective", "setting", "view", "base", "a hop", "bandwidth", "told apart"),
        "each scale from the others (median, worst)",
    )
    note = (
        "Over scales: hops are those of RCCL's own model; what is not told apart is taken in its "
        "ratio. A scale marked * has a slowest link that no other has."
    )
    return f"{table(columns, (_row(model) for model in models), numeric=())}\n{note}"


def _row(model: ScaleModel) -> tuple[str, ...]:
    hops = ", ".join(f"{time:.3g} µs {link.value}" for link, time in model.hop_us)
    speeds = (
        f"{1e-3 / slope:.3g} GB/s {link.value}" for link, slope in model.us_per_byte if slope > 0
    )
    return (
        model.key.collective.value,
        str(model.key.setting),
        str(model.key.view),
        f"{model.base_us:.3g} µs",
        hops or "–",
        ", ".join(speeds) or "–",
        " | ".join(" + ".join(group) for group in model.separated),
        ", ".join(_error(error) for error in model.errors) or "–",
    )


def _error(error: ScaleError) -> str:
    scale = error.span.scale
    star = "*" if error.unseen else ""
    size = f"{100 * error.median:.0f} %, {100 * error.worst:+.0f} %"
    return f"{scale.n_nodes}x{scale.n_ranks}{star} ({size})"
