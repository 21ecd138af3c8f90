"""AMD's published table of one MI300X in CPX/NPS4: its zones, to the byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from public_sweeps import SEED_TABLE, seed_samples
from sample_rows import Sample

from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.choose import Choice
from rccltune.model.rule import RuleState
from rccltune.model.settings import BASELINE
from rccltune.model.zone import NOT_MEASURED

ChooseFrom = Callable[..., Choice]
MIB = 1 << 20
# Smallest and largest size in bytes, setting, fallback.
ZONES = [
    (32, 32, "ring/ll", None),
    (1024, 1024, "tree/ll", None),
    (16384, 16384, "tree/ll", None),
    (262144, 637200, "tree/ll", None),
    (637201, 1603619, "tree/ll128", "tree/ll"),
    (1603620, 4 * MIB, "ring/simple", None),
    (128 * MIB, 128 * MIB, "ring/simple", None),
]


def found(choice: Choice) -> list[tuple[int, int, str, str | None]]:
    """Its rules, as above; all else says that it was not measured."""
    assert {zone.reason for zone in choice.zones if zone.setting is None} == {NOT_MEASURED}
    return [
        (
            zone.min_nbytes,
            zone.max_nbytes,
            str(zone.setting),
            None if zone.fallback is None else str(zone.fallback),
        )
        for zone in choice.zones
        if zone.setting is not None
    ]


@pytest.mark.parametrize(("tolerance", "smallest"), [(0.02, "ring/ll"), (0.10, "tree/ll")])
def test_zones_end_where_the_published_times_meet(
    choose_from: ChooseFrom, tolerance: float, smallest: str
) -> None:
    """Up to a factor of four between sizes, and nowhere beyond; at 32 B 76 µs are near enough to 70.

    119 to 286 µs and 143 to 258 µs meet at 637200 bytes; 258 to 652 and 314 to 418 at 1603619.
    """
    choice = choose_from(seed_samples(), ChoiceOptions(tolerance=tolerance, arch="gfx942"))
    (low, high, _, *rest), *others = ZONES
    assert found(choice) == [(low, high, smallest, *rest), *others]
    assert {zone.state for zone in choice.zones if zone.setting} == {RuleState.NO_BASELINE}


@pytest.mark.parametrize("behind", [1.2, 1.5])
def test_a_baseline_that_is_behind_everywhere_changes_no_zone(
    choose_from: ChooseFrom, behind: float
) -> None:
    """Measured once, as the table is: 20 % is beyond what one row of these times may err by."""
    samples = seed_samples()
    key = replace(samples[0].key, setting=BASELINE)
    samples += [
        Sample(key=key, launch="default", nbytes=nbytes, time_us=behind * min(row[:-1]))
        for nbytes, row in SEED_TABLE.items()
    ]
    choice = choose_from(samples, ChoiceOptions(arch="gfx942"))
    assert found(choice) == ZONES
    assert {zone.state for zone in choice.zones if zone.setting} == {RuleState.NOT_PROVEN}
