"""Every command that a page shows runs, in the order of the page, or it is said why it does not."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from builds import make_once
from helps import COMMANDS
from running import MEASURES, NOT_RUN, run, why_not
from shown import PAGES, ROOT, examples, typed

# A record of a job, in docs/job.md's own words.
RECORD = """\
#@ format 1
collective,nBytes,nRanks,nNodes,calls,maxBytes,totalBytes
#@ comm id=00ab abi=5 host=n1 pid=1 context=0 since=1763783012.5 nRanks=64 nNodes=1 calls=1200 keys=2 beyond=0 unknown=0 state=whole
allreduce,65536,64,1,1000,65536,65536000
allreduce,524288,64,1,200,524288,104857600
"""
SWEEP = "mode: cpx-nps4\ncollective: [all_reduce]\nmin_bytes: 4K\n"
RULES = "rccltune-session/rccl_tuner_gfx942_cpx-nps4.csv"
# A session with rules, and a job under them on the same simulated node.
FURNISHED = (
    "export RCCLTUNE_CLI_SWEEP_MODE=cpx-nps4",
    "rccltune sweep -q --min-bytes 16K --communicators 1 --setting tree/ll --setting ring/simple",
    "rccltune emit-config -q",
    # As whoever verifies the rules leaves them: one launch of each setting proves nothing.
    f"sed -i '/^# UNPROVEN:/d' {RULES}",
    f"for copy in rules rccl_tuner_gfx942 rccl_tuner_gfx942_cpx-nps4; do cp {RULES} $copy.csv; done",
    "export RCCLTUNE_SIM_NODE=$PWD/rccltune-session/node.node RCCLTUNE_MODE=cpx-nps4",
    "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING,COLL RCCLTUNE_LOG=decisions:plugin.%h.%p",
    "export NCCL_TUNER_CONFIG_FILE=$PWD/rules.csv NCCL_TUNER_PLUGIN=$(rccltune plugin --path)",
    'sim=$(dirname "$NCCL_TUNER_PLUGIN")/sim/all_reduce_perf',
    '"$sim" -b 4K -e 1M -f 4 >job.log',
    "unset NCCL_TUNER_PLUGIN NCCL_TUNER_CONFIG_FILE RCCLTUNE_LOG NCCL_DEBUG",
    '"$sim" -b 4K -e 1M -f 4 >default.log',
    # What a torchrun line prints that does not run here.
    "cp default.log table.txt",
    'NCCL_ALGO=Tree NCCL_PROTO=LL "$sim" -b 4K -e 1M -f 4 >tree-ll.log',
)


def parts() -> dict[str, list[str]]:
    """Lines that run, by page, and of each help's example, which stands alone."""
    found = {
        f"{page.parent.name}-{page.stem}": [line.text for line in typed(page)] for page in PAGES
    }
    found |= {name: examples(name) for name in COMMANDS}
    run = {name: [text for text in found[name] if why_not(text) is None] for name in found}
    return {name: lines for name, lines in run.items() if lines}


PARTS = parts()
# Each example of a help that measures and draws nothing; whole pages take longer.
FAST = [
    name
    for name, lines in PARTS.items()
    if name in COMMANDS
    and not any(re.search(rf"{MEASURES}|rccltune (plot|report)\b", text) for text in lines)
]
TUTORIAL = "docs-tutorial"


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder: a session and its rules, and what a job left behind."""

    def furnish(folder: Path) -> None:
        (folder / "record-n1-1.csv").write_text(RECORD)
        (folder / "sweep.yaml").write_text(SWEEP)
        for name in ("root", "dir", ".venv/bin"):
            (folder / name).mkdir(parents=True)
        (folder / ".venv/bin/activate").touch()
        run(FURNISHED, folder)

    return make_once(tmp_path_factory, "reader", furnish)


@pytest.fixture
def reader(furnished: Path, tmp_path: Path) -> Path:
    """A copy of it for each part."""
    folder = tmp_path / "reader"
    shutil.copytree(furnished, folder, symlinks=True)
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


@pytest.mark.parametrize("name", FAST)
def test_examples_of_helps_run(name: str, reader: Path) -> None:
    """Those of --help, one after the other."""
    run(PARTS[name], reader)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted({*PARTS} - {*FAST, TUTORIAL}))
def test_commands_of_a_page_run(name: str, reader: Path) -> None:
    """In the order of the page, as a reader types them, on small sizes."""
    text = "\n".join(PARTS[name])
    tunes = re.search(r"^rccltune tune --mode cpx-nps4$", text, re.MULTILINE)
    sweeps = re.search(r"^rccltune sweep (?!.*-o )", text, re.MULTILINE)
    if tunes or (sweeps and "rccltune emit-config" in text):
        # Such a page makes a session of its own before it writes the rules of it.
        shutil.rmtree(reader / "rccltune-session")
    run(text.splitlines(), reader)


def test_the_tutorial_s_job_leaves_nothing_in_the_shell(reader: Path) -> None:
    """However often step 3 was done; so what is deployed behind it is what env.sh sets."""
    lines = PARTS[TUTORIAL]
    job = lines[lines.index("(") : lines.index(")") + 1]
    deploy, source = (
        next(line for line in lines if line.startswith(start))
        for start in ("rccltune deploy", ". deployed/env.sh")
    )
    once = run(job, reader)
    said = run([*job, f"{deploy} --unproven", source], reader)
    assert said.count("rule hit") == once.count("rule hit") > 0
    assert "stays so" not in said


def test_the_tutorial_s_job_fails_as_it_says(reader: Path) -> None:
    """With the one word changed, the same lines end in the reason, not in a file that is missing."""
    lines = PARTS[TUTORIAL]
    job = "\n".join(lines[lines.index("(") : lines.index(")") + 1])
    assert "RCCLTUNE_MODE=cpx-nps4" in job
    failing = job.replace("RCCLTUNE_MODE=cpx-nps4", "RCCLTUNE_MODE=spx-nps1")
    # As in a reader's shell, which goes on behind a job that failed.
    said = run([f"if {failing}\nthen :\nfi"], reader)
    assert "requires another machine" in " ".join(said.split())


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_tutorial_runs(tmp_path: Path) -> None:
    """As it stands, on an empty folder, behind what scripts/try runs."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/activate").touch()
    script = (ROOT / "scripts" / "try").read_text(encoding="utf-8")
    [tune] = re.findall(r"^run (tune .+)$", script, re.MULTILINE)
    assert tune.startswith("tune --mode cpx-nps4 --simulate mi300x")

    said = run([f"rccltune {tune}", *PARTS[TUTORIAL]], tmp_path, played=False)

    for promised in (
        "Verified, faster than the library's own choice",
        "rule hit: rule of line",
        "no rule at this size: not ",
        "SIMULATED",
    ):
        assert promised in said


def test_every_reason_for_not_running_is_used() -> None:
    """A reason that no line has any more is taken out."""
    shown = [line.text for page in PAGES for line in typed(page)]
    shown += [text for name in COMMANDS for text in examples(name)]
    assert [p for p in NOT_RUN if not any(re.search(p, text) for text in shown)] == []
