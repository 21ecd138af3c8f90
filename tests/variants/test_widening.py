"""What a widening variant adds, and what is left without it: by its own variables, not by a name."""

from __future__ import annotations

import pytest

from rccltune.model.settings import (
    DEFAULT_VARIANT,
    LL128_FORCED,
    Variant,
    base_variant,
    in_default,
    widened_by,
)

CHANNELS = Variant(name="channels-32", environment=(("NCCL_MIN_NCHANNELS", "32"),))
THREADS = Variant(name="threads", options=(("-t", "{ranks}"),))
TWO = Variant(
    name="ll128-forced",
    environment=(("A", "1"), ("RCCL_LL128_FORCE_ENABLE", "1")),
    widens="default",
)
OTHER = Variant(name="other", environment=(("B", "2"), ("C", "3")), widens="default")


@pytest.mark.parametrize("switch", [LL128_FORCED, TWO, OTHER], ids=lambda one: len(one.environment))
@pytest.mark.parametrize("base", [DEFAULT_VARIANT, CHANNELS, THREADS], ids=lambda one: one.name)
def test_widened_and_back_is_the_same(base: Variant, switch: Variant) -> None:
    """All variables of both while widened; exactly the base without, and the switch without it."""
    both = widened_by(base, switch)
    assert dict(both.environment) == dict((*base.environment, *switch.environment))
    assert base_variant(both) == base
    assert in_default(both) == switch
    assert widened_by(both, switch) == both


def test_a_session_of_before_is_understood() -> None:
    """It has no environment of what was widened, only both together under both names."""
    old = Variant(
        name="channels-32+ll128-forced",
        environment=(("NCCL_MIN_NCHANNELS", "32"), ("RCCL_LL128_FORCE_ENABLE", "1")),
        widens="channels-32",
    )
    assert base_variant(old) == CHANNELS
    assert in_default(old) == LL128_FORCED
