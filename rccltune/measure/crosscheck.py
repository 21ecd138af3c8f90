"""The baseline through PyTorch beside the same through rccl-tests, where both are here.

They are other programs with other libraries, so rccl-tests' launches are a session of their own in
the sweep's folder, and what is compared is only what both measured: the baseline, in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from rccltune.measure.preparation import Prepared, prepare
from rccltune.measure.site import SiteRequest, find_site
from rccltune.measure.sweeps import sweep
from rccltune.model import defaults
from rccltune.model.measured import Sample
from rccltune.model.reporter import Reporter
from rccltune.model.settings import BASELINE, DEFAULT_VARIANT
from rccltune.model.vocabulary import Collective, Placement
from rccltune.session import store
from rccltune.session.samples import load_samples

FOLDER: Final = "rccl-tests"
_ONLY: Final = "rccl-tests are only held beside the PyTorch runner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """One collective through both.

    Attributes:
        ratios: PyTorch's time over rccl-tests', medians of the launches, by size in bytes.
        libraries: what each talked to, PyTorch's first, as their files say.
    """

    collective: Collective
    ratios: tuple[tuple[int, float], ...]
    libraries: tuple[str, str]

    @property
    def line(self) -> str:
        """For people."""
        values = [ratio for _, ratio in self.ratios]
        if not values:
            return f"{self.collective.value}: no size was measured by both"
        return (
            f"{self.collective.value}: PyTorch's times are {median(values):.2f}x rccl-tests' in "
            f"the median ({min(values):.2f} to {max(values):.2f}, {len(values)} sizes; "
            f"{self.libraries[0]} beside {self.libraries[1]})"
        )

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "collective": self.collective.value,
            "libraries": list(self.libraries),
            "ratios": {str(nbytes): ratio for nbytes, ratio in self.ratios},
        }


def prepare_beside(prepared: Prepared, request: SiteRequest) -> Prepared:
    """What rccl-tests have to measure: the baselines of a sweep through PyTorch.

    Args:
        prepared: the sweep.
        request: where; ``rccl_tests`` names the programs.

    Raises:
        MachineError: they are not there, or nothing starts them.
    """
    launcher = defaults.LAUNCHER if request.launcher == "torchrun" else request.launcher
    other = replace(
        request,
        runner="rccl-tests",
        python=None,
        backend=defaults.BACKEND,
        launcher=launcher,
    )
    site = replace(find_site(other), untunable=_ONLY)
    wanted = replace(
        prepared.sweep,
        settings=(),
        variants=(DEFAULT_VARIANT,),
        named_variants=(),
    )
    return prepare(wanted, site, prepared.folder / FOLDER, timeout_s=prepared.timeout_s)


def cross_check(
    prepared: Prepared, beside: Prepared, *, reporter: Reporter, command: str
) -> tuple[Beside, ...]:
    """Measure what is left of it, and compare.

    Raises:
        LaunchError: rccl-tests do not work.
    """
    sweep(beside, reporter=reporter, command=command, force=True)
    through = [_times(one.folder, reporter) for one in (prepared, beside)]
    libraries = (_library(prepared), _library(beside))
    return tuple(
        Beside(
            collective=collective,
            ratios=tuple(_ratios(*(each.get(collective, {}) for each in through))),
            libraries=libraries,
        )
        for collective in prepared.sweep.collectives
    )


def _library(prepared: Prepared) -> str:
    return prepared.site.library or "an unknown library"


Times = dict[int, list[float]]


def _times(folder: Path, reporter: Reporter) -> dict[Collective, Times]:
    found: dict[Collective, Times] = {}
    for sample in _usable(load_samples(store.open_session(folder), reporter)):
        times = found.setdefault(sample.key.collective, {})
        times.setdefault(sample.nbytes, []).append(sample.time_us or 0.0)
    return found


def _usable(samples: Sequence[Sample]) -> Iterable[Sample]:
    return (
        sample
        for sample in samples
        if sample.doubt is None
        and sample.key.setting == BASELINE
        and sample.key.variant.name == DEFAULT_VARIANT.name
        and sample.key.placement is Placement.IN_PLACE
    )


def _ratios(mine: Times, theirs: Times) -> Iterable[tuple[int, float]]:
    return (
        (nbytes, median(mine[nbytes]) / median(theirs[nbytes]))
        for nbytes in sorted(mine.keys() & theirs.keys())
    )
