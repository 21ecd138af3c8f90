"""What an import says beside its samples."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rccltune.cli import run as rccltune

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEAD = (
    "# nThread 1 nGpus 2 minBytes 1024 maxBytes 2048 step: 2(factor) graph: 0\n"
    "#  Rank  0 Group  0 Pid 1 on n1 device  0 [0000:01:00] NVIDIA H200\n"
    "#  Rank  1 Group  0 Pid 1 on n1 device  1 [0000:02:00] NVIDIA H200\n"
    "#                            out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong"
    "     time   algbw   busbw #wrong\n"
)


def log(version: str, dtype: str, time: str) -> str:
    """One size as nccl-tests prints it."""
    row = f"1024 256 {dtype} sum -1 {time} {1024 / float(time) / 1000:.2f}"
    row += f" {1024 / float(time) / 1000:.2f} 0"
    return (
        f"# nccl-tests version 2.18.3 nccl-headers={version} nccl-library={version}\n{HEAD}{row}\n"
    )


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """What import prints, and what it says."""

    def running(*arguments: str) -> tuple[str, str]:
        options = ["--baseline", "--collective", "all_reduce", "-o", str(tmp_path / "s")]
        assert rccltune(["import", *arguments, *options]) == 0
        found = capsys.readouterr()
        return found.out, found.err

    return running


def test_doubted_says_what_for(tmp_path: Path, run: Callable[..., tuple[str, str]]) -> None:
    """A type that is none: how many half-rows, and why."""
    (tmp_path / "a.log").write_text(log("22902", "floate5", "10.00"))
    out, _ = run(str(tmp_path / "a.log"))
    assert "no benchmark has a data type of this name" in out
    out, _ = run(str(tmp_path / "a.log"), "--json")
    assert json.loads(out)["doubts"] == {}


def test_two_library_versions_in_one_session_are_named(
    tmp_path: Path, run: Callable[..., tuple[str, str]]
) -> None:
    """In one command or in two; the same version twice is nothing to say."""
    for name, version, time in (
        ("a", "22902", "10.00"),
        ("b", "22902", "11.00"),
        ("c", "22809", "12.00"),
    ):
        (tmp_path / name).write_text(log(version, "float", time))
    assert "2.29.2" not in run(str(tmp_path / "a"), str(tmp_path / "b"))[1]
    said = run(str(tmp_path / "c"))[1]
    assert "2.29.2 (" in said
    assert "2.28.9 (c)" in said


def test_two_library_versions_in_one_file_are_named(
    tmp_path: Path, run: Callable[..., tuple[str, str]]
) -> None:
    """Two runs of one log, a benchmark's own line and the library's of one version beside them."""
    one, other = log("22902", "float", "10.00"), log("22809", "float", "12.00")
    (tmp_path / "two").write_text(one + other)
    said = run(str(tmp_path / "two"))[1]
    assert "2.29.2 and of 2.28.9 (line" in said
    (tmp_path / "one").write_text("NCCL version 2.29.2+cuda13.1\n" + one)
    assert "runs of library" not in run(str(tmp_path / "one"), "-o", str(tmp_path / "s"))[1]
