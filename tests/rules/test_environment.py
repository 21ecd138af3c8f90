"""The file of exports: what a shell makes of it, and what people read in it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from rccltune.model.errors import VerificationError
from rccltune.rules.exports import render_exports

NEEDS = (("RCCL_MSCCLPP_ENABLE", "1"), ("RCCL_MSCCLPP_THRESHOLD", "3145728"))


def text(needs: Sequence[tuple[str, str]], rules: str = "/r/rules.csv") -> str:
    """The file."""
    return render_exports(["SIMULATED"], needs, [("NCCL_TUNER_CONFIG_FILE", rules)])


def sourced(content: str, folder: Path) -> dict[str, str]:
    """What a POSIX shell has after it read the file."""
    file = folder / "x.env"
    file.write_text(content, encoding="utf-8")
    done = subprocess.run(
        ["/bin/sh", "-euc", '. "$1"; env -0', "sh", str(file)],
        env={},
        capture_output=True,
        check=True,
    )
    pairs = (item.partition("=") for item in done.stdout.decode().split("\0") if item)
    return {name: value for name, _, value in pairs if name not in ("PWD", "_", "SHLVL", "OLDPWD")}


def test_a_shell_gets_what_the_rules_need(tmp_path: Path) -> None:
    """With the rule file's path."""
    assert sourced(text(NEEDS), tmp_path) == {
        **dict(NEEDS),
        "NCCL_TUNER_CONFIG_FILE": "/r/rules.csv",
    }


@pytest.mark.parametrize("name", ["A;touch x", "A B", "1A", "", "A-B", "Ä", "A\nB"])
def test_what_is_no_name_of_a_variable_is_refused(name: str) -> None:
    """A shell would run what is behind it."""
    with pytest.raises(VerificationError, match="variable"):
        render_exports(["x"], [(name, "1")], [])


@pytest.mark.parametrize("value", ["/a b", "$(touch x)", "a'b", 'a"b', "a\\b", "; exit 1"])
def test_values_are_taken_literally(tmp_path: Path, value: str) -> None:
    """Whatever a path or a user's file holds."""
    assert sourced(text([("ODD", value)], rules=value), tmp_path) == {
        "ODD": value,
        "NCCL_TUNER_CONFIG_FILE": value,
    }
    assert not (tmp_path / "x").exists()
