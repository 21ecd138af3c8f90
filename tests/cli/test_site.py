"""What sweep finds out about where it runs before anything is measured."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.machine.system import System
from rccltune.measure.site import SiteRequest, find_site, in_mode
from rccltune.model.errors import InputFileError, MachineError
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Mode


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """A benchmark that does nothing, in a folder of its own."""
    folder = tmp_path / "bench"
    folder.mkdir()
    script = folder / "all_reduce_perf"
    script.write_text("#!/bin/sh\necho 'USAGE: [-b,--minbytes] [-e,--maxbytes]'\n")
    script.chmod(0o755)
    return folder


def wish(bench: Path, **more: object) -> SiteRequest:
    """One process on that benchmark."""
    given = {"rccl_tests": bench, "n_ranks": 2, "launcher": "none", **more}
    return SiteRequest(**given)


@pytest.mark.parametrize(
    ("content", "patched"),
    [(b"\x7fELF\0RCCL_FORCE_TREE_SIMPLE\0", True), (b"\x7fELF\0RCCL_LL128_FORCE_ENABLE\0", False)],
)
def test_a_library_with_the_change_is_known_by_its_variable(
    bench: Path, gpus: Callable[[int], None], tmp_path: Path, content: bytes, patched: bool
) -> None:
    """--librccl of a stock build does not make Tree+Simple measurable; file and folder both do."""
    gpus(2)
    library = tmp_path / "lib" / "librccl.so.1"
    library.parent.mkdir()
    library.write_bytes(content)

    for named in (library, library.parent):
        site = find_site(wish(bench, librccl=named))
        assert site.has_patched_library is patched
        assert dict(site.environment)["LD_LIBRARY_PATH"].split(":")[0] == str(library.parent)
    assert find_site(wish(bench)).has_patched_library is False


@pytest.mark.parametrize(
    ("version", "tunerless"),
    [("2.20.5+hip6.2", "RCCL 2.20.5"), ("2.28.3+hip7.11", None)],
)
def test_the_library_that_is_loaded_is_what_counts(
    gpus: Callable[[int], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    tunerless: str | None,
) -> None:
    """Not the first one that lies about: --librccl and LD_LIBRARY_PATH both go by the loader."""
    compiler = shutil.which("cc")
    if compiler is None or shutil.which("ldd") is None:
        pytest.skip("no compiler, or no ldd")
    gpus(2)
    folder, bench = tmp_path / "lib", tmp_path / "bench"
    for one in (folder, bench):
        one.mkdir()
    source, library = tmp_path / "x.c", folder / "librccl.so.1"
    source.write_text(f'const char version[] = "RCCL version {version}";\n')
    shared = ["-shared", "-fPIC", "-Wl,-soname,librccl.so.1"]
    subprocess.run([compiler, *shared, source, "-o", library], check=True)
    source.write_text(
        "#include <stdio.h>\nextern const char version[];\n"
        'int main(void) { puts("[-b,--minbytes]"); return version[0] == 0; }\n'
    )
    program = bench / "all_reduce_perf"
    subprocess.run([compiler, source, library, "-o", program], check=True)

    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    site = find_site(wish(bench))
    assert site.tunerless == tunerless
    assert find_site(wish(bench, librccl=folder)).tunerless == tunerless


no_amd_gpu = pytest.mark.skipif(
    Path("/sys/class/kfd/kfd").exists(), reason="AMD's GPUs are asked first"
)


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """So many H200, as nvidia-smi lists them; no variable of ours chooses among them."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("ROCR", "HIP", "CUDA"):
        monkeypatch.delenv(f"{name}_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("GPU_DEVICE_ORDINAL", raising=False)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def list_them(n_gpus: int) -> None:
        program = folder / "nvidia-smi"
        lines = "".join(f"GPU {i}: NVIDIA H200 (UUID: GPU-{i}{i})\n" for i in range(n_gpus))
        program.write_text(f"#!/bin/sh\ncat <<E\n{lines}E\n")
        program.chmod(0o755)

    return list_them


@no_amd_gpu
@pytest.mark.parametrize(
    ("variables", "n_ranks", "chosen"),
    [
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, 2, "2,3"),
        ({"CUDA_VISIBLE_DEVICES": "1,0,2,-1,3"}, 3, "1,0,2"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-11,GPU-33"}, 2, "1,3"),
        # AMD's variables mean nothing to CUDA.
        ({"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"}, 4, None),
    ],
)
def test_a_rank_for_every_gpu_that_the_site_leaves(
    bench: Path,
    gpus: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    n_ranks: int,
    chosen: str | None,
) -> None:
    """As many as the benchmark can use, and on those: two ranks on one GPU is an error of NCCL."""
    gpus(4)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    site = find_site(wish(bench, n_ranks=None))

    assert (site.scale.n_ranks, site.seating.n_started) == (n_ranks, n_ranks)
    assert dict(site.environment).get("CUDA_VISIBLE_DEVICES") == chosen


@no_amd_gpu
@pytest.mark.parametrize(
    ("n_gpus", "listed", "said", "code"),
    [
        (0, None, "how many ranks to start is not known", 2),
        (2, "MIG-11", "how many ranks to start is not known", 2),
        (1, None, "1 of 1 GPUs can be used here, and a collective needs two", 4),
        (2, "", "0 of 2 GPUs can be used here, and a collective needs two", 4),
    ],
)
def test_where_the_number_of_ranks_is_not_known_nothing_is_made(
    bench: Path,
    gpus: Callable[[int], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    n_gpus: int,
    listed: str | None,
    said: str,
    code: int,
) -> None:
    """The error says what to do, and no folder is left to be tidied up."""
    if n_gpus == 0 and Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has NVIDIA's GPUs")
    gpus(n_gpus)
    if listed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)

    words = ["--mode", "none", "--rccl-tests", str(bench), "--launcher", "none"]
    assert run(["sweep", "--runner", "rccl-tests", *words]) == code
    assert said in capsys.readouterr().err
    assert list(empty.iterdir()) == []


@pytest.mark.mpi
def test_nodes_are_counted_in_the_host_file(bench: Path, tmp_path: Path) -> None:
    """One host that takes all ranks is one node; a wrong form is refused before anything starts."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1\n127.0.0.1\n")
    site = find_site(wish(bench, hostfile=hosts, launcher="openmpi"))
    assert (site.scale.n_nodes, site.scale.n_ranks, site.binding) == (1, 2, "numa")
    # Measured elsewhere or bound otherwise is another machine, which a session refuses.
    assert (site.fingerprint.hosts, site.fingerprint.binding) == (("127.0.0.1",), "numa")

    hosts.write_text("127.0.0.1:2\n")
    with pytest.raises(InputFileError, match="MPICH's form"):
        find_site(wish(bench, hostfile=hosts, launcher="openmpi"))


def test_a_launcher_in_a_path_with_a_blank_reaches_no_other_host(
    bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open MPI's shell would look for the first half of the path, and says no more than that."""
    program, hosts = tmp_path / "an mpi/mpirun", tmp_path / "hosts"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'mpirun (Open MPI) 5.0.11'\n")
    program.chmod(0o755)
    hosts.write_text("one slots=1\ntwo slots=1\n")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(MachineError, match="its path has a blank"):
        find_site(wish(bench, hostfile=hosts, launcher="openmpi"))


def test_tree_simple_is_measured_and_shown_and_never_emitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It beats ring/simple at 1 KiB in AMD's table (248 to 268 µs): shown, told, and in no rule."""
    try:
        plugin.native_folder()
    except MachineError as error:
        pytest.skip(str(error))
    monkeypatch.chdir(tmp_path)
    sizes = ["--collective", "all_reduce", "--min-bytes", "256", "--max-bytes", "16K"]
    settings = ["--setting", "tree/simple", "--setting", "ring/simple"]
    where = ["--simulate", "mi300x", "--mode", "cpx-nps4", "--launcher", "none"]
    where += ["--env", "RCCL_FORCE_TREE_SIMPLE=1"]

    assert run(["sweep", "--runner", "rccl-tests", *where, *sizes, *settings]) == 0
    chosen = ["emit-config", "--baseline", "ring/simple"]
    assert [run(["fit"]), run(chosen), run(["plot", "--format", "svg"])] == [0, 0, 0]
    session = tmp_path / "rccltune-session"
    curves = json.loads((session / "fit.json").read_text())["curves"]
    settings_of_curves = [curve["key"]["setting"] for curve in curves]
    assert {"algorithm": "tree", "protocol": "simple"} in settings_of_curves
    assert "tree/simple, not selectable" in (session / "plots/time.svg").read_text()
    capsys.readouterr()
    assert run([*chosen, "-o", "-", "-v"]) == 0
    captured = capsys.readouterr()
    assert "tree,simple" not in captured.out
    assert lacks(captured.err, "tree/simple") == []


def test_a_mode_is_set_on_amds_gpus_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere --apply-mode has nothing to do, or says that there are no partitions."""
    none, cpx = Mode.parse("none"), Mode.parse("cpx-nps4")
    there = System(root=Path("/"), status="none", mode=none)
    monkeypatch.setattr("rccltune.measure.site.system_here", lambda: there)
    with in_mode(none, apply=True, reporter=Reporter()):
        pass
    with (
        pytest.raises(MachineError, match="this machine is none") as caught,
        in_mode(cpx, apply=True, reporter=Reporter()),
    ):
        pytest.fail("the block must not run")
    assert "amd-smi" not in str(caught.value.hint)
