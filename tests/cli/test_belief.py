"""What the library believed, against RCCL's published model and the node file's own times.

The simulated library computes its table in C; the closed forms here are worked out from the node
file's links (64 channels of half a link's 48 GB/s) and RCCL 2.28.3's tuning model 5
(src/graph/tuning.cc).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yamls
from wording import lacks

from rccltune.cli import run
from rccltune.cli.fit import belief_text
from rccltune.fit.beliefs import check_beliefs
from rccltune.fit.session import FitDone, fit_session
from rccltune.logs import trace
from rccltune.measure import site
from rccltune.model.belief import Belief
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Setting, Target
from rccltune.model.vocabulary import Collective
from rccltune.simulate import sources, true_times

KIB, MIB = 1024, 1024**2
N = 64
# Those of the sweep; a warm-up of the benchmark asks for further ones in between.
SIZES = [KIB * 4**k for k in range(9)]
COLLECTIVES = ("all_reduce", "reduce_scatter", "broadcast")
# Base latency, and latency of a hop and share of the bus of a ring.
RING = {"ll": (12.0, 0.8, 0.08), "ll128": (12.0, 0.8, 0.08), "simple": (17.0, 2.1, 1.0)}
STEPS = {"all_reduce": 2 * (N - 1), "reduce_scatter": N - 1, "broadcast": N}
# Up to 352,128 bytes of a rank RCCL runs reduce_scatter on one node with LL, whatever its table
# says (RCCL 2.28.3 src/rccl_wrap.cc, rcclUpdateCollectiveProtocol).
RS_LL = 352128


@pytest.fixture(scope="module")
def folder(stand_ins: None, whole: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of the simulated mi300x without noise."""
    return sweep(tmp_path_factory.mktemp("belief"), "one-launch")


@pytest.fixture(scope="module")
def each(stand_ins: None, whole: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a launch for each setting."""
    return sweep(tmp_path_factory.mktemp("belief"), "per-setting")


def copied(session: Path, where: Path) -> Path:
    """A session of one's own to change."""
    return shutil.copytree(session, where / "session")


def sweep(
    where: Path, method: str, collectives: Sequence[str] = COLLECTIVES, **changes: object
) -> Path:
    """A session beside its node file, which has these changes."""
    raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    raw["noise"] = {"sigma": 0.0}
    (where / "node.yaml").write_text(yamls.dumped({**raw, **changes}), encoding="utf-8")
    words = [word for name in collectives for word in ("--collective", name)]
    words += ["--min-bytes", "1K", "--max-bytes", "64M", "--communicators", "1", "--factor", "4"]
    words += ["--mode", "cpx-nps4", "--simulate", str(where / "node.yaml"), "--launcher", "none"]
    session = where / method
    with pytest.MonkeyPatch.context() as patch:
        if method == "per-setting":  # a benchmark that cannot repeat its table
            letters = site._simulated_letters
            patch.setattr(
                site, "_simulated_letters", lambda *given: letters(*given) - frozenset("Ns")
            )
        words += ["-o", str(session), "-q"]
        assert run(["sweep", "--runner", "rccl-tests", *words]) == 0
    return session


@pytest.fixture(scope="module")
def done(folder: Path) -> FitDone:
    """Its fit."""
    return fit_session(folder, reporter=Reporter(), again=True)


def of(done: FitDone, collective: str, variant: str = "default") -> dict[int, Belief]:
    """Beliefs of a target by size."""
    return {
        b.nbytes: b
        for b in done.beliefs
        if b.target.collective.value == collective and b.target.variant.name == variant
    }


def ring_us(collective: str, protocol: str, nbytes: int) -> float:
    """Latency + bytes / bandwidth, as RCCL's model has it for a ring on one node."""
    base, hop, share = RING[protocol]
    if collective == "broadcast" and protocol == "simple":
        hop = 2.3  # the tree's
    bus = 64 * 24.0 * share
    if collective == "broadcast" and protocol == "ll":
        bus *= 1.65
    return base + STEPS[collective] * hop + nbytes / (1000 * bus * N / STEPS[collective])


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_predicted_times_are_those_of_rccls_model(done: FitDone, collective: str) -> None:
    """Rings of every protocol at every size; the tree where its correction is 1."""
    for variant, protocols in (("default", ("ll", "simple")), ("ll128-forced", tuple(RING))):
        beliefs = of(done, collective, variant)
        assert {KIB, 64 * KIB, 16 * MIB} < set(beliefs)
        for nbytes, belief in beliefs.items():
            for protocol in protocols:
                wanted = ring_us(collective, protocol, nbytes)
                predicted = belief.predicted_us(Setting.parse(f"ring/{protocol}"))
                # The trace has three decimals, the library single precision.
                assert predicted == pytest.approx(wanted, rel=1e-5, abs=6e-4)


def test_a_tree_is_predicted_where_only_all_reduce_has_one(done: FitDone) -> None:
    """12 µs + 2 x 63 hops of 0.9 µs + bytes / half of 6 % of the bus, from 4 KiB to 128 KiB."""
    tree = Setting.parse("tree/ll")
    for nbytes in (4 * KIB, 16 * KIB, 64 * KIB):
        wanted = 12 + 2 * 63 * 0.9 + nbytes / (1000 * 0.5 * 64 * 24 * 0.06)
        assert of(done, "all_reduce")[nbytes].predicted_us(tree) == pytest.approx(wanted, rel=1e-5)
        assert of(done, "broadcast")[nbytes].predicted_us(tree) is None


def test_the_choice_is_the_least_predicted(done: FitDone) -> None:
    """Of what is offered."""
    assert done.beliefs
    for belief in done.beliefs:
        times = {setting: time for setting, time in belief.offered if time is not None}
        assert belief.choice is not None
        assert times[belief.choice] == min(times.values())


@pytest.mark.parametrize("collective", ["all_reduce", "broadcast"])
def test_what_the_untouched_site_ran_is_the_choice(done: FitDone, collective: str) -> None:
    """The benchmark's own -A columns say it."""
    beliefs = of(done, collective)
    for belief in (beliefs[nbytes] for nbytes in SIZES):
        assert belief.ran is not None
        assert belief.ran == belief.choice


def test_what_the_library_corrects_after_its_table_is_seen(done: FitDone) -> None:
    """reduce_scatter: LL up to RCCL's own limit for each rank, whatever the table says."""
    beliefs = of(done, "reduce_scatter")
    for nbytes in SIZES:
        wanted = "ring/ll" if nbytes // N <= RS_LL else str(beliefs[nbytes].choice)
        assert str(beliefs[nbytes].ran) == wanted
    checked = check_beliefs(done.beliefs, done.curves)
    plain = next(c for c in checked if c.target == of(done, "reduce_scatter")[KIB].target)
    corrected = {held.nbytes for held in plain.held if held.is_corrected}
    least = {n for n in (held.nbytes for held in plain.held) if n // N <= RS_LL}
    dear = {
        n
        for n in least
        if ring_us("reduce_scatter", "ll", n) > ring_us("reduce_scatter", "simple", n)
    }
    assert corrected == dear
    assert corrected


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_the_loss_is_that_of_the_node_file(done: FitDone, folder: Path, collective: str) -> None:
    """Time of what runs untouched over the least time of any setting that can be chosen, - 1."""
    node = sources.load_node(folder.parent / "node.yaml")
    settings = {"ring/ll": (), "ring/ll128": ("ll128-forced",), "ring/simple": ()}
    if collective == "all_reduce":
        settings |= {"tree/ll": (), "tree/ll128": ("ll128-forced",)}
    checked = check_beliefs(done.beliefs, done.curves)
    wanted_target = of(done, collective)[KIB].target
    (plain,) = (c for c in checked if c.target == wanted_target)
    assert plain.held
    for held in plain.held:
        times = {
            name: true_times.truth(node, collective, name, held.nbytes, variants=variants) or 0.0
            for name, variants in settings.items()
        }
        least = min(times.values())
        # Times are printed with two digits behind the point, three places in all.
        assert held.loss == pytest.approx(times[str(held.choice)] / least - 1, abs=0.015)
        assert held.best_us == pytest.approx(least, rel=6e-3)
        assert held.predicted_us is not None
        assert held.optimism == pytest.approx(held.predicted_us / times[str(held.choice)], rel=6e-3)


def test_ll128_is_offered_under_its_variable_only(done: FitDone) -> None:
    """And tree with simple nowhere on one node."""
    for collective in COLLECTIVES:
        for variant in ("default", "ll128-forced"):
            for belief in of(done, collective, variant).values():
                names = {str(setting) for setting, _ in belief.offered}
                assert ("ring/ll128" in names) == (variant == "ll128-forced")
                assert "tree/simple" not in names


def test_both_methods_see_the_same(done: FitDone, each: Path) -> None:
    """Traces of walks and of launches of one setting."""
    other = fit_session(each, reporter=Reporter(), again=True)
    for collective in COLLECTIVES:
        for variant in ("default", "ll128-forced"):
            mine, theirs = of(done, collective, variant), of(other, collective, variant)
            shared = set(mine) & set(theirs)
            assert shared >= set(SIZES)
            assert all(mine[n].offered == theirs[n].offered for n in shared)
            assert all(mine[n].choice == theirs[n].choice for n in shared)


def test_fit_says_it_in_a_few_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it would choose, what that loses, what it does not offer."""
    assert run(["fit", str(folder), "-v"]) == 0
    text = capsys.readouterr().out
    parts = text.split("What the library predicts: ")[1:]
    (plain,) = (p for p in parts if p.startswith("all_reduce, 64 ranks on 1 node (float"))
    assert len(plain.strip().splitlines()) <= 7
    assert "1 KiB – 4 MiB" in plain
    assert "tree/ll" in plain
    assert "ring/ll128, tree/ll128 (offered with RCCL_LL128_FORCE_ENABLE=1)" in plain
    (forced,) = (p for p in parts if p.startswith("broadcast") and "ll128-forced" in p)
    assert "it would choose the same as without" in forced
    (corrected,) = (p for p in parts if p.startswith("reduce_scatter, 64 ranks on 1 node (float"))
    assert lacks(corrected, "ring/ll", "ring/simple") == []


def test_a_host_without_a_table_is_said_to_have_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RCCL 2.21.5 asks with tuner ABI v2; nothing is invented, and nothing drawn."""
    release = {"rccl": "2.21.5", "benchmark": "rt24"}
    session = sweep(tmp_path, "one-launch", ["broadcast"], release=release)
    capsys.readouterr()
    assert run(["fit", str(session), "-v"]) == 0
    text = capsys.readouterr().out
    assert "shows a tuner no times, so its choice is not known" in text
    assert "Not offered" not in text
    assert run(["plot", str(session), "--format", "svg"]) == 0
    said = capsys.readouterr()
    assert "predicted: no time that the library predicts is known here" in said.err
    assert "-predictions" not in said.out


def test_a_choice_that_was_not_measured_has_no_loss(done: FitDone) -> None:
    """As where NCCL would take NVLS and the sweep had ring and tree."""
    nvls = Setting.parse("nvls/simple")
    beliefs = [
        replace(belief, offered=((nvls, 1.0), *belief.offered), choice=nvls, ran=None)
        for belief in of(done, "all_reduce").values()
    ]
    text = belief_text(beliefs, done.curves)
    row = next(line for line in text.splitlines() if "nvls/simple" in line)
    assert "tree/ll" in row
    assert row.split()[-4:] == ["–"] * 4
    assert belief_text([], done.curves) == ""


def test_what_is_offered_at_some_sizes_is_listed_with_them(done: FitDone) -> None:
    """From which to which size."""
    tree = Setting.parse("tree/ll")
    beliefs = [
        replace(b, offered=tuple(o for o in b.offered if o[0] != tree or b.nbytes >= MIB))
        for b in of(done, "all_reduce").values()
    ]
    assert lacks(belief_text(beliefs, done.curves), "tree/ll", "1 MiB", "64 MiB") == []


def test_fit_json_keeps_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And what is read back is what was read from the traces."""
    assert run(["fit", str(folder), "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    again = fit_session(folder, reporter=Reporter())
    fresh = fit_session(folder, reporter=Reporter(), again=True)
    assert len(plain["beliefs"]) == len(again.beliefs)
    assert again.beliefs == fresh.beliefs
    assert json.loads((folder / "fit.json").read_text())["beliefs"] == plain["beliefs"]


def test_plot_draws_one_for_each_target(folder: Path, tmp_path: Path) -> None:
    """Said to be simulated in the picture."""
    assert run(["plot", str(folder), "-o", str(tmp_path), "--format", "svg", "-q"]) == 0
    for collective in COLLECTIVES:
        text = (tmp_path / f"{collective}-1n64r-predictions.svg").read_text()
        assert lacks(text, "SIMULATED") == []
        assert "predicts" in text


def test_two_launches_of_a_target_are_enough(
    folder: Path, done: FitDone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are; a target with one has one."""
    read: list[Target] = []
    original = trace.read_beliefs

    def counting(text: str, where: str, target: Target) -> trace.Shown:
        read.append(target)
        return original(text, where, target)

    monkeypatch.setattr(trace, "read_beliefs", counting)
    again = fit_session(folder, reporter=Reporter(), again=True)
    assert again.beliefs == done.beliefs
    assert 1 <= max(read.count(target) for target in read) <= 2


def test_launches_that_contradict_each_other_are_named(each: Path, tmp_path: Path) -> None:
    """One host predicts another time at 4 KiB in another launch; what came first stays."""
    session = copied(each, tmp_path)
    before = fit_session(session, reporter=Reporter(), again=True)
    assert not [n for n in before.notices if n.caution.value == "beliefs-differ"]
    traces = sorted(session.glob("launches/*/trace-*.csv"))
    for number, path in enumerate(traces):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(_other_time(line, number) for line in lines))
    after = fit_session(session, reporter=Reporter(), again=True)
    told = [n.message for n in after.notices if n.caution.value == "beliefs-differ"]
    assert any("all_reduce, 64 ranks on 1 node, default" in message for message in told)
    assert all("all_reduce" in message and "at 4 KiB" in message for message in told)


def _other_time(line: str, number: int) -> str:
    """A row of all_reduce at 4 KiB with a time of its own."""
    row = line.split(",")
    if row[6:8] == ["allreduce", "4096"]:
        row[11] = " ".join([f"{500 + number}.000", *row[11].split()[1:]])
    return ",".join(row)


def test_a_trace_that_cannot_be_read_spoils_no_fit(folder: Path, tmp_path: Path) -> None:
    """It is said, and curves stay what they are."""
    session = copied(folder, tmp_path)
    before = fit_session(session, reporter=Reporter(), again=True)
    for path in session.glob("launches/*/trace-*.csv"):
        path.write_text("no trace\n")
    after = fit_session(session, reporter=Reporter(), again=True)
    assert after.curves == before.curves
    assert after.beliefs == ()
    assert any("cannot be read" in n.message for n in after.notices)


def test_a_session_without_traces_says_nothing(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Imported tables: no key, no line, no figure."""
    table = repository / "examples" / "mi300x-cpx-nps4" / "all_reduce.csv"
    session = tmp_path / "session"
    assert run(["import", str(table), "-o", str(session)]) == 0
    capsys.readouterr()
    assert run(["fit", str(session), "-v"]) == 0
    assert "belief" not in capsys.readouterr().out.lower()
    assert "beliefs" not in json.loads((session / "fit.json").read_text())
    assert run(["plot", str(session)]) == 0
    said = capsys.readouterr()
    assert "belief" not in said.out + said.err


def test_targets_are_collectives_of_the_session(done: FitDone) -> None:
    """In the order of the curves, the default variant first."""
    targets = [checked.target for checked in check_beliefs(done.beliefs, done.curves)]
    names = [(target.collective, target.variant.name) for target in targets]
    for collective in map(Collective.parse, COLLECTIVES):
        mine = [variant for found, variant in names if found is collective]
        assert mine[0] == "default"
