"""How much of what lossy variants compute the benchmark does not accept."""

from __future__ import annotations

from collections.abc import Iterable

from rccltune.model import Sample, Target, WrongShare
from rccltune.vocab import DTYPE_BYTES, Collective


def wrong_shares(samples: Iterable[Sample]) -> tuple[WrongShare, ...]:
    """Elements of lossy variants that the benchmark does not accept, as shares of all ranks'.

    The benchmark counts them over all ranks; how far they are off it does not say.
    """
    found: dict[Target, dict[int, float]] = {}
    for sample in samples:
        if sample.key.variant.lossy and sample.n_wrong is not None and sample.doubt is None:
            sizes = found.setdefault(sample.key.target, {})
            share = min(1.0, sample.n_wrong / _elements(sample))
            sizes[sample.nbytes] = max(share, sizes.get(sample.nbytes, 0.0))
    return tuple(_share(target, sizes) for target, sizes in found.items())


def _share(target: Target, sizes: dict[int, float]) -> WrongShare:
    worst = max(sizes, key=lambda nbytes: (sizes[nbytes], nbytes))
    return WrongShare(
        target=target,
        share=sizes[worst],
        at_nbytes=worst,
        from_nbytes=min((n for n, share in sizes.items() if share), default=None),
    )


def _elements(sample: Sample) -> float:
    """Elements that all ranks get from one call; of all_gather each rank gets the whole."""
    each = max(1, sample.nbytes // DTYPE_BYTES.get(sample.key.dtype or "float", 4))
    divided = sample.key.collective is Collective.REDUCE_SCATTER
    return each * (1 if divided else sample.key.scale.n_ranks)
