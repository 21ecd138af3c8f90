"""The two verbs as a user types them."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from trees import add_links, put, write
from wording import lacks

from rccltune.cli import group
from rccltune.cli import run as run_line
from rccltune.cli.detect import detect
from rccltune.cli.doctor import doctor
from rccltune.model.errors import MachineError


def run(verb: click.Command, *arguments: str | Path) -> Result:
    """One command line; errors of ours are left in the result.

    Through the group: click keeps what a command called by itself takes for help.
    """
    # Before 8.2 click mixes both streams unless it is told not to.
    mixes = "mix_stderr" in inspect.signature(CliRunner).parameters
    runner = CliRunner(mix_stderr=False) if mixes else CliRunner()
    return runner.invoke(group, [str(verb.name), *(str(a) for a in arguments)])


def test_detect_shows_the_node(tmp_path: Path) -> None:
    """Mode, OAMs with their devices, links."""
    root = write("mi300x-cpx-63-of-64", tmp_path)
    add_links(root)
    done = run(detect, "--root", root)
    assert done.exit_code == 0
    assert "MI300X, mode cpx-nps4" in done.stdout
    assert lacks(done.stdout, "63 devices", "8 OAMs", "38 compute", "compute units") == []
    assert "7 of 8" in done.stdout
    assert lacks(done.stdout, "OAMs") == []
    assert "lacks partition 7" in done.stderr


def test_detect_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """stdout is one object, every OAM with its sources."""
    root = write("mi300x-cpx-nps4", tmp_path)
    add_links(root)
    assert run_line(["detect", "--root", str(root), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["mode"], answer["n_devices"], answer["device_id"]) == ("cpx-nps4", 64, 0x74A1)
    assert answer["oams"][0]["sources"]["memory"].endswith("current_memory_partition")
    assert answer["gpus"][63]["iods"] == [3]
    assert answer["xgmi_hops"][0].split()[:9] == ["-", *"0000000", "1"]
    assert answer["findings"] == []


def test_detect_names_the_vendors_own_benchmarks(tmp_path: Path) -> None:
    """On NVIDIA's GPUs these are nccl-tests."""
    done = run(detect, "--root", write("nvidia-h200", tmp_path))
    assert "NVIDIA H200, mode none" in done.stdout
    assert "No nccl-tests were found" in done.stdout


@pytest.mark.parametrize("name", ["no-sysfs", "container-no-gpu"])
def test_detect_never_fails(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It describes; whether that will do is the doctor's answer."""
    root = write(name, tmp_path)
    assert run(detect, "--root", root).exit_code == 0
    assert run_line(["detect", "--root", str(root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"]


def test_doctor_exits_with_0_on_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And with 4 under --strict, after saying what it found."""
    root = write("mi300x-spx-nps1", tmp_path)
    put(root, "proc/sys/kernel/numa_balancing", "1")
    monkeypatch.setenv("RCCLTUNE_SYSROOT", str(root))
    mild = run(doctor)
    assert mild.exit_code == 0
    assert "sysctl kernel.numa_balancing=0" in mild.stdout
    strict = run(doctor, "--strict")
    assert isinstance(strict.exception, MachineError)
    assert strict.exception.exit_code == 4
    found, _, ready = mild.stdout.rstrip().rpartition("\n\n")
    assert (strict.stdout.rstrip(), ready[:6]) == (found, "Ready:")


def test_doctor_exits_with_4_where_no_sweep_can_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The findings are on stdout all the same, in one object with what ended it."""
    monkeypatch.setenv("RCCLTUNE_SYSROOT", str(write("mi300x-mixed", tmp_path)))
    assert run_line(["doctor", "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert next(iter(told)) == "format"
    assert "mixed-modes" in told["error"]
    assert told["exit_code"] == 4
    (first, *_) = told["findings"]
    assert (first["name"], first["severity"], first["spoils"]) == ("mixed-modes", "stops", True)
