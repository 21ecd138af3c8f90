"""scripts/enable-tree-simple: an edit of somebody else's sources, seen before it is believed.

The files edited here are made up, of the shape that RCCL's have. RCCLTUNE_TEST_RCCL=CHECKOUT also
tries a copy of a real one's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from wording import lacks

from rccltune.model.settings import TREE_SIMPLE_FORCED

VARIABLE, VALUE = TREE_SIMPLE_FORCED

# One condition as of RCCL 2.21 (gfx94x), one as of 2.27 and later (two architectures), one as a
# formatter might break it.
CONDITIONS = {
    "one-arch": 'is_arch("gfx94") && gpus == nRanks) continue;',
    "two-archs": '(is_arch("gfx942") || is_arch("gfx950")) && gpus == nRanks) continue;',
    "broken": 'is_arch("gfx942") &&\n            gpus == nRanks) {\n          continue;\n        }',
}
# Prints 1 for each cell of the table that is filled: tree's LL, LL128, Simple, then ring's.
TUNING = """#include "param.h"
#include <stdio.h>
#include <string.h>

NCCL_PARAM(Nthreads, "NTHREADS", -2);

enum {{ NCCL_ALGO_TREE, NCCL_ALGO_RING }};
enum {{ NCCL_PROTO_LL, NCCL_PROTO_LL128, NCCL_PROTO_SIMPLE }};
static int is_arch(const char *name) {{ return strncmp("gfx942", name, strlen(name)) == 0; }}

int main(void)
{{
    int gpus = 64, nRanks = 64, table[2][3] = {{{{0}}}};
    ncclParamNthreads();
    for (int a = 0; a < 2; a++) {{
      for (int p = 0; p < 3; p++) {{
        if (a == NCCL_ALGO_TREE && p == NCCL_PROTO_SIMPLE && {condition}
        if (a == NCCL_ALGO_RING && p == NCCL_PROTO_LL && is_arch("gfx90a") && gpus == nRanks) continue;
        table[a][p] = 1;
      }}
    }}
    for (int i = 0; i < 6; i++) putchar('0' + table[i / 3][i % 3]);
    return 0;
}}
"""
PARAMETERS = """#include <stdint.h>
#include <stdlib.h>
#define NCCL_PARAM(name, env, value) \\
int64_t ncclParam##name(void) { const char *s = getenv("NCCL_" env); return s ? atol(s) : value; }
#define RCCL_PARAM(name, env, value) \\
int64_t rcclParam##name(void) { const char *s = getenv("RCCL_" env); return s ? atol(s) : value; }
"""


def checkout(folder: Path, shape: str = "two-archs", layout: str = "") -> Path:
    """Sources of that shape; returns the root that a user would name."""
    for name, text in (
        ("src/graph/tuning.cc", TUNING.format(condition=CONDITIONS[shape])),
        ("src/include/param.h", PARAMETERS),
    ):
        path = folder / layout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def enable(repository: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The script, as a user starts it."""
    command = [repository / "scripts" / "enable-tree-simple", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("shape", "layout"), [*((shape, "") for shape in CONDITIONS), ("two-archs", "projects/rccl")]
)
def test_the_variable_and_it_alone_fills_the_cell(
    repository: Path, tmp_path: Path, shape: str, layout: str
) -> None:
    """Compiled and run: 0 before, unset or 0 as before, 1 where it is set; nothing else moves."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    root = checkout(tmp_path, shape, layout)
    source = root / layout / "src"

    def filled(**variables: str) -> str:
        build = [compiler, "-x", "c", f"-I{source}/include", "-o", tmp_path / "prog"]
        subprocess.run([*build, source / "graph/tuning.cc"], check=True)
        environment = {k: v for k, v in os.environ.items() if k != VARIABLE} | variables
        return subprocess.run(
            [tmp_path / "prog"], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert filled(**{VARIABLE: VALUE}) == "110111"
    done = enable(repository, root)
    assert done.returncode == 0, done.stderr
    assert [filled(), filled(**{VARIABLE: "0"})] == ["110111"] * 2
    assert filled(**{VARIABLE: VALUE}) == "111111"
    # By this name in its bytes sweep knows such a library.
    assert VARIABLE.encode() in (tmp_path / "prog").read_bytes()


def test_the_difference_is_shown_and_applies(repository: Path, tmp_path: Path) -> None:
    """What is printed is a patch that patch(1) or git apply turns the old file into the new with."""
    root = checkout(tmp_path / "one")
    copy = checkout(tmp_path / "two")
    done = enable(repository, root)

    (tmp_path / "shown.diff").write_text(done.stdout)
    git = ["git", "-C", str(copy), "apply", str(tmp_path / "shown.diff")]
    subprocess.run(git, check=True, env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path)})
    new = (root / "src/graph/tuning.cc").read_text()
    assert (copy / "src/graph/tuning.cc").read_text() == new
    added = [x for x in done.stdout.splitlines() if x.startswith("+") and x[1:3] != "++"]
    removed = [x for x in done.stdout.splitlines() if x.startswith("-") and x[1:3] != "--"]
    assert (len(added), len(removed)) == (4, 1)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("p == NCCL_PROTO_SIMPLE", "p == NCCL_PROTO_SIMPLE2", "in 0 places"),
        (
            "gpus == nRanks) continue;\n        if (a == NCCL_ALGO_RING",
            "gpus == 8) continue;\n        if (a == NCCL_ALGO_RING",
            "in 0 places",
        ),
        (
            "        table[a]",
            '        if (a == NCCL_ALGO_TREE && p == NCCL_PROTO_SIMPLE && is_arch("gfx9") && nRanks) continue;\n        table[a]',
            "in 2 places",
        ),
        ("NCCL_PARAM(Nthreads", " NCCL_PARAM(Nthreads", "declares no NCCL_PARAM"),
    ],
)  # fmt: skip - one case a line
def test_what_is_not_recognised_is_refused(
    repository: Path, tmp_path: Path, old: str, new: str, said: str
) -> None:
    """Another release's sources: exit code 3, the reason, and not one byte changed."""
    path = checkout(tmp_path) / "src/graph/tuning.cc"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    before = path.read_bytes()

    refused = enable(repository, tmp_path)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert said in refused.stderr
    assert path.read_bytes() == before


def test_nccl_and_other_folders_are_refused(repository: Path, tmp_path: Path) -> None:
    """NVIDIA's library has the file but not RCCL's parameters; a wrong folder has neither."""
    nothing = enable(repository, tmp_path)
    assert nothing.returncode == 3
    assert lacks(nothing.stderr, "a checkout") == []
    header = checkout(tmp_path) / "src/include/param.h"
    header.write_text(PARAMETERS.partition("#define RCCL_PARAM")[0])

    refused = enable(repository, tmp_path)
    assert refused.returncode == 3
    assert lacks(refused.stderr, "RCCL") == []
