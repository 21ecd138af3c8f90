"""Sweeps by the rank program, in this process or in one that may be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd
import yamls

from rccltune.cli import run
from rccltune.ranks import rows, runs

# Every process of a test inherits it.
MARK: Final = "TEST_OF_PERF"
PATIENCE_S: Final = 60.0
SIZES: Final = ("--min-bytes", "512", "--max-bytes", "2M", "--factor", "8")
WHERE: Final = ("--mode", "spx-nps1", "--collective", "all_reduce")


@dataclass(kw_only=True)
class Ground:
    """A folder with a node file."""

    folder: Path
    raw: dict[str, Any]

    def change(self, **keys: Any) -> None:  # noqa: ANN401 - of a node file
        """Write the node with these keys."""
        self.raw |= keys
        (self.folder / "node.yaml").write_text(yamls.dumped(self.raw), encoding="utf-8")

    def words(self, *more: str, session: str = "s") -> list[str]:
        """The command line of a sweep."""
        node = str(self.folder / "node.yaml")
        return ["sweep", "--simulate", node, *WHERE, *SIZES, "-o", session, *more]

    def sweep(self, *more: str, session: str = "s") -> int:
        """Its exit code."""
        return run(self.words(*more, session=session))

    def start(self, *more: str, session: str = "s", **variables: str) -> subprocess.Popen[bytes]:
        """The same in a process of its own, with usual signals and a mark."""
        with (self.folder / "stderr.txt").open("ab") as stream:
            return subprocess.Popen(
                [sys.executable, "-m", "rccltune", *self.words(*more, session=session)],
                env={**os.environ, MARK: str(self.folder), **variables},
                stdout=subprocess.DEVNULL,
                stderr=stream,
                preexec_fn=_usual_signals,  # noqa: PLW1509 - this process has one thread
            )

    def table(self, session: str = "s") -> pd.DataFrame:
        """Rows of all runs."""
        return rows.rows_of_runs(runs.read_runs(self.folder / session))

    def samples(self, session: str = "s") -> pd.DataFrame:
        """samples.csv."""
        return pd.read_csv(self.folder / session / "samples.csv", keep_default_na=False)

    def endings(self, session: str = "s") -> list[dict[str, Any] | None]:
        """What ending.json of each run says; None where there is none."""
        found = (
            self.folder / session / "runs" / str(n) for n in runs.numbers(self.folder / session)
        )
        files = [own / "ending.json" for own in found]
        return [json.loads(one.read_text()) if one.exists() else None for one in files]

    def marked(self, wanted: Callable[[str], bool] = lambda _: True) -> list[int]:
        """Processes of this test that are alive and whose command line is wanted."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                environ = (entry / "environ").read_bytes().split(b"\0")
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if f"{MARK}={self.folder}".encode() in environ and wanted(words):
                    found.append(int(entry.name))
        return sorted(found)

    def vanished(self) -> bool:
        """Wait until none is left."""
        deadline = time.monotonic() + PATIENCE_S
        while self.marked() and time.monotonic() < deadline:
            time.sleep(0.05)
        return not self.marked()

    def until_rows(self, n: int, session: str = "s", run_number: int = 2) -> None:
        """Wait until rank 0 of a run has written so many rows; the second is the one that times."""
        path = self.folder / session / "runs" / str(run_number) / "rank-0.csv"
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if path.exists() and sum(x[:1].isdigit() for x in path.read_text().splitlines()) >= n:
                return
            time.sleep(0.01)
        raise AssertionError((self.folder / "stderr.txt").read_text())


def _usual_signals() -> None:
    """Tests that are started in the background inherit signals that are ignored."""
    for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, signal.SIG_DFL)


def is_program(words: str) -> bool:
    """The rank program: the one that starts the others, and every rank."""
    return "rccltune-perf --start" in words
