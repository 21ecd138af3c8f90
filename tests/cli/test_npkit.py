"""--npkit-dump, end to end on the simulated node, with real ranks; and what stands against it."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from wording import lacks

from rccltune import npkit
from rccltune.cli import run
from rccltune.measure import Site, SiteRequest, find_site
from rccltune.model import MachineError

SESSION = Path("rccltune-session")
# MSCCL, which asks no tuner, would take all of these sizes.
NODE = ["--mode", "spx-nps1", "--simulate", "mi300x", "--env", "RCCL_MSCCL_ENABLE=0"]
PLAYED = ["--env", "RCCLTUNE_SIM_PATCHES=npkit"]
SIZES = ["--min-bytes", "256K", "--max-bytes", "4M", "--repeats", "1"]
# What RCCL's npkit_event.h calls the events of a whole call (develop 0cbce2a7).
SYNC_CPU, SYNC_GPU, RING = 0x34, 0x33, 0x01

pytestmark = pytest.mark.usefixtures("stand_ins", "here")


def sweep(*more: str, collective: str = "all_reduce") -> int:
    """Few settings at few sizes."""
    return run(["sweep", *NODE, "--collective", collective, *SIZES, *more])


def events(path: Path) -> list[tuple[int, int, int]]:
    """Type, size and time of each: 8, 32, 24 and 64 bits (npkit_struct.h)."""
    raw = path.read_bytes()
    return [(raw[i], *struct.unpack_from("<I3xQ", raw, i + 1)) for i in range(0, len(raw), 16)]


def record() -> dict[str, Any]:
    """npkit.json."""
    found: dict[str, Any] = json.loads((SESSION / "npkit/npkit.json").read_text())
    return found


@pytest.mark.mpi
def test_the_winner_runs_once_more(capsys: pytest.CaptureFixture[str]) -> None:
    """One launch of the setting that gains most, eight ranks' events, kept beside it."""
    assert (
        sweep("--setting", "ring/ll128", "--setting", "ring/ll", *PLAYED, "--npkit-dump", "d") == 0
    )

    said = capsys.readouterr().out
    assert "SIMULATED NPKit: all_reduce ring/ll128 at" in said
    assert "Next: python3 npkit_trace_generator.py --npkit_dump_dir=" in said
    found = record()
    assert found["winner"]["setting"] == {"algorithm": "ring", "protocol": "ll128"}
    assert found["winner"]["gain"] > 1.1
    assert found["dump"]["ranks"] == list(range(8))
    assert found["dump"]["simulated"] is True
    own = SESSION / "npkit/launches" / found["launch"]
    written, kept = sorted(Path("d").iterdir()), sorted((own / "npkit").iterdir())
    assert [path.name for path in written] == [path.name for path in kept]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(written, kept, strict=True))
    assert len(list((SESSION / "npkit/launches").iterdir())) == 1
    kinds = [kind for kind, _, _ in events(own / "npkit/gpu_events_rank_3_buf_0")]
    assert kinds == [SYNC_CPU, SYNC_GPU, RING, RING + 1]


@pytest.mark.mpi
def test_the_same_command_shows_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is run twice, though the folder is not empty any more."""
    arguments = ["--setting", "ring/ll128", *PLAYED, "--npkit-dump", "d"]
    assert sweep(*arguments) == 0
    before = capsys.readouterr().out.splitlines()[-4:]
    assert sweep(*arguments) == 0
    after = capsys.readouterr()
    assert after.out.splitlines()[-4:] == before
    assert "not made again" in after.err
    assert len(list((SESSION / "npkit/launches").iterdir())) == 1


@pytest.mark.mpi
def test_a_call_without_events(capsys: pytest.CaptureFixture[str]) -> None:
    """NPKit has none for reduce: the dump is of no use, and the sweep is kept."""
    assert sweep("--setting", "ring/ll", *PLAYED, "--npkit-dump", "d", collective="reduce") == 5
    assert lacks(capsys.readouterr().err, "GPU") == []
    assert not (SESSION / "npkit/npkit.json").exists()
    assert (SESSION / "samples.csv").exists()


class TestBeforeAnythingIsMeasured:
    """What cannot be done is said before a long sweep, and nothing is written."""

    def test_a_folder_that_holds_something(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Events of two launches have the same names."""
        Path("d").mkdir()
        Path("d/gpu_events_rank_0_buf_0").touch()
        assert sweep(*PLAYED, "--npkit-dump", "d") == 2
        assert "not empty" in capsys.readouterr().err
        assert not SESSION.exists()

    def test_all_ranks_in_one_process(self, capsys: pytest.CaptureFixture[str]) -> None:
        """NPKit's memory is one for a process."""
        assert sweep(*PLAYED, "--launcher", "none", "--npkit-dump", "d") == 4
        assert lacks(capsys.readouterr().err, "GPU") == []
        assert not SESSION.exists()

    def test_a_simulated_library_without(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The node's library has it only where that is said."""
        assert sweep("--npkit-dump", "d") == 4
        assert "RCCLTUNE_SIM_PATCHES=npkit" in capsys.readouterr().err
        assert not SESSION.exists()

    def test_an_output_of_transferbench_that_is_not_understood(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Looked at now, not after an hour."""
        Path("a2a.txt").write_text("hello\n")
        assert sweep("--launcher", "none", "--transferbench", "a2a.txt") == 6
        assert lacks(capsys.readouterr().err, "no table") == []
        assert not SESSION.exists()

    def test_hardwares_transferbench_for_a_simulated_node(
        self, here: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """It would measure something else."""
        program = here / "TransferBench"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        assert sweep("--launcher", "none", "--transferbench", str(program)) == 4
        assert "no stand-in" in capsys.readouterr().err


@pytest.fixture
def site() -> Site:
    """One rank, as hardware would have it: nothing is known to be simulated."""
    wish = SiteRequest(simulate="mi300x-spx-nps1", launcher="none", n_ranks=1)
    return replace(find_site(wish), node=None)


@pytest.mark.parametrize("has", [True, False])
def test_a_library_of_hardware(site: Site, has: bool, tmp_path: Path) -> None:
    """Looked into before anything runs; the message says how RCCL is built with it."""
    library = tmp_path / "librccl.so.1"
    library.write_bytes(b"\0NPKIT_DUMP_DIR\0" if has else b"\0MSCCLPP_NPKIT_DUMP_DIR\0")
    site = replace(site, library_file=library)
    if has:
        npkit.check_dump(tmp_path / "d", site)
        return
    with pytest.raises(MachineError, match="without") as caught:
        npkit.check_dump(tmp_path / "d", site)
    assert "--npkit-enable" in str(caught.value.hint)


def test_a_library_that_is_not_seen_is_tried(site: Site, tmp_path: Path) -> None:
    """A script around the benchmark hides it; then the dump itself tells."""
    npkit.check_dump(tmp_path / "d", replace(site, library_file=None))
