"""Figure data against values worked out by hand or by another way."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rccltune.model.chosen import LeftOut, Proof
from rccltune.model.curves import Model, Segment
from rccltune.model.failure import Failure, Quarantine
from rccltune.model.links import Ceiling, Link
from rccltune.model.settings import BASELINE, SILENT, Scale, Setting, Variant
from rccltune.model.vocabulary import Collective, Placement
from rccltune.report.figures.cast import MAX_LEADS, scenes
from rccltune.report.figures.lines import (
    HIGHEST,
    LOWEST,
    bandwidth_data,
    channel_data,
    evenly,
    speedup_data,
)
from rccltune.report.figures.look import bands, geometric, model_paths
from rccltune.report.figures.scene import PlotInput, Scene
from rccltune.report.figures.table import MAX_COLUMNS, table_data
from rccltune.report.figures.times import MAX_CROSSINGS, time_data

KIB, MIB = 1024, 1024**2


def only(given_input: PlotInput) -> Scene:
    """The one scene of an input."""
    (scene,) = scenes(given_input)
    return scene


def labels(scene: Scene) -> list[str]:
    """Labels of the strongly drawn."""
    return [series.label for series in scene.leads]


class TestScene:
    """Who is drawn, and how strongly."""

    def test_one_lead_for_each_family_and_the_baseline_first(self, swept: PlotInput) -> None:
        """Of fifteen settings in three families, three lead; the rest stays faint."""
        scene = only(swept)
        assert labels(scene) == ["baseline", "tree/ll/56", "ring/ll/56", "ring/simple/56"]
        assert len(scene.faint) == 12

    def test_the_lead_is_nearest_to_its_familys_best(self, make: SimpleNamespace) -> None:
        """Least mean log ratio: 2 channels lose 4 % twice, 1 and 4 lose 50 % once."""
        times = {1: (10, 30), 2: (10.4, 20.8), 4: (15, 20)}
        curves = tuple(make.curve(f"ring/ll/{c}", {8: a, 16: b}) for c, (a, b) in times.items())
        assert labels(only(PlotInput(curves=curves))) == ["ring/ll/2"]

    def test_a_channel_count_measured_at_one_size_does_not_lead(
        self, make: SimpleNamespace
    ) -> None:
        """However fast it was there: a line must span what was measured."""
        curves = (make.curve("ring/ll/8", {8: 5.0}), make.curve("ring/ll/4", {8: 6.0, 16: 7.0}))
        assert labels(only(PlotInput(curves=curves))) == ["ring/ll/4"]

    def test_equal_channel_counts_go_to_the_fewest(self, make: SimpleNamespace) -> None:
        """A tie is led by the setting that costs fewer compute units."""
        curves = tuple(make.curve(f"ring/ll/{c}", {8: 5.0}) for c in (8, 4, 16))
        assert labels(only(PlotInput(curves=curves))) == ["ring/ll/4"]

    def test_no_more_leads_than_can_be_told_apart(self, make: SimpleNamespace) -> None:
        """With twelve families the slowest go to the background; the baseline never does."""
        algorithms = ("tree", "ring", "nvls", "pat")
        names = [f"{a}/{p}" for a in algorithms for p in ("ll", "ll128", "simple")]
        curves = [make.curve(name, {8: 10.0 + i}) for i, name in enumerate(names)]
        scene = only(PlotInput(curves=(*curves, make.curve(BASELINE, {8: 1000.0}))))
        assert len(scene.leads) == MAX_LEADS
        assert scene.leads[0].label == "baseline"
        assert {s.label for s in scene.faint} == {"pat/ll", "pat/ll128", "pat/simple"}

    def test_targets_are_drawn_apart(self, make: SimpleNamespace, published: PlotInput) -> None:
        """Two collectives are two scenes, with their own zones and crossovers."""
        other = make.curve("ring/ll", {8: 1.0}, collective=Collective.BROADCAST)
        both = scenes(replace(published, curves=(*published.curves, other)))
        assert [s.stem for s in both] == ["all_reduce-1n64r", "broadcast-1n64r"]
        assert (len(both[0].zones), len(both[1].zones)) == (4, 0)
        assert (len(both[0].crossovers), len(both[1].crossovers)) == (2, 0)

    def test_out_of_place_is_drawn_before_in_place(self, make: SimpleNamespace) -> None:
        """In-place alone is drawn too, where nothing else is there."""
        out = make.curve("ring/ll", {8: 2.0})
        inside = make.curve("ring/ll", {8: 3.0}, placement=Placement.IN_PLACE)
        assert only(PlotInput(curves=(inside, out))).leads[0].curve is out
        assert only(PlotInput(curves=(inside,))).leads[0].curve is inside

    def test_the_plugin_answering_nothing_is_drawn_only_where_nothing_else_is_untouched(
        self, make: SimpleNamespace
    ) -> None:
        """It is the untouched site once more; without a baseline, or as one, it is shown."""
        silent = make.curve(SILENT, {8: 9.0})
        curves = (silent, make.curve("ring/ll", {8: 5.0}))
        base = make.curve(BASELINE, {8: 10.0})
        assert labels(only(PlotInput(curves=(base, *curves)))) == ["baseline", "ring/ll"]
        assert "silent" in labels(only(PlotInput(curves=curves)))
        named = only(PlotInput(curves=(base, *curves), baseline=SILENT))
        assert labels(named)[0] == "silent"

    def test_few_settings_show_graph_and_no_graph_side_by_side(self, make: SimpleNamespace) -> None:
        """A session of the baseline alone compares its two ways of being called."""
        curves = tuple(make.curve(BASELINE, {8: 9.0 - 4 * g}, graph=bool(g)) for g in (0, 1))
        scene = only(PlotInput(curves=curves))
        assert sorted(labels(scene)) == ["baseline graph", "baseline no graph"]
        assert speedup_data(scene) is not None

    def test_other_views_are_named_when_left_out(self, make: SimpleNamespace) -> None:
        """Four settings with graph are not drawn beside four without, and it is said."""
        names = ("ring/ll", "tree/ll", "ring/simple", "tree/simple")
        curves = [make.curve(n, {8: 1.0}, graph=g) for n in names for g in (False, True)]
        scene = only(PlotInput(curves=tuple(curves)))
        assert len(scene.leads) == 4
        assert [str(view) for view in scene.views_left_out] == ["float sum out-of-place graph"]

    def test_a_baseline_may_be_any_setting_or_a_variant(
        self, make: SimpleNamespace, published: PlotInput
    ) -> None:
        """As --baseline says; an unknown variant gives none."""
        named = only(replace(published, baseline=Setting.parse("ring/simple")))
        assert named.baseline is not None
        assert named.baseline.label == "ring/simple"
        assert only(published).baseline is None
        base = PlotInput(curves=(make.curve(BASELINE, {8: 1.0}),), baseline="default")
        assert only(base).baseline is not None
        assert only(replace(base, baseline="other")).baseline is None

    def test_what_cannot_be_selected_carries_its_reason(self, published: PlotInput) -> None:
        """Patched libraries, wrong results, and what the choice left out."""
        left = LeftOut(
            target=published.curves[0].key.target,
            setting=Setting.parse("ring/ll128"),
            variant=published.curves[0].key.variant,
            reason="not built",
        )
        wrong = replace(published.curves[1], n_wrong=3)
        curves = (published.curves[0], wrong, *published.curves[2:])
        scene = only(replace(published, curves=curves, left_out=(left,)))
        reasons = {s.label: s.unselectable for s in scene.leads if s.unselectable}
        assert reasons == {
            "tree/simple [patched]": "needs a patched library",
            "ring/ll128": "not built",
            "ring/ll": "3 wrong results",
        }


class TestBandwidth:
    """GB/s as nccl-tests defines it."""

    @pytest.mark.parametrize(
        ("collective", "factor"),
        [
            (Collective.ALL_REDUCE, 2 * 63 / 64),
            (Collective.ALL_GATHER, 63 / 64),
            (Collective.BROADCAST, 1.0),
        ],
    )
    def test_closed_form(
        self, make: SimpleNamespace, collective: Collective, factor: float
    ) -> None:
        """1e9 bytes in 1e4 µs is 100 GB/s, times 2(n-1)/n, (n-1)/n or 1."""
        curve = make.curve("ring/simple", {10**9: 1e4}, collective=collective)
        data = bandwidth_data(only(PlotInput(curves=(curve,))))
        assert data is not None
        assert data.leads[0].points[0].busbw == pytest.approx(100 * factor, rel=1e-12)

    def test_seed_ones_best(self, published: PlotInput) -> None:
        """128 MiB in 9996 µs on 64 ranks is 26.43 GB/s."""
        data = bandwidth_data(only(published))
        assert data is not None
        peak = {line.series.label: line.points[-1].busbw for line in data.leads}
        assert peak["ring/simple"] == pytest.approx(26.43, abs=0.01)

    def test_the_ceiling_of_its_own_target(self, make: SimpleNamespace) -> None:
        """What all lines reached of it at best; others' ceilings and lossy lines do not count."""
        scale = Scale(n_nodes=1, n_ranks=8)
        lossy = Variant(name="low-precision", lossy=True)
        curves = (
            make.curve("ring/ll", {MIB: 50.0}, scale=scale),
            make.curve("ring/simple", {MIB: 60.0}, scale=scale),
            make.curve("ring/ll128", {MIB: 1.0}, scale=scale, variant=lossy),
        )
        mine = Ceiling(
            collective=curves[0].key.collective,
            scale=scale,
            rank_placement=None,
            n_links=7,
            slowest=Link(source=2, target=5, gb_per_s=10.0),
            all_links_gb_per_s=80.0,
        )
        other = replace(mine, scale=Scale(n_nodes=2, n_ranks=16))
        data = bandwidth_data(only(PlotInput(curves=curves, ceilings=(other, mine))))
        assert data.ceiling.ceiling == mine
        # 1 MiB in 50 µs is 20.97 GB/s; all_reduce of 8 ranks sends 7/4 of it.
        assert data.ceiling.reached.busbw == pytest.approx(1.75 * 2**20 / 50.0 / 1e3)
        assert data.ceiling.label == (
            "ceiling 70 GB/s = 7 × 10 (slowest link, 2→5); reached 0.52 at 1 MiB"
        )
        assert bandwidth_data(only(PlotInput(curves=curves, ceilings=(other,)))).ceiling is None

    def test_a_slow_end_of_time_is_the_low_end_of_bandwidth(self, make: SimpleNamespace) -> None:
        """±10 % in time is 1/1.1 and 1/0.9 in bandwidth; one run has no interval."""
        curve = make.curve("ring/simple", {MIB: 100.0}, spread=0.1)
        point = bandwidth_data(only(PlotInput(curves=(curve,)))).leads[0].points[0]
        assert point.low == pytest.approx(point.busbw / 1.1)
        assert point.high == pytest.approx(point.busbw / 0.9)
        single = make.curve("ring/simple", {MIB: 100.0})
        assert bandwidth_data(only(PlotInput(curves=(single,)))).leads[0].points[0].low is None


class TestSpeedup:
    """Baseline time over a setting's time."""

    def test_only_sizes_that_both_have(self, make: SimpleNamespace) -> None:
        """Nothing is held against an interpolated baseline."""
        base = make.curve(BASELINE, {8: 10.0, 32: 20.0})
        curve = make.curve("ring/ll", {8: 5.0, 16: 5.0, 32: 40.0})
        data = speedup_data(only(PlotInput(curves=(base, curve))))
        assert [(p.nbytes, p.ratio) for p in data.leads[0].points] == [(8, 2.0), (32, 0.5)]

    def test_the_interval_is_the_worst_and_best_case_of_both(self, make: SimpleNamespace) -> None:
        """Fastest baseline over slowest run, and the reverse."""
        base = make.curve(BASELINE, {8: 100.0}, spread=0.1)
        curve = make.curve("ring/ll", {8: 50.0}, spread=0.2)
        point = speedup_data(only(PlotInput(curves=(base, curve)))).leads[0].points[0]
        assert (point.low, point.ratio, point.high) == pytest.approx((90 / 60, 2.0, 110 / 40))

    def test_no_baseline_no_figure(self, published: PlotInput, make: SimpleNamespace) -> None:
        """Nor where there is the baseline alone."""
        assert speedup_data(only(published)) is None
        alone = PlotInput(curves=(make.curve(BASELINE, {8: 1.0}),))
        assert speedup_data(only(alone)) is None

    def test_chosen_settings_are_cut_to_their_zones(self, swept: PlotInput) -> None:
        """Also those that do not lead their family; bounds are inclusive."""
        data = speedup_data(only(swept))
        spans = [(c.series.label, c.points[0].nbytes, c.points[-1].nbytes) for c in data.chosen]
        assert spans == [
            ("tree/ll/16", 4 * KIB, 64 * KIB),
            ("ring/ll/56", 128 * KIB, MIB),
        ]

    def test_a_stalled_baseline_does_not_set_the_axis(self, make: SimpleNamespace) -> None:
        """One row 500 times too slow is cut; 0.01 is cut; 1 is always inside."""
        base = make.curve(BASELINE, {2**i: 5000.0 if i == 3 else 10.0 for i in range(3, 12)})
        slow = make.curve("ring/ll", {2**i: 1000.0 if i == 9 else 10.0 for i in range(3, 12)})
        assert speedup_data(only(PlotInput(curves=(base, slow)))).reach == (LOWEST, HIGHEST)

    def test_a_real_gain_is_not_cut(self, make: SimpleNamespace) -> None:
        """Where most points lie above ten, the axis goes there."""
        curves = (
            make.curve(BASELINE, {8: 200.0, 16: 300.0}),
            make.curve("ring/ll", {8: 10, 16: 10}),
        )
        assert speedup_data(only(PlotInput(curves=curves))).reach == (1.0, 30.0)


class TestTimes:
    """Curves, crossings, residuals."""

    def test_a_straight_line_is_followed_exactly_inside_its_range(
        self, make: SimpleNamespace
    ) -> None:
        """Exactly a + b·n at every drawn size, both ends included, nothing outside."""
        curve = make.curve("ring/ll", {1000: 10.0, 100_000: 20.0})
        (path,) = model_paths(curve, Model.LINEAR)
        assert (path[0][0], path[-1][0]) == (1000.0, 100_000.0)
        assert all(y == pytest.approx(10.0 + 1e-5 * x) for x, y in path)

    def test_segments_are_cut_to_what_was_measured(self, make: SimpleNamespace) -> None:
        """A segment that was declared wider does not extrapolate; one outside is not drawn."""
        curve = make.curve("ring/ll", {1000: 10.0, 100_000: 20.0})
        wide = Segment(min_nbytes=1, max_nbytes=5000, latency_us=1, us_per_byte=0)
        off = Segment(min_nbytes=200_000, max_nbytes=300_000, latency_us=1, us_per_byte=0)
        fit = replace(curve.fits[0], model=Model.SEGMENTED, segments=(wide, off))
        (path,) = model_paths(replace(curve, fits=(fit,)), Model.SEGMENTED)
        assert (path[0][0], path[-1][0]) == (1000.0, 5000.0)
        assert model_paths(replace(curve, fits=()), Model.LINEAR) == ()

    def test_a_crossing_lies_on_the_curve_below_it(self, published: PlotInput) -> None:
        """637 KiB: between 119 µs at 256 KiB and 286 µs at 1 MiB, straight in log-log."""
        crossing = time_data(only(published)).crossings[0]
        share = math.log(637 / 256) / math.log(4)
        assert crossing.time_us == pytest.approx(119 * (286 / 119) ** share)
        assert crossing.label.startswith("tree/ll → tree/ll128 at 637 KiB (")

    def test_too_many_crossings_keep_the_rules_borders(
        self, make: SimpleNamespace, published: PlotInput
    ) -> None:
        """The crossovers at which rules change are never those left out."""
        curve = published.curves[0]
        others = [make.crossover(curve, "ring/ll", "tree/simple", 100.0 * i) for i in range(1, 20)]
        given_input = replace(published, crossovers=(*others, *published.crossovers))
        data = time_data(only(given_input))
        assert len(data.crossings) == MAX_CROSSINGS
        assert data.n_crossings_left_out == 21 - MAX_CROSSINGS
        assert set(published.crossovers) <= {c.crossover for c in data.crossings}

    def test_residuals_are_percent_and_name_the_model_used(self, published: PlotInput) -> None:
        """The fixture's line lies 10 % above every point."""
        panel = time_data(only(published)).residuals[0]
        assert [y for _, y in panel.textbook] == pytest.approx([10.0] * 7)
        assert panel.note == "log-log 3.0%"

    def test_zones_meet_at_one_line_and_are_cut_to_the_axis(self, published: PlotInput) -> None:
        """Where max = 70 and min = 71 share a border; zones outside the axis are not drawn."""
        cut = bands(published.zones, 32.0, 1e6)
        assert [band.low for band in cut] == [32.0, 71.0, 637 * KIB + 1.0]
        assert [band.high for band in cut] == [71.0, 637 * KIB + 1.0, 1e6]


class TestChannels:
    """Time against channels."""

    def test_the_fastest_with_each_number_of_channels(self, make: SimpleNamespace) -> None:
        """Of two families at 4 channels the faster one; the best is over all numbers."""
        times = {"ring/ll/2": 30.0, "ring/ll/4": 31.0, "tree/ll/4": 25.0, "tree/ll/8": 20.0}
        curves = tuple(make.curve(name, {8: t}) for name, t in times.items())
        (line,) = channel_data(only(PlotInput(curves=curves)))
        found = {n: (us, str(setting)) for n, (us, setting) in line.fastest.items()}
        assert found == {2: (30.0, "ring/ll/2"), 4: (25.0, "tree/ll/4"), 8: (20.0, "tree/ll/8")}
        assert line.best_us == 20.0

    def test_the_fewest_that_are_enough(self, make: SimpleNamespace) -> None:
        """4 channels are 1 % behind the best with 16 and enough; 2 are 3 % behind and are not."""
        times = {"ring/ll/2": 103.0, "ring/ll/4": 101.0, "ring/ll/8": 104.0, "ring/ll/16": 100.0}
        curves = tuple(make.curve(name, {8: t}) for name, t in times.items())
        (line,) = channel_data(only(PlotInput(curves=curves)))
        assert line.fewest == 4

    def test_a_handful_of_sizes_with_both_ends(self, swept: PlotInput) -> None:
        """Six of eighteen, each with the five numbers that were swept."""
        lines = channel_data(only(swept))
        assert len(lines) == 6
        assert (lines[0].nbytes, lines[-1].nbytes) == (4 * KIB, 512 * MIB)
        assert all(list(line.fastest) == [1, 4, 16, 32, 56] for line in lines)

    def test_no_sweep_no_figure(self, published: PlotInput, make: SimpleNamespace) -> None:
        """One channel count is no sweep either."""
        assert channel_data(only(published)) == ()
        one = PlotInput(curves=(make.curve("ring/ll/4", {8: 1.0}),))
        assert channel_data(only(one)) == ()

    def test_evenly_keeps_the_ends(self) -> None:
        """And everything where there is room."""
        assert evenly(range(1, 102), 3) == (1, 51, 101)
        assert evenly((1, 2), 6) == (1, 2)


class TestTable:
    """Best per row, ratios, marks."""

    def test_best_per_row(self, published: PlotInput) -> None:
        """By eye from the published table."""
        data = table_data(only(published))
        names = [column.label for column in data.columns]
        best = [[n for n, cell in zip(names, row, strict=True) if cell.best] for row in data.rows]
        expected = ["ring/ll", "tree/ll", "tree/ll", "tree/ll", "tree/ll128"]
        assert best == [[name] for name in [*expected, "ring/simple", "ring/simple"]]

    def test_ratios_and_choices(self, published: PlotInput) -> None:
        """AMD's own rule at 4 MiB is tree/ll128: 652 / 418 = 1.56 times the best."""
        data = table_data(only(published))
        row = {c.label: cell for c, cell in zip(data.columns, data.rows[5], strict=True)}
        assert row["tree/ll128"].ratio == pytest.approx(652 / 418)
        assert row["ring/simple"].ratio == 1.0
        assert not any(cell.best_selectable for cell in row.values())
        assert [name for name, cell in row.items() if cell.chosen] == ["ring/simple"]

    @pytest.mark.parametrize("proof", [Proof.UNPROVEN, Proof.NO_BASELINE])
    def test_what_nothing_proves_is_marked(self, published: PlotInput, proof: Proof) -> None:
        """In the table and in the zones of every figure; what repeats prove is not."""
        zones = tuple(replace(zone, proof=proof) for zone in published.zones)
        proven = tuple(replace(zone, proof=Proof.REPEATED) for zone in published.zones)
        for made, is_marked in ((zones, True), (proven, False)):
            data = table_data(only(replace(published, zones=made)))
            chosen = [cell for row in data.rows for cell in row if cell.chosen]
            assert len(chosen) == 7
            assert {cell.is_doubted for cell in chosen} == {is_marked}
            labels = [band.labels[0] for band in bands(made, 1, 1 << 30)]
            assert {"not proven" in label for label in labels} == {is_marked}

    def test_where_the_best_cannot_be_selected_the_best_that_can_is_marked(
        self, make: SimpleNamespace
    ) -> None:
        """A disqualified winner stays visible, with the reason in a footnote."""
        winner = replace(make.curve("ring/ll", {8: 1.0}), n_wrong=1)
        curves = (winner, make.curve("tree/ll", {8: 2.0}), make.curve("ring/simple", {8: 3.0}))
        data = table_data(only(PlotInput(curves=curves)))
        cells = {c.label: cell for c, cell in zip(data.columns, data.rows[0], strict=True)}
        assert (cells["ring/ll"].best, cells["ring/ll"].best_selectable) == (True, False)
        assert [n for n, cell in cells.items() if cell.best_selectable] == ["tree/ll"]
        assert data.footnotes == ("ring/ll: 1 wrong results",)

    def test_a_quarantined_setting_is_missing_for_a_reason(self, make: SimpleNamespace) -> None:
        """Of this collective only: nobody should wonder where tree/ll is."""
        curves = (make.curve("ring/ll", {8: 1.0}), make.curve("ring/simple", {8: 2.0}))
        one = Quarantine(
            collective=curves[0].key.collective,
            setting=Setting.parse("tree/ll"),
            variant=curves[0].key.variant,
            scale=curves[0].key.scale,
            rank_placement=None,
            launches=("a", "b"),
            failures=(Failure.HANG, Failure.HANG),
        )
        other = replace(one, collective=Collective.BROADCAST)
        data = table_data(only(PlotInput(curves=curves, quarantined=(one, other))))
        assert data.missing == ("tree/ll: quarantined, it hung in 2 launches",)

    def test_a_missing_cell_is_none_and_a_tie_is_two(self, make: SimpleNamespace) -> None:
        """Not 0, not NaN; equal times are equally best."""
        curves = (
            make.curve("ring/ll", {8: 1.0}),
            make.curve("tree/ll", {8: 1.0, 16: 2.0}),
        )
        data = table_data(only(PlotInput(curves=curves)))
        assert [cell.best for cell in data.rows[0]] == [True, True]
        assert [cell.time_us for cell in data.rows[1]] == [None, 2.0]

    def test_thirty_settings_show_leads_choices_and_winners(self, real_sweep: PlotInput) -> None:
        """Every row's best is in a shown column, as an independent search finds it."""
        data = table_data(only(real_sweep))
        assert len(data.columns) <= MAX_COLUMNS < data.n_settings == 31
        for nbytes, row in zip(data.sizes, data.rows, strict=True):
            times = [p.time_us for c in real_sweep.curves for p in c.points if p.nbytes == nbytes]
            assert min(cell.time_us for cell in row if cell.best) == min(times)


def test_geometric_has_equal_ratios() -> None:
    """1, 10, 100 on three points."""
    assert geometric(1, 100, 3) == pytest.approx((1.0, 10.0, 100.0))
