"""What options and assumptions do beside a file: fill, agree, contradict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sample_rows import samples_of

from rccltune.model.errors import CommandLineError, OutputError
from rccltune.model.measurement import StatedFacts
from rccltune.model.settings import BASELINE, Mode, Setting
from rccltune.model.vocabulary import Collective

if TYPE_CHECKING:
    from tests.logs.conftest import Bench, ReadText

SIZES = [8, 16, 32]


@pytest.mark.parametrize(
    ("stated", "option"),
    [
        (StatedFacts(collective=Collective.REDUCE), "--collective reduce"),
        (StatedFacts(n_ranks=16), "--ranks 16"),
        (StatedFacts(n_nodes=2), "--nodes 2"),
        (StatedFacts(dtype="half"), "--dtype half"),
    ],
)
def test_contradictions_name_option_and_line(
    bench: Bench, read_text: ReadText, stated: StatedFacts, option: str
) -> None:
    """Exit 2, both values, the line, and what to do."""
    with pytest.raises(CommandLineError) as error:
        read_text(bench.run(SIZES), stated)
    assert option in error.value.message
    assert ":" in str(error.value.where)
    assert error.value.hint
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("column", "value", "stated", "option"),
    [
        ("setting", "ring/ll", StatedFacts(setting=BASELINE), "--baseline"),
        ("setting", "baseline", StatedFacts(setting=Setting.parse("ring/ll")), "--algorithm"),
        ("setting", "ring/ll", StatedFacts(setting=Setting.parse("tree/-")), "--algorithm"),
        ("setting", "ring/ll", StatedFacts(setting=Setting.parse("ring/simple")), "--protocol"),
        ("nchannels", "4", StatedFacts(setting=Setting.parse("-/-/8")), "--channels"),
    ],
)
def test_contradicted_columns(
    read_text: ReadText, column: str, value: str, stated: StatedFacts, option: str
) -> None:
    """Settings are compared part by part."""
    text = (
        "# rccltune: collective=all_reduce ranks=8 nodes=1 placement=out\n"
        f"size,time,{column}\n64,10,{value}\n"
    )
    with pytest.raises(CommandLineError) as error:
        read_text(text, stated)
    assert option in error.value.message
    assert str(error.value.where).endswith(":3")


def test_assumptions_fill_what_nobody_says(bench: Bench, read_text: ReadText) -> None:
    """They fill; they never overrule the file."""
    assume = {
        "product": "AMD Instinct MI325X", "arch": "gfx942", "cus": "38", "graph": "1",
        "op": "max", "rank_placement": "one-oam", "mode": "cpx-nps4", "host": "elsewhere",
        "binding": "numa",
    }  # fmt: skip
    stated = StatedFacts(setting=BASELINE, assume=tuple(sorted(assume.items())))
    reading = read_text(bench.run(SIZES), stated)
    fingerprint, key = reading.fingerprint, samples_of(reading)[0].key
    assert fingerprint.product == "AMD Instinct MI300X"
    assert fingerprint.hosts == ("node0",)
    assert (fingerprint.arch, fingerprint.cu_count) == ("gfx942", 38)
    assert (fingerprint.mode, fingerprint.binding) == (Mode.parse("cpx-nps4"), "numa")
    assert (key.op, key.graph, key.rank_placement) == ("sum", False, "one-oam")


@pytest.mark.parametrize("pair", [("colour", "red"), ("cus", "many"), ("graph", "perhaps")])
def test_assumptions_nothing_can_be_made_of(
    bench: Bench, read_text: ReadText, pair: tuple[str, str]
) -> None:
    """A bad command line, named."""
    with pytest.raises(CommandLineError, match=f"--assume {pair[0]}"):
        read_text(bench.run(SIZES), StatedFacts(assume=(pair,)))


@pytest.mark.parametrize(
    ("stated", "option"),
    [
        (StatedFacts(), "--collective"),
        (StatedFacts(collective=Collective.ALL_REDUCE), "--ranks"),
        (StatedFacts(collective=Collective.ALL_REDUCE, n_ranks=8), "--nodes"),
    ],
)
def test_what_is_missing_is_asked_for_by_name(
    bench: Bench, read_text: ReadText, stated: StatedFacts, option: str
) -> None:
    """Rows without header and facts: all that is missing is asked for at once."""
    with pytest.raises(OutputError) as error:
        read_text(bench.rows(SIZES), stated)
    assert option in str(error.value.hint)
    whole = StatedFacts(collective=Collective.ALL_REDUCE, n_ranks=8, n_nodes=1, setting=BASELINE)
    assert len(samples_of(read_text(bench.rows(SIZES), whole))) == 6


def test_a_stated_collective_that_the_bandwidths_rule_out(
    bench: Bench, read_text: ReadText
) -> None:
    """busbw ÷ algbw of the file against what was stated."""
    text = bench.rows([1 << 24, 1 << 25], first=100.0)
    good = StatedFacts(collective=Collective.ALL_REDUCE, n_ranks=8, n_nodes=1, setting=BASELINE)
    assert len(samples_of(read_text(text, good))) == 4
    with pytest.raises(CommandLineError, match="busbw") as error:
        read_text(text, StatedFacts(collective=Collective.ALL_REDUCE, n_ranks=4, n_nodes=1))
    assert "--ranks 8" in str(error.value.hint)
