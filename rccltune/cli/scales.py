"""The model over scales as a table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rccltune.cli.console import table
from rccltune.model import Laid, lay

if TYPE_CHECKING:
    from rccltune.model import Scale, ScaleError, ScaleModel


_NOTE = (
    "Over scales: hops are those of RCCL's own model; what is not told apart is taken in its "
    "ratio. Each scale is predicted from the others: median and worst error; * has a slowest link "
    "that no other scale has."
)


def scale_text(models: tuple[ScaleModel, ...]) -> Laid:
    """Latency of each hop, bandwidth of each slowest link, and the error at scales left out."""
    links = list(dict.fromkeys(link for model in models for link, _ in model.us_per_byte))
    hops = list(dict.fromkeys(link for model in models for link, _ in model.hop_us))
    scales = sorted(
        {error.span.scale for model in models for error in model.errors},
        key=lambda scale: (scale.n_ranks, scale.n_nodes),
    )
    columns = (
        *("collective", "setting", "view", lay(["base", "µs"])),
        *(lay(["µs a hop", link.value]) for link in hops),
        *(lay(["GB/s", link.value]) for link in links),
        *(scale.short for scale in scales),
    )
    rows = (
        (
            *_named(model),
            f"{model.base_us:.3g}",
            *(_time(dict(model.hop_us).get(link)) for link in hops),
            *(_speed(dict(model.us_per_byte).get(link)) for link in links),
            *(_error(model, scale) for scale in scales),
        )
        for model in models
    )
    apart = Counter(" | ".join(" + ".join(group) for group in m.separated) for m in models)
    lines = [f"Told apart in {n} of {len(models)}: {terms}" for terms, n in apart.most_common()]
    return lay([table(columns, rows, numeric=range(3, len(columns))), _NOTE, *lines])


def _named(model: ScaleModel) -> tuple[str, str, str]:
    key = model.key
    return key.collective.value, str(key.setting), str(key.view)


def _time(us: float | None) -> str:
    return "–" if us is None else f"{us:.3g}"


def _speed(us_per_byte: float | None) -> str:
    return f"{1e-3 / us_per_byte:.3g}" if us_per_byte else "–"


def _error(model: ScaleModel, scale: Scale) -> str:
    found: ScaleError | None = next((e for e in model.errors if e.span.scale == scale), None)
    if found is None:
        return "–"
    return f"{'*' if found.unseen else ''}{100 * found.median:.0f} %, {100 * found.worst:+.0f} %"
