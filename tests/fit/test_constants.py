"""Constants of the library's model, recovered from times that its closed form gives with others."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from rccltune import fit, rules
from rccltune.model import (
    DEFAULT_VARIANT,
    Algorithm,
    Belief,
    CellChange,
    Collective,
    Curve,
    CurveKey,
    CurvePoint,
    Model,
    Placement,
    Protocol,
    Scale,
    Setting,
    Target,
)

SIZES = [32 << (2 * k) for k in range(12)]
BUS = 48.0
# RCCL 2.28.3 src/graph/tuning.cc, model 5: base latency, latency of a hop, share of the bus.
MODEL_5 = {
    "ring/ll": (12.0, 0.8, 0.08),
    "tree/ll": (12.0, 0.9, 0.06),
    "ring/simple": (17, 2.1, 1.0),
}
# What a machine may really have.
TRUTH = {"ring/ll": (12.0, 1.1, 0.10), "tree/ll": (12.0, 0.4, 0.05), "ring/simple": (17, 1.7, 0.8)}
Constants = Mapping[str, tuple[float, float, float]]


def time_us(name: str, collective: Collective, n: int, nbytes: int, constants: Constants) -> float:
    """The closed form of one node: hops, and size over bandwidth (facts §6, no correction)."""
    base, hop, share = constants[name]
    passes = 2 if collective is Collective.ALL_REDUCE else 1
    steps = passes * (n - 1)
    to_bus = n / steps if name.startswith("ring") else 0.5
    return base + steps * hop + nbytes / (1000 * BUS * share * to_bus)


def ground(collective: Collective, n: int, truth: Constants) -> fit.Ground:
    """Beliefs by the model, and curves by the truth."""
    target = Target(
        collective=collective,
        scale=Scale(n_nodes=1, n_ranks=n),
        rank_placement="node",
        variant=DEFAULT_VARIANT,
    )
    names = [m for m in MODEL_5 if collective is Collective.ALL_REDUCE or m.startswith("ring")]
    beliefs = []
    for nbytes in SIZES:
        offered = {Setting.parse(m): time_us(m, collective, n, nbytes, MODEL_5) for m in names}
        choice = min(offered, key=lambda one: offered[one])
        beliefs.append(
            Belief(target=target, nbytes=nbytes, offered=tuple(offered.items()), choice=choice)
        )
    curves = [
        Curve(
            key=CurveKey(
                collective=collective,
                setting=Setting.parse(m),
                placement=Placement.OUT_OF_PLACE,
                scale=target.scale,
                dtype=None,
                rank_placement="node",
            ),
            points=tuple(
                CurvePoint(nbytes=x, time_us=t, low_us=t, high_us=t)
                for x in SIZES
                for t in [time_us(m, collective, n, x, truth)]
            ),
            fits=(),
            chosen=Model.LOGLOG,
        )
        for m in names
    ]
    return target, beliefs, curves


def named(changes: tuple[CellChange, ...]) -> dict[str, CellChange]:
    """By setting."""
    return {f"{one.algorithm.value}/{one.protocol.value}": one for one in changes}


def test_the_constants_of_the_truth_are_found() -> None:
    """From two collectives at two scales together: hop by difference, bandwidth by ratio."""
    grounds = [
        ground(collective, n, TRUTH)
        for collective in (Collective.ALL_REDUCE, Collective.ALL_GATHER)
        for n in (8, 64)
    ]
    found = named(fit.fit_constants(grounds))
    assert set(found) == set(TRUTH)
    for name, one in found.items():
        (_, hop, share), (_, own_hop, own_share) = MODEL_5[name], TRUTH[name]
        assert one.latency_us == pytest.approx(own_hop - hop, abs=0.01)
        assert one.ratio == pytest.approx(own_share / share, rel=0.01)
        assert one.error_after < 0.01 < one.error_before


def test_the_library_would_then_choose_what_is_fastest() -> None:
    """Every size: the choice with the true constants, and never a slower one than now."""
    grounds = [ground(Collective.ALL_REDUCE, 64, TRUTH)]
    found = fit.foresee(grounds, fit.fit_constants(grounds))
    assert len(found) == len(SIZES)
    for one in found:
        times = {m: time_us(m, Collective.ALL_REDUCE, 64, one.nbytes, TRUTH) for m in TRUTH}
        assert one.best_us == pytest.approx(min(times.values()))
        assert one.then_us == pytest.approx(one.best_us, rel=0.02)
        assert one.gain >= -1e-9
    assert max(one.gain for one in found) > 0.5


def test_a_model_that_is_right_is_left_as_it_is() -> None:
    """Nothing to add, nothing to multiply (what rounding leaves is less), no other choice."""
    grounds = [ground(Collective.ALL_REDUCE, 64, MODEL_5)]
    changes = fit.fit_constants(grounds)
    for one in changes:
        assert one.latency_us == pytest.approx(0.0, abs=1e-3)
        assert one.ratio == pytest.approx(1.0, rel=1e-3)
    assert all(one.then == one.now for one in fit.foresee(grounds, changes))


def test_a_hop_never_takes_less_than_nothing() -> None:
    """A machine faster than the base latency alone: the constant stops at zero."""
    fast = {name: (1.0, 0.01, share) for name, (_, _, share) in TRUTH.items()}
    for name, one in named(fit.fit_constants([ground(Collective.ALL_REDUCE, 64, fast)])).items():
        assert one.latency_us == pytest.approx(-MODEL_5[name][1], abs=0.01)


def test_steps_that_no_table_shows_are_not_fitted() -> None:
    """Broadcast's depend on the rings; several nodes mix two kinds of hops."""
    target, beliefs, curves = ground(Collective.ALL_REDUCE, 64, TRUTH)
    assert fit.fit_constants([ground(Collective.BROADCAST, 64, TRUTH)]) == ()
    far = Target(
        collective=target.collective,
        scale=Scale(n_nodes=2, n_ranks=64),
        rank_placement="node",
        variant=DEFAULT_VARIANT,
    )
    assert fit.fit_constants([(far, beliefs, curves)]) == ()
    assert fit.fit_constants([(target, beliefs[:3], curves)]) == ()
    # Without a small size the latency is not to be seen.
    assert fit.fit_constants([(target, beliefs[6:], curves)]) == ()


def read(text: str) -> dict[tuple[str, int, str, str], tuple[str, float]]:
    """A reader of the file, by what its header says: field, index, algorithm, protocol, change."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = re.fullmatch(r"(\w+),(\d),(\w+),(\w+),([*+-])([\d.e+-]+)", line)
        assert match is not None, line
        value = float(match[6]) * (-1 if match[5] == "-" else 1)
        found[match[1], int(match[2]), match[3], match[4]] = (match[5].replace("-", "+"), value)
    return found


def test_the_file_is_marked_and_read_back() -> None:
    """An experiment in its second line; added to or multiplied with what a host has."""
    change = CellChange(
        algorithm=Algorithm.RING,
        protocol=Protocol.LL,
        latency_us=-0.25,
        ratio=1.25,
        n_sizes=24,
        error_before=0.4,
        error_after=0.05,
    )
    text = rules.render_constants(("for a test",), [change])
    assert text.splitlines()[1] == "#@ constants experiment"
    assert "EXPERIMENT" in text
    assert read(text) == {
        ("hwLatencies", 0, "ring", "ll"): ("+", -0.25),
        ("bwRatio", 0, "ring", "ll"): ("*", 1.25),
    }
    # Nobody may take it for rules.
    assert rules.read_rules(text.encode()).errors
