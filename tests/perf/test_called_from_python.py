"""The verb as a function: the same sweep, from a notebook's cell."""

from __future__ import annotations

from pathlib import Path

from perf_sweeps import Ground

import rccltune
from rccltune import api
from rccltune.model.reporter import Reporter


def test_a_sweep_is_a_function(ground: Ground) -> None:
    """By the rank program, told of its progress."""

    class Counting(Reporter):
        n = 0

        def progress(self, step: object) -> None:
            self.n += step is not None

    told = Counting()
    done = api.sweep(
        ground.folder / "s",
        mode="spx-nps1",
        simulate=ground.folder / "node.yaml",
        collective=["all_reduce"],
        min_bytes="4K",
        max_bytes="64K",
        setting=["ring/ll"],
        communicators=1,
        reporter=told,
    )
    assert done.n_samples > 0
    assert told.n > 0
    samples = rccltune.load(Path("s")).samples
    assert samples["run"].astype(str).str.startswith("run-").all()
