"""A search from end to end on simulated nodes: what it measures, says, keeps and goes on with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yamls
from wording import lacks

from rccltune.cli import run
from rccltune.measure import searching, site
from rccltune.measure.preparation import Prepared, prepare
from rccltune.measure.request import merge_request
from rccltune.measure.site import find_site
from rccltune.measure.sweeps import sweep
from rccltune.model.chosen import Rule
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Role, Setting
from rccltune.model.vocabulary import Collective
from rccltune.plan.launches import sizes as sizes_of_sweep
from rccltune.rules.reader import read_rules
from rccltune.search.rounds import AIM
from rccltune.session.store import open_session, read_launches, stored_samples
from rccltune.simulate import sources, true_times
from rccltune.simulate.node import SimulatedNode

pytestmark = pytest.mark.usefixtures("stand_ins", "here")

SESSION = Path("rccltune-session")
SMALL = ["--collective", "all_reduce", "--min-bytes", "1K", "--max-bytes", "32M"]
TWO = ["--setting", "tree/ll", "--setting", "ring/simple"]
RULES = "rccl_tuner_gfx942_cpx-nps4.csv"


def quiet(name: str = "node.yaml", **changes: object) -> Path:
    """The shipped CPX node without noise, and with these changes."""
    path = Path(name)
    raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    path.write_text(yamls.dumped({**raw, "noise": {"sigma": 0.0}, **changes}), encoding="utf-8")
    return path


def search(node: Path | str, *more: str, session: Path = SESSION) -> int:
    """One simulated sweep; one process plays all ranks."""
    wish = more if "--collective" in more else (*SMALL, *more)
    where = ["--simulate", str(node), "--launcher", "none", "--mode", "cpx-nps4"]
    return run(
        [
            "sweep",
            "--runner",
            "rccl-tests",
            *where,
            *wish,
            "-o",
            str(session),
        ]
    )


def decided(session: Path = SESSION) -> dict[str, Any]:
    """search.json."""
    found: dict[str, Any] = json.loads((session / "search.json").read_text())
    return found


def samples(session: Path = SESSION) -> pd.DataFrame:
    """samples.csv."""
    return pd.read_csv(session / "samples.csv", keep_default_na=False)


def launches(session: Path = SESSION) -> set[str]:
    """Those that ended."""
    return {path.parent.name for path in session.glob("launches/*/outcome.json")}


def rules_of(session: Path, *more: str) -> tuple[Rule, ...]:
    """What reaches production."""
    assert run(["emit-config", str(session), "--force", *more]) == 0
    read = read_rules((session / RULES).read_bytes())
    return tuple(rule for rule in read.rules if not rule.fallback)


def chosen(rules: tuple[Rule, ...], nbytes: int) -> Setting | None:
    """The first rule that matches; None leaves it to the library."""
    found = (r.setting for r in rules if r.min_nbytes <= nbytes <= r.max_nbytes)
    return next(found, None)


def truth_us(node: Path, setting: Setting, nbytes: int) -> float:
    """The node file's own time."""
    pair = "/".join(str(setting).split("/")[:2])
    time_us = true_times.truth(
        loaded(node.resolve()), "all_reduce", pair, nbytes, channels=setting.channels or 0, ranks=64
    )
    assert time_us is not None
    return time_us


@cache
def loaded(node: Path) -> SimulatedNode:
    """Read once; tests have folders of their own."""
    return sources.load_node(node)


def test_a_sweep_searches_and_keeps_every_decision(capsys: pytest.CaptureFixture[str]) -> None:
    """Rounds, what each is for, what is dropped, and what is still expected to be lost."""
    assert search("mi300x") == 0
    captured = capsys.readouterr()
    assert "Method: many settings in each launch (-N), searching in rounds" in captured.err
    assert "Round 1 of 2: " in captured.err
    assert lacks(captured.out, "all_reduce") == []
    dropped = [
        (one["collective"], json.dumps(one["setting"]))
        for r in decided()["rounds"]
        for one in r.get("dropped", ())
    ]
    # Where no setting is hopeless none is dropped; tests/search has those that are.
    assert len(dropped) == len(set(dropped))

    kept = decided()
    assert kept["is_over"] is True
    assert [made["number"] for made in kept["rounds"]] == [1, 2]
    assert {name for made in kept["rounds"] for name in made["launches"]} == launches()
    for made in kept["rounds"]:
        assert made["launches"]
        assert all(want["motive"] and want["settings"] for want in made["wants"])
    for made in kept["rounds"][1:]:
        [expected] = made["expected"]
        assert 0 <= expected["mean"] <= expected["worst"]
    [last] = kept["expected"]
    assert last["mean"] < 2 * AIM

    # It measures no setting everywhere by design; nobody is told that as a fault.
    assert run(["emit-config", "-o", "rules.csv"]) == 0
    assert "not chosen where they were not measured" not in capsys.readouterr().err

    # Derived: the same command finds nothing to do and writes the same again.
    (SESSION / "search.json").unlink()
    capsys.readouterr()
    assert search("mi300x", "--json") == 0
    [event] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert event["event"] == "done"
    assert event["expected_regret"] == kept["expected"]
    assert decided() == kept


@pytest.mark.long
def test_a_count_of_channels_that_is_a_tenth_faster_becomes_the_rule() -> None:
    """Nobody named it: the search tries counts on the settings that survive."""
    effect = {
        "setting": "ring/simple",
        "by_channels": {
            4: [[8, 1.3]],
            8: [[65536, 1.0], [1 << 20, 0.9], [8 << 20, 0.9], [16 << 20, 1.2]],
            16: [[8, 1.0]],
            32: [[8, 1.0]],
        },
    }
    node = quiet(effects=[effect])
    # Cheap at those sizes: whatever else there is, ring/simple is the best pair from 1 MiB on.
    assert search(node) == 0
    rules = rules_of(SESSION)
    eight = Setting.parse("ring/simple/8")
    pairs = [Setting.parse(p) for p in ("tree/ll", "tree/ll128", "ring/ll", "ring/ll128")]
    middle = [
        n
        for n in (1 << 20, 1 << 21, 1 << 22, 1 << 23)
        if all(truth_us(node, eight, n) < 0.9 * truth_us(node, p, n) for p in pairs)
    ]
    assert middle
    assert {chosen(rules, n) for n in middle} == {eight}
    wants = [w for made in decided()["rounds"] for w in made["wants"]]
    tried = {
        (s["algorithm"], s["protocol"]) for w in wants for s in w["settings"] if "channels" in s
    }
    assert ("ring", "simple") in tried
    assert ("ring", "ll") not in tried


def without(monkeypatch: pytest.MonkeyPatch, letters: str) -> None:
    """A benchmark whose --help does not list these options."""
    real = site._simulated_letters
    monkeypatch.setattr(
        site, "_simulated_letters", lambda *given: real(*given) - frozenset(letters)
    )


def test_a_benchmark_that_cannot_repeat_its_table_gets_a_launch_for_each_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And says why; nothing is searched."""
    without(monkeypatch, "Ns")
    assert search(quiet(), *TWO, "--repeats", "1") == 0
    said = capsys.readouterr().err
    assert lacks(said, "this benchmark") == []
    assert len(launches()) == 3 + 2
    assert not (SESSION / "search.json").exists()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--max-bytes", "1K"], "one size alone"),
        (["--collective", "sendrecv"], "asks a tuner"),
    ],
)
def test_what_cannot_be_searched_is_measured_one_by_one(
    more: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan says so as well."""
    assert search(quiet(), *TWO, *more, "--plan") == 0
    out = capsys.readouterr().out
    assert "method: one launch for each setting, " in out
    assert why in out


def test_a_plan_is_the_first_round_and_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """What follows depends on what is found."""
    node = quiet()
    assert search(node, *TWO, "--plan") == 0
    out = capsys.readouterr().out
    assert "perhaps one more round" in out
    assert "searching in rounds" in out
    assert not SESSION.exists()


def prepared(
    session: Path, *settings: str, node: str = "mi300x-cpx-nps4", budget_s: float | None = None
) -> Prepared:
    """As the command does."""
    wish: Mapping[str, Any] = {
        "simulate": node,
        "launcher": "none",
        "collective": (Collective.ALL_REDUCE,),
        "setting": tuple(map(Setting.parse, settings)),
        "min_bytes": 1 << 10,
        "max_bytes": 32 << 20,
    }
    request = merge_request(None, wish)
    return prepare(
        request.sweep, find_site(request.site), session, timeout_s=None, budget_s=budget_s
    )


class Stop(Reporter):
    """Interrupts after so many launches."""

    def __init__(self, after: int) -> None:
        """None of them is lost."""
        self.left = after

    def progress(self, step: object) -> None:
        """Told after every launch."""
        del step
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


COLUMNS = ["run", "setting", "placement", "nbytes", "time_us", "unusable", "ran"]


def kept(session: Path) -> pd.DataFrame:
    """All samples, in an order of their own."""
    return samples(session)[COLUMNS].sort_values(COLUMNS).reset_index(drop=True)


def run_it(one: Prepared, reporter: Reporter) -> None:
    """Without talk."""
    sweep(one, reporter=reporter, command="", force=True)


def is_interrupted(session: Path, *settings: str, node: str) -> bool:
    """After one launch, unless there is none left."""
    try:
        run_it(prepared(session, *settings, node=node), Stop(1))
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.parametrize("is_faulty", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_search_that_is_interrupted_after_every_launch_is_the_same_search(
    here: Path, *, is_faulty: bool
) -> None:
    """Launches, samples and decisions are those of one that nobody disturbed.

    Where a setting crashes, what comes after its walk and its trials alone are interrupted too.
    """
    settings = ("tree/ll", "ring/simple", "ring/ll")[: 2 + is_faulty]
    whole, part = here / "whole", here / "part"
    faults = [{"kind": "crash", "setting": "tree/ll", "how": "segv"}]
    node = str(quiet(faults=faults)) if is_faulty else "mi300x-cpx-nps4"
    run_it(prepared(whole, *settings, node=node), Reporter())
    n_interrupted = 0
    while is_interrupted(part, *settings, node=node):
        n_interrupted += 1
        # Decisions so far are there at any moment.
        begun = [made["number"] for made in decided(part)["rounds"]]
        assert begun == list(range(1, len(begun) + 1))
    assert n_interrupted == len(launches(whole)) > 3
    assert launches(part) == launches(whole)
    pd.testing.assert_frame_equal(kept(part), kept(whole))
    assert decided(part) == decided(whole)


@pytest.mark.long
def test_a_budget_that_grows_bit_by_bit_ends_as_the_same_search(here: Path) -> None:
    """Whichever launch it ends before, the same command with more goes on there."""
    whole, part = here / "whole", here / "part"
    run_it(prepared(whole, *TWO[1::2]), Reporter())
    n_commands = 0
    while not (part / "search.json").exists() or not decided(part)["is_over"]:
        n_commands += 1
        assert n_commands <= len(launches(whole))
        spent_s = sum(outcome.duration_s or 0 for _, outcome in read_launches(part))
        # A second is what a simulated walk is taken for.
        more = prepared(part, *TWO[1::2], budget_s=spent_s + 1.001)
        run_it(more, Reporter())
    assert n_commands > 2
    assert launches(part) == launches(whole)
    pd.testing.assert_frame_equal(kept(part), kept(whole))
    assert decided(part) == decided(whole)


def test_a_budget_leaves_out_what_it_does_not_allow_and_can_be_raised(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A simulated walk is taken for a second, which is no more there after the first launch."""
    assert search("mi300x", *TWO, "--budget", "1s") == 0
    captured = capsys.readouterr()
    n_first = len(launches())
    assert n_first >= 1
    assert "the budget left out " in captured.out
    assert "--budget goes on" in captured.out
    kept_early = decided()
    assert kept_early["is_over"] is False

    assert search("mi300x", *TWO, "--budget", "1h", "--json") == 0
    done = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert done["unaffordable"] == []
    assert search("mi300x", *TWO, session=here / "whole") == 0
    assert launches() == launches(here / "whole")
    pd.testing.assert_frame_equal(kept(SESSION), kept(here / "whole"))
    assert decided() == decided(here / "whole")


def test_a_budget_for_nothing_says_what_a_launch_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is started."""
    assert search("mi300x", "--budget", "0.01s") == 2
    said = capsys.readouterr().err
    assert lacks(said, "one launch") == []
    assert launches() == set()


def test_collectives_are_searched_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """all_gather asks no tuner up to 4 MiB in this release, and nothing below 1 KiB is sent."""
    wish = [w for c in ("all_reduce", "all_gather", "broadcast") for w in ("--collective", c)]
    assert search("mi300x", *wish, "--max-bytes", "64M", *TWO[2:], "--repeats", "2") == 0
    out = capsys.readouterr().out
    for name in ("all_reduce", "all_gather", "broadcast"):
        assert lacks(out, f"{name}", "may still") == []
    for made in decided()["rounds"][1:]:
        for want in made["wants"]:
            if want["collective"] == "all_gather":
                assert want["nbytes"] > 4 << 20
    table = samples()
    gathered = table[(table["collective"] == "all_gather") & (table["unusable"] == "")]
    assert (gathered[gathered["setting"] == "ring/simple"]["nbytes"] > 4 << 20).all()
    assert set(table[table["unusable"] == ""]["collective"]) == {
        "all_reduce",
        "all_gather",
        "broadcast",
    }


def test_a_setting_whose_only_pass_was_its_first_use_is_asked_for_again() -> None:
    """The benchmark makes one pass less before its table: each launch's last step is left out."""
    node = quiet(faults=[{"kind": "shift", "passes": -1}])
    assert search(node, *TWO, "--setting", "ring/ll", "--max-bytes", "1M", "--seed", "1") == 0
    first, second = decided()["rounds"]
    again = [want for want in second["wants"] if "first use" in want["motive"]]
    assert again
    table = samples()
    for setting in {f"{s['algorithm']}/{s['protocol']}" for w in again for s in w["settings"]}:
        own = table[table["setting"] == setting]
        of_first = own["run"].str[:10].isin(first["launches"])
        assert set(own[of_first]["unusable"]) == {"connecting"}
        assert len(own[own["unusable"] == ""]["nbytes"].unique()) == 11  # 1 KiB to 1 MiB


def test_no_size_is_wanted_at_which_ranks_have_nothing_to_send() -> None:
    """reduce_scatter of 64 ranks below 1 KiB: the coarse pass sees nothing, no other looks."""
    wish = ["--collective", "reduce_scatter", "--max-bytes", "1M", "--repeats", "2"]
    assert search(quiet(), *wish) == 0
    for made in decided()["rounds"][1:]:
        assert all(want["nbytes"] >= 1024 for want in made["wants"])


def test_sizes_that_ranks_cannot_share_evenly_are_known_by_what_was_asked_for() -> None:
    """Six ranks, 16 bytes each: the benchmark measures 96 B where 128 B were asked for."""
    raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    curves = [c | {"ranks": 6} for c in raw["curves"] if c.get("placement") == "node"]
    scale = raw["scale"] | {"ranks": 6, "devices_per_oam": 6}
    fill = [{"ranks": 6, "placement": "node"}]
    node = quiet(scale=scale, fill=fill, curves=curves)
    wish = ["--collective", "reduce_scatter", "--np", "6", "--max-bytes", "1M", *TWO[2:]]
    assert search(node, *wish) == 0
    assert set(samples()["nbytes"]) >= {0, 96, 480, 1048512}

    read = stored_samples(open_session(SESSION))
    assert read is not None
    known_sweep = merge_request(SESSION / "sweep.yaml", {}).sweep
    [known] = searching.known_of(known_sweep, read)
    measured = {
        point.nbytes
        for curve in known.curves
        if curve.key.setting.role is Role.FORCED
        for point in curve.points
    }
    assert measured <= set(known.sizes)
    assert {128, 512, 1 << 20} <= measured
    # What the library runs by itself is nobody's rival there.
    forced = [curve.key for curve in known.curves if curve.key.setting.role is Role.FORCED]
    own = {forced[0].target: {512: forced[0].setting}}
    [less] = searching.known_of(known_sweep, read, library=searching.Library(own=own))
    before, after = (one.barred.get(forced[0].setting, frozenset()) for one in (known, less))
    assert after == before | {512}
    # The largest one is measured once and confirmed once, and not again and again.
    wants = [want for made in decided()["rounds"] for want in made["wants"]]
    assert sum(want["nbytes"] == 1 << 20 for want in wants) <= 2


@pytest.mark.parametrize(
    "more",
    [
        ["--setting", "tree/ll"],
        ["--max-bytes", "2K"],
        ["--placement", "in"],
        ["--factor", "16"],
        ["--repeats", "1"],
    ],
)
def test_odd_wishes_are_searched(more: list[str]) -> None:
    """One setting, two sizes, one half of a row: every winner has a launch or more."""
    settings = [] if "--setting" in more else TWO
    assert search("mi300x", *settings, *more) == 0
    kept_now = decided()
    assert kept_now["is_over"] is True
    table = samples()
    used = table[(table["unusable"] == "") & ~table["setting"].isin(["baseline", "idle"])]
    assert len(used)
    if "--placement" in more:
        assert set(table["placement"]) == {more[1]}
    assert run(["fit", str(SESSION)]) == 0
    grid = sizes_of_sweep(merge_request(SESSION / "sweep.yaml", {}).sweep)
    assert {want["nbytes"] for want in kept_now["rounds"][0]["wants"]} <= set(grid)
    # One setting alone is beaten by the untouched site at the largest size: nobody asks further.
    assert grid[-1] in set(used["nbytes"]) or more == ["--setting", "tree/ll"]


def test_nothing_more_is_measured_where_the_first_round_says_all() -> None:
    """One setting, one launch each: the library alone, and a walk."""
    assert search(quiet(), "--setting", "tree/ll", "--max-bytes", "64K", "--repeats", "1") == 0
    rounds = decided()["rounds"]
    assert decided()["is_over"] is True
    assert [bool(made["wants"]) for made in rounds] == [True] + [False] * (len(rounds) - 1)
    assert len(launches()) == len(rounds[0]["launches"]) == 2
    table = samples()
    assert len(set(table[table["setting"] == "baseline"]["run"])) == 1


def test_a_setting_that_is_quarantined_is_not_wanted_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It crashes in the first round; all others are searched."""
    node = quiet(faults=[{"kind": "crash", "setting": "tree/ll", "how": "segv"}])
    assert search(node, "--repeats", "2") == 5
    assert lacks(capsys.readouterr().err, "all_reduce", "tree/ll") == []
    for made in decided()["rounds"][1:]:
        for want in made["wants"]:
            for setting in want["settings"]:
                assert (setting["algorithm"], setting["protocol"]) != ("tree", "ll")
    assert decided()["is_over"] is True


def test_no_usable_sample_of_any_setting_ends_the_search(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All settings give wrong results: nothing is expected, nothing more is wanted."""
    faults = [{"kind": "wrong", "setting": s, "elements": 3} for s in ("tree/ll", "ring/ll128")]
    two = ["--setting", "tree/ll", "--setting", "ring/ll128"]
    assert search(quiet(faults=faults), *two, "--repeats", "1") == 5
    kept_now = decided()
    assert (len(kept_now["rounds"]), kept_now["is_over"]) == (1, True)
    assert kept_now["expected"] == []
    # Tree/ll runs beside LL128 too, in the environment that this needs, and is named once.
    assert "quarantined: 2" in capsys.readouterr().err


def test_nothing_at_all_is_an_error_with_a_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Even the untouched site crashes."""
    node = quiet(faults=[{"kind": "crash", "setting": s, "how": "segv"} for s in EVERYTHING])
    assert search(node, *TWO, "--repeats", "1") == 5
    assert lacks(capsys.readouterr().err, "not work") == []


EVERYTHING = ("tree/ll", "tree/ll128", "tree/simple", "ring/ll", "ring/ll128", "ring/simple")


def test_no_variant_is_tried_that_nobody_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Four MI300X, whose library takes more channels where it is told to; a line says how."""
    where = ["--simulate", "mi300x", "--mode", "spx-nps1", "--np", "4", "--launcher", "none"]
    assert run(["sweep", "--runner", "rccl-tests", *where, *SMALL, *TWO]) == 0
    assert set(samples().variant) == {"default"}
    assert lacks(capsys.readouterr().err, "on request only", "--variant NAME") == []


@pytest.mark.usefixtures("undrawn")
def test_only_a_plan_foretells_how_long_the_whole_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Launches of a second each: the coarse pass, another round like it, and the proof."""
    words = ["--mode", "cpx-nps4", "--simulate", "mi300x", "--launcher", "none"]
    words += ["--collective", "all_reduce", "--budget", "1s"]
    assert run(["sweep", "--runner", "rccl-tests", *words, "--plan", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    n = len(planned["launches"])
    assert (planned["estimate_s"], planned["most_s"]) == (n, 2 * n)

    # How it ends depends on how many launches fit into the second.
    run(["tune", *words])
    said = capsys.readouterr().err
    [line] = [line for line in said.splitlines() if "launches to make" in line]
    assert re.findall(r"\d+", line) == [str(n)]
