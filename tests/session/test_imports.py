"""What an import says beside its samples."""

from __future__ import annotations

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


def test_a_session_is_of_one_library(
    tmp_path: Path, run: Callable[..., tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Another one's file is refused, and a file of two; the same version twice is nothing to say."""
    for name, version, time in (
        ("a", "22902", "10.00"),
        ("b", "22902", "11.00"),
        ("c", "22809", "12.00"),
    ):
        (tmp_path / name).write_text(log(version, "float", time))
    assert "2.29.2" not in run(str(tmp_path / "a"), str(tmp_path / "b"))[1]
    words = ["--baseline", "--collective", "all_reduce", "-o", str(tmp_path / "s")]
    assert rccltune(["import", str(tmp_path / "c"), *words]) == 7
    said = " ".join(capsys.readouterr().err.split())
    assert "2.29.2 (" in said
    assert "2.28.9 (c)" in said
    assert f"-o {tmp_path}/s-2" in said
    both = tmp_path / "both"
    both.write_text((tmp_path / "a").read_text() + (tmp_path / "c").read_text())
    assert rccltune(["import", str(both), *words[:-1], str(tmp_path / "t")]) == 6
    assert "library 2.29.2 (line 1) and of 2.28.9" in " ".join(capsys.readouterr().err.split())
