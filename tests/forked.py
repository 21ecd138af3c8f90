"""rccltune as a process of its own, forked from one that has loaded it: starting it is no promise here.

Most of what a short command line costs is loading modules. Streams, environment, folder and exit
code are those of a process that was started.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

# What the verbs load, then a process for each line that comes.
_SERVER = """
import gc, importlib, json, os, sys
for name in (
    "scipy.stats", "pandas", "matplotlib.backends.backend_agg", "rccltune.cli.console",
    *("rccltune." + room for room in (
        "analyse", "rules", "session", "measure", "machine", "simulate", "verify",
        "report", "tune", "why", "deploy", "api",
    )),
):
    importlib.import_module(name)
from rccltune.cli import main
gc.collect()
gc.freeze()

def wanted():
    for line in sys.stdin:
        words, cwd, environment, *streams = json.loads(line)
        child = os.fork()
        if not child:
            for descriptor, path in enumerate((os.devnull, *streams)):
                flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC if descriptor else os.O_RDONLY
                opened = os.open(path, flags, 0o600)
                os.dup2(opened, descriptor)
                os.close(opened)
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = ["rccltune", *words]
            return True
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return False

if wanted():
    main()
"""


@cache
def _server() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def end() -> None:
    """No process is left, where there was one."""
    if _server.cache_info().currsize:
        with _server() as server:
            assert server.stdin is not None
            server.stdin.close()
        _server.cache_clear()


def rccltune(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], timeout_s: float = 110
) -> subprocess.CompletedProcess[str]:
    """One command line with nothing to read on stdin; its code and what it said.

    Raises:
        subprocess.TimeoutExpired: it takes longer.
    """
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with TemporaryDirectory() as scratch:
        streams = [Path(scratch, name) for name in ("out", "err")]
        given = [list(words), str(folder), dict(environment), *map(str, streams)]
        server.stdin.write(json.dumps(given) + "\n")
        server.stdin.flush()
        if not select.select([server.stdout], [], [], timeout_s)[0]:
            server.kill()
            _server.cache_clear()
            raise subprocess.TimeoutExpired([*words], timeout_s)
        code = int(server.stdout.readline())
        out, err = (stream.read_text(encoding="utf-8") for stream in streams)
    return subprocess.CompletedProcess([*words], code, out, err)
