"""A user's variant in the place of a shipped one, and others that widen: all their variables stay.

On the smallest node ring/ll128 beats the library's ring/ll from 32 KiB on, and only a
variant that holds RCCL_LL128_FORCE_ENABLE=1 makes it selectable.
"""

from __future__ import annotations

from pathlib import Path

import made
import pytest
from wording import lacks

from rccltune.cli import run
from rccltune.perf import runs
from rccltune.rules.reader import RuleFile, read_rules

BOTH = (("NCCL_CUMEM_ENABLE", "1"), ("RCCL_LL128_FORCE_ENABLE", "1"))
REPLACING = """
format: 1
variants:
  ll128-forced:
    replaces: true
    summary: LL128 with memory of its own
    environment: {RCCL_LL128_FORCE_ENABLE: 1, NCCL_CUMEM_ENABLE: 1}
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


def swept(text: str, *more: str, node: Path | None = None) -> int:
    """AllReduce with two settings, on the smallest node or another one."""
    Path("own.yaml").write_text(text, encoding="utf-8")
    node = node or made.node(Path("node.yaml"))
    words = made.words(node, "ring/ll", "ring/ll128")
    return run(["sweep", *words, "--communicators", "2", "--variants", "own.yaml", *more, "-q"])


def rules_and_exports(*more: str) -> tuple[RuleFile, list[str]]:
    """What the session's files ask of a job."""
    words = ["--force", *more, "-q"]
    assert run(["emit-config", *words]) == 0
    [rules] = Path("rccltune-session").glob("rccl_tuner_*.csv")
    [exports] = Path("rccltune-session").glob("*.env")
    lines = exports.read_text(encoding="utf-8").splitlines()
    return read_rules(rules.read_bytes()), [x for x in lines if x.startswith("export")]


def environments() -> dict[str, set[tuple[str, str]]]:
    """Variables that rccltune set for the runs of each variant."""
    found: dict[str, set[tuple[str, str]]] = {}
    for one in runs.read_runs(Path(made.SESSION)):
        found.setdefault(one.file.variant, set()).update(one.file.added)
    return found


FORCED = ("--variant", "ll128-forced")


@pytest.mark.usefixtures("stand_ins", "here")
def test_a_replacing_variant_keeps_every_variable() -> None:
    """Measured in both, and both are in the rule file and in the exports."""
    assert swept(REPLACING, *FORCED) == 0
    assert environments()["ll128-forced"] >= set(BOTH)
    assert not environments()["default"] & set(BOTH)
    rules, exports = rules_and_exports(*FORCED)
    assert "ring/ll128" in {str(rule.setting) for rule in rules.rules}
    assert rules.needs == BOTH
    assert exports[:2] == [f"export {name}={value}" for name, value in BOTH]
    # Made again from what the session keeps, not from what this process remembers.
    Path("rccltune-session/samples.csv").unlink()
    assert rules_and_exports(*FORCED)[0].needs == BOTH


@pytest.mark.usefixtures("stand_ins", "here")
def test_what_widens_another_variant_has_that_ones_variables_too() -> None:
    """The one that it widens is measured with it, and a rule carries the variables of both."""
    assert swept(ON_CHANNELS, "--variant", "more-ll128") == 0
    assert environments()["more-ll128"] >= {*BOTH, ("NCCL_MIN_NCHANNELS", "32")}
    assert environments()["more"] >= {("NCCL_MIN_NCHANNELS", "32")}
    rules, exports = rules_and_exports("--variant", "more")
    assert {name for name, _ in rules.needs} >= {"NCCL_MIN_NCHANNELS", "RCCL_LL128_FORCE_ENABLE"}
    assert "export NCCL_MIN_NCHANNELS=32" in exports


@pytest.mark.usefixtures("stand_ins", "here")
def test_one_name_is_one_environment_in_a_session(capsys: Capture) -> None:
    """Samples name their variant: another environment of that name is refused, and nothing runs."""
    assert swept(REPLACING, *FORCED) == 0
    n_runs = len(runs.numbers(Path(made.SESSION)))
    for text in (
        "format: 1\nvariants: {}\n",
        REPLACING.replace("CUMEM_ENABLE: 1", "CUMEM_ENABLE: 0"),
    ):
        assert swept(text, *FORCED) == 7
        assert "variant 'll128-forced' was measured with other" in capsys.readouterr().err
    assert len(runs.numbers(Path(made.SESSION))) == n_runs


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
    rules, exports = rules_and_exports(*FORCED)
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


@pytest.mark.usefixtures("stand_ins", "here")
def test_a_setting_that_needs_what_may_load_code_is_in_no_rule(capsys: Capture) -> None:
    """It is left out and said, with what to do; the rest of the file is written."""
    text = REPLACING.replace("NCCL_CUMEM_ENABLE: 1", "NCCL_GRAPH_DUMP_FILE: x")
    assert swept(text, *FORCED, "--setting", "ring/simple") == 0
    capsys.readouterr()
    assert run(["emit-config"]) == 0
    rules, exports = rules_and_exports()
    assert ({str(rule.setting) for rule in rules.rules}, rules.needs) == ({"ring/simple"}, ())
    assert not any("NCCL_GRAPH_DUMP_FILE" in line for line in exports)


@pytest.mark.usefixtures("stand_ins", "here")
def test_a_variant_that_needs_what_may_load_code_has_no_rule_file(capsys: Capture) -> None:
    """The site's is written; asked for by name it is an error that says what to do."""
    text = "format: 1\nvariants: {mine: {summary: s, environment: {NCCL_GRAPH_DUMP_FILE: x}}}\n"
    quick = {"name": "quick", "when": {"env": {"NCCL_GRAPH_DUMP_FILE": "x"}}}
    gain = {"variant": "quick", "factor": 0.6}
    node = made.node(Path("node.yaml"), variants=[quick], effects=[gain])
    assert swept(text, "--variant", "mine", node=node) == 0
    capsys.readouterr()
    assert run(["emit-config"]) == 0
    assert lacks(capsys.readouterr().err, "for mine", "NCCL_GRAPH_DUMP_FILE=x") == []
    assert not Path("rccltune-session/mine").exists()
    assert run(["emit-config", "--variant", "mine"]) == 2
    said = capsys.readouterr().err
    assert lacks(said, "NCCL_GRAPH_DUMP_FILE=x", "sweep --env NAME=VALUE") == []
