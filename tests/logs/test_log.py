"""What ran is what the library's log says of that size, where no plugin could watch."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.logs import library
from rccltune.model.measurement import Sample
from rccltune.model.settings import CurveKey, Scale, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Placement, Protocol

# As src/enqueue.cc of RCCL 2.20.5 (rocm-6.2.0) prints them; src/init.cc the channels.
INIT = "n:1:1 [0] NCCL INFO {0} coll channels, 0 collnet channels, 0 nvls channels, {0} p2p channels, 2 p2p channels per peer\n"
LINE = "n:1:1 [0] NCCL INFO {} Bytes -> Algo {} proto {} time 12.8\n"


def sample(nbytes: int, setting: str, **changes: object) -> Sample:
    """A half-row of a launch that asked for a setting."""
    fields = {"collective": Collective.ALL_REDUCE, "n_ranks": 8, **changes}
    key = CurveKey(
        collective=fields.pop("collective"),
        setting=Setting.parse(setting),
        placement=Placement.IN_PLACE,
        scale=Scale(n_nodes=1, n_ranks=fields.pop("n_ranks")),
    )
    return Sample(key=key, launch="a", nbytes=nbytes, time_us=1.0, **fields)


def told(one: Sample, *texts: str) -> tuple[str | None, str]:
    """Doubt and what ran, by logs of as many ranks."""
    (found,) = library.prove_by_log([one], library.read_log(texts), one.key.setting)
    return found.doubt and found.doubt.value, str(found.executed)


def test_real_lines_of_newer_releases(shared_data: Path) -> None:
    """Four GPUs with NCCL 2.29.2, made to run NVLS: its model leaves the ring no bandwidth."""
    text = (shared_data / "logs/nv34_4gpu_allreduce_rows_split_by_info.log").read_text()
    assert told(sample(1 << 28, "nvls/simple", n_ranks=4), text) == (None, "nvls/simple")
    assert told(sample(1 << 28, "ring/simple", n_ranks=4), text) == ("ineligible", "nvls/simple")


def test_newer_lines_count_a_ranks_own_bytes() -> None:
    """all_gather of 8 ranks: 64 bytes in all are 8 a rank. Another collective's line is not ours."""
    line = "n:1:1 [0] NCCL INFO {}: 8 Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..0}}\n"
    gathered = sample(64, "ring/ll", collective=Collective.ALL_GATHER)
    assert told(gathered, line.format("AllGather")) == (None, "ring/ll")
    assert told(gathered, line.format("AllReduce")) == ("bypassed", "None")
    assert told(gathered, line.format("SomethingNew")) == ("unproven", "None")
    # NCCL 2.23 names the collective and still gives the total.
    line = "n:1:1 [0] NCCL INFO AllGather: {} Bytes -> Algo 1 proto 0 time 12.8\n"
    assert told(gathered, line.format(64)) == (None, "ring/ll")
    assert told(gathered, line.format(8)) == ("bypassed", "None")


@given(
    st.sampled_from([Algorithm.TREE, Algorithm.RING]),
    st.sampled_from(Protocol),
    st.sampled_from([Algorithm.TREE, Algorithm.RING]),
    st.sampled_from(Protocol),
)
def test_only_the_setting_asked_for_counts(
    asked: Algorithm, with_protocol: Protocol, ran: Algorithm, in_protocol: Protocol
) -> None:
    """Numbers are those of the tuner interface."""
    wanted = f"{asked.value}/{with_protocol.value}"
    doubt, executed = told(sample(8, wanted), LINE.format(8, ran.index, in_protocol.index))
    assert executed == f"{ran.value}/{in_protocol.value}"
    assert doubt == (None if executed == wanted else "substituted")


def model(**bandwidths: float) -> str:
    """The model as src/graph/tuning.cc of rocm-6.2.0 prints it, two rows a collective."""
    names = ("tree/ll", "tree/ll128", "tree/simple", "ring/ll", "ring/ll128", "ring/simple")
    values = [bandwidths.get(name.replace("/", "_"), 0.0) for name in names]
    first = "".join(f"{5.1:8.1f}/{value:6.1f} |" for value in (*values, 0.0, 0.0, 0.0))
    other = "".join(f"{0.0:8.1f}/{0.0:6.1f} |" for _ in range(9))
    rows = [f"{name:>13} |{cells}" for cells in (first, other) for name in ("Reduce", "AllReduce")]
    return "".join(f"n:1:1 [0] NCCL INFO {row}\n" for row in rows)


def test_what_the_librarys_model_leaves_out_was_not_offered() -> None:
    """Told apart from another setting that ran although the model knows the one asked for."""
    ring = LINE.format(8, 1, 0)
    told_apart = [
        told(sample(8, "tree/simple"), ring, model(ring_ll=2.4)),
        told(sample(8, "tree/simple/16"), ring, model(ring_ll=2.4)),
        told(sample(8, "tree/simple"), ring, model(ring_ll=2.4, tree_simple=0.1)),
        told(sample(8, "tree/simple"), ring),
    ]
    doubts = ["ineligible", "ineligible", "substituted", "substituted"]
    assert told_apart == [(doubt, "ring/ll") for doubt in doubts]
    # What ran did run, whatever a model says.
    assert told(sample(8, "ring/ll"), ring, model()) == (None, "ring/ll")


# What a tuner was offered there (the fact sheet's "Asked -> executed").
OFFERED = {
    Collective.ALL_REDUCE: {"tree/ll", "ring/ll", "ring/simple"},
    Collective.BROADCAST: {"ring/ll", "ring/simple"},
    Collective.REDUCE: {"ring/ll", "ring/simple"},
    Collective.ALL_GATHER: {"ring/ll", "ring/simple"},
    Collective.REDUCE_SCATTER: {"ring/ll", "ring/simple"},
}


def offered(text: str) -> dict[Collective, set[str]]:
    """What the model in a log leaves of tree and ring."""
    cells = {f"{a.value}/{p.value}" for a in (Algorithm.TREE, Algorithm.RING) for p in Protocol}
    refused = library.read_log([text]).refused
    return {one: cells - {str(cell) for of, cell in refused if of is one} for one in OFFERED}


@pytest.mark.parametrize(
    ("name", "channels", "tuner"),
    [
        ("why", {56}, "plugin rccltune"),
        ("probe-spx", {56}, "plugin probe"),
        ("base-spx", set(), "none"),
        ("base-cpx", set(), "none"),
    ],
)
def test_whole_logs_of_the_real_rccl(
    shared_data: Path, name: str, channels: set[int], tuner: str
) -> None:
    """RCCL 2.27.7 over a stand-in runtime (shared/facts/real-rccl.md)."""
    packed = shared_data / "real-rccl" / f"{name}.log.gz"
    if not packed.is_file():
        pytest.skip("the shared data have no logs of the real RCCL")
    text = gzip.decompress(packed.read_bytes()).decode()
    assert library.read_log([text]).channels == channels
    assert library.tuner_of(text) == tuner
    assert offered(text) == OFFERED


WORDS = ["NCCL INFO ", "AllReduce", ": ", "8", "9" * 30, " Bytes -> Algo ", "RING", " proto ", "7"]
WORDS += [
    "LL",
    " time 1",
    " channel{",
    " |",
    "   5.1/   0.0 |" * 6,
    " coll channels, ",
    " collnet channels:",
    "\n",
    "²",
]


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=40).map("".join))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    """A log is whatever a library, a full disk or another program wrote."""
    doubt, _ = told(sample(8, "tree/ll"), text)
    assert doubt in (None, "unproven", "bypassed", "substituted", "ineligible")


@pytest.mark.parametrize("text", ["", INIT.format(16), "n:1:1 [0] NCCL INFO Bytes -> Algo\n"])
def test_a_log_without_any_choice_proves_nothing(text: str) -> None:
    """Releases before 2.20.3 write none; that is not taken for a path around the choice."""
    assert told(sample(8, "tree/ll"), text) == ("unproven", "None")


@pytest.mark.parametrize("words", [(9, 0), (0, 7)])
def test_a_choice_without_a_name_is_another_one(words: tuple[int, int]) -> None:
    """A library may know algorithms that have no name today."""
    assert told(sample(8, "tree/ll"), LINE.format(8, *words)) == ("substituted", "None")


@pytest.mark.parametrize(
    ("ranks", "doubt", "executed"),
    [
        ((16, 16), None, "tree/ll/16"),
        ((2, 2), "substituted", "tree/ll/2"),
        ((16, 2), "substituted", "tree/ll/2"),
        ((), "unproven", "tree/ll"),
    ],
)
def test_channels_are_the_communicators(
    ranks: tuple[int, ...], doubt: str | None, executed: str
) -> None:
    """Too many are dropped to two with a warning; every rank's log says what it has."""
    texts = [LINE.format(8, 0, 0), *map(INIT.format, ranks)]
    assert told(sample(8, "tree/ll/16"), *texts) == (doubt, executed)
    # Where no channels were asked for, what ran has none.
    assert told(sample(8, "tree/ll"), *texts) == (None, "tree/ll")
