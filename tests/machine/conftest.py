"""The plugin's detector beside ours, and real amdsmi bindings over a library made here."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from builds import plugin_built

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def probe(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that prints what the plugin's detector says (as in tests/plugin)."""
    return plugin_built(tmp_path_factory, repository) / "tests" / "rccltune-probe"


@pytest.fixture(scope="session")
def smi_release(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder with AMD's own bindings of one release, and beside them a library made from our stub.

    The bindings look up every function at import, so the names that they want are read from them
    and stand in the library as "not supported" where the stub has nothing better.
    """
    made: dict[str, Path | str] = {}

    def get(release: str) -> Path:
        if release not in made:
            made[release] = _make_release(release, tmp_path_factory.mktemp(f"smi-{release}"))
        found = made[release]
        if isinstance(found, str):
            pytest.skip(found)
        return found

    return get


def _make_release(release: str, folder: Path) -> Path | str:
    download = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--disable-pip-version-check",
    ]
    try:
        done = subprocess.run(
            [*download, "--dest", str(folder), f"amdsmi=={release}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "the package index did not answer in 60 s"
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        return f"amdsmi {release} cannot be had: {done.stderr.strip()[-200:]}"
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return "there is no C compiler for the stand-in library"
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(folder / "python")
    wrapper = (folder / "python" / "amdsmi" / "amdsmi_wrapper.py").read_text(encoding="utf-8")
    wanted = set(re.findall(r"_libraries\['libamd_smi\.so'\]\.(\w+)", wrapper))
    others = "".join(
        f"__attribute__((weak)) int {n}(void) {{ return 2; }}\n" for n in sorted(wanted)
    )
    (folder / "others.c").write_text(others, encoding="ascii")
    (folder / "rocm" / "lib").mkdir(parents=True)
    library = folder / "rocm" / "lib" / "libamd_smi.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library)]
    command += [str(HERE / "smi_stub.c"), str(folder / "others.c")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return folder
