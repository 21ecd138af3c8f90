"""Is one verified file better than another: what each was held against the library says it."""

from __future__ import annotations

from math import log
from types import SimpleNamespace
from typing import cast

import pytest

from rccltune.model.vocabulary import Collective
from rccltune.verify.compared import is_better
from rccltune.verify.intervals import Estimate
from rccltune.verify.verifying import Verified

SMALL, LARGE = [1024 << k for k in range(4)], [1 << 20 << k for k in range(4)]
NEEDS = (("RCCL_LL128_FORCE_ENABLE", "1"),)


def rule(
    sizes: list[int], gain: float, spread: float = 0.005, *, stands: bool = True
) -> SimpleNamespace:
    """A rule that is so many times as fast as the library at each of its sizes."""
    high = gain * (1 + 2 * spread)
    return SimpleNamespace(
        stands=stands,
        gain=Estimate(mean=log(gain), spread=spread, freedom=30),
        gaining=tuple(
            SimpleNamespace(
                verdict=SimpleNamespace(
                    target=SimpleNamespace(collective=Collective.ALL_REDUCE),
                    nbytes=nbytes,
                    high=high,
                )
            )
            for nbytes in sizes
        ),
    )


def file(*rules: SimpleNamespace, needs: tuple[tuple[str, str], ...] = ()) -> Verified:
    """With these rules."""
    return cast("Verified", SimpleNamespace(standings=rules, needs=needs))


@pytest.mark.parametrize(
    ("site", "ours", "better"),
    [
        # Twice as fast where the site's gains a half, and as fast elsewhere.
        ([(SMALL, 1.5)], [(SMALL, 2.0)], True),
        ([(SMALL, 1.5), (LARGE, 1.2)], [(SMALL, 2.0), (LARGE, 1.2)], True),
        # Where the site has no rule.
        ([], [(SMALL, 1.1)], True),
        ([(LARGE, 1.2)], [(SMALL, 1.1), (LARGE, 1.2)], True),
        # No better anywhere.
        ([(SMALL, 1.5)], [(SMALL, 1.5)], False),
        ([(SMALL, 1.5)], [(SMALL, 1.505)], False),
        # Better somewhere, and slower where the site's rule is the better one, or has one alone.
        ([(SMALL, 1.5), (LARGE, 1.3)], [(SMALL, 2.0), (LARGE, 1.1)], False),
        ([(SMALL, 1.5), (LARGE, 1.3)], [(SMALL, 2.0)], False),
    ],
)
def test_a_file_is_better_that_is_faster_somewhere_and_slower_nowhere(
    site: list[tuple[list[int], float]], ours: list[tuple[list[int], float]], better: bool
) -> None:
    """Gains of half a percent's standard error."""
    theirs = file(*(rule(*one) for one in site))
    mine = file(*(rule(*one) for one in ours), needs=NEEDS)
    assert is_better(mine, theirs) is better
    if not site:
        assert is_better(mine, None) is better


def test_a_gain_within_noise_and_a_rule_that_does_not_stand_prove_nothing() -> None:
    """A tenth more, with a standard error of a tenth."""
    theirs = file(rule(SMALL, 1.5, 0.1))
    assert not is_better(file(rule(SMALL, 1.65, 0.1), needs=NEEDS), theirs)
    assert not is_better(file(rule(SMALL, 9.0, stands=False), needs=NEEDS), theirs)


def test_a_file_that_lost_its_needs_offers_nothing_else() -> None:
    """What it asked for was slower at sizes without a rule, or no rule is left that needs it."""
    assert not is_better(file(rule(SMALL, 2.0)), None)
