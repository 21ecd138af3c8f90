"""detect --links, end to end: pairs of the simulated node, with things going wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yamls
from wording import lacks

from rccltune import links as link_map
from rccltune.cli import run
from rccltune.machine import records
from rccltune.machine.visible_devices import VISIBLE
from rccltune.measure import request as request_module
from rccltune.measure import site as site_module
from rccltune.measure.site import SiteRequest
from rccltune.simulate import sources

pytestmark = pytest.mark.usefixtures("stand_ins")

Node = Callable[..., Path]
Few = Callable[..., None]
SESSION = Path("rccltune-session")
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
    """One launch of one pair of each kind, unless a test says more."""

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
    assert [entry["pairs"] for entry in found["classes"]] == [32, 192, 1792]
    for entry in found["classes"]:
        latency_us, gb_per_s = TABLE[entry["link"]]
        time_us = latency_us + LARGE / gb_per_s / 1000
        assert entry["latency_us"]["median"] == pytest.approx(latency_us, abs=0.011)
        # The node file's points and the benchmark's table have one and two decimals.
        assert entry["gb_per_s"]["median"] == pytest.approx(LARGE / time_us / 1000, rel=5e-4)
        assert (entry["measured"], entry["failed"]) == (3, 0)
    assert len(found["pairs"]) == 9


@pytest.mark.mpi
def test_real_ranks_under_a_launcher(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two ranks of the found mpirun, each on the device that was chosen; noise and all."""
    assert links("mi300x-cpx-nps4", launcher="auto") == 0

    found = answer(capsys)
    for entry in found["classes"]:
        assert entry["latency_us"]["median"] == pytest.approx(TABLE[entry["link"]][0], rel=0.06)
    for pair in found["pairs"]:
        log = (SESSION / pair["logs"][0] / "stdout.log").read_text()
        devices = [
            int(line.split("device")[1].split()[0])
            for line in log.splitlines()
            if line.startswith("#  Rank")
        ]
        assert devices == pair["devices"]


def test_it_is_measured_once_a_session(
    node: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again it is shown, without looking for a benchmark or at the machine."""
    assert links(node()) == 0
    first = capsys.readouterr().out
    logs = sorted(SESSION.glob("links/launches/*"))

    monkeypatch.setattr("rccltune.links.find_site", None)
    monkeypatch.setattr("rccltune.machine.this_machine.local_system", None)
    assert links(None) == 0
    again = capsys.readouterr()
    assert again.out == first
    assert lacks(again.err, "a new session") == []
    assert sorted(SESSION.glob("links/launches/*")) == logs


def test_a_failing_class_is_shown_and_the_rest_goes_on(
    node: Node, few: Few, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 5, the pairs that failed with their logs, the others with their figures."""
    crash = {"kind": "crash", "how": "segv", "placement": "one-oam", "rank": 0}
    few(repeats=2)
    assert links(node(faults=[crash])) == 5
    shown = capsys.readouterr()
    assert "1 of 3 pairs failed" in shown.err
    assert shown.out.count("failed: it ended with signal 11") == 1
    assert "46.1" in shown.out

    record = json.loads((SESSION / "links/links.json").read_text())
    failed = [pair for pair in record["pairs"] if "failure" in pair]
    # Tried once: what crashed in the first round is not started again in the second.
    assert [len(pair["launches"]) for pair in failed] == [1]
    assert all(
        (SESSION / f"links/launches/{pair['launches'][0]}/stdout.log").exists() for pair in failed
    )

    # The same command tries the failed ones again, and only those.
    done = {p: p.stat().st_mtime_ns for p in SESSION.glob("links/launches/*/stdout.log")}
    assert links(node()) == 0
    again = {p: p.stat().st_mtime_ns for p in SESSION.glob("links/launches/*/stdout.log")}
    assert sum(again[p] != at for p, at in done.items()) == 1
    assert answer(capsys)["classes"][1]["measured"] == 1


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


def two_gpus(vendor: str) -> records.System:
    """A machine of two GPUs."""
    amd = vendor == "amd"
    return records.System(
        root=Path("/"),
        status="known" if amd else "none",
        vendor=vendor,
        product="MI300X" if amd else "NVIDIA H200",
        gpus=tuple(
            records.Gpu(index=i, oam=f"0000:0{i}:00", partition=0 if amd else None) for i in (0, 1)
        ),
    )


@pytest.fixture
def benchmarks(here: Path) -> Path:
    """Programs that print what sendrecv_perf prints, and a file with what they were asked."""
    folder = here / "rccl-tests"
    folder.mkdir()
    script = (
        "#!/bin/sh\n"
        'if [ "$1" = --help ]; then echo "USAGE: [-b,--minbytes] [-g,--ngpus]"; exit; fi\n'
        f'echo "$* R=$ROCR_VISIBLE_DEVICES C=$CUDA_VISIBLE_DEVICES H=$HIP_VISIBLE_DEVICES"'
        f' >> "{here}/asked"\n'
        "cat <<'END'\n"
        "# nThread 1 nGpus 2 minBytes 8 maxBytes 67108864 step: 8388608(factor) warmup iters: 5"
        " iters: 100 agg iters: 1 validation: 1 graph: 0\n"
        "#\n"
        "# Using devices\n"
        "#  Rank  0 Group  0 Pid   9582 on    host device  0 [0x05] AMD\n"
        "#  Rank  1 Group  0 Pid   9582 on    host device  1 [0x06] AMD\n"
        "#\n"
        "#                                                              out-of-place"
        "                       in-place          \n"
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
        "     time   algbw   busbw  #wrong  \n"
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)        "
        "    (us)  (GB/s)  (GB/s)          \n"
        "           8             2     float    none      -1    10.00    0.00    0.00       0"
        "    10.00    0.00    0.00    N/A\n"
        "    67108864      16777216     float    none      -1   671.09  100.00  100.00       0"
        "   671.09  100.00  100.00    N/A\n"
        "# Out of bounds values : 0 OK\n"
        "# Avg bus bandwidth    : 50.0 \n"
        "#\n"
        "END\n"
    )
    for name in ("all_reduce_perf", "sendrecv_perf"):
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("vendor", "chosen", "link"),
    [("amd", "R=0,1 C= H=", "other-oam"), ("nvidia", "R= C=0,1 H=", "device-to-device")],
)
def test_a_machine_that_is_there(
    vendor: str,
    chosen: str,
    link: str,
    benchmarks: Path,
    few: Few,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each maker's variable, and no other; 671.09 µs for 64 MiB are 100 GB/s."""
    system = two_gpus(vendor)
    monkeypatch.setattr("rccltune.machine.this_machine.local_system", lambda *_: system)
    # The quick look before a launch does not ask nvidia-smi, so it knows no product there.
    quick = system if vendor == "amd" else replace(system, product=None)
    monkeypatch.setattr(site_module, "system_here", lambda: quick)
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "0,1")
    few(repeats=2)
    request = SiteRequest(rccl_tests=benchmarks, launcher="none")
    monkeypatch.setattr(site_module, "SiteRequest", lambda: request)
    found = answer(capsys)
    assert found["simulated"] is False
    assert found["machine"] == system.product
    (entry,) = found["classes"]
    assert (entry["link"], entry["pairs"], entry["measured"]) == (link, 1, 1)
    assert entry["latency_us"]["median"] == 10.0
    assert entry["gb_per_s"]["median"] == pytest.approx(100.0, rel=1e-4)
    asked = Path("asked").read_text().splitlines()
    assert len(asked) == 2
    for line in asked:
        assert line.endswith(chosen)
        # Without a launcher one process has both devices.
        assert "-b 8 -e 67108864 -f 8388608" in line
        assert "-g 2" in line
