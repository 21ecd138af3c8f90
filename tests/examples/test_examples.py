"""What lies in examples/ does what its comments say: read, planned, swept, checked."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.measure.sweep_file import read_sweep_file
from rccltune.model.measurement import Fingerprint
from rccltune.releases import exact_release, name_library
from rccltune.rules.emission import requirements_of
from rccltune.rules.rule_file import read_rules
from rccltune.simulate import compiled, sources

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SWEEPS = sorted((EXAMPLES / "sweeps").glob("*.yaml"))
NODES = sorted((EXAMPLES / "nodes").glob("*.yaml"))
# Hosts are not simulated.
SIMULATED = [path for path in SWEEPS if path.stem != "many-nodes"]
# What each says that no other does; docs/getting-started.md promises these cases.
CASES = {
    "cpx-first-tune": {"channels": (8, 16, 32), "placement": "both"},
    "cpx-one-oam": {"rank_placement": "one-oam", "min_bytes": 32},
    "inference-latency": {"timing": "graph", "max_bytes": 4 << 20},
    "many-nodes": {"launcher": "srun", "hostfile": Path("hosts")},
    "quick-look": {"budget": 300.0},
    "training-sizes": {"dtype": ("bfloat16",)},
}  # fmt: skip


@pytest.fixture
def stand_ins() -> None:
    """The simulated benchmarks."""
    if not (plugin.native_folder() / "sim" / "all_reduce_perf").is_file():
        pytest.skip("this install has no stand-in benchmarks")


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_a_sweep_file_says_what_it_is_for(path: Path) -> None:
    """No mistake in it, the values of its case, and a command line in its comment that exists."""
    text = path.read_text(encoding="utf-8")
    values = read_sweep_file(text, path.name)
    assert CASES[path.stem].items() <= values.items()
    assert re.search(rf"^#     rccltune (tune|sweep) -c {re.escape(path.name)}", text, re.MULTILINE)


@pytest.mark.parametrize("path", SIMULATED, ids=lambda path: path.stem)
def test_a_sweep_file_is_planned(
    path: Path,
    stand_ins: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On a simulated node: every collective and size that it names, and nothing is started."""
    del stand_ins
    monkeypatch.chdir(tmp_path)
    mode = "cpx-nps4" if "cpx" in path.stem else "spx-nps1"
    site = ["--simulate", "mi300x", "--mode", mode]
    assert run(["sweep", "-c", str(path), *site, "--plan", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["simulated"] is True
    assert planned["runs"]
    assert not (tmp_path / "rccltune-session").exists()


@pytest.mark.parametrize("path", NODES, ids=lambda path: path.stem)
def test_a_node_file_is_a_node(path: Path) -> None:
    """Checked against the schema, filled and compiled; it says that it is made up."""
    assert sources.load_node(path).name == path.stem
    assert compiled.compile_node(sources.load_node(path)).startswith(b"rccltune-node 3\n")
    text = path.read_text(encoding="utf-8")
    assert "made-up" in text.split("format: 1")[0] or "made up" in text.split("format: 1")[0]
    assert "kind: measured" not in text


def sweep(name: str, *more: str, runner: str = "perf") -> int:
    """The all_reduce of an example node, at few sizes."""
    words = [
        "sweep",
        "--runner",
        runner,
        "--simulate",
        str(EXAMPLES / f"nodes/{name}.yaml"),
        "--mode",
        "spx-nps1",
    ]
    words += ["--collective", "all_reduce", "--factor", "4", "-q"]
    return run([*words, "--min-bytes", "4K", "--max-bytes", "4M", *more])


@pytest.mark.long
def test_what_goes_wrong_is_named_and_left_out(
    stand_ins: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 5, both settings with their reason, rules for the rest."""
    del stand_ins
    monkeypatch.chdir(tmp_path)
    assert sweep("what-goes-wrong", "--env", "RCCL_LL128_FORCE_ENABLE=1", "--timeout", "3s") == 5
    said = capsys.readouterr().err
    assert lacks(said, "ring/ll128", "tree/ll") == []
    assert run(["emit-config", "-o", "rules.csv", "-q"]) == 0
    text = Path("rules.csv").read_text(encoding="utf-8")
    assert "all_reduce ring/ll128: excluded, it gave wrong results" in text
    rules = [line.split(",") for line in text.splitlines() if line[0] != "#"]
    settings = {(rule[3], rule[4]) for rule in rules}
    assert settings
    assert not settings & {("ring", "ll128"), ("tree", "ll")}


@pytest.mark.parametrize(
    "path",
    sorted(EXAMPLES.glob("*/rccl_tuner*.csv")),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_a_rule_file_is_bound_to_what_its_session_stated(path: Path) -> None:
    """Product and library of its head, where that has them, and nothing else."""
    text = path.read_text(encoding="utf-8")
    product, arch = re.findall(r"^# written by rccltune \S+ for (.+), (\w+)$", text, re.MULTILINE)[
        0
    ]
    library = re.findall(r"^# library: (.+)$", text, re.MULTILINE)[0]
    found = read_rules(path.read_bytes())
    assert found.errors == ()
    required = dict(requirements_of(Fingerprint(product=product, arch=arch)))
    assert dict(found.requires) == required
    assert found.library == exact_release(name_library(library, arch))


def test_the_batch_job_is_good_shell() -> None:
    """ShellCheck has nothing to say."""
    checker = shutil.which("shellcheck", path=str(Path(sys.executable).parent))
    if checker is None:
        pytest.skip("shellcheck is not installed")
    subprocess.run([checker, EXAMPLES / "slurm/sweep.sbatch"], check=True)


def test_the_container_recipe_builds_nobody_elses_code() -> None:
    """One base that the user names, our wheel, and no compiler, clone or download beside pip."""
    text = (EXAMPLES / "container/Containerfile").read_text(encoding="utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert re.findall(r"^(?:FROM|COPY|ENTRYPOINT) .*", code, re.MULTILINE) == [
        "FROM ${BASE}",
        "COPY rccltune-*.whl /opt/",
        'ENTRYPOINT ["/opt/rccltune-env/bin/rccltune"]',
    ]
    assert not re.search(r"\b(git|make|cmake|curl|wget|gcc|hipcc|apt-get|ADD)\b", code)


def test_every_example_is_in_the_documents(repository: Path) -> None:
    """A page names each folder, each sweep file and each node file."""
    text = "\n".join(page.read_text("utf-8") for page in sorted((repository / "docs").glob("*.md")))
    # A test that loads an example leaves its compiled form.
    names = [path.name for path in EXAMPLES.iterdir() if path.name != "__pycache__"]
    for name in (*names, *(path.name for path in (*SWEEPS, *NODES))):
        assert name in text, f"{name} is on no page of docs/"
