"""A file of a session that somebody damaged is named, with what to do; nothing crashes."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest

import rccltune
from rccltune import api
from rccltune.analyse.session_fit import fit_session
from rccltune.cli import run
from rccltune.model.errors import RccltuneError, TooLittleDataError
from rccltune.model.estimate import Estimate
from rccltune.model.reporter import Reporter
from rccltune.model.rule import LeftToLibrary, RuleState
from rccltune.model.text import JoinedLines
from rccltune.model.verdict import SizeVerdict, Verdict
from rccltune.ranks import runs
from rccltune.rules.stored_choice import read_choice
from rccltune.session import samples, store
from rccltune.verify.verdict_file import RuleVerdict, VerdictFile
from rccltune.verify.verdict_store import write_verdict

_GONE: Final = object()
_VALUES: Final[tuple[object, ...]] = (
    _GONE,
    None,
    -1,
    0,
    1e308,
    float("nan"),
    "",
    "odd\u202e\n",
    "idle",
    [],
    {},
    True,
)
_QUIET: Final = Reporter()


def _made(folder: Path) -> None:
    opened = store.open_session(folder)
    samples.excluded(runs.read_runs(folder))
    samples.frame_from_logs(opened)


def _fitted(folder: Path) -> None:
    loaded = rccltune.load(folder)
    for name in ("curves", "crossovers", "own_choices"):
        getattr(loaded, name)


def _opened(folder: Path) -> None:
    samples.load_frame(store.open_session(folder), _QUIET)


# What reads a file, by its name.
_READERS: Final[dict[str, Callable[[Path], object]]] = {
    "session.json": _opened,
    "samples.csv": _opened,
    "import.json": _made,
    "stdout.log": _made,
    "run.json": _made,
    "ending.json": _made,
    "plan.txt": _made,
    "rank-0.csv": _made,
    "fit.json": _fitted,
    "choice.json": read_choice,
    "verdict.json": lambda folder: rccltune.load(folder).verdicts,
    "rccl_tuner.csv": lambda folder: rccltune.load(folder).rules,
}


@pytest.fixture(scope="module")
def sessions(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one of a real log, chosen from and verified, and one of a simulated node."""
    home = tmp_path_factory.mktemp("sessions")
    log = repository / "examples/mi300x-cpx-nps4/all_reduce.csv"
    api.import_logs(home / "imported", [log])
    fitted = fit_session(home / "imported", reporter=_QUIET)
    choice = api.emit_config(home / "imported", output=home / "imported/rccl_tuner.csv")
    assert choice.path is not None
    key = fitted.curves[0].key
    verdict = SizeVerdict(
        collective=key.collective,
        placement=key.view.placement,
        timing="graph",
        nbytes=1024,
        baseline_us=12.0,
        tuned_us=10.0,
        gain=Estimate(value=1.2, low=1.1, high=1.3, n=8),
        n_wrong=0,
        verdict=Verdict.FASTER,
    )
    kept = VerdictFile(
        path="rccl_tuner.csv",
        simulated=False,
        rules_before=1,
        rules=1,
        fallbacks=0,
        scale=key.target.scale,
        rank_placement="node",
        dtype="float",
        op="sum",
        replicates=8,
        processes=2,
        seconds=1.5,
        rules_sha256="0" * 64,
        verdicts=(verdict,),
        standings=(
            RuleVerdict(
                collective=key.collective,
                min_nbytes=1024,
                max_nbytes=4096,
                setting=key.setting,
                state=RuleState.PROVEN,
                gain=Estimate(value=1.2, low=1.1, high=1.3, n=8),
            ),
        ),
        cuts=(
            LeftToLibrary(collective=key.collective, min_nbytes=1, max_nbytes=2, reason="slower"),
        ),
        needs={},
        lost_needs=(),
    )
    write_verdict(home / "imported", "verdict.json", kept)
    node = repository / "examples/nodes/smallest.yaml"
    words = ["sweep", "--simulate", str(node), "--mode", "spx-nps1", "--collective", "all_reduce"]
    words += ["--min-bytes", "1K", "--max-bytes", "2K", "--setting", "ring/ll", "-q"]
    assert run([*words, "--communicators", "1", "-o", str(home / "swept")]) == 0
    return home


def _shortened(plain: Any) -> Any:  # noqa: ANN401 - JSON
    """The same with at most two of each list: what is read alike needs no more."""
    if isinstance(plain, dict):
        return {name: _shortened(value) for name, value in plain.items()}
    return [_shortened(value) for value in plain[:2]] if isinstance(plain, list) else plain


def _places(plain: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - JSON
    """Where each value stands; of a list the first one's."""
    inside = plain.items() if isinstance(plain, dict) else enumerate(plain[:1])
    for name, value in inside:
        yield (*at, name)
        if isinstance(value, dict | list):
            yield from _places(value, (*at, name))


def _mutants(text: str) -> Iterator[tuple[str, str]]:
    """(what was done, the text) of each way to damage JSON."""
    plain = _shortened(json.loads(text))
    for place in _places(plain):
        for value in _VALUES:
            made = copy.deepcopy(plain)
            held = made
            for name in place[:-1]:
                held = held[name]
            if value is _GONE:
                del held[place[-1]]
            else:
                held[place[-1]] = value
            yield f"{place} {value!r}", json.dumps(made)


def _damaged(content: bytes) -> Iterator[tuple[str, bytes]]:
    """(what was done, the bytes) of each way to damage a text."""
    yield "empty", b""
    for part in range(1, 6):
        at = len(content) * part // 6
        yield f"cut at {at}", content[:at]
        yield f"no UTF-8 at {at}", content[:at] + b"\xff" + content[at:]
        yield f"NUL at {at}", content[:at] + b"\0" + content[at:]
        yield f"quote at {at}", content[:at] + b'"' + content[at:]
        yield f"letter at {at}", content[:at] + b"x" + content[at + 1 :]
    lines = content.splitlines(keepends=True)
    middle = len(lines) // 2
    for what, line in (
        ("long", lines[middle].rstrip(b"\n") + b",1,2\n"),
        ("short", lines[middle].rpartition(b",")[0] + b"\n"),
        ("blank", b"\n"),
        ("twice", lines[middle] * 2),
    ):
        yield f"a row {what}", b"".join((*lines[:middle], line, *lines[middle + 1 :]))


def _wrong(path: Path, folder: Path, what: str) -> str | None:
    """What is wrong with how a damaged file is read; None where it is told, or does no harm."""
    try:
        _READERS[path.name](folder)
    except RccltuneError as error:
        if path.name not in f"{error.where}" and folder.name not in f"{error.where}":
            return f"{what}: where is {error.where}: {error.message[:80]}"
        return None if error.hint else f"{what}: no hint: {error.message[:80]}"
    except Exception as error:  # noqa: BLE001 - that is what must not be
        return f"{what}: {type(error).__name__}: {str(error)[:80]}"
    return None


def _copied(sessions: Path, name: str, tmp_path: Path) -> tuple[Path, Path]:
    """A copy of a session, and the first file in it that a pattern names."""
    session, _, pattern = name.partition("/")
    folder = tmp_path / session
    shutil.copytree(sessions / session, folder)
    return folder, next(iter(sorted(folder.glob(pattern))))


@pytest.mark.parametrize(
    "name",
    [
        "imported/session.json",
        "imported/launches/*/import.json",
        "imported/fit.json",
        "imported/choice.json",
        "imported/verdict.json",
        "swept/session.json",
        "swept/runs/1/run.json",
        "swept/runs/1/ending.json",
    ],
)
def test_no_field_of_a_json_file_crashes(
    sessions: Path, tmp_path: Path, name: str, is_quick: bool
) -> None:
    """Of another type, missing, negative, huge, no number, odd text, another word."""
    folder, path = _copied(sessions, name, tmp_path)
    # Each field has two or three of the values in the quick run, by turns.
    step = 5 if is_quick else 1
    found = []
    for what, text in islice(_mutants(path.read_text()), 0, None, step):
        path.write_text(text)
        found.append(_wrong(path, folder, what))
    assert len(found) > 30 // step
    assert [one for one in found if one is not None] == []


@pytest.mark.parametrize(
    "name",
    [
        "imported/samples.csv",
        "imported/fit.json",
        "imported/choice.json",
        "imported/rccl_tuner.csv",
        "imported/launches/*/stdout.log",
        "swept/samples.csv",
        "swept/runs/1/plan.txt",
        "swept/runs/1/rank-0.csv",
    ],
)
def test_no_byte_of_a_file_crashes(
    sessions: Path, tmp_path: Path, name: str, is_quick: bool
) -> None:
    """Cut, emptied, with bytes that are no text, with rows that are too short or too long."""
    folder, path = _copied(sessions, name, tmp_path)
    kept = path.read_bytes()
    found = []
    for what, content in islice(_damaged(kept), 0, None, 3 if is_quick else 1):
        path.write_bytes(content)
        found.append(_wrong(path, folder, what))
    assert [one for one in found if one is not None] == []


def test_a_table_that_was_cut_is_told_a_mistake_a_line(sessions: Path, tmp_path: Path) -> None:
    """Its last row has fewer fields, each of them missing."""
    folder, path = _copied(sessions, "swept/samples.csv", tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b",false,")])
    with pytest.raises(RccltuneError) as caught:
        _opened(folder)
    # Line breaks of ours are shown as such.
    assert isinstance(caught.value.message, JoinedLines)
    assert len(caught.value.message.splitlines()) > 2


def test_a_sweep_without_a_time_says_how_it_goes_on(sessions: Path, tmp_path: Path) -> None:
    """By the command that began it; no sample is to blame."""
    folder, path = _copied(sessions, "swept/samples.csv", tmp_path)
    path.unlink()
    shutil.rmtree(folder / "runs")
    plain = json.loads((folder / "session.json").read_text())
    (folder / "session.json").write_text(json.dumps({**plain, "n_samples": 0}))
    with pytest.raises(TooLittleDataError, match="nothing is measured yet") as caught:
        fit_session(folder, reporter=_QUIET)
    assert plain["command"] in f"{caught.value.hint}"


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_file_of_a_rank_that_lost_rows_is_named(
    sessions: Path, tmp_path: Path, *, is_deleted: bool
) -> None:
    """Once for its run, whether something is left to fit or nothing."""
    folder, _ = _copied(sessions, "swept/samples.csv", tmp_path)
    ends = {end.parent.name: end.parent for end in folder.glob("runs/*/ending.json")}
    assert samples.damage(folder, runs.read_runs(folder)) == ()
    path = ends[max(ends)] / "rank-1.csv"
    if is_deleted:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes().rpartition(b",measure,")[0])
    (notice,) = samples.damage(folder, runs.read_runs(folder))
    assert notice.where == str(path.relative_to(folder))
    try:
        told = [one.where for one in fit_session(folder, reporter=_QUIET).warnings]
    except TooLittleDataError as error:
        told = [error.where]
    assert notice.where in told
