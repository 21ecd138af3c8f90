"""Rows of a launch that walked through a schedule get the setting that really ran, or none.

The real plugin walks and writes its trace; the calls of a benchmark are made here, from the table
in docs/inside/schedule.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune import plugin
from rccltune.logs import trace
from rccltune.logs.walk import Walk, agree_on_walk, place, read_walk, suspect
from rccltune.model.errors import LaunchError, MachineError
from rccltune.model.measured import Questions, Sample
from rccltune.model.settings import RULES, SILENT, CurveKey, Scale, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Doubt, Placement, Protocol
from rccltune.rules import decision
from rccltune.rules.host import Host

SETTINGS = tuple(Setting.parse(s) for s in ("ring/ll", "tree/ll", "ring/simple/8"))
STEPS = (SILENT, SILENT, *SETTINGS, *SETTINGS, SILENT, *reversed(SETTINGS))
SIZES = (8, 16, 64)
N_ITERS, N_WARM = 3, 2
PER_ROW = 2 * (1 + N_ITERS + 1)
OFFERED = {
    (Algorithm.RING, Protocol.LL),
    (Algorithm.RING, Protocol.SIMPLE),
    (Algorithm.TREE, Protocol.LL),
}


def calls(n_passes: int, *, old: bool) -> list[int]:
    """Sizes of all questions: docs/inside/schedule.md, with -w 2 -n 3 -c 1 -f 2 or -f 4."""
    warm = [SIZES[-1]] * N_WARM + [SIZES[0]] * N_WARM if old else [n for n in SIZES for _ in "ab"]
    return warm + [n for _ in range(n_passes) for n in SIZES for _ in range(PER_ROW)]


def walked(sizes: Sequence[int], steps: Sequence[Setting] = STEPS) -> Walk:
    """What the real plugin writes about these calls."""
    try:
        host = Host(plugin.library())
    except MachineError as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = "".join(f"{step}\n" for step in steps)
        (folder / "steps").write_text(f"#@ format 1\n#@ nodes=1 ranks=8\n{lines}")
        env = {
            "RCCLTUNE_SCHEDULE": str(folder / "steps"),
            "RCCLTUNE_TRACE": str(folder / "trace-%p.csv"),
        }
        with host.communicator(abi=5, n_nodes=1, n_ranks=8, env=env) as communicator:
            for nbytes in sizes:
                communicator.ask(Collective.ALL_REDUCE, nbytes, decision.cost_table(OFFERED))
        (path,) = folder.glob("trace-*.csv")
        return read_walk(path.read_text(), path.name)


def table(n_passes: int) -> list[Sample]:
    """The rows of that benchmark; the time names pass and size."""
    rows = [(number, nbytes) for number in range(n_passes) for nbytes in SIZES]
    return [
        Sample(
            key=CurveKey(
                collective=Collective.ALL_REDUCE,
                setting=SILENT,
                placement=placement,
                scale=Scale(n_nodes=1, n_ranks=8),
            ),
            launch="abc",
            nbytes=nbytes,
            time_us=1000.0 * (number + 1) + nbytes,
            line=line,
        )
        for line, (number, nbytes) in enumerate(rows, start=10)
        for placement in Placement
    ]


N_PASSES = len(STEPS) - 1


def questions(*, old: bool) -> Questions:
    """What the options imply."""
    return Questions(leading=1, per_row=PER_ROW, extra=N_WARM if old else 0)


@pytest.mark.parametrize("old", [False, True])
def test_every_row_gets_the_setting_of_its_step(*, old: bool) -> None:
    """Out of place and in place, in the order of the schedule; a first use is thrown away."""
    placed = place(table(N_PASSES), walked(calls(N_PASSES, old=old)), STEPS, questions(old=old))
    assert len(placed) == N_PASSES * len(SIZES) * 2
    for sample in placed:
        number = int((sample.time_us or 0) // 1000)
        assert sample.step == number
        assert sample.key.setting == STEPS[number]
        first = STEPS.index(STEPS[number], 1) == number
        assert sample.doubt is (Doubt.CONNECTING if first else None)
        assert sample.launch == ("abc" if first else f"abc.{STEPS[1:number].count(STEPS[number])}")
    used = [s for s in placed if s.doubt is None and s.key.setting == SETTINGS[1]]
    assert {s.executed for s in used} == {SETTINGS[1]}


@pytest.mark.parametrize("n_warm", [0, 1, 2])
def test_a_benchmark_that_warms_up_otherwise_is_matched_from_the_end(n_warm: int) -> None:
    """None, one or two passes before the table: the last pass is the last step that began."""
    warm = [n for n in SIZES for _ in range(N_WARM)] * n_warm
    sizes = warm + calls(N_PASSES, old=False)[len(SIZES) * N_WARM :]
    spare = replace(questions(old=False), spare=1)
    placed = place(table(N_PASSES), walked(sizes, (*STEPS, SILENT)), STEPS, spare)
    every = (*STEPS, SILENT)
    for sample in placed:
        number = int((sample.time_us or 0) // 1000) - 1
        assert sample.step == number + n_warm
        assert sample.key.setting == every[number + n_warm]
    assert len(placed) == N_PASSES * len(SIZES) * 2
    # Without a spare step such a launch is void, as it has been.
    if n_warm != 1:
        with pytest.raises(LaunchError):
            place(table(N_PASSES), walked(sizes), STEPS, questions(old=False))


def test_rules_prove_whatever_the_file_answers() -> None:
    """A step of rules is no setting: what the trace says ran is kept, and nothing is doubted."""
    steps = (SILENT, RULES, SILENT, RULES)
    sizes = calls(3, old=False)
    walk = walked(sizes, (SILENT, SETTINGS[0], SILENT, SETTINGS[0]))
    placed = place(table(3), walk, steps, questions(old=False))
    last = [sample for sample in placed if sample.step == 3]
    assert {(s.key.setting, s.executed, s.doubt) for s in last} == {(RULES, SETTINGS[0], None)}


def test_where_nobody_asked_a_path_took_all() -> None:
    """MSCCL takes every size: no step ever begins, and no setting can run."""
    placed = place(table(N_PASSES), walked([]), STEPS, questions(old=False))
    assert {s.doubt for s in placed} == {Doubt.BYPASSED}
    assert [s.key.setting for s in placed] == [
        setting for setting in STEPS[1:] for _ in SIZES for _ in Placement
    ]


def test_a_warm_up_that_asked_says_nothing_of_what_followed() -> None:
    """With captured graphs the warm-up is not captured, and asks; the table's calls do not."""
    warm = [nbytes for nbytes in SIZES for _ in range(N_WARM)]
    placed = place(table(N_PASSES), walked(warm), STEPS, questions(old=True))
    assert {s.doubt for s in placed} == {Doubt.BYPASSED}


def test_columns_that_ask_for_every_row_are_no_calls() -> None:
    """A path took all sizes, and -A asks once a row: steps begin, one behind, and prove nothing."""
    told = Questions(leading=1, per_row=PER_ROW + 1, columns=1)
    asked = [nbytes for _ in range(N_PASSES) for nbytes in SIZES]

    placed = place(table(N_PASSES), walked(asked), STEPS, told)

    assert {s.doubt for s in placed} == {Doubt.BYPASSED}
    assert {s.executed for s in placed} == {None}
    assert [s.key.setting for s in placed[:: 2 * len(SIZES)]] == list(STEPS[1:])


def test_a_table_of_nothing_says_what_was_wrong() -> None:
    """all_gather of 8 B rounds down to 0: no step can begin, and the plugin is not at fault."""
    nothing = [replace(sample, nbytes=0, doubt=Doubt.ZERO_BYTES) for sample in table(N_PASSES)]
    with pytest.raises(LaunchError, match="table") as raised:
        place(nothing, walked([]), STEPS, questions(old=False))
    assert "--min-bytes" in str(raised.value)


def test_a_single_size_that_asks_proves_nothing() -> None:
    """No size falls, so no step ends: whatever ran there cannot be told from the rest."""
    asked = [SIZES[0]] * (PER_ROW * N_PASSES)
    placed = place(table(N_PASSES), walked(asked), STEPS, questions(old=False))
    by_size = {s.nbytes: s.doubt for s in placed}
    assert by_size.pop(SIZES[0]) is Doubt.UNPROVEN
    assert set(by_size.values()) == {Doubt.BYPASSED}


@pytest.mark.parametrize("old", [False, True])
@given(data=st.data())
def test_one_question_more_or_less_voids_the_launch(data: st.DataObject, *, old: bool) -> None:
    """Wherever in the table it is: no row may stand beside another's setting."""
    asked = calls(N_PASSES, old=old)
    n_warm = len(asked) - N_PASSES * len(SIZES) * PER_ROW
    at = data.draw(st.integers(n_warm + 1, len(asked) - 1))
    if data.draw(st.booleans()):
        asked.insert(at, data.draw(st.sampled_from((*SIZES, 32))))
    else:
        del asked[at]
    with pytest.raises(LaunchError, match="together"):
        place(table(N_PASSES), walked(asked), STEPS, questions(old=old))


@given(n_printed=st.integers(0, N_PASSES), n_asked=st.integers(0, N_PASSES))
def test_a_launch_that_was_cut_off_keeps_its_whole_passes(n_printed: int, n_asked: int) -> None:
    """Steps that another followed, of passes that were printed whole."""
    walk = walked(calls(n_asked, old=False))
    # Without its last line, as a killed rank leaves it.
    cut = replace(walk, ended=False)
    # And without the last row, as a killed benchmark leaves its table.
    rows = table(n_printed)[:-2]
    placed = place(rows, cut, STEPS, questions(old=False))
    n_whole = max(0, min(n_printed - 1, n_asked - 1))
    assert [s.step for s in placed] == [1 + k for k in range(n_whole) for _ in range(6)]
    assert all(s.key.setting == STEPS[s.step or 0] for s in placed)


def test_the_last_step_that_began_is_named() -> None:
    """Who hung or crashed."""
    walk = walked(calls(3, old=False))
    assert walk.last == STEPS[3]
    assert (walk.n_begun, walk.n_over, walk.ended) == (4, 0, True)
    assert replace(walk, ended=False).n_whole == 3


@given(n_begun=st.integers(0, len(STEPS)), ended=st.booleans())
def test_nobody_is_suspected_where_nothing_of_ours_chose(n_begun: int, *, ended: bool) -> None:
    """Before the first pass, in a silent step, after the end; else the last one that began."""
    last = STEPS[n_begun - 1] if n_begun else None
    far = Walk(rows=(), n_begun=n_begun, n_over=0, ended=ended, last=last)
    behind = Walk(
        rows=(), n_begun=max(0, n_begun - 1), n_over=0, ended=False, last=STEPS[n_begun - 2]
    )
    found = suspect([behind, far, behind], questions(old=False))
    is_ours = n_begun > 1 and last is not None and last != SILENT
    assert found == (last if is_ours and not ended else None)
    assert suspect([], questions(old=False)) is None


@given(at=st.integers(0, N_PASSES * len(SIZES) - 1))
def test_half_a_row_ends_what_counts(at: int) -> None:
    """Where a table is cut in the middle of a row, one half of it may look whole."""
    rows = table(N_PASSES)[: 2 * at + 1]
    cut = replace(walked(calls(N_PASSES, old=False)), ended=False)
    placed = place(rows, cut, STEPS, questions(old=False))
    # A first row with one half is, for all that is known, a benchmark of one placement.
    if at:
        n_whole = min(at // len(SIZES), N_PASSES - 1)
        assert [s.step for s in placed] == [1 + k for k in range(n_whole) for _ in range(6)]


def test_calls_after_the_last_step_blame_nobody() -> None:
    """And half a line, which a killed rank leaves, is not read."""
    head = "#@ format 1\n" + ",".join(trace._COLUMNS) + "\n"
    begin = "#@ begin comm=a context=0 step={} of=2 setting={}\n"
    whole = head + begin.format(0, "silent") + begin.format(1, "ring/ll")
    walk = read_walk(whole + begin.format(2, "overrun")[:-6], "t")
    assert (walk.n_begun, walk.n_over, walk.last) == (2, 0, SETTINGS[0])
    walk = read_walk(whole + begin.format(2, "overrun"), "t")
    assert (walk.n_begun, walk.n_over, walk.last) == (2, 1, None)
    assert suspect([walk], questions(old=False)) is None


def test_a_bypassed_size_is_doubted_and_costs_no_other() -> None:
    """It has no record; its neighbours have theirs."""
    asked = [nbytes for nbytes in calls(N_PASSES, old=False) if nbytes != 16]
    placed = place(table(N_PASSES), walked(asked), STEPS, questions(old=False))
    assert {s.nbytes for s in placed if s.doubt is Doubt.BYPASSED} == {16}
    assert {s.nbytes for s in placed if s.doubt is None} == {8, 64}


def test_a_bypassed_size_for_whose_columns_alone_was_asked_is_doubted_too() -> None:
    """-A asks once for a row, whatever path its calls took; twice is one too often."""
    in_rows = [nbytes for nbytes in calls(0, old=False) if nbytes != 8]
    for _ in range(N_PASSES):
        for nbytes in SIZES:
            in_rows += [nbytes] * (1 if nbytes == 8 else PER_ROW + 1)
    told = Questions(leading=1, per_row=PER_ROW + 1, columns=1)
    placed = place(table(N_PASSES), walked(in_rows), STEPS, told)
    assert {s.nbytes for s in placed if s.doubt is Doubt.BYPASSED} == {8}
    assert {s.nbytes for s in placed if s.doubt is None} == {16, 64}

    with pytest.raises(LaunchError, match="together"):
        place(table(N_PASSES), walked([*in_rows[:4], 8, *in_rows[4:]]), STEPS, told)
    with pytest.raises(LaunchError, match="together"):
        place(table(N_PASSES), walked(in_rows), STEPS, replace(told, columns=0))


def test_what_the_benchmark_saw_run_is_believed_before_the_plugin() -> None:
    """Columns of -A: another setting than the step's is a substitution."""
    rows = [replace(s, executed=Setting.parse("ring/ll")) for s in table(N_PASSES)]
    walk = walked(calls(N_PASSES, old=False))
    placed = place(rows, walk, STEPS, questions(old=False))
    doubted = {s.key.setting for s in placed if s.doubt is Doubt.SUBSTITUTED}
    assert doubted == {SETTINGS[1], SETTINGS[2]}


def test_ranks_that_walked_differently_are_found() -> None:
    """Other answers, other numbers of calls, other numbers of steps."""
    one = walked(calls(N_PASSES, old=False))
    assert agree_on_walk({"a": one, "b": walked(calls(N_PASSES, old=False))}) is None
    assert "steps" in str(agree_on_walk({"a": one, "b": walked(calls(2, old=False))}))
    more = calls(N_PASSES, old=False)
    more.insert(len(more) // 2, more[len(more) // 2])
    assert "often" in str(agree_on_walk({"a": one, "b": walked(more)}))
    other = (SILENT, SILENT, *reversed(STEPS[2:]))
    assert "told" in str(agree_on_walk({"a": one, "b": walked(calls(N_PASSES, old=False), other)}))
    # A rank that was cut off is compared as far as it got.
    behind = replace(walked(calls(2, old=False)), ended=False)
    assert agree_on_walk({"a": replace(one, ended=False), "b": behind}) is None
