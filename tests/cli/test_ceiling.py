"""--transferbench, end to end: read or run, kept in the session, shown and drawn."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rccltune.cli import run

SESSION = Path("rccltune-session")
# Rates of an invented node of eight GPUs: 40 GB/s, but 35 from GPU 2 to GPU 5.
N, USUAL, SLOW = 8, 40.0, 35.0
LIMIT = (N - 1) * SLOW
# AllReduce at 1 GiB in the log below: busbw is 2 * 7/8 * 2**30 B / 8 ms = 234.88 GB/s.
BUSBW = 2 * 7 / 8 * 2**30 / 8e-3 / 1e9

Sh = Callable[..., Path]


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

    def test_in_words(self, capsys: pytest.CaptureFixture[str]) -> None:
        """What a person reads, of fit and of plot, the second without being asked again."""
        Path("a2a.txt").write_text(output(), encoding="utf-8")
        assert run(["fit", "--transferbench", "a2a.txt"]) == 0
        said = capsys.readouterr().out
        assert "7 x 35.000, GPU 2 -> GPU 5" in said
        assert "245.0" in said
        assert "0.96" in said
        assert "link out of line: GPU 2 -> GPU 5, 35.00 GB/s, 12 % below the median" in said
        assert run(["plot", "--format", "svg"]) == 0
        assert "7 x 35.000, GPU 2 -> GPU 5" in capsys.readouterr().err
        svg = (SESSION / "plots/all_reduce-1n8r-bandwidth.svg").read_text(encoding="utf-8")
        assert "ceiling 245 GB/s = 7 × 35" in svg
        assert "reached 0.96 at 1 GiB" in svg

    def test_the_raw_output_is_kept(self) -> None:
        """To the byte; the file may go."""
        file = Path("a2a.txt")
        file.write_text(output(), encoding="utf-8")
        assert run(["fit", "--transferbench", str(file)]) == 0
        file.unlink()
        (kept,) = (SESSION / "ceiling").glob("*/stdout.log")
        assert kept.read_text(encoding="utf-8") == output()
        assert run(["fit"]) == 0

    def test_a_later_one_counts(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Both are kept."""
        for slow in (30.0, 39.0):
            Path("a2a.txt").write_text(output(slow=slow), encoding="utf-8")
            found = fitted(capsys, "--transferbench", "a2a.txt")["ceiling"]
            assert found["targets"][0]["ceiling_gb_per_s"] == pytest.approx(7 * slow)
        assert len(list((SESSION / "ceiling").glob("*/stdout.log"))) == 2

    def test_of_other_devices(self, capsys: pytest.CaptureFixture[str]) -> None:
        """No line is drawn that would mean nothing; why is said."""
        Path("a2a.txt").write_text(output(n=4, slow=USUAL), encoding="utf-8")
        found = fitted(capsys, "--transferbench", "a2a.txt")["ceiling"]
        assert found["targets"] == []
        assert "between 4 devices and there are 8 ranks" in found["without"][0]
        assert run(["plot", "--format", "svg"]) == 0
        svg = (SESSION / "plots/all_reduce-1n8r-bandwidth.svg").read_text(encoding="utf-8")
        assert "ceiling" not in svg

    def test_without_any_nothing_is_said(self, capsys: pytest.CaptureFixture[str]) -> None:
        """As before."""
        assert "ceiling" not in fitted(capsys)

    def test_a_file_that_is_not_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A mistake on the command line."""
        assert run(["fit", "--transferbench", "gone.txt"]) == 2
        assert "no such file" in capsys.readouterr().err

    def test_damage_names_the_kept_file_and_its_line(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Output not understood; nothing of it counts."""
        Path("a2a.txt").write_text(output().replace("35.000", "nan"), encoding="utf-8")
        assert run(["fit", "--transferbench", "a2a.txt"]) == 6
        said = capsys.readouterr().err
        assert "'nan' is no rate" in said
        assert "stdout.log:6" in said
        assert not (SESSION / "ceiling/ceiling.json").exists()

    def test_simulated_rates_for_a_measured_session(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Never put together."""
        Path("a2a.txt").write_text("# SIMULATED\n" + output(), encoding="utf-8")
        assert run(["fit", "--transferbench", "a2a.txt"]) == 7
        assert "simulated" in capsys.readouterr().err

    def test_a_record_of_a_newer_rccltune(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Said, not misread."""
        (SESSION / "ceiling").mkdir()
        (SESSION / "ceiling/ceiling.json").write_text('{"format": 9}', encoding="utf-8")
        assert run(["fit"]) == 7
        assert "format 9" in capsys.readouterr().err


@pytest.mark.usefixtures("imported")
class TestAProgram:
    """Run where it measures the session's machine."""

    @pytest.fixture
    def program(self, here: Path) -> Sh:
        """A script with TransferBench's name."""

        def write(body: str) -> Path:
            path = here / "TransferBench"
            path.write_text(f"#!{sys.executable}\n{body}", encoding="utf-8")
            path.chmod(0o755)
            return path

        return write

    def test_a_session_of_an_unknown_machine(
        self, program: Sh, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Imported logs do not say whose they are: it is not started."""
        path = program("open('ran', 'w').close()")
        assert run(["fit", "--transferbench", str(path)]) == 7
        assert "another machine" in capsys.readouterr().err
        assert not Path("ran").exists()
