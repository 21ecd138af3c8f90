"""A vendor's table behind our rules: ours where ours has a rule, the vendor's everywhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers import ALGORITHMS, PROTOCOLS, Call, Cell, RcclRow, rccl_answer, rccl_rows

from rccltune import plugin
from rccltune.model.choice import Zone
from rccltune.model.errors import MachineError, VerificationError
from rccltune.model.settings import DEFAULT_VARIANT, Scale, Setting, Target
from rccltune.model.vocabulary import MAX_NBYTES, Collective
from rccltune.rules.documents import RuleDocument, VendorRules, sections_of
from rccltune.rules.plugin_library import ABI_VERSIONS, PluginCommunicator, PluginLibrary
from rccltune.rules.reader import read_rules
from rccltune.rules.vendor_rules import check_with_base, rules_of
from rccltune.rules.vendor_rules import with_base as rules_over
from rccltune.rules.writer import render

# AMD's own rows of gfx950 (rocm-systems, projects/rccl/tuner/rccl_tuner_gfx950.csv, 7 rows).
AMD = """\
allreduce,0,16383,tree,ll,1,1,8,-1,-1
allreduce,16384,524287,ring,ll,-1,1,8,-1,-1
allreduce,524288,1048575,ring,ll,32,1,8,-1,-1
allreduce,1048576,2097000,ring,ll,56,1,8,-1,-1
allreduce,33554432,54525951,ring,ll128,64,2,16,-1,-1
allreduce,54525952,117440511,tree,simple,64,2,16,-1,-1
allreduce,117440512,234881024,ring,simple,48,2,16,-1,-1
"""
NODE = Scale(n_nodes=1, n_ranks=8)
EVERY: set[Cell] = {(a, p) for a in ALGORITHMS for p in PROTOCOLS}
# What hosts of ABI 2 may be answered, unchecked as they take it (design §7).
SAFE: dict[str, set[Cell]] = {
    name: {("ring", "ll"), ("ring", "simple")}
    | ({("tree", "ll")} if name == "allreduce" else set())
    for name in ("allreduce", "allgather", "broadcast")
}


@pytest.fixture(scope="module")
def host() -> PluginLibrary:
    """The installed plugin."""
    try:
        return PluginLibrary(plugin.library())
    except MachineError as error:
        pytest.skip(str(error))


def zones(
    collective: Collective, scale: Scale, ranges: Iterable[tuple[int, int, str, str | None]]
) -> list[Zone]:
    """(from, to, setting, fallback) as zones; what lies between them was not beaten."""
    target = Target(
        collective=collective, scale=scale, rank_placement=None, variant=DEFAULT_VARIANT
    )
    hole = Zone(
        target=target, min_nbytes=0, max_nbytes=0, setting=None, reason="baseline not beaten"
    )
    made, after = [], 0
    for low, high, name, fallback in ranges:
        if after < low:
            made.append(replace(hole, min_nbytes=after, max_nbytes=low - 1))
        made.append(
            Zone(
                target=target,
                min_nbytes=low,
                max_nbytes=high,
                setting=Setting.parse(name),
                fallback=Setting.parse(fallback) if fallback else None,
            )
        )
        after = high + 1
    if after <= MAX_NBYTES:
        made.append(replace(hole, min_nbytes=after, max_nbytes=MAX_NBYTES))
    return made


def document(found: Sequence[Zone]) -> RuleDocument:
    """Zones as they are emitted."""
    return RuleDocument(
        provenance=("measured by a test",), requires=(), needs=(), sections=sections_of(found)
    )


def over(ours: RuleDocument, base: str) -> str:
    """The merged file's text."""
    read = read_rules(base.encode() or b"\n")
    assert read.errors == ()
    named = VendorRules(name="rccl_tuner_gfx950.csv", sha256="ab" * 32, rules=read.rules)
    return render(rules_over(ours, named))


def opened(host: PluginLibrary, path: Path, abi: int, scale: Scale) -> PluginCommunicator:
    """A communicator of the real plugin."""
    env = {"NCCL_TUNER_CONFIG_FILE": str(path)}
    return host.communicator(abi=abi, n_nodes=scale.n_nodes, n_ranks=scale.n_ranks, env=env)


def told(communicator: PluginCommunicator, call: Call) -> tuple[Cell, int] | None:
    """The plugin's answer to a call, every cell on offer."""
    collective = next(c for c in Collective if c.csv_name == call.collective)
    table = [[9.0] * len(PROTOCOLS)] * len(ALGORITHMS)
    answer = communicator.ask(collective, call.nbytes, table)
    if answer.cell is None:
        return None
    return (ALGORITHMS[answer.cell[0]], PROTOCOLS[answer.cell[1]]), answer.channels


def sizes_of(*texts: str) -> list[int]:
    """Every bound of every rule, and the sizes beside it."""
    rows = [row for text in texts for row in rccl_rows(text, new=True)]
    bounds = {bound for row in rows for bound in (row.low, row.high)} | {0, MAX_NBYTES}
    near = {bound + step for bound in bounds for step in (-1, 0, 1)}
    return sorted(n for n in near if 0 <= n <= MAX_NBYTES)


OURS = [
    (1024, 4095, "ring/ll", None),
    (65536, 262143, "tree/ll/24", "ring/ll128"),
    (1 << 20, 4 << 20, "ring/simple", None),
]


def test_three_ranges_of_ours_over_amds_gfx950_rows_at_every_abi(
    host: PluginLibrary, tmp_path: Path
) -> None:
    """Issue 14: no size is lost, AMD's choice stands elsewhere, and every host is told so."""
    ours = document(zones(Collective.ALL_REDUCE, NODE, OURS))
    plain, text = render(ours), over(ours, AMD)
    path = tmp_path / "merged.csv"
    path.write_text(text, encoding="utf-8")
    tables = [rccl_rows(one, new=True) for one in (plain, AMD)]
    seen = set()
    for abi in ABI_VERSIONS:
        for scale in (NODE, Scale(n_nodes=2, n_ranks=16), Scale(n_nodes=1, n_ranks=4)):
            with opened(host, path, abi, scale) as communicator:
                for nbytes in sizes_of(plain, AMD):
                    call = Call("allreduce", nbytes, scale.n_nodes, scale.n_ranks)
                    offered = SAFE["allreduce"] if abi == 2 else EVERY
                    first, second = (rccl_answer(rows, call, offered) for rows in tables)
                    answer = told(communicator, call)
                    assert answer == (first or second)
                    seen.add((first is not None, second is not None, answer is not None))
    # Ours alone, AMD's alone, both, and neither were all met.
    assert len(seen) == 4


def test_no_size_is_without_a_rule_or_a_stated_hole(shared_data: Path) -> None:
    """With the published file itself: what AMD covers is no hole, what nobody covers is stated."""
    published = shared_data / "configs" / "rocm_builtin_gfx950_7rows.csv"
    base = published.read_text(encoding="utf-8")
    assert base.split() == AMD.split()
    read = read_rules(over(document(zones(Collective.ALL_REDUCE, NODE, OURS)), base).encode())
    assert read.findings == ()
    for scale, n_holes in ((NODE, 1), (Scale(n_nodes=2, n_ranks=16), 2)):
        mine = [r for r in read.rules if r.n_ranks == scale.n_ranks]
        holes = [h for h in read.holes if h.is_of(Collective.ALL_REDUCE, scale)]
        assert len(holes) == n_holes
        spans = sorted((x.min_nbytes, x.max_nbytes) for x in (*mine, *holes))
        assert spans[0][0] == 0
        assert max(high for _, high in spans) == MAX_NBYTES
        reach = 0
        for low, high in spans:
            assert low <= reach + 1
            reach = max(reach, high)
        # A hole is where no rule is.
        for hole in holes:
            assert all(
                r.max_nbytes < hole.min_nbytes or r.min_nbytes > hole.max_nbytes for r in mine
            )


SETTINGS = st.sampled_from(["ring/ll", "ring/ll128", "ring/simple/8", "ring/ll/2"])
TREES = st.sampled_from(["tree/ll", "tree/ll128", "tree/simple/16"])
SCALES = [Scale(n_nodes=1, n_ranks=8), Scale(n_nodes=2, n_ranks=16)]


@st.composite
def tables_of_ours(draw: st.DrawFn) -> list[Zone]:
    """Zones of some collectives and scales, with holes between."""
    made: list[Zone] = []
    for collective in draw(
        st.lists(
            st.sampled_from([Collective.ALL_REDUCE, Collective.ALL_GATHER]), unique=True, min_size=1
        )
    ):
        for scale in draw(st.lists(st.sampled_from(SCALES), unique=True, min_size=1)):
            cuts = sorted(draw(st.lists(st.integers(0, 400), unique=True, max_size=8)))
            names = SETTINGS | TREES if collective is Collective.ALL_REDUCE else SETTINGS
            ranges = [
                (low, high - 1, draw(names), draw(st.none() | SETTINGS))
                for low, high in pairwise(cuts)
                if draw(st.booleans())
            ]
            made += zones(collective, scale, ranges)
    return made


@st.composite
def rows_of_a_vendor(draw: st.DrawFn) -> str:
    """A row of somebody's table: any overlap, any filter."""
    low, high = sorted((draw(st.integers(0, 450)), draw(st.integers(0, 450))))
    name = draw(st.sampled_from(["allreduce", "allgather", "broadcast"]))
    algorithm = draw(st.sampled_from(["ring", "tree"])) if name == "allreduce" else "ring"
    fields = (
        *(name, low, high, algorithm, draw(st.sampled_from(PROTOCOLS))),
        *(draw(st.sampled_from([-1, 1, 24])), draw(st.sampled_from([-1, 1, 2]))),
        *(draw(st.sampled_from([-1, 8, 16])), draw(st.sampled_from([-1, -1, 1, 2])), -1),
    )
    return ",".join(map(str, fields))


@settings(max_examples=25)
@given(found=tables_of_ours(), lines=st.lists(rows_of_a_vendor(), max_size=8))
def test_merged_is_ours_where_ours_has_a_rule_and_the_vendors_elsewhere(
    host: PluginLibrary,
    tmp_path_factory: pytest.TempPathFactory,
    found: list[Zone],
    lines: list[str],
) -> None:
    """At every bound and beside it: RCCL's own reader in both forms, and the plugin at each ABI."""
    ours, base = document(found), "".join(f"{line}\n" for line in lines)
    plain, text = render(ours), over(ours, base)
    check_with_base(
        rules_of(ours),
        read_rules(base.encode()).rules,
        read_rules(text.encode()).rules,
    )
    path = tmp_path_factory.mktemp("m") / "merged.csv"
    path.write_text(text, encoding="utf-8")
    sizes = sizes_of(plain, base)
    separate = [rccl_rows(one, new=True) for one in (plain, base)]
    merged = [rccl_rows(text, new=new) for new in (False, True)]
    for scale in (*SCALES, Scale(n_nodes=1, n_ranks=16)):
        communicators = {abi: opened(host, path, abi, scale) for abi in ABI_VERSIONS}
        for (name, safe), nbytes in product(SAFE.items(), sizes):
            call = Call(name, nbytes, scale.n_nodes, scale.n_ranks)
            wanted = expected(separate, call, EVERY)
            assert [rccl_answer(rows, call, EVERY) for rows in merged] == [wanted, wanted]
            for abi, communicator in communicators.items():
                by_abi = expected(separate, call, safe) if abi == 2 else wanted
                assert told(communicator, call) == by_abi
        for communicator in communicators.values():
            communicator.close()


def expected(
    separate: Sequence[Sequence[RcclRow]], call: Call, offered: set[Cell]
) -> tuple[Cell, int] | None:
    """The definition: merged(x) = ours(x) if ours has a rule else base(x)."""
    first, second = (rccl_answer(rows, call, offered) for rows in separate)
    return first or second


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "allreduce,0,99,ring,ll,-1,1,8,-1,-1\n",
        "allreduce,50,200,tree,ll,-1,1,8,-1,-1\nallreduce,0,99,ring,ll,-1,1,8,-1,-1\n",
        "allreduce,0,98,ring,ll,-1,1,8,-1,-1\nallreduce,50,200,tree,ll,-1,1,8,-1,-1\n",
        "allreduce,0,99,ring,ll,-1,1,8,-1,-1\nallreduce,50,200,tree,ll,-1,-1,8,-1,-1\n",
    ],
    ids=["nothing", "base lost", "base first", "one byte short", "for any nodes"],
)
def test_a_file_that_answers_otherwise_is_found_out(broken: str) -> None:
    """What the check is for; a bug of ours would not become a rule file."""
    ours = read_rules(b"allreduce,0,99,ring,ll,-1,1,8,-1,-1\n").rules
    base = read_rules(b"allreduce,50,200,tree,ll,-1,1,8,-1,-1\n").rules
    check_with_base(ours, base, (*ours, *base))
    with pytest.raises(VerificationError, match="ours"):
        check_with_base(ours, base, read_rules(broken.encode()).rules)
