"""Other people's sessions and rule files are data: what they name is not run, set or followed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import made
import pytest
from archives import unpack
from wording import lacks

from rccltune.cli import run
from rccltune.launch.variables import module
from rccltune.launch.variables import program as launch_program
from rccltune.measure.ownership import is_own_session
from rccltune.rules.needs import harmless

pytestmark = pytest.mark.usefixtures("stand_ins", "here")
SESSION = Path("rccltune-session")
RULES = "allreduce,8192,1048576,ring,ll,-1,1,2,-1,-1\n"
Capture = pytest.CaptureFixture[str]
# Set by the catalog in rccltune/data/variants.yaml that name no folder: read off by hand.
SHIPPED = {
    *("HIP_FORCE_DEV_KERNARG", "HSA_FORCE_FINE_GRAIN_PCIE", "NCCL_MIN_NCHANNELS"),
    *("MSCCLPP_READ_ALLRED", "RCCL_MSCCLPP_ENABLE", "RCCL_MSCCLPP_FORCE_ENABLE"),
    *("RCCL_MSCCLPP_THRESHOLD", "RCCL_MSCCL_ENABLE", "RCCL_MSCCL_ENABLE_SINGLE_PROCESS"),
    *("RCCL_MSCCL_FORCE_ENABLE", "RCCL_LL128_FORCE_ENABLE", "RCCL_LOW_PRECISION_ENABLE"),
    *("RCCL_DDA_ENABLE", "RCCL_DDA_NRANKS_RELAX", "RCCL_DDA_THRESHOLD"),
    *("RCCL_DDA_ALL_REDUCE_FLAT_MAX_BYTES", "RCCL_DDA_ALL_REDUCE_TREE_MAX_BYTES"),
    *("RCCL_ENABLE_DDA_ALL_GATHER", "RCCL_ENABLE_DDA_ALL_REDUCE", "RCCL_ENABLE_DDA_ALL_TO_ALL"),
    *("RCCL_ENABLE_DDA_REDUCE_SCATTER", "RCCL_DIRECT_ALLGATHER_DISABLE"),
    *("RCCL_DIRECT_ALLGATHER_THRESHOLD", "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"),
    # Numbers, each read by RCCL alone; none names code or a file.
    *("RCCL_CE_ALLREDUCE", "RCCL_FORCE_CE_ALLREDUCE", "RCCL_DIRECT_REDUCE_SCATTER_DISABLE"),
    "RCCL_HIERARCHICAL_ALLGATHER",
    *("NCCL_CTA_POLICY", "NCCL_CUMEM_ENABLE", "NCCL_GIN_MLOPART", "NCCL_LOCAL_REGISTER"),
}
DANGEROUS = (
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "PYTHONPATH", "NCCL_TUNER_PLUGIN"),
    *("NCCL_NET_PLUGIN", "NCCL_CONF_FILE", "HSA_TOOLS_LIB", "MSCCL_XML_FILES", "MSCCL_ALGO_DIR"),
    *("NCCL_TOPO_FILE", "RCCLTUNE_TRACE", "ROCP_TOOL_LIB", "PATH"),
)


@pytest.fixture
def mailed(swept: Path) -> Path:
    """A session of this user's own in the working directory, and rules to verify."""
    Path("mine.csv").write_text(RULES, encoding="utf-8")
    return swept


def program(folder: Path) -> Path:
    """A benchmark that leaves a mark wherever it is run."""
    folder.mkdir()
    mark = Path("ran").resolve()
    for name in ("all_reduce_perf", "python", "mpirun"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {mark}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder.resolve()


def changed(mailed: Path, *lines: str) -> None:
    """The same session, whose sweep.yaml says something else about where to run."""
    path = mailed / "sweep.yaml"
    old = path.read_text(encoding="utf-8").splitlines()
    kept = [line for line in old if not line.startswith(("simulate:", "launcher:"))]
    path.write_text("\n".join([*kept, *lines]) + "\n", encoding="utf-8")


VERIFY = ("verify", "--rules", "mine.csv", "-q")


def test_a_copied_id_with_another_sweep_runs_nothing(mailed: Path, capsys: Capture) -> None:
    """The id alone is no proof: the note has what the sweep said when we made it."""
    bad = program(Path("bad"))
    changed(mailed, f"rccl_tests: {bad}")
    assert run([*VERIFY]) == 2
    said = capsys.readouterr().err
    assert str(bad) in said
    assert not Path("ran").exists()
    # verify has no --rccl-tests; what the hint says instead can be done.
    assert "--rccl-tests" not in said
    assert lacks(said, "take rccl_tests out of your copy of that file") == []
    path = mailed / "sweep.yaml"
    path.write_text(path.read_text().replace(f"rccl_tests: {bad}\n", ""))
    run([*VERIFY])
    assert "was not made by you" not in capsys.readouterr().err


def test_a_session_from_a_mail_runs_nothing(
    mailed: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever unpacks it owns every file of it, and has no note of having made it."""
    bad = program(Path("bad"))
    changed(mailed, f"rccl_tests: {bad}", "env: {LD_PRELOAD: /tmp/x.so}")
    with tarfile.open("mail.tar", "w") as tar:
        tar.add(mailed, arcname=SESSION)
    shutil.rmtree(mailed)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another home"))
    unpack(Path("mail.tar"), Path())
    assert mailed.stat().st_uid == os.getuid()
    assert run([*VERIFY]) == 2
    said = capsys.readouterr().err
    assert str(bad) in said
    assert "LD_PRELOAD=/tmp/x.so" in said
    assert not Path("ran").exists()


def goes_on(words: list[str], capsys: Capture) -> bool:
    """Whether it gets as far as the rules, which are for ranks that are not there."""
    Path("mine.csv").write_text(RULES.replace(",1,2,", ",1,4,"), encoding="utf-8")
    return run(words) == 2 and "no rule of this file is for 2 ranks" in capsys.readouterr().err


def test_naming_what_to_use_oneself_needs_no_trust(
    mailed: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    swept_once: Path,
    tmp_path: Path,
) -> None:
    """A command line that says where to run leaves nothing of it to the session."""
    assert mailed.is_dir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another home"))
    assert not goes_on([*VERIFY], capsys)
    assert goes_on([*VERIFY, "--simulate", str(swept_once.parent / "node.yaml")], capsys)


def test_the_node_in_a_session_is_data_for_our_own_benchmark(
    mailed: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whosever it is; a program that its sweep.yaml names beside it is run by nobody."""
    bad = program(Path("bad"))
    changed(mailed, "simulate: node.node")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another home"))
    assert goes_on([*VERIFY], capsys)
    changed(mailed, "simulate: node.node", f"rccl_tests: {bad}")
    assert run([*VERIFY]) == 2
    assert str(bad) in capsys.readouterr().err
    words = ["--collective", "all_reduce", "--min-bytes", "8K", "--max-bytes", "1M", "--plan"]
    assert run(["sweep", "--mode", "spx-nps1", *words]) == 7
    assert lacks(capsys.readouterr().err, "SIMULATED") == []
    assert not Path("ran").exists()


def test_a_session_stays_ones_own_when_a_copy_of_it_is_swept_again(
    mailed: Path, capsys: Capture, swept_once: Path
) -> None:
    """Both have one id, and the copy's sweep.yaml says another node from then on."""
    shutil.copytree(mailed, "copy")
    shutil.copy(swept_once.parent / "node.yaml", "other.yaml")
    assert run(["sweep", "-o", "copy", *made.words("other.yaml"), "-q"]) == 0
    assert Path("copy/sweep.yaml").read_bytes() != (mailed / "sweep.yaml").read_bytes()
    assert goes_on([VERIFY[0], "copy", *VERIFY[1:]], capsys)
    assert goes_on([*VERIFY], capsys)
    changed(mailed, "env: {LD_PRELOAD: /tmp/x.so}")
    assert not goes_on([*VERIFY], capsys)


def test_without_a_home_a_sweep_works_and_trusts_nobody(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No note can be written; that costs the trust and nothing else."""
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/proc/nowhere")
    words = made.words(made.node(here / "node.yaml"), "ring/ll")
    assert run(["sweep", *words, "--communicators", "1", "-q"]) == 0
    assert not is_own_session(SESSION)


def test_modules_of_the_current_folder_are_not_imported(here: Path, capsys: Capture) -> None:
    """A torch.py in a mailed folder is not the user's PyTorch."""
    mark = here / "imported"
    for name in ("torch", "json", "runpy"):
        Path(f"{name}.py").write_text(f"open({str(mark)!r}, 'w')\n", encoding="utf-8")
    for started in (
        launch_program(sys.executable, "import json; print(json.dumps(1))"),
        module(sys.executable, "json.tool"),
    ):
        ended = subprocess.run(started, input=b"1", capture_output=True, check=True, cwd=here)
        assert ended.stdout.strip() == b"1"
    assert not mark.exists()


def test_only_harmless_names_are_set_unasked() -> None:
    """A list of names: families hold both what chooses and what loads."""
    assert harmless() == SHIPPED
    assert harmless() & set(DANGEROUS) == set()


def reading() -> list[list[str]]:
    """Verbs that read a session."""
    verbs = [["fit"], ["emit-config", "-o", "-"], ["report", "-o", "page.html"], ["explain"]]
    return [*verbs[:3], ["plot", "-o", "figures"], ["deploy", "site", str(SESSION)]]


@pytest.mark.parametrize("words", reading(), ids=lambda words: words[0])
def test_links_and_pipes_in_a_session_are_not_followed(
    mailed: Path, capsys: Capture, words: list[str]
) -> None:
    """A link would bring a secret into the page; whoever opens a pipe waits for ever."""
    Path("secret").write_text("the secret\n", encoding="utf-8")
    launch = mailed / "runs" / "1"
    for make in ("link", "folder", "pipe"):
        path = launch / ("log.txt" if make != "folder" else "more")
        kept = path.read_bytes() if path.exists() else None
        path.unlink(missing_ok=True)
        if make == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(Path("secret" if make == "link" else ".").resolve())
        assert run([*words, "-q"]) == 7
        assert path.name in capsys.readouterr().err
        path.unlink()
        if kept is not None:
            path.write_bytes(kept)
    assert not any("the secret" in p.read_text(errors="replace") for p in Path().glob("*.html"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (("fingerprint", "arch"), "../../outside"),
        (("fingerprint", "arch"), "gfx942\n#@ needs LD_PRELOAD=/tmp/x.so"),
        (("fingerprint", "product"), "MI300X\x1b[2J"),
        (("fingerprint", "hosts"), ["a\nb"]),
        (("id",), "../../x"),
        (("tool",), "\ud800"),
    ],
)
def test_what_a_header_may_say(
    mailed: Path, capsys: Capture, field: tuple[str, ...], value: object
) -> None:
    """Exit 7 with the field; nothing is written, in the session or outside."""
    path = mailed / "session.json"
    plain = json.loads(path.read_text(encoding="utf-8"))
    inner = plain
    for key in field[:-1]:
        inner = inner[key]
    inner[field[-1]] = value
    path.write_text(json.dumps(plain), encoding="utf-8")
    before = sorted(map(str, Path().rglob("*")))
    assert run(["emit-config", "-q"]) == 7
    said = capsys.readouterr().err
    assert "session.json" in said
    assert field[-1] in said or "JSON" in said
    assert sorted(map(str, Path().rglob("*"))) == before
