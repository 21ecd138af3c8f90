"""Long tables: CSV and JSON records, hand-made."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_rows import samples_of

from rccltune.model.errors import OutputError
from rccltune.model.measurement import Caution, StatedFacts
from rccltune.model.settings import BASELINE, Mode, Scale, Setting
from rccltune.model.units import parse_size
from rccltune.model.vocabulary import Collective, UnusableReason

if TYPE_CHECKING:
    from tests.logs.conftest import ReadText

EIGHT = StatedFacts(
    collective=Collective.ALL_REDUCE, setting=BASELINE, n_ranks=8, n_nodes=1,
    assume=(("placement", "out"),),
)  # fmt: skip
FACTS = (
    '# rccltune: collective=all_reduce ranks=64 nodes=1 mode=cpx-nps4 product="AMD Instinct MI300X"\n'
    '# rccltune: arch=gfx942 cus=38 placement=out rank_placement=node source="a blog, 2026"\n'
)


def test_our_own_long_table(read_text: ReadText) -> None:
    """Comments state facts for the whole file; other comments are comments."""
    text = "# words\n" + FACTS + "setting,nbytes,time_us\n# more words\n"
    text += "tree/ll,32,76\ntree/ll128,32,106\nbaseline,1K,70\n"
    reading = read_text(text, StatedFacts())
    first, second, third = samples_of(reading)
    assert (first.nbytes, first.time_us, first.line) == (32, 76.0, 6)
    assert first.key.scale == Scale(n_nodes=1, n_ranks=64)
    assert first.key.rank_placement == "node"
    assert second.key.setting == Setting.parse("tree/ll128")
    assert (third.nbytes, third.key.setting) == (1024, BASELINE)
    fingerprint = reading.fingerprint
    assert (fingerprint.product, fingerprint.arch) == ("AMD Instinct MI300X", "gfx942")
    assert (fingerprint.cu_count, fingerprint.mode) == (38, Mode.parse("cpx-nps4"))
    assert reading.origin == "a blog, 2026"
    assert reading.notices == ()


def test_unsaid_placement_is_assumed_aloud(read_text: ReadText) -> None:
    """Out of place, with a notice and the option that ends it."""
    stated = StatedFacts(collective=Collective.ALL_REDUCE, setting=BASELINE, n_ranks=8, n_nodes=1)
    reading = read_text("size,time\n64,10\n", stated)
    assert [n.caution for n in reading.notices] == [Caution.ASSUMED]
    assert "--assume placement" in reading.notices[0].remedy


@pytest.mark.parametrize("cell", ["", "0", "nan", "inf", "-5", "N/A"])
def test_times_that_are_none(read_text: ReadText, cell: str) -> None:
    """optimize_config.py takes a missing latency for 0, which is its best; here it is doubted."""
    text = f"collective,size_bytes,algorithm,protocol,latency_us\nallreduce,64,ring,ll,{cell}\n"
    stated = StatedFacts(n_ranks=8, n_nodes=1, assume=(("placement", "out"),))
    (sample,) = samples_of(read_text(text, stated))
    assert (sample.time_us, sample.doubt) == (None, UnusableReason.NO_TIME)


def test_a_size_twice_with_other_values(read_text: ReadText) -> None:
    """Without a column that numbers the runs it is an error that names both lines."""
    with pytest.raises(OutputError, match="lines 2 and 4") as error:
        read_text("size,time\n64,10\n128,11\n64,12\n", EIGHT)
    assert "repeat" in str(error.value.hint)
    same = samples_of(read_text("size,time\n64,10\n128,11\n64,10\n", EIGHT))
    assert [s.nbytes for s in same] == [64, 128]
    numbered = samples_of(read_text("size,time,repeat\n64,10,1\n64,12,2\n", EIGHT))
    assert [s.launch for s in numbered] == ["L:1", "L:2"]


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("size,time\n64,ten\n", "ten", 2),
        ("size,time\n64,10\n12x,10\n", "12x", 3),
        ("size,time,algo\n64,10,teapot\n", "teapot", 2),
        ("size,time,collective\n64,10,allreduse\n", "allreduse", 2),
        ("size,time\n64,10,11\n", "3 cells", 2),
        ("size,time,inplace\n64,10,maybe\n", "maybe", 2),
        ("size,time,nodes\n64,10,9\n", "9", 2),
        ("size,algo\n64,ring\n", "column of times", 1),
        ("# rccltune: colective=all_reduce\nsize,time\n64,10\n", "colective", 1),
        ("# rccltune: ranks=eight\nsize,time\n64,10\n", "eight", 1),
        ('# rccltune: source="open\nsize,time\n64,10\n', "quotation", 1),
        ("size,time\n", "no rows", 1),
        ('size,time\n64,"10\n', "cell", 2),
    ],
)
def test_mistakes_in_a_table(read_text: ReadText, text: str, says: str, line: int) -> None:
    """Each is an error with the line and the word that is wrong."""
    with pytest.raises((OutputError,)) as error:
        read_text(text, StatedFacts(collective=Collective.ALL_REDUCE, setting=None, n_ranks=8))
    assert says in error.value.message + str(error.value.hint)
    assert str(error.value.where).endswith(f":{line}")


def test_optimize_config_input_in_both_lengths(read_text: ReadText) -> None:
    """Eleven columns, or twelve with cost_metric: by name, so the twelfth shifts nothing."""
    eleven = (
        "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,pipeOps,regBuff,"
        "bandwidth_gbps,latency_us"
    )
    twelve = eleven.replace("bandwidth", "cost_metric,bandwidth")
    short = read_text(f"{eleven}\nallreduce,64,tree,ll,2,1,8,-1,-1,45.2,12.5\n", StatedFacts())
    long = read_text(f"{twelve}\nallreduce,64,tree,ll,2,1,8,-1,-1,0.1,45.2,12.5\n", StatedFacts())
    assert samples_of(short) == samples_of(long)
    assert (samples_of(short)[0].time_us, samples_of(short)[0].doubt) == (12.5, None)


RECORD = {
    "numCycle": 0, "name": "AllReduce", "nodes": 1, "ranks": 2, "ranksPerNode": 2,
    "gpusPerRank": 4, "size": 1024, "type": "float", "redop": "sum", "inPlace": 0, "time": 10.24,
    "algBw": 0.1, "busBw": 0.175, "wrong": "0",
}  # fmt: skip


def test_json_as_lines_and_as_an_array(read_text: ReadText) -> None:
    """Releases differ; the samples do not, and a process may drive several GPUs."""
    records = [RECORD, RECORD | {"inPlace": 1, "wrong": "N/A"}]
    lines = "".join(json.dumps(each) + "\n" for each in records)
    array = json.dumps(records, indent=1)
    found = samples_of(read_text(lines, StatedFacts(setting=BASELINE)))
    assert [s.key.scale.n_ranks for s in found] == [8, 8]
    assert [s.n_wrong for s in found] == [0, None]
    again = samples_of(read_text(array, StatedFacts(setting=BASELINE)))
    assert [(s.key, s.time_us) for s in again] == [(s.key, s.time_us) for s in found]


rows = st.lists(
    st.tuples(
        st.integers(1, 2**40),
        st.floats(0.01, 1e7, allow_nan=False),
        st.sampled_from(["ring/ll", "tree/ll128/8", "baseline"]),
        st.sampled_from(["in", "out"]),
    ),
    min_size=1,
    max_size=20,
    unique_by=lambda row: (row[0], row[2], row[3]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(rows=rows, order=st.permutations(range(4)))
def test_round_trip_in_any_column_order(
    read_text: ReadText,
    rows: list[tuple[int, float, str, str]],
    order: list[int],
) -> None:
    """What is written comes back, whatever the order of the columns."""
    names = ("nbytes", "time_us", "setting", "placement")
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([names[i] for i in order])
    writer.writerows([row[i] for i in order] for row in rows)
    stated = StatedFacts(collective=Collective.ALL_REDUCE, n_ranks=8, n_nodes=1)
    found = samples_of(read_text(out.getvalue(), stated))
    assert [(s.nbytes, s.time_us, str(s.key.setting), s.key.placement.value) for s in found] == rows
    assert all(s.time_us is not None and math.isfinite(s.time_us) for s in found)
    assert parse_size("4K") == 4096
