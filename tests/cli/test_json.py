"""--json: one object on stdout whatever happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from rccltune.cli import run
from rccltune.model import errors

CLASSES = (
    *(errors.CommandLineError, errors.InputFileError, errors.MachineError, errors.LaunchError),
    *(errors.OutputError, errors.SessionError, errors.TooLittleDataError),
    errors.VerificationError,
)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The object that a command line that fails puts on stdout; its exit code is in it."""
    code = run([*words])
    object_: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert next(iter(object_)) == "format"
    assert object_["exit_code"] == code
    return object_


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_of_each_class_is_one_object(
    kind: type[errors.RccltuneError],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What happened, where, and what to do next."""

    def fail(*_: object, **__: object) -> None:
        raise kind("it failed", where="here", hint="mend it.")

    monkeypatch.setattr("rccltune.analyse.session_fit.fit_session", fail)
    object_ = told(capsys, "fit", "--json")
    assert object_ == {
        "format": 1,
        "error": "it failed",
        "where": "here",
        "hint": "mend it.",
        "exit_code": kind.exit_code,
    }


@pytest.mark.parametrize(
    ("error", "code"), [(RuntimeError("no"), 1), (click.Abort(), 130), (KeyboardInterrupt(), 130)]
)
def test_a_bug_and_an_interrupt_are_one_object(
    error: BaseException,
    code: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A bug with the file to send."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("rccltune.analyse.session_fit.fit_session", fail)
    object_ = told(capsys, "fit", "--json")
    assert object_["exit_code"] == code
    assert code != 1 or Path(object_["where"]).is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("fit --jsn --json", "No such option"),
        ("sweep --mode foo --json", "unknown mode 'foo'"),
        ("--json fti", "no option of rccltune"),
        ("fti --json", "unknown command 'fti'"),
        ("explain --json", "Missing argument"),
        ("--json explain none.csv", "--json is an option of explain"),
        ("tune --simulate mi999 --json", "unknown simulated node 'mi999'"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_object(
    words: str, said: str, capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    """Wherever --json stands, and of whichever word the mistake is."""
    del here
    object_ = told(capsys, *words.split())
    assert said in object_["error"]
    assert object_["exit_code"] == 2


@pytest.mark.parametrize(
    "words",
    [
        *("explain none --json", "compare none.csv site --json", "compare site none.so --json"),
        *("gather none --json", "detect --root none --json", "sweep --hostfile none --json"),
    ],
)
def test_a_file_that_is_not_there_is_named(
    words: str, capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    """In a field of its own, as of any other error."""
    del here
    assert Path(told(capsys, *words.split())["where"]).stem == "none"


def test_a_result_and_what_ended_the_command_are_one_object(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Findings of doctor, and that a sweep cannot run; a variable asks like the option."""
    monkeypatch.setenv("RCCLTUNE_SYSROOT", str(tmp_path))
    monkeypatch.setenv("RCCLTUNE_CLI_DOCTOR_JSON", "1")
    object_ = told(capsys, "doctor")
    assert object_["findings"]
    assert "cannot run here" in object_["error"]
    assert object_["exit_code"] == 4


def test_a_jobs_own_option_is_not_ours(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    """Behind -- it is the command's."""
    del here
    assert run(["job", "--", "train", "--json"]) != 0
    assert capsys.readouterr().out == ""
