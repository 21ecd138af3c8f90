"""One launch of one program: its table, or how it failed; what verify and links build on."""

from __future__ import annotations

from pathlib import Path

import pytest
import yamls

from rccltune import plugin
from rccltune.measure import rccl_tests
from rccltune.measure.rccl_tests import BenchmarkCall, BenchmarkResult, RcclTestsSetup
from rccltune.measure.site import SiteRequest, find_site
from rccltune.model.failure import Failure
from rccltune.model.vocabulary import Collective
from rccltune.simulate import sources
from rccltune.simulate.compiled import compile_node

CALL = BenchmarkCall(collective=Collective.ALL_REDUCE, min_nbytes=4096, max_nbytes=65536, factor=4)


def where_of(folder: Path, **changes: object) -> RcclTestsSetup:
    """The shipped CPX node on eight ranks, which one process plays."""
    if not (plugin.native_folder() / "sim" / "all_reduce_perf").is_file():
        pytest.skip("this install has no stand-in benchmarks")
    raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    raw["scale"] |= {"ranks": 8, "devices_per_oam": 8}
    raw["fill"] = [{"ranks": 8, "placement": "node"}]
    raw["curves"] = [c | {"ranks": 8} for c in raw["curves"] if c.get("placement") == "node"]
    path = folder / "node.yaml"
    path.write_text(yamls.dumped(raw | {"noise": {"sigma": 0.0}} | changes), encoding="utf-8")
    compiled = folder / "node.node"
    compiled.write_bytes(compile_node(sources.load_node(path)))
    site = find_site(SiteRequest(simulate=str(path), launcher="none"))
    return RcclTestsSetup(site=site, node=compiled)


def launched(where: RcclTestsSetup, folder: Path, timeout_s: float = 60) -> BenchmarkResult:
    """One launch of CALL."""
    argv = rccl_tests.command(where.site, CALL)
    stated = rccl_tests.stated_of(where.site, CALL.collective)
    return rccl_tests.launch(where, argv, folder, stated, timeout_s=timeout_s)


def test_a_table_has_every_time_in_its_order(tmp_path: Path) -> None:
    """Three sizes, both placements, results checked."""
    done = launched(where_of(tmp_path), tmp_path / "one")
    assert (done.failure, done.words) == (None, None)
    assert done.table is not None
    assert done.table["nbytes"].tolist() == [4096, 4096, 16384, 16384, 65536, 65536]
    assert done.table["placement"].tolist() == ["out", "in"] * 3
    assert (done.table["time_us"] > 0).all()
    assert (done.table["wrong"] == 0).all()


def test_variables_are_added_and_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What chooses is the site's own only where it is measured as it is."""
    where = where_of(tmp_path)
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    monkeypatch.setenv("NCCL_NET", "Socket")

    def seen(**more: object) -> dict[str, str]:
        found = rccl_tests.environment_of(where, tmp_path / "one", added=(), **more).variables
        return {name: found[name] for name in ("NCCL_ALGO", "NCCL_NET") if name in found}

    assert seen() == {"NCCL_NET": "Socket"}
    assert seen(as_it_is=True) == {"NCCL_ALGO": "Tree", "NCCL_NET": "Socket"}


@pytest.mark.parametrize(
    ("fault", "failure", "has_table"),
    [
        ({"kind": "crash"}, Failure.CRASH, False),
        ({"kind": "hang"}, Failure.HANG, False),
        ({"kind": "wrong", "elements": 3}, Failure.WRONG, True),
    ],
)
def test_a_failure_is_an_answer(
    tmp_path: Path, fault: dict[str, object], failure: Failure, has_table: bool
) -> None:
    """And nothing of it stays running."""
    where = where_of(tmp_path, faults=[fault])
    done = launched(where, tmp_path / "one", timeout_s=2)
    assert done.failure is failure
    assert done.words
    assert (done.table is not None) is has_table
