"""A user's variant in the place of a shipped one, and others that widen: all their variables stay.

On the smallest node ring/ll128 beats the library's ring/ll from 32 KiB on, and only a
variant that holds RCCL_LL128_FORCE_ENABLE=1 makes it selectable.
"""

from __future__ import annotations

from pathlib import Path

import made
import pytest

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
def test_a_replacing_variant_keeps_every_variable_and_its_name(capsys: Capture) -> None:
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

    # Samples name their variant: another environment of that name is refused, and nothing runs.
    n_runs = len(runs.numbers(Path(made.SESSION)))
    for text in (
        "format: 1\nvariants: {}\n",
        REPLACING.replace("CUMEM_ENABLE: 1", "CUMEM_ENABLE: 0"),
    ):
        assert swept(text, *FORCED) == 7
        assert "variant 'll128-forced' was measured with other" in capsys.readouterr().err
    assert len(runs.numbers(Path(made.SESSION))) == n_runs


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
