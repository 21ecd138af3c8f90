"""Whether a library has NPKit, and where its trace generator is."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from rccltune.npkit import find_tools, has_npkit, next_command

# What RCCL's init.cc does under ENABLE_NPKIT, what MSCCL++ asks for, and neither.
HEAD = "#include <stdio.h>\n#include <stdlib.h>\nvoid destroy(void) {"
ASKS = 'puts(getenv("NPKIT_DUMP_DIR"));'
WARNS = 'puts("NPKIT_DUMP_DIR is empty");'
MSCCLPP = 'puts(getenv("MSCCLPP_NPKIT_DUMP_DIR"));'
SOURCES = {
    "npkit": (ASKS + WARNS, True),
    "both": (ASKS + MSCCLPP + WARNS, True),
    "mscclpp": (MSCCLPP, False),
    "none": ("", False),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_compiled_library(name: str, tmp_path: Path) -> None:
    """As the linker lays strings out, ends of longer ones among them."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    body, expected = SOURCES[name]
    (tmp_path / "lib.c").write_text(f"{HEAD} {body} }}\n")
    library = tmp_path / "librccl.so.1"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "lib.c")]
    subprocess.run(command, check=True)
    assert has_npkit(library) is expected


def test_an_empty_file_has_nothing(tmp_path: Path) -> None:
    """And is no crash."""
    (tmp_path / "librccl.so.1").touch()
    assert not has_npkit(tmp_path / "librccl.so.1")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """RCCL's sources, with a library built inside them."""
    root = tmp_path / "rccl"
    for name in ("tools/scripts", "src/include/npkit", "build/release"):
        (root / name).mkdir(parents=True)
    (root / "tools/scripts/npkit_trace_generator.py").write_text("add_argument('--warmup_runs')")
    (root / "src/include/npkit/npkit_event.h").touch()
    (root / "build/release/librccl.so.1").touch()
    return root


class TestTools:
    """Found, or said where they are."""

    def test_above_the_library(self, tree: Path) -> None:
        """--librccl rccl/build/release/librccl.so.1 is enough."""
        found = find_tools([tree / "build/release/librccl.so.1"])
        assert found == (
            tree / "tools/scripts/npkit_trace_generator.py",
            tree / "src/include/npkit/npkit_event.h",
        )

    def test_nowhere(self, tmp_path: Path) -> None:
        """Files that are not there are no places either."""
        (tmp_path / "lib").mkdir()
        assert find_tools([tmp_path / "lib/librccl.so.1", tmp_path / "gone"]) == (None, None)

    def test_the_first_place_wins(self, tree: Path, tmp_path: Path) -> None:
        """The library's own tree before a later one: event numbers differ."""
        other = tmp_path / "other"
        shutil.copytree(tree, other)
        _, header = find_tools([tree / "build/release/librccl.so.1", other])
        assert header == tree / "src/include/npkit/npkit_event.h"

    def test_the_command(self, tree: Path) -> None:
        """A shell takes it apart as it was meant, blanks and all."""
        generator, header = find_tools([tree])
        command = next_command(generator, header, Path("/a b/dump"), Path("/a b/trace"))
        words = shlex.split(command)
        assert words == [
            "python3",
            str(generator),
            "--npkit_dump_dir=/a b/dump",
            f"--npkit_event_header_path={header}",
            "--output_dir=/a b/trace",
            "--warmup_runs=5",
        ]

    def test_an_option_that_a_generator_lacks(self, tree: Path) -> None:
        """Microsoft's drops no calls and knows no such option."""
        (tree / "tools/scripts/npkit_trace_generator.py").write_text("")
        command = next_command(*find_tools([tree]), Path("d"), Path("t"))
        assert "warmup" not in command

    def test_without_tools_there_is_a_command_to_fill_in(self) -> None:
        """What was not found stands in capitals."""
        command = next_command(None, None, Path("d"), Path("t"))
        assert "npkit_trace_generator.py --npkit_dump_dir=d" in command
        assert "NPKIT_EVENT_H" in command
