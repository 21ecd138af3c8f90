"""Node files: every mistake at once with its place, the compiled form, the truth's rules."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulation import Sim, Small
from true_times import truth, variants_holding

from rccltune.model.errors import CommandLineError, InputFileError
from rccltune.simulate.compiled import compile_node
from rccltune.simulate.modelled import interpolate
from rccltune.simulate.sources import load_node, node_path, shipped_nodes


def test_shipped_nodes_are_found_by_product_and_mode() -> None:
    """--simulate mi300x --mode cpx-nps4."""
    assert {"mi300x-cpx-nps4", "mi300x-spx-nps1"} < set(shipped_nodes())
    assert node_path("mi300x", "cpx-nps4").name == "mi300x-cpx-nps4.yaml"
    assert node_path("some/where.yaml") == Path("some/where.yaml")
    with pytest.raises(CommandLineError, match="tpx-nps1"):
        node_path("mi300x", "tpx-nps1")


def test_all_mistakes_are_listed_with_their_places(tmp_path: Path) -> None:
    """One go at mending, not nine."""
    path = tmp_path / "bad.yaml"
    path.write_text(
        "format: 2\n"
        "name: Bad Name\n"
        "hardware: {product: X, arch: gfx942, mode: cpx-nps4, compute_units: no, memory_gib: 24}\n"
        "scale: {ranks: 0}\n"
        "release: {rccl: 2.28.3, benchmark: rtnew}\n"
        "library: {channels: 32, graph: {ring: {channels: 1, bw_intra: 1}}, colour: red}\n"
        "curves:\n"
        "  - {collective: all_reduce, setting: tree/ll, kind: guessed, source: x, points: [[8]]}\n"
        "effects:\n"
        "  - {factor: 1, points: [[8, 1]]}\n"
    )
    with pytest.raises(InputFileError) as caught:
        load_node(path)
    text = str(caught.value)
    for place, message in (
        ("1:9", "format is '2', not one of 1"),
        ("2:7", "name is 'Bad Name', which is no match"),
        ("3:74", "hardware.compute_units is 'no' and must be a whole number"),
        ("4:16", "scale.ranks is '0', below 1"),
        ("6:36", "library.graph lacks tree"),
        ("6:83", "unknown key 'colour'"),
        ("8:58", "curves[0].kind is 'guessed'"),
        ("8:86", "curves[0].points[0] has fewer than 2 elements"),
        ("10:5", "effects[0] needs exactly one of factor, points, between, by_channels"),
    ):
        assert message in text
        line = next(x for x in text.splitlines() if message in x)
        assert line.strip().startswith(f"{path}:{place.split(':')[0]}:"), line


def test_mistakes_that_a_schema_cannot_see(small: Small) -> None:
    """Names, orders and ranges that refer to each other."""
    more = (
        "  - {collective: all_reduce, setting: tree/fast, kind: modelled, source: x, points: [[8, 1]]}\n"
        "  - {collective: all_reduce, setting: p2p, variant: gone, kind: modelled, source: x, points: [[9, 1], [8, 1]]}\n"
        "  - {collective: all_reduce, setting: p2p, measured: [9, 8], kind: measured, source: x, points: [[8, 1]]}\n"
        "  - {collective: all_reduce, setting: p2p, measured: [8, 9], kind: modelled, source: x, points: [[8, 1]]}\n"
        "effects: [{between: {low: 1.5, high: 1.2, factor: 2}}, {bytes: [9, 8], factor: 2}]\n"
        "bypasses: [{path: nowhere}]\n"
        "faults: [{kind: substitute}, {kind: differs, with: tree/ll}]\n"
        "noise: {drift: [[5, 1], [5, 2]]}\n"
    )
    with pytest.raises(InputFileError) as caught:
        load_node(small(more))
    text = str(caught.value)
    for message in (
        "curves[6].setting is 'tree/fast'",
        "curves[7].variant is 'gone'",
        "curves[7].points has sizes that do not ascend",
        "curves[8].measured has its minimum above its maximum",
        "curves[9].measured stands in a curve that is modelled",
        "effects[0].between must have low below high",
        "effects[1].bytes has its minimum above its maximum",
        "bypasses[0].path is 'nowhere'",
        "faults[0] of kind substitute lacks with",
        "faults[1] of kind differs lacks rank",
        "noise.drift has seconds that do not ascend",
    ):
        assert message in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("noise: {sigma: 2}", "noise.sigma is '2', above 1"),
        ("noise: {launch_sigma: much}", "noise.launch_sigma is 'much' and must be a number"),
        ("noise: {setting_sigma: [[8, 2]]}", "noise.setting_sigma[0][1] is '2', above 1"),
        ("noise: {setting_sigma: []}", "noise.setting_sigma has fewer than 1 elements"),
        ("noise: {sigma: [[8, 0.1], [8, 0.2]]}", "noise.sigma has sizes that do not ascend"),
        ("faults: [{kind: shift}]", "faults[0] of kind shift lacks passes"),
        ("faults: [{kind: shift, passes: 0}]", "faults[0].passes is '0', not one of 1, -1"),
        (
            "faults: [{kind: shift, passes: 1, setting: tree/ll}]",
            "faults[0].setting stands in a shift, which is of the whole launch",
        ),
        (
            "effects: [{mixed: true, after: {setting: tree/ll, within: launch}, factor: 2}]",
            "effects[0] cannot be both mixed and after",
        ),
        (
            "effects: [{after: {setting: tree/fast, within: pass}, factor: 2}]",
            "effects[0].after.setting is",
        ),
        (
            "effects: [{after: {setting: tree/ll, within: day}, factor: 2}]",
            "not one of launch, pass",
        ),
        ("effects: [{after: {setting: tree/ll}, factor: 2}]", "effects[0].after lacks within"),
        ("effects: [{first: false, factor: 2}]", "effects[0].first is 'false', not one of true"),
    ],
)
def test_mistakes_in_noise_faults_and_effects(small: Small, text: str, said: str) -> None:
    """A number is told as a number, a point as a point; each with its place."""
    with pytest.raises(InputFileError) as caught:
        load_node(small(f"{text}\n"))
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "a: [", "name: x\nname: y\n", "\x00"])
def test_what_is_no_node_file_is_refused(tmp_path: Path, text: str) -> None:
    """With an error of ours, not a traceback."""
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(InputFileError):
        load_node(path)


def test_compiled_form_is_ascii_and_ends_with_end(small: Small) -> None:
    """What the C reader insists on."""
    text = small().read_text().replace("a test", "'ein Artikel, 5 µs'")
    path = small()
    path.write_text(text, encoding="utf-8")
    compiled = compile_node(load_node(path)).decode("ascii")
    assert compiled.startswith("rccltune-node 3\n")
    assert compiled.endswith("\nend\n")
    assert "ein%20Artikel,%205%20%C2%B5s" in compiled
    assert " 1 8 1048576 " in compiled


def test_compiled_form_that_was_cut_off_is_refused(sim: Sim, small: Small) -> None:
    """A half-written file never becomes times."""
    compiled = compile_node(load_node(small()))
    target = sim.scratch / "cut.node"
    target.write_bytes(compiled[: len(compiled) // 2])
    done = subprocess.run(
        [str(sim.folder / "bin/all_reduce_perf")],
        env={"RCCLTUNE_SIM_NODE": str(target)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 64
    assert "cut.node, line " in done.stderr


def test_variants_hold_where_all_conditions_do(small: Small) -> None:
    """Of the environment and of how the benchmark was called."""
    node = load_node(
        small(
            "variants:\n"
            "  - {name: a, when: {env: {X: '1'}, unset: [Y], graph: true}}\n"
            "  - {name: b, when: {graph_launches: 2, registered: true}}\n"
            "  - {name: c, when: {threads: true}}\n"
            "  - {name: d, when: {gpus: true, set: [Y]}}\n"
            "  - {name: e, when: {patch: p}}\n"
            "  - {name: f, when: {set: [Z], without: [a, e]}}\n"
        )
    )
    assert variants_holding(node, {}) == ()
    assert variants_holding(node, {"X": "1", "Y": ""}, graph_launches=1) == ("a",)
    assert variants_holding(node, {"X": "1", "Y": "2"}, graph_launches=1) == ()
    assert variants_holding(node, {}, graph_launches=2, registered=True) == ("b",)
    assert variants_holding(node, {}, graph_launches=3, registered=True) == ()
    assert variants_holding(node, {"Y": "0"}, threads=2, gpus=2) == ("c", "d")
    assert variants_holding(node, {}, patches=("p",)) == ("e",)
    assert variants_holding(node, {"Z": "1"}) == ("f",)
    assert variants_holding(node, {"Z": "1"}, patches=("p",)) == ("e",)


def test_fill_keeps_the_shape_of_what_is_known() -> None:
    """Modelled curves lean on measured ones."""
    node = load_node(node_path("mi300x-cpx-nps4"))
    for size in (1024, 2**20, 2**30):
        # Half the steps, half the traffic: about half the time.
        ratio = truth(node, "all_gather", "ring/simple", size) / truth(
            node, "all_reduce", "ring/simple", size
        )
        assert 0.49 < ratio < 0.56
    marked = [c for c in node.curves if c.measured is None]
    assert all(c.source for c in marked)
    assert {c.where.setting for c in node.curves if c.measured} <= {
        "tree/ll",
        "ring/ll",
        "tree/ll128",
        "ring/ll128",
        "ring/simple",
        "tree/simple",
    }


sizes = st.lists(st.integers(1, 2**40), min_size=1, max_size=8, unique=True).map(sorted)


@given(sizes, st.data())
def test_interpolation_meets_its_points_and_stays_between_them(
    xs: list[int], data: st.DataObject
) -> None:
    """For any points and any size."""
    ys = [data.draw(st.floats(0.1, 1e6)) for _ in xs]
    points = tuple(zip(xs, ys, strict=True))
    for x, y in points:
        assert interpolate(points, x, is_time=True) == pytest.approx(y)
    at = data.draw(st.integers(1, 2**41))
    value = interpolate(points, at, is_time=False)
    assert min(ys) * 0.999 <= value <= max(ys) * 1.001
