"""What a user sees stays byte for byte: transcripts of whole ways through the command line.

Each scenario is a list of command lines that run as processes of their own in an empty folder with a copy
of examples/. Its transcript (exit code, stdout, stderr, files) is compared with expected/NAME.txt.
After a change that is meant: ``RCCLTUNE_GOLDEN=write pytest tests/golden``, and read the diff.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from forked import rccltune

from rccltune import plugin
from rccltune.model.errors import MachineError

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
# Of JSON longer than this each list stands with its first element and the number of the others, and
# text of several lines with their number (the files show it): every key is there, and a change is a
# diff of a few lines.
VERBATIM = 6000
RULES = sorted(p.relative_to(EXAMPLES.parent).as_posix() for p in EXAMPLES.glob("*/rccl_tuner.csv"))
SWEEP = "--simulate examples/nodes/smallest.yaml --mode spx-nps1 --collective all_reduce"
SIZES = "--min-bytes 64K --max-bytes 1M --factor 4 --seed 7"
BAD = "collective: [all_reduces]\nmin_bytes: 1Q\nitersss: 3\ncommunicators: 0\n"


SCENARIOS: dict[str, list[str]] = {
    "import-mi300x-cpx-nps4": [
        "import examples/mi300x-cpx-nps4/all_reduce.csv -o S --json",
        "fit S",
        "fit S --json",
        "emit-config S --json",
        "report S -q",
        "plot S -q",
    ],
    "explain": [c for path in RULES for c in (f"explain {path} --json", f"explain {path}")],
    # What click says of an option or a verb differs from release to release.
    "errors": [
        "sweep -c bad.yaml --plan",
        "fit missing",
        "emit-config missing",
        "fit foreign",
    ],
}
# What is measured differs from machine to machine, even simulated; what would be, does not.
PLANS = [
    f"sweep {SWEEP} {SIZES} -o S --plan",
    f"tune {SWEEP} {SIZES} -o S --plan",
]


def _tidy(text: str, root: Path) -> str:
    """Leave out what varies: this folder, the install, versions, dates, durations, hashes."""
    library = str(plugin.library())
    places = {
        # As a shell takes it, where it has a blank.
        shlex.quote(library): f"NATIVE/{plugin.LIBRARY}",
        library: f"NATIVE/{plugin.LIBRARY}",
        str(root): "ROOT",
        str(EXAMPLES.parent): "REPO",
        sys.prefix: "VENV",
    }
    for place, name in places.items():
        text = text.replace(place, name)
    for pattern, name in VARIES:
        text = re.sub(pattern, name, text)
    return text


VARIES = (
    (r"(?<=files written )\d{4}-\d\d-\d\d( to \d{4}-\d\d-\d\d)?", "DATE"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?", "DATE"),
    (r"\b[\d,]+ bytes\)", "N bytes)"),
    (r"(?m)^[0-9a-f]{10}(?=,)", "LAUNCH"),
    (r'(?<=["/+])[0-9a-f]{10}(?=["/.])', "LAUNCH"),
    (r'"(\w+_s)": [\d.]+', r'"\1": SECONDS'),
    (r"about \d+ s\b", "about N s"),
    (r"[0-9a-f]{64}", "SHA256"),
    (r'"bytes": \d+', '"bytes": N'),
    (r"rccltune \d+\.\d+[\w.+]*", "rccltune VERSION"),
)


def _run(words: str, root: Path) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "XDG_STATE_HOME": str(root / ".state"),
        "MPLCONFIGDIR": os.environ.get("MPLCONFIGDIR", str(root.parent / "matplotlib")),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
    }
    done = rccltune(words.split(), root, environment)
    lines = [f"$ rccltune {words}", f"exit code {done.returncode}"]
    for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        lines += [f"--- {name}", _tidy(_shown(text), root)]
    return "\n".join(lines) + "\n"


def _shown(text: str) -> str:
    """Long JSON reduced; any other text as it is."""
    if len(text) <= VERBATIM or not text.startswith("{"):
        return text
    return json.dumps(_reduced(json.loads(text)), indent=1, ensure_ascii=False)


def _reduced(value: object) -> object:
    if isinstance(value, dict):
        return {key: _reduced(one) for key, one in value.items()}
    if isinstance(value, list):
        more = [f"and {len(value) - 1} more"] if len(value) > 1 else []
        return [*map(_reduced, value[:1]), *more]
    if isinstance(value, str) and "\n" in value:
        return f"{len(value.splitlines())} lines"
    return value


def _files(root: Path) -> str:
    """Rule files, .env files and samples by their content; of other files, that they are there."""
    lines = []
    for path in sorted((root / "S").rglob("*")):
        name = path.relative_to(root).as_posix()
        if not path.is_file() or "/launches/" in name:
            continue
        lines.append(_tidy(f"=== {name}", root))
        if path.suffix in {".csv", ".env", ".conf"}:
            lines.append(_tidy(path.read_text(encoding="utf-8"), root))
    return "\n".join(lines) + "\n"


def _transcript(commands: list[str], root: Path) -> str:
    shutil.copytree(EXAMPLES, root / "examples")
    (root / "bad.yaml").write_text(BAD, encoding="utf-8")
    (root / "foreign").mkdir()
    (root / "foreign/session.json").write_text('{"format": 99}\n', encoding="utf-8")
    return "".join(_run(words, root) for words in commands) + _files(root)


def _compare(name: str, found: str) -> None:
    path = HERE / "expected" / f"{name}.txt"
    if os.environ.get("RCCLTUNE_GOLDEN") == "write":
        path.write_text(found, encoding="utf-8")
        return
    wanted = path.read_text(encoding="utf-8")
    shown = difflib.unified_diff(
        wanted.splitlines(), found.splitlines(), "expected", "found", "", "", 2
    )
    assert found == wanted, "\n".join(shown)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_way_without_a_machine_is_as_it_was(name: str, tmp_path: Path) -> None:
    """An example read, fitted, emitted, drawn; rule files explained; mistakes told."""
    _compare(name, _transcript(SCENARIOS[name], tmp_path))


def test_the_plan_of_a_sweep_and_of_a_tune_is_as_it_was(tmp_path: Path) -> None:
    """Of the smallest node; tests/measure looks at the one of a sweep by rccl-tests."""
    try:
        there = (plugin.native_folder() / "sim" / "all_reduce_perf").is_file()
    except MachineError as error:
        pytest.skip(str(error))
    if not there:
        pytest.skip("this install has no stand-in benchmarks")
    _compare("simulated-plan", _transcript(PLANS, tmp_path))
