"""A user's variant in the place of a shipped one, and others that widen: all their variables stay.

On examples/nodes/smallest.yaml ring/ll128 beats the library's ring/ll from 32 KiB on, and only a
variant that holds RCCL_LL128_FORCE_ENABLE=1 makes it selectable.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yamls
from wording import lacks

from rccltune.cli import run
from rccltune.rules.reader import RuleFile, read_rules

SMALLEST = "examples/nodes/smallest.yaml"
BOTH = (("NCCL_CUMEM_ENABLE", "1"), ("RCCL_LL128_FORCE_ENABLE", "1"))
REPLACING = """
format: 1
variants:
  ll128-forced:
    replaces: true
    summary: LL128 with memory of its own
    environment: {RCCL_LL128_FORCE_ENABLE: 1, NCCL_CUMEM_ENABLE: 1}
"""
MINE = """
format: 1
variants:
  mine:
    summary: LL128 with memory of its own, beside the shipped one
    environment: {RCCL_LL128_FORCE_ENABLE: 1, NCCL_CUMEM_ENABLE: 1}
    widens: default
"""
ON_CHANNELS = """
format: 1
variants:
  more:
    summary: more channels
    environment: {NCCL_MIN_NCHANNELS: 32}
  more-ll128:
    summary: LL128 with more channels and memory of its own
    environment: {RCCL_LL128_FORCE_ENABLE: 1, NCCL_CUMEM_ENABLE: 1}
    widens: more
"""
Capture = pytest.CaptureFixture[str]


def swept(repository: Path, text: str, *more: str, node: Path | None = None) -> int:
    """AllReduce from 8 KiB to 1 MiB with two settings."""
    Path("own.yaml").write_text(text, encoding="utf-8")
    node = node or repository / SMALLEST
    words = ["--simulate", str(node), "--mode", "spx-nps1", "--launcher", "none"]
    words += ["--collective", "all_reduce", "--min-bytes", "8K", "--max-bytes", "1M"]
    words += ["--setting", "ring/ll", "--setting", "ring/ll128", "--variants", "own.yaml"]
    return run(["sweep", "--runner", "rccl-tests", *words, *more, "-q"])


def node_with(repository: Path, **changes: object) -> Path:
    """The smallest node with these keys, beside the session."""
    raw = yamls.loaded((repository / SMALLEST).read_text(encoding="utf-8"))
    path = Path("node.yaml")
    path.write_text(yamls.dumped(raw | changes), encoding="utf-8")
    return path


def rules_and_exports(*more: str) -> tuple[RuleFile, list[str]]:
    """What the session's files ask of a job."""
    words = ["--force", *more, "-q"]
    assert run(["emit-config", *words]) == 0
    [rules] = Path("rccltune-session").glob("rccl_tuner_*.csv")
    [exports] = Path("rccltune-session").glob("*.env")
    lines = exports.read_text(encoding="utf-8").splitlines()
    return read_rules(rules.read_bytes()), [x for x in lines if x.startswith("export")]


def launched(setting: str) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    """Variant and variables of the launches that tried a setting."""
    found = set()
    for path in Path("rccltune-session/launches").glob("*/launch.json"):
        made = json.loads(path.read_text(encoding="utf-8"))
        variant = made.get("variant", {"name": "default"})
        algorithm, protocol = setting.split("/")
        for one in made["schedule"]["settings"]:
            if (one.get("algorithm"), one.get("protocol")) == (algorithm, protocol):
                assert all(pair in made["environment"] for pair in variant.get("environment", []))
                pairs = tuple((name, value) for name, value in variant.get("environment", []))
                found.add((variant["name"], pairs))
    return found


@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize("text", [REPLACING, f"{REPLACING}    widens: default\n"])
def test_a_replacing_variant_keeps_every_variable(here: Path, repository: Path, text: str) -> None:
    """Measured in both, and both are in the rule file and in the exports."""
    assert swept(repository, text, "--variant", "ll128-forced") == 0
    assert launched("ring/ll128") == {("ll128-forced", BOTH)}
    rules, exports = rules_and_exports()
    assert "ring/ll128" in {str(rule.setting) for rule in rules.rules}
    assert rules.needs == BOTH
    assert exports[:2] == [f"export {name}={value}" for name, value in BOTH]
    # Made again from what the session keeps, not from what this process remembers.
    Path("rccltune-session/samples.csv").unlink()
    assert rules_and_exports()[0].needs == BOTH


@pytest.mark.usefixtures("stand_ins")
def test_a_widening_variant_of_ones_own_is_measured_beside_the_shipped_one(
    here: Path, repository: Path
) -> None:
    """It stands beside the default's settings, and its rules carry what they were measured with.

    The node knows one LL128, so that both measure the same; the shipped one's variables are fewer.
    """
    assert swept(repository, MINE, "--variant", "mine", "--variant", "ll128-forced") == 0
    shipped = ("ll128-forced", BOTH[1:])
    assert launched("ring/ll128") == {shipped, ("mine", BOTH)}
    rules, _ = rules_and_exports()
    assert rules.needs in (BOTH, BOTH[1:])
    [session] = [json.loads(Path("rccltune-session/session.json").read_text(encoding="utf-8"))]
    kept = {one["name"]: tuple(map(tuple, one["environment"])) for one in session["variants"]}
    assert kept == {"mine": BOTH}


@pytest.mark.usefixtures("stand_ins")
def test_what_widens_another_variant_has_that_ones_variables_too(
    here: Path, repository: Path
) -> None:
    """The one that it widens is measured with it, and a rule carries the variables of both."""
    words = ("--variant", "more-ll128")
    assert swept(repository, ON_CHANNELS, *words) == 0
    three = tuple(sorted((*BOTH, ("NCCL_MIN_NCHANNELS", "32"))))
    assert ("more-ll128", three) in launched("ring/ll128")
    with Path("rccltune-session/samples.csv").open(encoding="utf-8") as stream:
        found = {(row["variant"], row["setting"]) for row in csv.DictReader(stream)}
    assert {("more", "baseline"), ("more", "ring/ll"), ("more-ll128", "ring/ll128")} <= found
    rules, exports = rules_and_exports("--variant", "more")
    assert {name for name, _ in rules.needs} >= {"NCCL_MIN_NCHANNELS", "RCCL_LL128_FORCE_ENABLE"}
    assert "export NCCL_MIN_NCHANNELS=32" in exports


@pytest.mark.usefixtures("stand_ins")
def test_one_name_is_one_environment_in_a_session(
    here: Path, repository: Path, capsys: Capture
) -> None:
    """Samples name their variant: another environment of that name is refused, and nothing runs."""
    named = ("--variant", "ll128-forced")
    assert swept(repository, REPLACING, *named) == 0
    n_launches = len(list(Path("rccltune-session/launches").iterdir()))
    capsys.readouterr()
    # More of the same goes on; the shipped one under the same name does not.
    assert swept(repository, REPLACING, *named, "--communicators", "2") == 0
    for text in (
        "format: 1\nvariants: {}\n",
        REPLACING.replace("CUMEM_ENABLE: 1", "CUMEM_ENABLE: 0"),
    ):
        assert swept(repository, text, *named) == 7
        assert lacks(capsys.readouterr().err, "ll128-forced' was", "NCCL_CUMEM_ENABLE=1") == []
    assert len(list(Path("rccltune-session/launches").iterdir())) >= n_launches
    assert rules_and_exports()[0].needs == BOTH


TABLE = """
# rccltune: collective=all_reduce nodes=1 ranks=8 mode=spx-nps1 arch=gfx942 placement=out
setting,nbytes,time_us
"""


def imported(name: str, setting: str, us: float, *options: str) -> None:
    """A table of one setting."""
    rows = "".join(f"{setting},{1024 << k},{us}\n" for k in range(4))
    Path(name).write_text(TABLE.lstrip() + rows, encoding="utf-8")
    assert run(["import", name, *options, "-q"]) == 0


def test_an_imported_log_of_a_variant_that_widens_carries_its_variable(here: Path) -> None:
    """As the catalog says it."""
    imported("a.csv", "baseline", 100)
    imported("b.csv", "ring/ll", 90)
    imported("c.csv", "ring/ll128", 50, "--variant", "ll128-forced")
    rules, exports = rules_and_exports()
    # Behind it stands ring/ll, for hosts that offer no LL128.
    assert (str(rules.rules[0].setting), rules.needs) == ("ring/ll128", BOTH[1:])
    assert exports[0] == "export RCCL_LL128_FORCE_ENABLE=1"


def test_an_imported_variant_of_the_catalog_carries_its_variables(here: Path) -> None:
    """``channels-32`` sets NCCL_MIN_NCHANNELS=32, whoever measured it; an unknown word sets none."""
    imported("a.csv", "baseline", 100)
    imported("b.csv", "ring/ll", 90)
    for name, setting, us in (("c.csv", "baseline", 60), ("d.csv", "ring/ll", 50)):
        imported(name, setting, us, "--variant", "channels-32")
    rules, exports = rules_and_exports("--variant", "channels-32")
    assert rules.needs == (("NCCL_MIN_NCHANNELS", "32"),)
    assert exports[0] == "export NCCL_MIN_NCHANNELS=32"
    imported("e.csv", "ring/ll", 55, "--variant", "somebodys")
    assert rules_and_exports("--variant", "channels-32")[0].needs == rules.needs


@pytest.mark.usefixtures("stand_ins")
def test_a_setting_that_needs_what_may_load_code_is_in_no_rule(
    here: Path, repository: Path, capsys: Capture
) -> None:
    """It is left out and said, with what to do; the rest of the file is written."""
    text = REPLACING.replace("NCCL_CUMEM_ENABLE: 1", "NCCL_NET_PLUGIN: /tmp/x.so")
    quick = {"setting": "ring/ll128", "factor": 0.6, "bytes": [0, 1 << 16]}
    node = node_with(repository, effects=[quick])
    words = ["--setting", "ring/simple", "--variant", "ll128-forced"]
    assert swept(repository, text, *words, node=node) == 0
    capsys.readouterr()
    assert run(["emit-config"]) == 0
    said = capsys.readouterr().err
    assert lacks(said, "NCCL_NET_PLUGIN=/tmp/x.so", "sweep --env NAME=VALUE") == []
    rules, exports = rules_and_exports()
    assert ({str(rule.setting) for rule in rules.rules}, rules.needs) == ({"ring/simple"}, ())
    assert not any("NCCL_NET_PLUGIN" in line for line in exports)


@pytest.mark.usefixtures("stand_ins")
def test_a_variant_that_needs_what_may_load_code_has_no_rule_file(
    here: Path, repository: Path, capsys: Capture
) -> None:
    """The site's is written; asked for by name it is an error that says what to do."""
    text = "format: 1\nvariants: {mine: {summary: s, environment: {NCCL_NET_PLUGIN: x}}}\n"
    quick = {"name": "quick", "when": {"env": {"NCCL_NET_PLUGIN": "x"}}}
    gain = {"variant": "quick", "factor": 0.6}
    node = node_with(repository, variants=[quick], effects=[gain])
    assert swept(repository, text, "--variant", "mine", node=node) == 0
    capsys.readouterr()
    assert run(["emit-config"]) == 0
    assert lacks(capsys.readouterr().err, "for mine", "NCCL_NET_PLUGIN=x") == []
    assert not Path("rccltune-session/mine").exists()
    assert run(["emit-config", "--variant", "mine"]) == 2
    assert lacks(capsys.readouterr().err, "NCCL_NET_PLUGIN=x", "sweep --env NAME=VALUE") == []
