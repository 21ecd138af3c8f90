"""detect --links, end to end: pairs of the simulated node, with things going wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yamls
from wording import lacks

from rccltune import links as link_map
from rccltune.cli import run
from rccltune.machine.system import Gpu, System
from rccltune.machine.visible_devices import VISIBLE
from rccltune.measure import instrument
from rccltune.measure import request as request_module
from rccltune.measure import site as site_module
from rccltune.measure.rank_program import LaunchSetup
from rccltune.measure.site import SiteRequest
from rccltune.model.errors import MachineError
from rccltune.model.reporter import Reporter
from rccltune.simulate import sources

pytestmark = pytest.mark.usefixtures("stand_ins")

Node = Callable[..., Path]
Few = Callable[..., None]
SESSION = Path("rccltune-session")
RUNS = "links/pair-*/runs/*"
# mi300x-cpx-nps4.yaml: microseconds and GB/s of each class of links on the shipped CPX node.
TABLE = {
    "same-iod": (12.8, 331.0),
    "same-oam": (13.6, 170.0),
    "one-link": (14.4, 46.55),
}
LARGE = 64 * 2**20


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    for name in VISIBLE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def node(here: Path) -> Node:
    """The shipped CPX node without noise, with what a test adds."""

    def write(**changes: object) -> Path:
        raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
        raw["noise"] = {"sigma": 0.0}
        raw |= changes
        path = here / "node.yaml"
        path.write_text(yamls.dumped(raw), encoding="utf-8")
        return path

    return write


def links(node: Path | str | None, session: str = "", *, launcher: str = "none") -> int:
    """One link map, of a swept session's node where that is asked for; one process plays both ranks."""
    words = ["detect", "--links", *([session] if session else [])]
    if node is None:
        return run(words)
    request = SiteRequest(simulate=str(node), launcher=launcher)
    with pytest.MonkeyPatch.context() as patch:
        # What a sweep makes of its options stays as it is.
        assert request_module.SiteRequest is SiteRequest
        patch.setattr(site_module, "SiteRequest", lambda: request)
        return run(words)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Few:
    """One communicator of one pair of each kind, unless a test says more."""

    def set_to(pairs: int = 1, repeats: int = 1) -> None:
        monkeypatch.setattr(link_map, "PER_CLASS", pairs)
        monkeypatch.setattr(link_map, "REPEATS", repeats)

    set_to()
    return set_to


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What a program reads of the session's map, or of this machine's."""
    capsys.readouterr()
    run(["detect", "--links", "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_map_is_that_of_the_node(
    node: Node, few: Few, capsys: pytest.CaptureFixture[str]
) -> None:
    """Latency and bandwidth of each class as the node file has them: L, and bytes / (L + bytes/B)."""
    few(pairs=3)
    assert links(node()) == 0
    assert "--rank-placement" in capsys.readouterr().err.splitlines()[-1]

    found = answer(capsys)
    assert [entry["link"] for entry in found["classes"]] == list(TABLE)
    assert [entry["n_there"] for entry in found["classes"]] == [32, 192, 1792]
    for entry in found["classes"]:
        latency_us, gb_per_s = TABLE[entry["link"]]
        time_us = latency_us + LARGE / gb_per_s / 1000
        assert entry["latency_us"]["median"] == pytest.approx(latency_us, abs=0.011)
        # The node file's points and the benchmark's table have one and two decimals.
        assert entry["gb_per_s"]["median"] == pytest.approx(LARGE / time_us / 1000, rel=5e-4)
        assert (entry["n_measured"], entry["n_failed"]) == (3, 0)
    assert len(found["pairs"]) == 9


def test_each_pair_is_a_start_on_its_devices(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two ranks, which see the two devices alone; noise and all."""
    assert links("mi300x-cpx-nps4") == 0
    found = answer(capsys)
    for entry in found["classes"]:
        assert entry["latency_us"]["median"] == pytest.approx(TABLE[entry["link"]][0], rel=0.1)
    for pair in found["pairs"]:
        first, second = pair["first"], pair["second"]
        run = json.loads((SESSION / f"links/pair-{first}-{second}/runs/1/run.json").read_text())
        assert ["ROCR_VISIBLE_DEVICES", f"{first},{second}"] in run["added"]


def test_it_is_measured_once_a_session(
    node: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again it is shown, without looking for a library or at the machine."""
    assert links(node()) == 0
    first = capsys.readouterr().out
    logs = sorted(SESSION.glob(RUNS))

    monkeypatch.setattr(link_map, "find_instrument", None)
    monkeypatch.setattr("rccltune.machine.this_machine.detect_this_machine", None)
    assert links(None) == 0
    again = capsys.readouterr()
    assert again.out == first
    assert lacks(again.err, "a new session") == []
    assert sorted(SESSION.glob(RUNS)) == logs


def test_a_failing_class_is_shown_and_the_rest_goes_on(
    node: Node, few: Few, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 5, the pairs that failed with their logs, the others with their figures."""
    crash = {"kind": "crash", "how": "segv", "placement": "one-oam", "rank": 0}
    assert links(node(faults=[crash])) == 5
    shown = capsys.readouterr()
    assert "1 of 3 pairs failed" in shown.err
    assert shown.out.count("failed: it crashed") == 1
    assert "46.1" in shown.out

    # The same command tries the failed ones again, and only those.
    done = set(SESSION.glob(RUNS))
    assert links(node()) == 0
    (again,) = set(SESSION.glob(RUNS)) - done
    assert (again.parts[-3], again.name) == ("pair-0-2", "2")
    assert answer(capsys)["classes"][1]["n_measured"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--links", "--root", "/"], "a captured machine cannot be measured"),
        (["here"], "add --links"),
    ],
)
def test_options_that_do_not_fit(
    arguments: list[str], message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2."""
    assert run(["detect", *arguments]) == 2
    assert message in capsys.readouterr().err


def two_gpus(vendor: str) -> System:
    """A machine of two GPUs."""
    amd = vendor == "amd"
    return System(
        root=Path("/"),
        status="known" if amd else "none",
        vendor=vendor,
        product="MI300X" if amd else "NVIDIA H200",
        gpus=tuple(Gpu(index=i, oam=f"0000:0{i}:00", partition=0 if amd else None) for i in (0, 1)),
    )


@pytest.mark.parametrize(
    ("vendor", "chosen"), [("amd", "ROCR_VISIBLE_DEVICES"), ("nvidia", "CUDA_VISIBLE_DEVICES")]
)
def test_each_makers_own_variable_chooses(
    vendor: str, chosen: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no other: the site's own choice is in the pairs already."""
    request = SiteRequest(simulate="mi300x-spx-nps1", n_ranks=2)
    simulated = instrument.find_instrument(request, here / "node", None)
    bare = replace(simulated.ground, added=())
    real = replace(simulated, site=replace(simulated.site, node=None), ground=bare)
    monkeypatch.setattr(link_map, "find_instrument", lambda *_, **__: real)
    grounds: list[LaunchSetup] = []

    @contextmanager
    def started(ground: LaunchSetup, *_: object, **__: object) -> Iterator[None]:
        grounds.append(ground)
        raise MachineError("seen")
        yield

    monkeypatch.setattr(link_map, "waiting_ranks", started)
    prepared = link_map.prepare_links(SiteRequest(), here / "s", system=two_gpus(vendor))
    with pytest.raises(MachineError, match="seen"):
        link_map.measure_links(prepared, reporter=Reporter(), command="")
    added = dict(grounds[0].added)
    assert {name: added[name] for name in VISIBLE if name in added} == {chosen: "0,1"}
    assert set(VISIBLE) <= {*grounds[0].cleared}
