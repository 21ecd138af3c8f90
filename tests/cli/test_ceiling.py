"""--transferbench, end to end: read or run, kept in the session, shown and drawn."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yamls
from wording import lacks

from rccltune.cli import run
from rccltune.simulate import sources

SESSION = Path("rccltune-session")
# Rates of an invented node of eight GPUs: 40 GB/s, but 35 from GPU 2 to GPU 5.
N, USUAL, SLOW = 8, 40.0, 35.0
LIMIT = (N - 1) * SLOW
# AllReduce at 1 GiB in the log below: busbw is 2 * 7/8 * 2**30 B / 8 ms = 234.88 GB/s.
BUSBW = 2 * 7 / 8 * 2**30 / 8e-3 / 1e9


def output(*, slow: float = SLOW, n: int = N) -> str:
    """What a2a prints, as releases up to 1.62 do."""
    lines = [
        "TransferBench v1.60.00 (with NIC support)",
        "Summary: [67108864 bytes per Transfer]",
        "SRC\\DST " + "".join(f" GPU {i:02}    " for i in range(n)) + "    STotal      Actual",
    ]
    for source in range(n):
        rates = [slow if (source, target) == (2, 5) else USUAL for target in range(n)]
        cells = ["     N/A" if i == source else f"{rate:8.3f}" for i, rate in enumerate(rates)]
        total = sum(rates) - USUAL
        lines.append(f"GPU {source:02} " + "   ".join(cells) + f"   {total:8.3f}   {0:8.3f}")
    return "\n".join([*lines, "", "Aggregate bandwidth (CPU Timed): 1900.000 GB/s", ""])


@pytest.fixture
def imported(here: Path) -> Path:
    """A session of eight ranks with one size that matters."""
    log = here / "all_reduce.log"
    devices = "".join(
        f"#  Rank {i:2} Group  0 Pid {i + 1} on host device {i:2} [0000:{i:02x}:00] GPU\n"
        for i in range(N)
    )
    algbw = 2**30 / 8e-3 / 1e9
    log.write_text(
        "# nThread 1 nGpus 1 minBytes 1024 maxBytes 1073741824 step: 2(factor) warmup iters: 5 "
        "iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n"
        f"{devices}#\n#                                                 out-of-place          in-place\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong"
        "     time   algbw   busbw #wrong\n"
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)"
        "            (us)  (GB/s)  (GB/s)\n"
        "        1024           256     float     sum      -1    20.00    0.05    0.09      0"
        "    20.00    0.05    0.09      0\n"
        f"  1073741824     268435456     float     sum      -1     8000  {algbw:.2f}  {BUSBW:.2f}      0"
        f"     8000  {algbw:.2f}  {BUSBW:.2f}      0\n"
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 117.0\n",
        encoding="utf-8",
    )
    assert run(["import", str(log), "--collective", "all_reduce", "--baseline"]) == 0
    return here


def fitted(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """fit --json."""
    capsys.readouterr()
    assert run(["fit", "--json", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.usefixtures("imported")
class TestAnOutput:
    """Read, kept, used by every verb afterwards."""

    def test_ceiling_and_fraction(self, capsys: pytest.CaptureFixture[str]) -> None:
        """7 x 35 GB/s, and what AllReduce reached of it; the slow link is named."""
        Path("a2a.txt").write_text(output(), encoding="utf-8")
        found = fitted(capsys, "--transferbench", "a2a.txt")["ceiling"]
        (target,) = found["targets"]
        assert target["ceiling_gb_per_s"] == pytest.approx(LIMIT)
        assert target["reached_gb_per_s"] == pytest.approx(BUSBW, rel=1e-3)
        assert target["fraction"] == pytest.approx(BUSBW / LIMIT, rel=1e-3)
        assert (target["nbytes"], target["setting"]) == (2**30, "baseline")
        assert found["slow_links"] == [{"source": 2, "target": 5, "gb_per_s": SLOW}]
        assert (found["transferbench"], found["simulated"]) == ("1.60.00", False)
        assert found["sha256"] == hashlib.sha256(output().encode()).hexdigest()
        # It is kept to the byte; the file may go.
        Path("a2a.txt").unlink()
        (kept,) = (SESSION / "ceiling").glob("*/stdout.log")
        assert kept.read_text(encoding="utf-8") == output()
        assert run(["fit"]) == 0

    def test_damage_names_the_file_and_its_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Output not understood; nothing of it counts."""
        Path("a2a.txt").write_text(output().replace("35.000", "nan"), encoding="utf-8")
        assert run(["fit", "--transferbench", "a2a.txt"]) == 6
        said = capsys.readouterr().err
        assert lacks(said, "no rate") == []
        assert "a2a.txt:6" in said
        assert not (SESSION / "ceiling").exists()

    def test_simulated_rates_for_a_measured_session(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Never put together."""
        Path("a2a.txt").write_text("# SIMULATED\n" + output(), encoding="utf-8")
        assert run(["fit", "--transferbench", "a2a.txt"]) == 7
        assert "simulated" in capsys.readouterr().err


@pytest.mark.usefixtures("here")
def test_the_article_from_end_to_end(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """AMD's node (ROCm blog on xGMI, 2025-03-02): its links, its AllReduce, 1.01 at 16 GiB."""
    article = repository.parent / "shared" / "seeds" / "2-xgmi-bandwidth-blog.txt"
    if not article.is_file():
        pytest.skip("the shared seeds are not beside this checkout")
    assert run(["import", str(article), "--collective", "all_reduce", "--baseline"]) == 0
    (target,) = fitted(capsys, "--transferbench", str(article))["ceiling"]["targets"]
    assert round(target["ceiling_gb_per_s"]) == 316
    assert target["nbytes"] == 16 * 2**30
    assert 0.99 <= round(target["fraction"], 2) <= 1.01
    assert 0.99 <= target["reached_gb_per_s"] / 316 <= 1.01


@pytest.mark.usefixtures("stand_ins", "here")
class TestTheStandIn:
    """A simulated node's own TransferBench, run beside a sweep."""

    NODE = ("mi300x", "spx-nps1")
    SIZES = ("--collective", "all_reduce", "--min-bytes", "32M", "--max-bytes", "1G")
    # mi300x-cpx-nps4.yaml: sendrecv of two devices over one link, 64 MiB in 1456.1 us.
    RATE = 64 * 2**20 / 1456.1e-6 / 1e9

    def program(self, n: int = 8) -> Path:
        """It prints what one did, on so many devices, in the columns of releases up to 1.62."""
        path = Path("TransferBench").resolve()
        head = "SRC\\DST " + "".join(f" GPU {i:02}    " for i in range(n))
        rows = [
            f"GPU {i:02}"
            + "".join(f" {'N/A' if i == j else f'{self.RATE:.3f}':>8}  " for j in range(n))
            + f"    {(n - 1) * self.RATE:8.3f}" * 2
            for i in range(n)
        ]
        lines = [
            "# SIMULATED node mi300x-spx-nps1: no hardware was measured",
            "TransferBench v1.62.00-simulated",
            "Summary: [67108864 bytes per Transfer] [GFX:8] [1 Read(s) 1 Write(s)]",
            f"{head}    STotal      Actual",
            *rows,
            f"Aggregate bandwidth (CPU Timed): {n * (n - 1) * self.RATE:8.3f} GB/s",
        ]
        path.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\n")
        path.chmod(0o755)
        return path

    def sweep(self, *more: str, mode: str = "spx-nps1", node: str = "mi300x") -> int:
        """One process plays all ranks."""
        where = ["--mode", mode, "--simulate", node, "--launcher", "none"]
        return run(["sweep", "--runner", "rccl-tests", *where, *self.SIZES, *more])

    def quiet(self, here: Path) -> str:
        """The shipped node without noise."""
        raw = yamls.loaded(sources.node_path(*self.NODE).read_text(encoding="utf-8"))
        raw["noise"] = {"sigma": 0.0}
        path = here / "node.yaml"
        path.write_text(yamls.dumped(raw), encoding="utf-8")
        return str(path)

    def test_its_links_are_the_node_files_and_it_is_run_once(
        self, here: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Without noise all alike; AllReduce at 1 GiB is the article's 314.7 GB/s of that."""
        node = self.quiet(here)
        assert self.sweep(node=node) == 0
        assert run(["fit", "--transferbench", str(self.program())]) == 0
        assert "SIMULATED Ceiling" in capsys.readouterr().out
        found = fitted(capsys)["ceiling"]
        (target,) = found["targets"]
        assert found["simulated"] is True
        assert found["slow_links"] == []
        assert target["ceiling_gb_per_s"] == pytest.approx(7 * self.RATE, abs=0.01)
        assert target["all_links_gb_per_s"] == pytest.approx(7 * self.RATE, abs=0.01)
        assert target["fraction"] == pytest.approx(314.72 / (7 * self.RATE), rel=0.002)
        kept = next((SESSION / "ceiling").glob("*/stdout.log")).read_text()
        assert kept.startswith("# SIMULATED node mi300x-spx-nps1")
        # It is run once, by its hash and arguments; all of it is recorded.
        (own,) = (path.parent for path in (SESSION / "ceiling").glob("*/outcome.json"))
        before = (own / "stdout.log").stat().st_mtime_ns
        capsys.readouterr()
        assert run(["fit", "--transferbench", str(self.program())]) == 0
        assert "not run again" in capsys.readouterr().err
        assert (own / "stdout.log").stat().st_mtime_ns == before
        launch = json.loads((own / "launch.json").read_text())
        assert launch["argv"][1:] == ["a2a", "64M", "8"]
        assert len(launch["sha256"]) == 64
