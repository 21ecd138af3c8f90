"""The model over scales, on made-up nodes whose truth it is not, and on one that it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import public_sweeps
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scale_nodes import PER_OAM, SETTINGS, SIZES, Links, node_file

from rccltune import fit, scaling, simulate
from rccltune.model import (
    BASELINE,
    TUNABLE,
    Algorithm,
    Collective,
    Curve,
    CurveKey,
    CurvePoint,
    Hop,
    Model,
    Placement,
    Scale,
    Setting,
    Shape,
    Span,
)
from rccltune.scaling import Measured, Prediction

PLACED = {8: "one-oam", 16: "other", 32: "other", 64: "node"}
NODES = {
    "usual": Links(),
    "far apart": Links(inside_us=0.3, across_us=3.5, inside_gb_per_s=170, across_gb_per_s=25),
    "nearly alike": Links(inside_us=1.0, across_us=1.2, inside_gb_per_s=60, across_gb_per_s=50),
    "soft and crowded": Links(sharpness=1.6, contention=0.06),
}


def span(n_nodes: int, n_ranks: int, n_oams: int) -> Span:
    """A span in one line."""
    return Span(scale=Scale(n_nodes=n_nodes, n_ranks=n_ranks), n_oams=n_oams)


def measured(
    where: Span,
    times: dict[int, float],
    setting: str = "ring/ll",
    collective: Collective = Collective.ALL_REDUCE,
) -> Measured:
    """A curve of one setting at one span, from times in µs by size."""
    key = CurveKey(
        collective=collective,
        setting=BASELINE if setting == "baseline" else Setting.parse(setting),
        placement=Placement.OUT_OF_PLACE,
        scale=where.scale,
    )
    points = tuple(
        CurvePoint(nbytes=nbytes, time_us=time, low_us=time, high_us=time)
        for nbytes, time in sorted(times.items())
    )
    return Measured(where, Curve(key=key, points=points, fits=(), chosen=Model.LOGLOG))


def predicted(curves: Iterable[Measured], target: Span) -> Prediction:
    """A prediction that is there."""
    found = scaling.predict(list(curves), target)
    assert found is not None
    return found


def by_model(where: Span, setting: str = "ring/ll") -> dict[int, float]:
    """Times that are exactly latency and bandwidth: 10 µs, hops of 0.5 and 2 µs, 80 and 40 GB/s."""
    algorithm = Setting.parse(setting).algorithm
    assert algorithm is not None
    hops = scaling.hops(Collective.ALL_REDUCE, algorithm, where)
    assert hops is not None
    latency = 10 + 0.5 * hops[Hop.INSIDE] + 2 * hops[Hop.ACROSS] + 15 * hops[Hop.NODES]
    speed = {Hop.INSIDE: 80e3, Hop.ACROSS: 40e3, Hop.NODES: 20e3}[where.slowest]
    n_ranks = where.scale.n_ranks
    return {n: latency + 2 * (n_ranks - 1) / n_ranks * n / speed for n in SIZES}


@pytest.fixture(scope="module", params=sorted(NODES))
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node file of links that the model knows nothing of."""
    path = tmp_path_factory.mktemp("node") / "node.yaml"
    path.write_text(node_file(NODES[request.param]), encoding="utf-8")
    return path


def noisy(time_us: float, random: Random) -> float:
    """The median of three launches that differ by 1.5 %."""
    return sorted(time_us * random.lognormvariate(0, 0.015) for _ in range(3))[1]


@pytest.mark.parametrize("noise", [None, 1, 2])
def test_64_ranks_within_15_percent_of_the_truth_from_8_16_and_32(
    node: Path, noise: int | None
) -> None:
    """Six settings at 21 sizes from 1 KiB to 1 GiB; tree/simple with noise within 18 %."""
    simulated = simulate.load_node(node)

    def truth(setting: str, n_ranks: int) -> dict[int, float]:
        times = {
            nbytes: simulate.truth(
                simulated,
                "all_reduce",
                setting,
                nbytes,
                ranks=n_ranks,
                placement=PLACED[n_ranks],
            )
            for nbytes in SIZES
        }
        return {nbytes: time for nbytes, time in times.items() if time is not None}

    random = Random(noise)
    covered = []
    for setting in SETTINGS:
        curves = []
        for n_ranks in (8, 16, 32):
            times = truth(setting, n_ranks)
            if noise is not None:
                drift = random.lognormvariate(0, 0.005)
                times = {n: noisy(time * drift, random) for n, time in times.items()}
            curves.append(measured(span(1, n_ranks, n_ranks // PER_OAM), times, setting))
        wanted = truth(setting, 64)
        found = predicted(curves, span(1, 64, 8)).curve
        assert [point.nbytes for point in found.points] == list(SIZES)
        bound = 0.18 if noise is not None and setting == "tree/simple" else 0.15
        for point in found.points:
            assert abs(point.time_us / wanted[point.nbytes] - 1) <= bound, (setting, point)
        covered += [p.low_us <= wanted[p.nbytes] <= p.high_us for p in found.points]
    # The expected errors hold nearly everywhere.
    assert sum(covered) >= 0.85 * len(covered)


def test_what_the_model_is_comes_back_exactly() -> None:
    """Eight ranks inside an OAM and eight on one each tell the two kinds of hops apart."""
    spans = [span(1, 8, 1), span(1, 8, 8), span(1, 16, 2), span(1, 32, 4)]
    target = span(1, 64, 8)
    found = predicted((measured(one, by_model(one)) for one in spans), target)
    model = found.model
    assert model.base_us == pytest.approx(10, rel=1e-3)
    assert dict(model.hop_us) == pytest.approx({Hop.INSIDE: 0.5, Hop.ACROSS: 2}, rel=1e-3)
    speeds = {link: 1e-3 / slope for link, slope in model.us_per_byte}
    assert speeds == pytest.approx({Hop.INSIDE: 80, Hop.ACROSS: 40}, rel=1e-3)
    assert model.separated == (("base",), ("inside an OAM",), ("across OAMs",))
    assert model.assumed == ()
    times = {point.nbytes: point.time_us for point in found.curve.points}
    assert times == pytest.approx(by_model(target), rel=1e-3)


def test_whole_oams_do_not_tell_their_hops_apart_and_the_record_says_so() -> None:
    """14, 28, 56 hops inside and 0, 2, 6 across are on one line; the prediction is right all the same."""
    spans = [span(1, 8 * n, n) for n in (1, 2, 4)]
    found = predicted((measured(one, by_model(one)) for one in spans), span(1, 64, 8))
    assert found.model.separated == (("base",), ("inside an OAM", "across OAMs"))
    times = {point.nbytes: point.time_us for point in found.curve.points}
    assert times == pytest.approx(by_model(span(1, 64, 8)), rel=0.01)


def test_many_nodes_from_one_two_and_four() -> None:
    """512 ranks on eight nodes; a hop across nodes is told apart from the rest."""
    spans = [span(n, 64 * n, 8 * n) for n in (1, 2, 4)]
    target = span(8, 512, 64)
    found = predicted((measured(one, by_model(one)) for one in spans), target)
    assert (("across nodes",)) in found.model.separated
    times = {point.nbytes: point.time_us for point in found.curve.points}
    assert times == pytest.approx(by_model(target), rel=0.02)
    extrapolated = found.curve.extrapolated
    assert extrapolated is not None
    assert extrapolated.scales == tuple(one.scale for one in spans)


def test_one_node_says_nothing_of_two_and_no_error_is_made_up() -> None:
    """Neither a hop nor the bandwidth across nodes was measured."""
    one = span(1, 8, 8)
    found = predicted([measured(one, by_model(one))], span(2, 16, 16))
    assert "a hop across nodes" in found.model.assumed
    assert "the bandwidth across nodes" in found.model.assumed
    assert found.curve.extrapolated is not None
    assert found.curve.extrapolated.error is None
    assert all(p.low_us == p.time_us == p.high_us for p in found.curve.points)


def test_few_sizes_of_two_nodes_mend_what_they_show() -> None:
    """A small call shows the hop, a large one the bandwidth, and nothing shows the rest."""
    one, two = span(1, 8, 8), span(2, 16, 16)
    truth = by_model(two)
    small, large = SIZES[0], SIZES[-1]

    def off(*sizes: int) -> float:
        few = [measured(two, {n: truth[n] for n in sizes})] if sizes else []
        found = predicted([measured(one, by_model(one)), *few], two)
        # What lies between is that of one node all the same.
        assert "what lines leave over across nodes" in found.model.assumed
        return max(abs(p.time_us / truth[p.nbytes] - 1) for p in found.curve.points)

    assert off() > 0.4
    assert off(small, large) < 0.05


@pytest.mark.parametrize("growth", [1, 2])
def test_further_scales_are_less_certain(growth: int) -> None:
    """Two doublings beyond what was measured have twice the error of one."""
    spans = [span(1, 8 * n, n) for n in (1, 2, 4)]
    # A latency that grows with the square of the ranks, which no hops explain.
    curves = [
        measured(one, {n: 20 + one.scale.n_ranks**2 / 20 + n / 1e4 for n in SIZES}) for one in spans
    ]
    near, far = (
        predicted(curves, span(1, 32 * 2**times, 4 * 2**times)).curve.extrapolated
        for times in (1, growth)
    )
    assert near is not None
    assert far is not None
    assert near.error is not None
    assert far.error is not None
    assert 1 + far.error == pytest.approx((1 + near.error) ** growth, rel=0.01)


def test_scales_left_out_are_missed_by_what_predicting_them_misses_them_by() -> None:
    """The errors in the record are those of predictions that did not see the scale."""
    spans = [span(1, 8 * n, n) for n in (1, 2, 4)]
    curves = [
        measured(one, {n: 20 + one.scale.n_ranks**1.5 + n / 2e4 for n in SIZES}) for one in spans
    ]
    model = predicted(curves, span(1, 64, 8)).model
    left_out = model.errors[-1]
    assert left_out.span == spans[-1]
    again = scaling.predict(curves[:2], spans[-1], model.shape)
    assert again is not None
    truth = {p.nbytes: p.time_us for p in curves[-1].curve.points}
    off = [p.time_us / truth[p.nbytes] - 1 for p in again.curve.points]
    assert left_out.worst == pytest.approx(max(off, key=abs))
    assert not left_out.unseen
    # Nothing but eight ranks stays inside an OAM.
    assert model.errors[0].unseen


def test_a_knee_is_carried_over_where_lines_lose_it() -> None:
    """A ring whose step doubles above 64 KiB of a rank's share does so at 64 ranks too."""

    def times(where: Span) -> dict[int, float]:
        n_ranks = where.scale.n_ranks
        steps = 2 * (n_ranks - 1)
        return {
            n: 12 + steps * (1 + n / n_ranks / 4e4) * (2 if n / n_ranks > 65536 else 1)
            for n in SIZES
        }

    spans = [span(1, 8 * n, 8 * n) for n in (1, 2, 4)]
    target = span(1, 64, 64)
    curves = [measured(one, times(one)) for one in spans]
    worst: dict[Shape | None, float] = {}
    for shape in (None, Shape.LINE):
        found = scaling.predict(curves, target, shape)
        assert found is not None
        worst[shape] = max(abs(p.time_us / times(target)[p.nbytes] - 1) for p in found.curve.points)
    assert worst[None] < 0.03
    assert worst[Shape.LINE] > 0.2


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """Some ranks on some nodes."""
    n_nodes = draw(st.integers(1, 4))
    per_node, per_oam = (
        draw(st.integers(1 if n_nodes > 1 else 2, 16)),
        draw(st.sampled_from([1, 2, 8])),
    )
    return span(n_nodes, n_nodes * per_node, n_nodes * -(-per_node // per_oam))


TABLES = st.dictionaries(
    st.sampled_from(SIZES), st.floats(1e-2, 1e7, allow_nan=False), min_size=1, max_size=8
)


@given(
    st.lists(st.tuples(spans(), TABLES), min_size=1, max_size=4),
    spans(),
    st.sampled_from([*SETTINGS, "baseline"]),
    st.sampled_from([*TUNABLE]),
)
def test_any_times_give_a_curve_in_which_nothing_is_nonsense(
    known: list[tuple[Span, dict[int, float]]],
    target: Span,
    setting: str,
    collective: Collective,
) -> None:
    """Few sizes, one rank, times that no machine has: positive times, and an error or none."""
    curves = [measured(where, times, setting, collective) for where, times in known]
    found = scaling.predict(curves, target)
    if found is None:
        assert setting.startswith("tree")
        assert collective is not Collective.ALL_REDUCE
        return
    # Of two curves of one span the first counts.
    wanted = {n for times in dict(reversed(known)).values() for n in times}
    assert {point.nbytes for point in found.curve.points} == wanted
    for point in found.curve.points:
        assert 0 < point.low_us <= point.time_us <= point.high_us < float("inf")
    assert found.curve.extrapolated is not None
    error = found.curve.extrapolated.error
    assert (error is None) == bool(found.model.assumed)
    assert error is None or error >= 0.03


@pytest.mark.parametrize("collective", TUNABLE)
@pytest.mark.parametrize("algorithm", [Algorithm.RING, Algorithm.TREE])
@pytest.mark.parametrize("where", [(1, 8, 1), (1, 64, 8), (1, 8, 8), (2, 16, 16), (4, 256, 32)])
def test_hops_add_up_to_rccls_own_steps(
    collective: Collective, algorithm: Algorithm, where: tuple[int, int, int]
) -> None:
    """Dividing them by link adds none and loses none."""
    one = span(*where)
    found = scaling.hops(collective, algorithm, one)
    steps = fit.rccl_steps(collective, algorithm, one.scale)
    assert (None if found is None else sum(found.values())) == steps
    assert found is None or min(found.values()) >= 0


def refuse(make: Callable[[], object]) -> str:
    """What a record says when it refuses."""
    with pytest.raises(ValueError, match="cannot lie") as caught:
        make()
    return str(caught.value)


def test_ranks_cannot_lie_on_more_packages_than_there_are_ranks() -> None:
    """Nor on fewer than nodes."""
    assert "9 OAMs" in refuse(lambda: span(1, 8, 9))
    assert "1 OAM" in refuse(lambda: span(2, 8, 1))


def test_what_rccl_counts_no_steps_of_is_not_predicted() -> None:
    """alltoall asks no tuner."""
    one = measured(span(1, 8, 1), {1024: 10.0}, "ring/ll", Collective.ALLTOALL)
    assert scaling.predict([one], span(1, 16, 2)) is None


def test_public_figures_two_nodes_from_one(shared_data: Path) -> None:
    """MI355X: badly off from one node alone, as nothing of the network was measured."""
    curves = fit.curves(public_sweeps.channel_sweep(shared_data, 56)).curves
    truth = fit.curves(public_sweeps.gpu107(shared_data, "mi355x_2n16r_allreduce")).curves
    for curve in curves:
        parts = curve.key.setting
        name = f"{parts.algorithm.value}/{parts.protocol.value}"  # type: ignore[union-attr] - both are named in this sweep
        two = next(
            c
            for c in truth
            if str(c.key.setting) == name and c.key.placement is Placement.OUT_OF_PLACE
        )
        times = {p.nbytes: p.time_us for p in two.points}
        one = measured(span(1, 8, 8), {p.nbytes: p.time_us for p in curve.points}, name)
        ends = measured(span(2, 16, 16), {n: times[n] for n in (min(times), max(times))}, name)

        def median_off(known: list[Measured], truth_us: dict[int, float] = times) -> float:
            found = predicted(known, span(2, 16, 16))
            assert found.curve.extrapolated is not None
            assert found.curve.extrapolated.error is None
            off = sorted(abs(p.time_us / truth_us[p.nbytes] - 1) for p in found.curve.points)
            return off[len(off) // 2]

        assert median_off([one]) > 0.25, name
        assert median_off([one, ends]) < 0.15, name
