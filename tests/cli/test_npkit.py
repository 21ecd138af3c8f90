"""rccltune npkit, end to end on the simulated node, with real ranks; and what stands against it."""

from __future__ import annotations

import json
import shlex
import struct
from pathlib import Path

import pytest

from rccltune import plugin
from rccltune.cli import run
from rccltune.measure.library import STAND_IN
from rccltune.model.errors import MachineError
from rccltune.npkit import check_dump
from rccltune.ranks.runs import PROGRAM

N_RANKS = 8
# What RCCL's npkit_event.h calls the events of a whole call (develop 0cbce2a7).
SYNC_CPU, SYNC_GPU, RING = 0x34, 0x33, 0x01

# One call of a ring, as a library with NPKit leaves it: both clocks, entry, exit.
EVENTS = bytes.fromhex(
    "34000000000000000000000000000000 33000000000000000000000000000000"
    "01000000100000000000000000000000 02000000100000001027000000000000"
)
# The rank program, and behind it the files that RCCL's misc/npkit.cc leaves of each rank.
WITH_NPKIT = """#!/bin/sh
{real} "$@"
status=$?
if [ -n "$NPKIT_DUMP_DIR" ]; then
    cd "$NPKIT_DUMP_DIR" || exit
    for rank in 0 1 2 3 4 5 6 7; do
        : >cpu_events_rank_${{rank}}_channel_0
        echo 1 >cpu_clock_period_num_rank_$rank
        echo 1000000000 >cpu_clock_period_den_rank_$rank
        echo 100000 >gpu_clock_rate_rank_$rank
        cp {events} gpu_events_rank_${{rank}}_buf_0
    done
fi
exit $status
"""

pytestmark = pytest.mark.usefixtures("stand_ins", "here")


@pytest.fixture
def with_npkit(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in library that was built with NPKit."""
    folder, there = tmp_path_factory.mktemp("native"), plugin.native_folder()
    for path in there.iterdir():
        if path.name not in ("sim", PROGRAM):
            (folder / path.name).symlink_to(path)
    (folder / "sim").mkdir()
    for path in (there / "sim").iterdir():
        (folder / "sim" / path.name).symlink_to(path)
    library = folder / STAND_IN
    content = library.read_bytes()
    library.unlink()
    # As a compiler leaves the name, by which such a library is known.
    library.write_bytes(content + b"\0NPKIT_DUMP_DIR\0")
    (folder / "events").write_bytes(EVENTS)
    real = shlex.quote(str(there / PROGRAM))
    (folder / PROGRAM).write_text(WITH_NPKIT.format(real=real, events=folder / "events"))
    (folder / PROGRAM).chmod(0o755)
    monkeypatch.setattr(plugin, "native_folder", lambda: folder)


@pytest.fixture
def swept(here: Path, stand_ins: None) -> None:
    """A session of the node, of one setting at one size."""
    node = ["--mode", "spx-nps1", "--simulate", "mi300x", "--np", str(N_RANKS)]
    sizes = ["--min-bytes", "1M", "--max-bytes", "1M", "--budget", "1m"]
    what = ["--collective", "all_reduce", "--setting", "ring/ll", "--env", "RCCL_MSCCL_ENABLE=0"]
    assert run(["sweep", *node, *sizes, *what, "-q"]) == 0


def npkit(*more: str, into: str = "d") -> int:
    """Its events at 1 MiB."""
    words = ["--setting", "ring/ll128", "--collective", "all_reduce", "--bytes", "1M", "-o", into]
    return run(["npkit", *words, *more])


def events(path: Path) -> list[tuple[int, int, int]]:
    """Type, size and time of each: 8, 32, 24 and 64 bits (npkit_struct.h)."""
    raw = path.read_bytes()
    return [(raw[i], *struct.unpack_from("<I3xQ", raw, i + 1)) for i in range(0, len(raw), 16)]


@pytest.mark.usefixtures("with_npkit", "swept")
def test_a_setting_leaves_its_events(capsys: pytest.CaptureFixture[str]) -> None:
    """One start, eight ranks' events; a setting that the sweep had not, too."""
    assert npkit() == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "SIMULATED NPKit: all_reduce ring/ll128 at 1 MiB" in said
    assert "Next: python3 npkit_trace_generator.py --npkit_dump_dir=" in said
    kinds = [kind for kind, _, _ in events(Path("d/gpu_events_rank_3_buf_0"))]
    assert kinds == [SYNC_CPU, SYNC_GPU, RING, RING + 1]
    # Events of two launches have the same names.
    assert npkit() == 2
    assert "not empty" in capsys.readouterr().err
    assert npkit("--json", into="other") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["chosen"]["setting"] == {"algorithm": "ring", "protocol": "ll128"}
    assert found["dump"]["ranks"] == list(range(N_RANKS))
    assert found["simulated"] is True


@pytest.mark.usefixtures("with_npkit", "swept")
def test_another_setting_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Tree with LL128 in all_gather, which the library has not."""
    words = ["--setting", "tree/ll128", "--collective", "all_gather", "--bytes", "1M"]
    assert run(["npkit", *words, "-o", "d"]) == 5
    assert "NPKit's dump is not of all_gather tree/ll128" in capsys.readouterr().err


@pytest.mark.parametrize("has", [True, False])
def test_a_library_is_looked_into_before_anything_runs(has: bool, tmp_path: Path) -> None:
    """The message says how RCCL is built with it."""
    library = tmp_path / "librccl.so.1"
    library.write_bytes(b"\0NPKIT_DUMP_DIR\0" if has else b"\0MSCCLPP_NPKIT_DUMP_DIR\0")
    if has:
        check_dump(tmp_path / "d", library)
        return
    with pytest.raises(MachineError, match="without") as caught:
        check_dump(tmp_path / "d", library)
    assert "--npkit-enable" in str(caught.value.hint)
