"""What users install: one wheel for every Python, with the compiled parts inside."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rccltune import plugin


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """The wheel of this checkout; needs a package index for the build backend."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder)]
    done = subprocess.run([*command, str(repository)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no wheel could be built here: {done.stderr[-300:]}")
    return next(folder.glob("*.whl"))


@pytest.mark.long
def test_one_wheel_serves_every_python(wheel: Path) -> None:
    """py3-none: the compiled parts never see Python; nothing of the tests is in it."""
    names = zipfile.ZipFile(wheel).namelist()

    assert "-py3-none-linux" in wheel.name
    assert "rccltune/_native/librccl-tuner-rccltune.so" in names
    assert "rccltune/_native/sim/all_reduce_perf" in names
    assert "rccltune/data/nodes/mi300x-cpx-nps4.yaml" in names
    assert "rccltune/data/variants.yaml" in names
    assert "rccltune/report/files/page.html" in names
    assert not any(name.startswith(("tests/", "native_plugin/")) for name in names)
    # Nor what only the real RCCL needs, which a checkout runs.
    assert "rccltune/_native/hip/libamdhip64.so.7" in names
    assert not any("rocm_smi" in name or "zero_pages" in name for name in names)


@pytest.mark.long
@pytest.mark.parametrize("minor", range(10, 14))
def test_every_supported_python_takes_the_same_files(
    minor: int, wheel: Path, tmp_path: Path
) -> None:
    """Each module compiles there, and the compiled plugin is found and loads."""
    python = shutil.which(f"python3.{minor}")
    if python is None or subprocess.run([python, "-V"], check=False).returncode:
        pytest.skip(f"there is no Python 3.{minor} here")
    zipfile.ZipFile(wheel).extractall(tmp_path)
    (tmp_path / "loads.py").write_text(
        "import compileall, ctypes, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from rccltune import plugin\n"
        "ctypes.CDLL(str(plugin.library())).ncclTunerPlugin_v4\n"
        "sys.exit(not compileall.compile_dir(sys.argv[1] + '/rccltune', quiet=1))\n"
    )
    # -I -S: nothing of that Python's own packages.
    command = [python, "-I", "-S", "-W", "error", str(tmp_path / "loads.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_the_plugin_is_found_in_a_wheel_install(wheel: Path, tmp_path: Path) -> None:
    """plugin --path and --check work from an unpacked wheel, away from the checkout."""
    target = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    script = (
        "import sys\nsys.path.insert(0, sys.argv[1])\n"
        "from rccltune.cli import run\nsys.exit(run(['plugin', '--check']))"
    )

    # -S and -I keep the editable install of this environment out; its libraries come by path.
    libraries = [p for p in sys.path if p.endswith("site-packages")]
    script = f"import sys\nsys.path += {libraries!r}\n" + script
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", script, str(target)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert done.returncode == 0, done.stderr
    assert str(target) in done.stdout
    assert done.stdout.count("tuner interface v") == 6


def test_the_plugin_is_found_in_an_editable_install() -> None:
    """Redirecting editable installs hide names that are no identifiers; buildinfo.json helps."""
    assert plugin.library().is_file()
    assert plugin.build_info()["abi_versions"] == [2, 3, 4, 5, 6, 7]
