"""--transferbench, end to end: read, kept in the session, shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from wording import lacks

from rccltune.cli import run
from rccltune.transferbench import RATES_FILE

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
        assert target["slowest_link"] == {"source": 2, "target": 5, "gb_per_s": SLOW}
        assert found["simulated"] is False
        # It is kept to the byte; the file may go.
        Path("a2a.txt").unlink()
        assert (SESSION / RATES_FILE).read_text(encoding="utf-8") == output()
        assert run(["fit"]) == 0

    def test_damage_names_the_file_and_its_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Output not understood; nothing of it counts."""
        Path("a2a.txt").write_text(output().replace("35.000", "nan"), encoding="utf-8")
        assert run(["fit", "--transferbench", "a2a.txt"]) == 6
        said = capsys.readouterr().err
        assert lacks(said, "no rate") == []
        assert "a2a.txt:6" in said
        assert not (SESSION / "ceiling").exists()

    def test_the_program_itself_is_not_run(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Its output is wanted, and how to make it is said."""
        Path("TransferBench").write_bytes(b"\x7fELF\x02\x01\x01\0SRC\\DST\0")
        Path("TransferBench").chmod(0o755)
        assert run(["fit", "--transferbench", "TransferBench"]) == 6
        assert "./TransferBench a2a 64M 8 > a2a.txt" in " ".join(capsys.readouterr().err.split())

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
