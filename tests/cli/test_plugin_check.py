"""plugin --check --pid and --python: libraries made up with a compiler, processes that are real."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.machine import loaded_libraries
from rccltune.machine.files import Root
from rccltune.model.errors import MachineError
from rccltune.releases import RELEASES, Release
from rccltune.rules.library import BEGIN, END, check_process, document, table
from rccltune.session import files

pytestmark = pytest.mark.usefixtures("here")

# (what the library says of itself, tuner symbols in it, its built-in tuner's words)
TODAY = ("RCCL version 2.27.7+hip7.1", (4, 3, 2), False)
BUILT_IN = ("RCCL version : 2.28.3-develop:abc", (5, 4, 3, 2), True)
OLD = ("RCCL version 2.20.5+hip6.2", (1,), False)
TWO = ("RCCL version 2.21.5+hip6.3", (2,), False)
NVIDIA = ("NCCL version 2.28.9+cuda13.0", (5, 4, 3, 2), False)
SAYS_NOTHING = ("NCCL version 2.30.3+cuda13.0", (), False)
SAYS_NOTHING_EITHER = ("NCCL version 2.32.6+cuda13.2", (), False)

Build = Callable[..., Path]
Start = Callable[..., int]


@pytest.fixture(autouse=True)
def installed() -> None:
    """Skip where this install has no plugin."""
    try:
        plugin.library()
    except MachineError as error:
        pytest.skip(str(error))


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Makes a shared library with some strings in it."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no compiler here")

    def built(
        kind: tuple[str, tuple[int, ...], bool], name: str = "librccl.so.1", folder: str = "lib"
    ) -> Path:
        version, symbols, reads_rules = kind
        texts = [version, *(f"ncclTunerPlugin_v{abi}" for abi in symbols)]
        texts += ["Using built-in CSV tuner, config: %s"] * reads_rules
        source = tmp_path / "library.c"
        source.write_text("".join(f'const char t{i}[] = "{t}";\n' for i, t in enumerate(texts)))
        target = tmp_path / folder / name
        target.parent.mkdir(exist_ok=True, parents=True)
        options = ["-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", target]
        subprocess.run([compiler, *options, source], check=True)
        return target

    return built


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a job that has libraries mapped; returns its pid."""
    jobs: list[subprocess.Popen[str]] = []

    def started(*libraries: Path, **variables: str) -> int:
        env = {"LD_PRELOAD": " ".join(map(str, libraries)), **variables}
        job = subprocess.Popen(["/bin/sleep", "60"], env=env, stdout=subprocess.PIPE, text=True)
        jobs.append(job)
        limit = time.monotonic() + 10
        while time.monotonic() < limit:
            # Between fork and exec it is still ours.
            mapped = Path(f"/proc/{job.pid}/maps").read_text(encoding="utf-8")
            if all(str(library) in mapped for library in libraries) and "sleep" in mapped:
                return job.pid
            time.sleep(0.01)
        raise AssertionError(mapped)

    yield started
    for job in jobs:
        job.kill()
        job.communicate()


def told(capsys: pytest.CaptureFixture[str], *words: str | int, code: int = 0) -> dict[str, object]:
    """The answer as JSON."""
    capsys.readouterr()
    assert run(["plugin", "--check", *map(str, words), "--json"]) == code
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


@pytest.mark.parametrize(
    ("kind", "name", "version", "looks_up", "need"),
    [
        (TODAY, "librccl.so.1.0.70100", "RCCL 2.27.7+hip7.1", [4, 3, 2], "plugin"),
        (BUILT_IN, "librccl.so.1", "RCCL 2.28.3-develop:abc", [5, 4, 3, 2], "rules"),
        (TWO, "librccl.so", "RCCL 2.21.5+hip6.3", [2], "plugin"),
        (NVIDIA, "libnccl.so.2", "NCCL 2.28.9+cuda13.0", [5, 4, 3, 2], "plugin"),
        # NCCL 2.30 introduced version 6 and still takes those from 2 on.
        (SAYS_NOTHING, "libnccl.so.2", "NCCL 2.30.3+cuda13.0", [6, 5, 4, 3, 2], "plugin"),
        # NCCL 2.32.6 introduced version 7.
        (
            SAYS_NOTHING_EITHER,
            "libnccl.so.2",
            "NCCL 2.32.6+cuda13.2",
            [7, 6, 5, 4, 3, 2],
            "plugin",
        ),
    ],
)
def test_what_a_job_has_loaded_decides_what_it_needs(
    build: Build,
    start: Start,
    capsys: pytest.CaptureFixture[str],
    kind: tuple[str, tuple[int, ...], bool],
    name: str,
    version: str,
    looks_up: list[int],
    need: str,
) -> None:
    """Path, version, hash, interfaces, its own tuner; the file's words go before its version."""
    library = build(kind, name)
    answer = told(capsys, "--pid", start(library))
    [found] = answer["libraries"]
    sentence = found.pop("sentence")
    assert found == {
        "path": str(library),
        "deleted": False,
        "version": version,
        "sha256": files.sha256_of(library),
        "looks_up": looks_up,
        "built_in_tuner": need == "rules",
        "need": need,
        "ways": {
            "one": "file alone" if need == "rules" else "plugin",
            "several": "plugin with mode key",
        },
    }
    assert answer["tuners"] == []
    assert ("no plugin is needed" in sentence) == (need == "rules")
    assert ("ring/simple" in sentence) == (kind is TWO)


# Which symbol each release looks for, and who reads rule files itself: the sources' own words, as
# collected in the facts (NCCL and RCCL src/plugin/tuner.cc, rocm-systems #4503).
KEYED = "plugin with mode key"
LINES = list({one.name: one for one in RELEASES}.values())
KNOWN = {
    "RCCL 2.20.5": (0, "nothing works", "nothing works"),
    "RCCL 2.21.5": (2, "plugin", KEYED),
    "RCCL 2.22.3": (3, "plugin", KEYED),
    "RCCL 2.27.7": (4, "plugin", KEYED),
    "RCCL 2.28.3": (5, "plugin", KEYED),
    "RCCL 2.28.3 built in": (5, "file alone", KEYED),
    "RCCL 2.30.7 built in": (6, "file alone", KEYED),
    "NCCL 2.20.5": (0, "nothing works", "nothing works"),
    "NCCL 2.21.5": (2, "plugin", KEYED),
    "NCCL 2.23.4": (3, "plugin", KEYED),
    "NCCL 2.27.7": (4, "plugin", KEYED),
    "NCCL 2.29.7": (5, "plugin", KEYED),
    "NCCL 2.32.3": (6, "plugin", KEYED),
    "NCCL 2.32.6": (7, "plugin", KEYED),
}


def test_the_table_of_the_docs_is_what_the_data_says(repository: Path) -> None:
    """docs/which-file.md between its marks, and each of its lines against the sources."""
    offered = tuple(plugin.build_info()["abi_versions"])
    made = document(offered)
    text = (repository / "docs" / "which-file.md").read_text(encoding="utf-8")
    assert "\n".join(made) in text
    assert text.count(BEGIN) == text.count(END) == 1
    rows = [line.strip("| ").split(" | ") for line in table(offered)[2:]]
    found = {
        one.version + " built in" * one.reads_rules: (int(row[1].replace("–", "0")), row[2], row[3])
        for one, row in zip(LINES, rows, strict=True)
    }
    assert {name: (abi, one, more.strip(" |")) for name, (abi, one, more) in found.items()} == KNOWN


def test_readme_has_the_table_in_short(repository: Path) -> None:
    """A row for each pair of answers that works, from the first release that gets it on."""
    text = (repository / "README.md").read_text(encoding="utf-8")
    _, after = text.split("| which file do I need")
    found = [
        line.strip("| ").split(" | ") for line in after.splitlines()[2:] if line.startswith("| ")
    ]
    first: dict[tuple[str, str], list[str]] = {}
    for name, (_, one, several) in KNOWN.items():
        first.setdefault((one, several), []).append(name)
    assert {(one, several) for _, one, several in found} == set(first) - {("nothing works",) * 2}
    rows = {(one, several): releases for releases, one, several in found}
    # ROCm 6.3 brought RCCL 2.21.5, 7.12 the last 2.28 without a reader (KNOWN, and the long table).
    assert lacks(rows["plugin", KEYED], "RCCL", "ROCm", "6.3", "7.12", "NCCL", "2.21") == []
    assert first["plugin", KEYED][0] == "RCCL 2.21.5"
    assert "NCCL 2.21.5" in first["plugin", KEYED]
    assert "NCCL 2.32.6" in first["plugin", KEYED]
    assert lacks(rows["file alone", KEYED], "RCCL", "ROCm", "7.13") == []
    assert first["file alone", KEYED][0] == "RCCL 2.28.3 built in"


@pytest.mark.parametrize("release", LINES, ids=lambda one: one.name)
def test_a_library_on_the_machine_is_told_what_the_table_says(
    build: Build, start: Start, release: Release
) -> None:
    """By its version alone, where the file names no symbol."""
    name = "librccl.so.1" if release.version.startswith("R") else "libnccl.so.2"
    words = release.version.replace(" ", " version ") + "+x"
    pid = start(build((words, (), release.reads_rules), name))
    [answer] = check_process(pid).answers
    _, one, several = KNOWN[release.version + " built in" * release.reads_rules]
    assert [found.value for _, found in answer.ways] == [one, several]


def test_the_mode_of_the_machine_is_said(
    build: Build, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which of the two columns is meant, only the site knows; its mode now is shown."""
    pid = start(build(BUILT_IN))
    assert "mode" in told(capsys, "--pid", pid)
    assert run(["plugin", "--check", "--pid", str(pid)]) == 0
    said = capsys.readouterr().out
    assert lacks(said, "GPUs") == []
    assert "one mode everywhere, or no partitions: file alone" in said
    assert "modes that change, or differ between nodes: plugin with mode key" in said


def test_a_library_before_tuners_is_too_old(
    build: Build, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    """Version 1 of the interface is in no plugin: exit code 4, after saying what was found."""
    pid = start(build(OLD))
    assert run(["plugin", "--check", "--pid", str(pid)]) == 4
    captured = capsys.readouterr()
    assert lacks(captured.out, "RCCL", "2.20.5+hip6.2") == []
    assert "ROCm 6.3" in captured.err


def test_the_plugin_in_a_job_is_recognised(
    build: Build, start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """This install's by its content, under any path; another's is another's."""
    library = build(TODAY)
    copy = tmp_path / "site" / plugin.LIBRARY
    copy.parent.mkdir()
    shutil.copy(plugin.library(), copy)
    other = build(("x", (5,), False), "libnccl-tuner-other.so")
    chosen = {"NCCL_TUNER_PLUGIN": str(copy), "NCCL_ALGO": "Ring", "SECRET": "x"}
    answer = told(capsys, "--pid", start(library, copy, other, **chosen))
    tuners = {one["path"]: (one["ours"], one["offers"]) for one in answer["tuners"]}
    assert tuners == {str(copy): (True, [7, 6, 5, 4, 3, 2]), str(other): (False, [5])}
    # What chooses, and nothing else of the job's environment.
    assert answer["variables"] == {"NCCL_TUNER_PLUGIN": str(copy), "NCCL_ALGO": "Ring"}


def test_a_library_that_was_replaced_under_a_job_is_called_so(
    build: Build, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    """An upgrade: the job runs the old one, and its path now is the new one."""
    library = build(TODAY)
    digest = files.sha256_of(library)
    pid = start(library)
    library.unlink()
    build(OLD)
    [found] = told(capsys, "--pid", pid)["libraries"]
    assert found["deleted"] is True
    # By its addresses in memory, which root alone may follow.
    assert found["sha256"] in (digest, None)
    assert (found["need"] == "plugin") == (found["sha256"] is not None)
    assert run(["plugin", "--check", "--pid", str(pid)]) == 0
    assert "removed or replaced since it was loaded" in capsys.readouterr().out


def test_processes_that_cannot_tell(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    """One that has ended, one without a library: exit code 4 with what to do."""
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    assert run(["plugin", "--check", "--pid", str(ended.pid)]) == 4
    assert lacks(capsys.readouterr().err, f"process {ended.pid}", "no process") == []
    assert run(["plugin", "--check", "--pid", str(start())]) == 4
    assert lacks(capsys.readouterr().err, "no librccl") == []


def test_a_process_that_has_just_ended_has_nothing_mapped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A zombie, which its parent has not asked about yet."""
    with subprocess.Popen(["/bin/true"]) as job:
        limit = time.monotonic() + 10
        while Path(f"/proc/{job.pid}/maps").read_text(encoding="utf-8"):
            assert time.monotonic() < limit
        assert run(["plugin", "--check", "--pid", str(job.pid)]) == 4
    assert lacks(capsys.readouterr().err, "nothing mapped") == []


def test_another_users_process_is_said_to_be_one(tmp_path: Path) -> None:
    """Where reading is denied even to root, as the kernel denies it to others."""
    folder = tmp_path / "proc" / "77"
    folder.mkdir(parents=True)
    # The one file that nobody may read, root included.
    (folder / "maps").symlink_to("/proc/sys/vm/compact_memory")
    with pytest.raises(MachineError, match="looked") as caught:
        loaded_libraries.loaded_by_process(77, Root(tmp_path))
    assert lacks(str(caught.value), "that user") == []


TORCH = """
class version:
    hip = {hip!r}
    cuda = {cuda!r}
__version__ = "2.9.1"
{more}
"""


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A torch of our own on the path of every Python; returns its lib folder."""

    def made(more: str = "", hip: str | None = "7.1", cuda: str | None = None) -> Path:
        folder = tmp_path / "packages" / "torch"
        (folder / "lib").mkdir(parents=True, exist_ok=True)
        text = TORCH.format(hip=hip, cuda=cuda, more=more)
        (folder / "__init__.py").write_text(text, encoding="utf-8")
        monkeypatch.setenv("PYTHONPATH", str(folder.parent))
        return folder / "lib"

    return made


LOADS = "import ctypes, pathlib\nctypes.CDLL(str(pathlib.Path(__file__).parent / 'lib/librccl.so'))"


def test_torch_brings_a_library_of_its_own(
    torch: Callable[..., Path], build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    """What its import maps; chatter on stdout does no harm."""
    folder = torch(f"print('hello {{')\n{LOADS}")
    library = build(BUILT_IN, "librccl.so", "packages/torch/lib")
    answer = told(capsys, "--python", sys.executable)
    [found] = answer["libraries"]
    assert (found["path"], found["need"]) == (str(library), "rules")
    assert folder == library.parent
    assert "HIP 7.1" in answer["what"]
    assert answer["by"] == "what importing torch maps"


def test_a_torch_that_loads_later_is_looked_into(
    torch: Callable[..., Path], build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file in its lib folder, or what ld.so finds for its own library."""
    folder = torch(hip=None, cuda="13.0")
    library = build(NVIDIA, "libnccl.so.2", "packages/torch/lib")
    [found] = told(capsys, "--python", sys.executable)["libraries"]
    assert found["path"] == str(library)

    elsewhere = build(TODAY, "librccl.so.1", "rocm")
    source = folder / "holder.c"
    source.write_text("int holder;\n")
    cc = str(shutil.which("cc"))
    linked = ["-shared", "-fPIC", "-Wl,--no-as-needed", source, elsewhere]
    linked += [f"-Wl,-rpath,{elsewhere.parent}", "-o", folder / "libtorch_hip.so"]
    subprocess.run([cc, *linked], check=True)
    [found] = told(capsys, "--python", sys.executable)["libraries"]
    assert found["path"] == str(elsewhere)


def test_nccl_inside_torchs_own_library(
    torch: Callable[..., Path], build: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    """Linked statically: no libnccl is mapped, and its words are in libtorch_cuda."""
    torch(LOADS.replace("librccl.so", "libtorch_cuda.so"), hip=None, cuda="13.0")
    library = build(NVIDIA, "libtorch_cuda.so", "packages/torch/lib")
    [found] = told(capsys, "--python", sys.executable)["libraries"]
    assert (found["path"], found["version"]) == (str(library), "NCCL 2.28.9+cuda13.0")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("raise ImportError('librccl.so.1: cannot open shared object')", "cannot import torch"),
        ("import os; os._exit(3)", "exit code 3"),
        ("", "no librccl or libnccl in torch 2.9.1"),
    ],
)
def test_a_torch_that_does_not_help(
    torch: Callable[..., Path], capsys: pytest.CaptureFixture[str], more: str, says: str
) -> None:
    """Its own words are shown."""
    torch(more)
    assert run(["plugin", "--check", "--python", sys.executable]) == 4
    assert says in capsys.readouterr().err


def test_a_python_without_torch_or_none_at_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both are the user's to name."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    assert run(["plugin", "--check", "--python", python]) == 4
    assert lacks(capsys.readouterr().err, "no torch") == []
    assert run(["plugin", "--check", "--python", "/no/python"]) == 4
    assert lacks(capsys.readouterr().err, "not start") == []


def test_an_import_that_hangs_ends(torch: Callable[..., Path]) -> None:
    """A driver that does not answer: after the limit, with what to do."""
    torch("import time; time.sleep(60)")
    with pytest.raises(MachineError, match="import"):
        loaded_libraries.loaded_by_torch(sys.executable, dict(os.environ), timeout_s=1)


@pytest.mark.parametrize(
    "words",
    [["--path", "--pid", "1"], ["--env", "--python", "x"], ["--pid", "1", "--python", "x"]],
    ids=" ".join,
)
def test_options_that_do_not_go_together(words: list[str]) -> None:
    """Exit code 2."""
    assert run(["plugin", *words]) == 2


def test_lines_that_the_librarys_own_reader_takes_otherwise_are_named(
    build: Build, start: Start, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The job reads the file without our plugin: its indented comment is a row to RCCL's first."""
    path = tmp_path / "rules.csv"
    row = "allreduce,0,4096,ring,ll,-1,1,8,-1,-1\n"
    path.write_text(f"{row}  # {row}", encoding="utf-8")
    library = build(BUILT_IN)
    answer = told(capsys, "--pid", start(library, NCCL_TUNER_CONFIG_FILE=str(path)))
    assert [str(one).partition(":")[0] for one in answer["read_otherwise"]] == ["line 2"]
    # Our plugin is what reads it here.
    copy = shutil.copy(plugin.library(), tmp_path / "tuner.so")
    pid = start(library, Path(copy), NCCL_TUNER_CONFIG_FILE=str(path), NCCL_TUNER_PLUGIN=str(copy))
    assert told(capsys, "--pid", pid)["read_otherwise"] == []
