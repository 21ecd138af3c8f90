"""scripts/bench releases: on the simulated library, which plays releases by number; unpacking."""

from __future__ import annotations

import lzma
from pathlib import Path

import bench_releases
import pytest
import yamls

from rccltune import plugin
from rccltune.model.errors import MachineError

NODE = Path(__file__).resolve().parents[2] / "examples/nodes/smallest.yaml"


def test_each_release_has_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Questions a call as the release asks; answered, obeyed, recorded and explained the same."""
    try:
        there = (plugin.native_folder() / "rccltune-perf").is_file()
    except MachineError as error:
        pytest.skip(str(error))
    if not there:
        pytest.skip("this install has no rank program")
    raw = yamls.loaded(NODE.read_text(encoding="utf-8"))
    raw["scale"]["ranks"] = 2
    node = tmp_path / "node.yaml"
    node.write_text(yamls.dumped(raw), encoding="utf-8")
    words = ["--simulate", str(node), "--collectives", "all_reduce", "--no-tune"]
    releases = ["2.27.7", "2.32.3"]
    monkeypatch.setattr("sys.argv", ["bench", *releases, *words, "-o", str(tmp_path / "out")])
    assert bench_releases.main() == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| 2.")]
    same = "12 of 12 | 12 of 12 | 40 of 40 | 4 of 4 | – | – | – |"
    assert rows == [f"| 2.27.7 | v4 | 1.00 | {same}", f"| 2.32.3 | v6 | 3.00 | {same}"]


def test_a_packed_library_is_unpacked_while_it_is_used(tmp_path: Path) -> None:
    """And one that is not is taken as it is."""
    packed = tmp_path / "libnccl-2.99.so.xz"
    packed.write_bytes(lzma.compress(b"a library"))
    with bench_releases.library_of(str(packed), simulated=False) as file:
        assert file is not None
        assert (file.name, file.read_bytes()) == ("libnccl-2.99.so", b"a library")
    assert not file.exists()
    with bench_releases.library_of(str(packed.with_suffix("")), simulated=False) as plain:
        assert plain == packed.with_suffix("")
