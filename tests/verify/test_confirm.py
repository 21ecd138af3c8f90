"""rccl-tests have the last word: what they contradict twice does not stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pandas as pd
import pytest

from rccltune.measure import rccl_tests
from rccltune.measure.rccl_tests import BenchmarkCall
from rccltune.model.errors import VerificationError
from rccltune.model.estimate import Estimate
from rccltune.model.reporter import Reporter
from rccltune.model.rule import RuleState
from rccltune.model.settings import Scale, Setting
from rccltune.model.vocabulary import Collective
from rccltune.verify.confirm import Confirmation, ConfirmationRequest, confirm
from rccltune.verify.verdict_file import RuleVerdict, VerdictFile

if TYPE_CHECKING:
    from rccltune.measure.site import Site

MIB = 1 << 20
# Seconds that a launch is said to take.
LASTS = 2.0
# The ratio of times of a call with these bounds, by how many launches of its kind there were before.
Truth = Callable[[int, int], float]


def rule(low: int, high: int, line: int, state: RuleState = RuleState.PROVEN) -> RuleVerdict:
    """As a verification leaves it."""
    return RuleVerdict(
        collective=Collective.ALL_REDUCE,
        min_nbytes=low,
        max_nbytes=high,
        setting=Setting.parse("ring/ll128"),
        line=line,
        state=state,
        gain=Estimate(value=1.1, low=1.08, high=1.12, n=8),
    )


@dataclass
class Bench:
    """Confirms rules of a session where rccl-tests find ratios that are known.

    Attributes:
        launched: the look and whether graphs were timed, of each launch.
    """

    session: Path
    monkeypatch: pytest.MonkeyPatch
    fails: bool = False
    launched: list[tuple[str, bool]] = field(default_factory=list)

    def confirmed(self, truth: Truth, *rules: RuleVerdict) -> Confirmation | None:
        """What is said of the rules."""

        def launch(
            _where: object,
            call: BenchmarkCall,
            folder: Path,
            _stated: object,
            *,
            as_it_is: bool,
            **_: object,
        ) -> SimpleNamespace:
            self.launched.append((folder.parent.name, call.graph))
            if self.fails:
                return SimpleNamespace(table=None, words="no GPU is left", seconds=LASTS)
            look = int(folder.parent.name)
            rows = [
                {
                    "placement": placement,
                    "nbytes": nbytes,
                    "time_us": 100.0 if as_it_is else 100.0 / truth(nbytes, look),
                }
                for placement in ("in", "out")
                for nbytes in (1 << k for k in range(40))
                if call.min_nbytes <= nbytes <= call.max_nbytes
            ]
            return SimpleNamespace(table=pd.DataFrame(rows), words="", seconds=LASTS)

        self.monkeypatch.setattr(rccl_tests, "launch", launch)
        self.monkeypatch.setattr(rccl_tests, "command", lambda _site, call: call)
        self.monkeypatch.setattr(rccl_tests, "stated_of", lambda *_: None)
        self.monkeypatch.setattr("rccltune.verify.confirm.beside_plugin", lambda *_: ())
        self.monkeypatch.setattr("rccltune.plugin.library", lambda: Path("plugin.so"))
        verdict = VerdictFile(
            path="rules.csv",
            simulated=False,
            scale=Scale(n_nodes=1, n_ranks=2),
            rank_placement="node",
            dtype="float",
            op="sum",
            rules_before=len(rules),
            rules=len(rules),
            fallbacks=0,
            replicates=8,
            processes=2,
            seconds=1.0,
            rules_sha256="0" * 64,
            verdicts=(),
            standings=rules,
            cuts=(),
            needs={},
        )
        return confirm(
            ConfirmationRequest(
                site=cast("Site", SimpleNamespace(node=None)),
                verdict=verdict,
                rules=self.session / "rules.csv",
                session=self.session,
                reporter=Reporter(),
            )
        )

    @property
    def table(self) -> pd.DataFrame:
        """What is left to look at."""
        return pd.read_csv(self.session / "confirm.csv")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A session of its own."""
    return Bench(tmp_path, monkeypatch)


def test_agreement_is_a_line_and_a_table(bench: Bench) -> None:
    """From graphs below 1 MiB, in the loop from there on, four launches of each side by each."""
    found = bench.confirmed(lambda *_: 1.1, rule(MIB // 4, 8 * MIB, 1))
    assert found is not None
    assert found.sentence == "Confirmed with rccl-tests: all_reduce 256 KiB to 8 MiB 1.10x"
    assert found.seconds == 16 * LASTS
    assert bench.launched == [("1", True)] * 8 + [("1", False)] * 8
    table = bench.table
    assert set(table["look"]) == {1}
    assert sorted(set(table[table["timing"] == "graph"]["nbytes"])) == [MIB // 4, MIB // 2]
    assert (table["library_us"] / table["rules_us"]).round(3).eq(1.1).all()


def test_a_rule_that_is_slower_twice_is_contradicted(bench: Bench) -> None:
    """It alone is launched again, and both tables are left."""
    good, bad = rule(MIB, 4 * MIB, 1), rule(16 * MIB, 64 * MIB, 2)
    with pytest.raises(VerificationError) as caught:
        bench.confirmed(lambda nbytes, _: 0.9 if nbytes >= 16 * MIB else 1.1, good, bad)
    assert "contradict the rules, twice: all_reduce 16 MiB to 64 MiB" in caught.value.message
    assert "0.90x" in caught.value.message
    assert "1.10x (1.08 to 1.12)" in caught.value.message
    table = bench.table
    assert set(table[table["look"] == 1]["nbytes"]) == {MIB << k for k in range(7)}
    assert set(table[table["look"] == 2]["nbytes"]) == {16 * MIB, 32 * MIB, 64 * MIB}


def test_a_rule_that_is_slower_once_stands(bench: Bench) -> None:
    """The repeat decides."""
    found = bench.confirmed(lambda _, look: 0.9 if look == 1 else 1.05, rule(MIB, 8 * MIB, 1))
    assert found is not None
    assert set(bench.table["look"]) == {1, 2}


@pytest.mark.parametrize("ratio", [0.985, 1.0])
def test_what_is_hardly_slower_is_no_contradiction(bench: Bench, ratio: float) -> None:
    """Another program sees other times; 2 % are not its word against ours."""
    found = bench.confirmed(lambda *_: ratio, rule(MIB, 8 * MIB, 1))
    assert found is not None
    assert found.contradicted == ()


def test_noise_is_no_contradiction(bench: Bench) -> None:
    """A mean of 0.95 over sizes that differ by half."""
    found = bench.confirmed(
        lambda nbytes, _: 0.95 * (1.5 if nbytes.bit_length() % 2 else 1 / 1.5),
        rule(MIB, 64 * MIB, 1),
    )
    assert found is not None
    assert found.contradicted == ()


def test_what_cannot_be_launched_confirms_nothing(bench: Bench) -> None:
    """And is said; rules that were not kept are not asked about."""
    bench.fails = True
    found = bench.confirmed(lambda *_: 1.0, rule(MIB, 8 * MIB, 1))
    assert found is not None
    assert found.sentence.startswith("Not confirmed with rccl-tests: all_reduce-loop-library-0")
    assert bench.confirmed(lambda *_: 1.0, rule(MIB, 8 * MIB, 1, RuleState.NO_GAIN)) is None
