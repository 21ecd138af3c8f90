"""Placements of ranks from sweep to rule files, on simulated nodes where it is known what wins."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import yamls
from kept import sweep_once
from machines import DESCRIPTIONS, load

from rccltune import plugin
from rccltune.cli import run
from rccltune.logs import reader
from rccltune.machine import records, survey
from rccltune.machine.placement import Seating
from rccltune.measure import site as site_module
from rccltune.measure.request import merge_request
from rccltune.measure.site import Site, SiteRequest, find_site
from rccltune.model.errors import CommandLineError, MachineError, SessionError
from rccltune.model.measured import Stated
from rccltune.model.settings import BASELINE, Mode, Place, Scale
from rccltune.model.vocabulary import Algorithm, Collective, Protocol, RankPlacement, parse_size
from rccltune.rules import decision
from rccltune.rules.host import Host
from rccltune.session.place import misplaced, same_place
from rccltune.session.store import dump_json
from rccltune.simulate import sources

pytestmark = pytest.mark.usefixtures("stand_ins", "here", "whole")
NONE = Mode.parse("none")
PLAIN = "rccl_tuner_gfx942_cpx-nps4.csv"
TABLE = {(a, p) for a in (Algorithm.TREE, Algorithm.RING) for p in (Protocol.LL, Protocol.SIMPLE)}
QUICK = ["--collective", "all_reduce", "--min-bytes", "1K", "--max-bytes", "1M"]
SETTINGS = ["--setting", "tree/ll", "--setting", "ring/ll", "--setting", "ring/simple"]


def node(folder: Path) -> Path:
    """mi300x whose eight ranks of one OAM and one per OAM agree up to 64 KiB, and not above.

    The library itself takes ring/ll up to there, and ring/simple above.
    """
    raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    raw["noise"] = {"sigma": 0.01}
    raw["fill"] = [{"ranks": 8, "placement": name} for name in ("one-oam", "one-per-oam")]
    small, large = [1024, 65536], [131072, 1 << 20]

    def curve(setting: str, placement: str, low: float, high: float) -> dict[str, object]:
        points = [[n, t] for t, sizes in ((low, small), (high, large)) for n in sizes]
        return {
            "collective": "all_reduce",
            "setting": setting,
            "ranks": 8,
            "placement": placement,
            "kind": "modelled",
            "source": "made up",
            "points": points,
        }

    raw["curves"] = [one for one in raw["curves"] if one.get("ranks") != 8]
    for name, simple in (("one-oam", 50), ("one-per-oam", 300)):
        raw["curves"] += [
            curve("tree/ll", name, 50, 400),
            curve("ring/ll", name, 100, 100),
            curve("ring/simple", name, 300, simple),
        ]
    path = folder / "node.yaml"
    path.write_text(yamls.dumped(raw), encoding="utf-8")
    return path


def sweep(path: Path | str, session: str, *more: str) -> int:
    """One simulated sweep, all ranks in one process."""
    where = ["--simulate", str(path), "--launcher", "none", "-o", session]
    return run(["sweep", "--runner", "rccl-tests", *where, *QUICK, *SETTINGS, *more])


def measured(path: Path, session: str, placement: str) -> None:
    """A session to begin with."""
    words = ["--simulate", str(path), "--launcher", "none", *QUICK, *SETTINGS]
    assert sweep_once([*words, "--rank-placement", placement], Path(session)) == 0


def answer(env: dict[str, str], nbytes: int, n_ranks: int = 8) -> str | None:
    """What the plugin tells a communicator of one node that has what the files require."""
    host = Host(plugin.library())
    abi = max(host.abi_versions)
    with host.communicator(abi=abi, n_nodes=1, n_ranks=n_ranks, env=env) as communicator:
        found = decision.decisions(
            communicator, Collective.ALL_REDUCE, decision.cost_table(TABLE), {nbytes}
        )
    chosen = next(d.setting for d in found if d.min_nbytes <= nbytes <= d.max_nbytes)
    return None if chosen is None else str(chosen)


def placed_alone(file: Path) -> Path:
    """A copy that requires its placement and no machine, which this one is not."""
    placement = file.stem.partition("nps4_")[2]
    lines = [line for line in file.read_text().splitlines() if "#@ requires" not in line]
    needed = [f"#@ requires placement={placement}"] if placement else []
    copy = file.with_name(f"copy-of-{file.name}")
    copy.write_text("\n".join([*needed, *lines, ""]))
    return copy


def test_rules_are_for_any_placement_only_where_every_placement_gains(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two sessions; what the plugin says with RCCLTUNE_PLACEMENT and without it."""
    path = node(here)
    measured(path, "one", "one-oam")
    measured(path, "other", "one-per-oam")
    assert run(["emit-config", "one", "other", "-o", PLAIN]) == 0
    capsys.readouterr()

    own = PLAIN.replace(".csv", "_one-oam.csv")
    files = {name: (here / name).read_text() for name in (PLAIN, own)}
    assert "placement=" not in files[PLAIN]
    assert "#@ requires" in files[own]
    assert " placement=one-oam\n" in files[own]
    # Above 64 KiB ring/ll gains where the library's own ring/simple is slow, and loses elsewhere.
    named = {"NCCL_TUNER_CONFIG_FILE": str(placed_alone(here / PLAIN))}
    assert answer(named, 4096) == "tree/ll"
    assert answer(named, 1 << 19) is None
    capsys.readouterr()

    assert run(["explain", own, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["placement"]
    assert said == {"name": "one-oam", "with_it": True, "without": False}


def test_a_placements_file_is_used_where_it_is_declared(here: Path) -> None:
    """And neither without a word nor under another one."""
    path = node(here)
    for session, name in (("one", "one-oam"), ("other", "one-per-oam")):
        measured(path, session, name)
    assert run(["emit-config", "one", "other"]) == 0

    file = placed_alone(here / "one" / PLAIN.replace(".csv", "_one-per-oam.csv"))
    named = {"NCCL_TUNER_CONFIG_FILE": str(file)}
    assert answer({**named, "RCCLTUNE_PLACEMENT": "one-per-oam"}, 4096) == "tree/ll"
    assert answer({**named, "RCCLTUNE_PLACEMENT": "one-per-oam"}, 1 << 19) == "ring/ll"
    assert answer(named, 4096) is None
    assert answer({**named, "RCCLTUNE_PLACEMENT": "node"}, 4096) is None


def test_a_directory_has_a_file_for_each_placement(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As emitted, on a captured MI300X: declared, the placement's rules; else those for any.

    Rules for the whole node hold beside either.
    """
    path = node(here)
    for session, name in (("one", "one-oam"), ("other", "one-per-oam"), ("all", "node")):
        measured(path, session, name)
    assert run(["emit-config", "one", "other", "all"]) == 0

    root = load(DESCRIPTIONS / "mi300x-cpx-nps4.machine").write(here / "root")
    monkeypatch.setenv("RCCLTUNE_SYSROOT", str(root))
    chosen = {"RCCLTUNE_CONFIG_DIR": str(here / "one"), "RCCLTUNE_SYSROOT": str(root)}
    apart = {**chosen, "RCCLTUNE_PLACEMENT": "one-per-oam"}
    assert answer(chosen, 4096) == answer(apart, 4096) == "tree/ll"
    assert answer(chosen, 1 << 19) is None
    assert answer(apart, 1 << 19) == "ring/ll"
    assert answer(chosen, 1 << 16, n_ranks=64) == answer(apart, 1 << 16, n_ranks=64) == "tree/ll"


class Captured:
    """A site of a captured machine, with a benchmark that does nothing."""

    def __init__(self, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Write both."""
        root = load(DESCRIPTIONS / f"{name}.machine").write(folder / "root")
        monkeypatch.setattr(
            site_module,
            "system_here",
            lambda: survey.look(survey.Look(root=root, variables={}, deep=False)),
        )
        self.bench = folder / "bench"
        self.bench.mkdir()
        script = self.bench / "all_reduce_perf"
        script.write_text("#!/bin/sh\necho 'USAGE: [-b,--minbytes] [-N,--run_cycles]'\n")
        script.chmod(0o755)

    def site(self, placement: str | None, **more: object) -> Site:
        """What a sweep would run on."""
        wished = RankPlacement(placement) if placement else None
        given = {"rccl_tests": self.bench, "launcher": "none", "placement": wished, **more}
        return find_site(SiteRequest(**given))


@pytest.mark.parametrize(
    ("placement", "n_ranks", "n_started", "devices"),
    [
        (None, 64, 64, None),
        ("one-oam", 8, 8, "0,1,2,3,4,5,6,7"),
        ("one-per-oam", 8, 8, "0,8,16,24,32,40,48,56"),
        ("one-iod", 2, 2, "0,1"),
        ("every-oam", 8, 64, ",".join(map(str, range(64)))),
    ],
)
def test_a_captured_mi300x_is_placed_by_its_topology(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    placement: str | None,
    n_ranks: int,
    n_started: int,
    devices: str | None,
) -> None:
    """The real way: from KFD's nodes to what every arm has."""
    site = Captured(here, "mi300x-cpx-nps4", monkeypatch).site(placement)

    assert (site.scale, site.seating.n_started) == (Scale(n_nodes=1, n_ranks=n_ranks), n_started)
    assert dict(site.environment).get("ROCR_VISIBLE_DEVICES") == devices
    assert site.seating.place.name == (placement or "node")


def test_fewer_gpus_of_nvidia_are_chosen_by_address(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How they are linked is not known, so that no rule is for any two of them."""
    captured = Captured(here, "no-amd-gpu", monkeypatch)
    gpus = tuple(records.Gpu(index=n, oam=f"gpu{n}", product="H200") for n in range(4))
    system = records.System(
        root=here, status="none", vendor="nvidia", gpus=gpus, product="H200", mode=NONE
    )
    monkeypatch.setattr(site_module, "system_here", lambda: system)

    site = captured.site(None, n_ranks=2)
    assert dict(site.environment)["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert dict(site.environment)["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert (site.seating.place.name, site.seating.place.alike) == ("first", ())
    assert captured.site(None).seating.environment == ()
    with pytest.raises(MachineError, match="one-oam"):
        captured.site("one-oam")


def test_hidden_devices_are_not_the_node(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container with one OAM sees eight devices, and says one-oam, not node."""
    captured = Captured(here, "container-one-oam", monkeypatch)
    assert captured.site(None).seating.place.name == "one-oam"
    assert captured.site(None).seating.place.alike == ()
    with pytest.raises(MachineError, match="8 of the node's"):
        captured.site("node")
    with pytest.raises(MachineError):
        captured.site("across-oams")


def test_placements_are_of_one_host(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The devices of other hosts cannot be seen from here."""
    captured = Captured(here, "mi300x-cpx-nps4", monkeypatch)
    monkeypatch.setattr("rccltune.measure.launcher.hosts_of", lambda *_: ("one", "other"))
    with pytest.raises(CommandLineError, match="several hosts"):
        captured.site("one-oam")
    with pytest.raises(CommandLineError, match="ranks"):
        captured.site(None)
    whole = captured.site(None, n_ranks=128).seating
    assert (whole.place.name, whole.place.scale) == ("node", Scale(n_nodes=2, n_ranks=128))
    part = captured.site(None, n_ranks=16).seating
    assert (part.place.name, part.environment) == ("first", ())


@pytest.mark.parametrize(
    ("bus", "strays"),
    [
        ("0000:05:00.1", False),
        ("0000:05:00.0", False),
        ("0000:05:00", False),
        ("0x05", False),
        ("0000:15:00.1", True),
        ("0000:15:00", True),
        ("0001:05:00", True),
    ],
)
def test_ranks_are_looked_up_in_what_a_launch_printed(here: Path, bus: str, strays: bool) -> None:
    """As far as a benchmark's release says where they were."""
    log = here / "stdout.log"
    log.write_text(f"#   Rank  0 Pid    12 on      host device  0 [{bus}] AMD Instinct MI300X\n")
    wanted = records.Gpu(index=1, oam="0000:05:00", partition=1)
    assert (misplaced(log, [wanted]) is not None) is strays


def test_another_partition_of_the_same_oam_is_another_device(here: Path) -> None:
    """Where partitions are printed at all: some releases print function 0 for each."""
    log = here / "stdout.log"
    lines = [
        f"#   Rank  {rank} Pid    12 on      host device  0 [0000:05:00.{part}] MI300X\n"
        for rank, part in ((0, 0), (1, 2))
    ]
    log.write_text("".join(lines))
    gpus = [records.Gpu(index=part, oam="0000:05:00", partition=part) for part in (0, 1)]
    assert "rank 1 ran on 0000:05:00.2" in str(misplaced(log, gpus))


def test_nvidias_driver_names_a_function_and_nccl_does_not(here: Path) -> None:
    """/proc/driver/nvidia/gpus has 0000:0f:00.0, the benchmark prints 0000:0f:00."""
    log = here / "stdout.log"
    log.write_text("#   Rank  0 Pid    12 on      host device  0 [0000:0f:00] NVIDIA H200\n")
    assert misplaced(log, [records.Gpu(index=1, oam="0000:0f:00.0")]) is None
    assert misplaced(log, [records.Gpu(index=1, oam="0000:1f:00.0")]) is not None


def test_a_session_that_did_not_list_the_whole_node_goes_on(here: Path) -> None:
    """NVIDIA's GPUs were not counted before; the whole node is the same devices all the same."""
    scale = Scale(n_nodes=1, n_ranks=2)
    place = Place(name="node", scale=scale, alike=("node",))
    (here / "placement.json").write_text(dump_json(place))
    listed = Seating(place=replace(place, devices=(0, 1)), n_started=2)
    same_place(here, listed)
    with pytest.raises(SessionError):
        same_place(here, replace(listed, place=replace(listed.place, name="first")))
    (here / "placement.json").write_text(dump_json(replace(place, devices=(2, 3))))
    with pytest.raises(SessionError):
        same_place(here, listed)


def test_one_placement_alone_makes_a_file_of_its_own(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the user is told what else to measure."""
    measured(node(here), "one", "one-oam")
    assert run(["emit-config", "one"]) == 0
    said = capsys.readouterr()

    assert not (here / "one" / PLAIN).exists()
    assert (here / "one" / PLAIN.replace(".csv", "_one-oam.csv")).exists()
    assert "one-per-oam was not measured" in said.err
    exports = here / "one" / PLAIN.replace(".csv", "_one-oam.env")
    assert f"source {exports.resolve()}" in said.out
    text = exports.read_text(encoding="utf-8")
    assert "export RCCLTUNE_PLACEMENT=one-oam" in text
    # Nothing but the plugin reads it.
    assert "export NCCL_TUNER_PLUGIN=" in text


def test_several_files_do_not_fit_stdout(here: Path) -> None:
    """And none is written half."""
    path = node(here)
    measured(path, "one", "one-oam")
    measured(path, "other", "one-per-oam")
    assert run(["emit-config", "one", "other", "-o", "-"]) == 2
    assert not list(here.rglob("rccl_tuner_*"))


@pytest.mark.parametrize(
    ("name", "n_ranks", "variable"),
    [
        ("every-oam", 8, "0xf8"),
        ("across-oams", 8, "0x7"),
        ("one-oam", 8, None),
    ],
)
def test_samples_have_the_scale_of_a_group(
    here: Path, name: str, n_ranks: int, variable: str | None
) -> None:
    """Not of all the ranks that were started; the baseline is placed like every other arm."""
    assert sweep(node(here), "s", "--rank-placement", name) == 0
    rows = (here / "s/samples.csv").read_text().splitlines()
    header = rows[0].split(",")
    assert {row.split(",")[header.index("n_ranks")] for row in rows[1:]} == {str(n_ranks)}
    assert {row.split(",")[header.index("rank_placement")] for row in rows[1:]} == {name}
    for launch in (here / "s/launches").glob("*/environment.json"):
        added = json.loads(launch.read_text())["added"]
        assert "ROCR_VISIBLE_DEVICES" in added
        mask = added.get("NCCL_TESTS_SPLIT_MASK")
        # Bits above the highest rank mean nothing.
        assert (mask and int(mask, 16) & 63) == (variable and int(variable, 16) & 63)


def test_older_benchmarks_show_groups_in_their_bandwidths_only(here: Path) -> None:
    """rccl-tests of 2024 list 64 ranks without a word of groups; one that makes none is caught."""
    path = node(here)
    path.write_text(path.read_text().replace("benchmark: rtnew", "benchmark: rt24"))
    assert sweep(path, "groups", "--rank-placement", "across-oams") == 0
    # Two decimals tell a ratio only where bandwidths are large.
    assert sweep(path, "whole", "--rank-placement", "node", "--max-bytes", "64M") == 0

    stated = Stated(
        collective=Collective.ALL_REDUCE, n_ranks=8, n_started=64, n_nodes=1, setting=BASELINE
    )
    for session, is_right in (("groups", True), ("whole", False)):
        log = next((here / session / "launches").glob("*/nccl-*.log")).parent / "stdout.log"
        refused = pytest.raises(CommandLineError, match="8 ranks has busbw")
        with log.open("rb") as stream, nullcontext() if is_right else refused:
            samples = reader.read_stream(stream, "log", stated, "x").samples
            assert {sample.key.scale.n_ranks for sample in samples} == {8}


def test_fewer_ranks_than_the_node_holds_are_not_the_node(here: Path) -> None:
    """Four of eight MI300X have a name of their own, and any four of them are alike."""
    spx = ["--np", "4", "--mode", "spx-nps1"]
    assert sweep("mi300x-spx-nps1", "four", *spx) == 0
    place = json.loads((here / "four/placement.json").read_text())
    assert place["name"] == "first"
    assert place["devices"] == [0, 1, 2, 3]

    assert run(["emit-config", "four"]) == 0
    (written,) = (here / "four").glob("rccl_tuner_*.csv")
    assert written.name == "rccl_tuner_gfx942_spx-nps1.csv"


def test_the_sites_list_of_devices_is_chosen_from(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that is set already would index ours, or ours index it."""
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", ",".join(map(str, range(16, 32))))
    assert sweep(node(here), "s", "--rank-placement", "one-oam") == 0
    for launch in (here / "s/launches").glob("*/environment.json"):
        said = json.loads(launch.read_text())
        assert said["added"]["ROCR_VISIBLE_DEVICES"] == "16,17,18,19,20,21,22,23"
        assert "HIP_VISIBLE_DEVICES" in said["cleared"]

    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "0,1")
    assert sweep(node(here), "t", "--rank-placement", "one-oam") == 4


def test_a_launch_that_ran_on_other_devices_does_not_count(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Something behind our back moved the ranks by one device."""
    moved = ["--env", "NCCL_TESTS_DEVICE=1"]
    assert sweep(node(here), "s", "--rank-placement", "one-per-oam", *moved) == 4
    assert "rank 0 ran on 0000:25:00" in capsys.readouterr().err
    (outcome,) = (here / "s/launches").glob("*/outcome.json")
    assert json.loads(outcome.read_text())["status"] == "interrupted"


def test_a_session_has_one_placement(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples of two machines, as it were, are never pooled."""
    path = node(here)
    measured(path, "s", "one-oam")
    assert sweep(path, "s", "--rank-placement", "one-per-oam") == SessionError.exit_code
    assert "one-oam" in capsys.readouterr().err
    with monkeypatch.context() as site:
        site.setenv("ROCR_VISIBLE_DEVICES", "8,9,10,11,12,13,14,15")
        assert sweep(path, "s", "--rank-placement", "one-oam") == SessionError.exit_code
    (here / "s/placement.json").unlink()
    assert sweep(path, "s", "--rank-placement", "one-per-oam") == SessionError.exit_code
    assert sweep(path, "s", "--rank-placement", "one-oam") == 0


def test_presets_are_the_documents_commands(here: Path) -> None:
    """AMD's RCCL usage tips; a file wins over them, an option over both."""
    plain = merge_request(None, {"preset": "cpx-64"})
    assert (plain.sweep.min_nbytes, plain.sweep.max_nbytes, plain.sweep.factor) == (8, 1 << 30, 2)
    assert plain.site.n_ranks == 64

    graph = merge_request(None, {"preset": "cpx-one-oam-graph"})
    assert graph.sweep.min_nbytes == parse_size("32")
    assert graph.sweep.graph == 2
    assert graph.sweep.collectives == (Collective.ALL_REDUCE,)
    assert graph.sweep.rank_placement == "one-oam"

    file = here / "sweep.yaml"
    file.write_text("preset: cpx-one-oam-graph\nfactor: 4\ngraph: 8\n")
    both = merge_request(file, {"graph": 9})
    assert (both.sweep.factor, both.sweep.graph, both.sweep.min_nbytes) == (4, 9, 32)
    file.write_text("preset: cpx-one-oan\nrank_placement: two-oams\n")
    assert run(["sweep", "--runner", "rccl-tests", "-c", str(file), "--simulate", "mi300x"]) == 3


def test_a_preset_sweeps(here: Path) -> None:
    """One OAM of the simulated node, as the document's second command has it."""
    preset = ["--preset", "cpx-one-oam", "--mode", "cpx-nps4"]
    assert sweep("mi300x", "s", *preset) == 0
    place = json.loads((here / "s/placement.json").read_text())
    assert (place["name"], place["scale"]) == ("one-oam", {"n_nodes": 1, "n_ranks": 8})
    assert Scale(**place["scale"]).n_ranks == 8
