"""Jobs of the simulated node with the real plugin, each one process that plays all ranks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yamls

from rccltune import plugin
from rccltune.model.vocabulary import Collective
from rccltune.simulate import sources
from rccltune.simulate.compiled import compile_node
from rccltune.why.explain_job import explain_job
from rccltune.why.job_report import AnswerKind, JobReport, SizeAnswer

RULES = """#@ format 1
# library: RCCL 2.28.3-SIMULATED
allreduce,0,4095,tree,ll,-1,1,64,-1,-1
allreduce,4096,1048575,tree,ll128,-1,1,64,-1,-1
#@ hole 1048576 9223372036854775807 baseline not beaten
#@ end 2
"""
INFO = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,TUNING"}
SIZES = "-b 1K -e 4M -f 4 -n 1 -w 1"


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """Starts jobs, each in a folder of its own."""

    folder: Path
    native: Path

    @property
    def plugin(self) -> str:
        """The real plugin's file."""
        return str(self.native / plugin.LIBRARY)

    def rules(self, text: str = RULES, name: str = "rules.csv") -> Path:
        """A rule file."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def node(self, name: tuple[str, str] = ("mi300x", "cpx-nps4"), **more: object) -> Path:
        """A node file, with parts of it changed."""
        raw = yamls.loaded(sources.node_path(*name).read_text(encoding="utf-8"))
        for key, value in more.items():
            raw[key] = {**raw[key], **value} if isinstance(value, dict) else value
        path = self.folder / "node.yaml"
        path.write_text(yamls.dumped(raw), encoding="utf-8")
        return path

    def run(
        self,
        name: str = "job",
        *,
        collective: str = "all_reduce",
        arguments: str = SIZES,
        node: Path | None = None,
        env: Mapping[str, str] | None = None,
        launcher: Sequence[str] = (),
    ) -> Path:
        """Run a benchmark and give its log, the library's and the plugin's lines in it."""
        compiled = self.folder / f"{name}.node"
        compiled.write_bytes(
            compile_node(sources.load_node(node or sources.node_path("mi300x", "cpx-nps4")))
        )
        keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR")}
        keep |= {
            "RCCLTUNE_SIM_NODE": str(compiled),
            "RCCLTUNE_SIM_STARTUP_S": "0",
            "RCCLTUNE_SIM_LONGEST_LIFE_S": "20",
        }
        program = str(self.native / "sim" / f"{collective}_perf")
        done = subprocess.run(
            [*launcher, program, *arguments.split()],
            env=keep | dict(env or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        path = self.folder / f"{name}.log"
        path.write_bytes(done.stdout)
        return path

    def with_plugin(self, rules: Path | str | None, **more: str) -> dict[str, str]:
        """Environment of a job that wants all told."""
        named = {} if rules is None else {"NCCL_TUNER_CONFIG_FILE": str(rules)}
        told = {"RCCLTUNE_LOG": "decisions", "NCCL_TUNER_PLUGIN": self.plugin}
        return {**INFO, **told, **named, **more}


def ask(*files: Path, rules: Path | None = None, collective: Collective | None = None) -> JobReport:
    """Ask why."""
    return explain_job([*files, *([rules] if rules else [])], collective)


def kinds(found: JobReport) -> list[AnswerKind]:
    """The answers in order."""
    return [answer.kind for answer in found.answers]


def halves(page: str) -> tuple[list[str], list[str]]:
    """The six questions, and what is said of single sizes below them."""
    lines = page.splitlines()
    gap = lines.index("")
    return lines[:gap], lines[gap + 1 :]


def at(found: JobReport, nbytes: int) -> SizeAnswer:
    """The one answer at a size."""
    mine = [
        a
        for a in found.answers
        if a.min_nbytes is not None
        and a.max_nbytes is not None
        and a.min_nbytes <= nbytes <= a.max_nbytes
    ]
    assert len(mine) == 1, found.answers
    return mine[0]
