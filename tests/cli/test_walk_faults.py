"""A launch that walks through settings loses the one at fault and nothing else.

The order of launches is that of ``--json``; what counts is read from the session.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yamls
from eight import RANKS, raw_node, written
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.measure import preparation
from rccltune.measure import preparation as preparing
from rccltune.measure.ledger import open_ledger
from rccltune.simulate import sources

pytestmark = pytest.mark.usefixtures("stand_ins", "here", "whole")

SESSION = Path("rccltune-session")
REPEATS, SIZES, HALVES = 2, 4, 2
SMALL = ["--collective", "all_reduce", "--min-bytes", "1K", "--max-bytes", "8K"]
SMALL += ["--timeout", "3", "--repeats", str(REPEATS)]
TWO = ["--setting", "tree/ll", "--setting", "ring/ll"]
# Of one variant, so that they are all in one launch.
ALL = [
    f"{kind}/{channels}"
    for kind in ("tree/ll", "ring/ll", "ring/simple")
    for channels in (1, 2, 4, 8, 12, 16, 20, 24)
]


def node(*faults: dict[str, object]) -> Path:
    """The shipped CPX node on eight ranks without noise, with faults."""
    raw = raw_node()
    path = Path("node.yaml")
    raw |= {"noise": {"sigma": 0.0}, "faults": list(faults)}
    return written(raw, path)


def fault(kind: str, setting: str, **more: object) -> dict[str, object]:
    """A fault of one setting, with its channels where it has some."""
    algorithm, protocol, *channels = setting.split("/")
    where = {"channels": int(channels[0])} if channels else {}
    return {"kind": kind, "setting": f"{algorithm}/{protocol}", **where, **more}


def sweep(path: Path, *more: str, session: Path = SESSION) -> int:
    """One process plays all ranks."""
    where = ["--simulate", str(path), "--launcher", "none", "--mode", "cpx-nps4"]
    return run(["sweep", "--runner", "rccl-tests", *where, *SMALL, *more, "-o", str(session)])


def wish(*settings: str) -> list[str]:
    """As options."""
    return [word for setting in settings for word in ("--setting", setting)]


def samples(session: Path = SESSION) -> pd.DataFrame:
    """samples.csv."""
    return pd.read_csv(session / "samples.csv", keep_default_na=False)


def usable(session: Path = SESSION) -> Counter[str]:
    """Half-rows of each setting that may be used."""
    table = samples(session)
    ids = table["run"].str.partition(".")[0]
    controls = {name for name in set(ids) if is_control(name, session)}
    return Counter(table["setting"][(table["unusable"] == "") & ~ids.isin(controls)])


def made_in(out: str) -> list[dict[str, Any]]:
    """Launches in the order in which they were made."""
    lines = [json.loads(line) for line in out.splitlines()]
    return [line for line in lines if line["event"] == "launch"]


def events(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The same of what was printed last, without controls."""
    return [e for e in made_in(capsys.readouterr().out) if not is_control(e["id"])]


def is_control(name: str, session: Path = SESSION) -> bool:
    """Whether a launch is one of those with which a walk is compared, and no part of it."""
    launch = record(name, "launch.json", session)
    return list(launch["schedule"]["settings"][0]) != ["role"] and "part_of" not in launch


def record(name: str, file: str, session: Path = SESSION) -> dict[str, Any]:
    """A JSON file of a launch."""
    found: dict[str, Any] = json.loads((session / "launches" / name / file).read_text())
    return found


def quarantined(session: Path = SESSION) -> dict[str, list[str]]:
    """How each quarantined setting failed."""
    kept = json.loads((session / "quarantine.json").read_text())["quarantined"]
    return {
        "/".join(
            str(q["setting"][part])
            for part in ("algorithm", "protocol", "channels")
            if part in q["setting"]
        ): q["failures"]
        for q in kept
    }


EACH = REPEATS * SIZES * HALVES
HANG, CRASH, WRONG = "ring/ll/2", "ring/simple/16", "tree/ll/8"
THREE = (
    fault("hang", HANG),
    fault("crash", CRASH, how="segv"),
    fault("wrong", WRONG, elements=3),
)
GOOD = [setting for setting in ALL if setting not in (HANG, CRASH, WRONG)]


@pytest.mark.long
def test_three_faulty_settings_of_24_cost_themselves_and_at_most_three_launches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One hangs, one crashes, one is wrong: the other 21 are whole before those are tried alone."""
    assert len(ALL) == 24
    code = sweep(node(*THREE), *wish(*ALL), "--json")

    assert code == 5
    made = events(capsys)
    walks = [e for e in made if e["setting"].endswith("settings")]
    others = [e for e in made if e not in walks and e["setting"] != "baseline"]
    assert [e["failure"] for e in walks] == ["hang", "crash", None]
    assert made.index(walks[-1]) - made.index(walks[0]) <= 3
    # All that the 21 have comes from walks, and the faulty ones come after them.
    found = samples()
    found = found[found["run"].str.partition(".")[0].isin([e["id"] for e in walks])]
    found = found[(found["unusable"] == "") & found["setting"].isin(GOOD)]
    assert dict(Counter(found["setting"])) == dict.fromkeys(GOOD, EACH)
    assert made.index(others[0]) > made.index(walks[-1])
    assert {e["setting"] for e in others} == {HANG, CRASH, WRONG}
    assert len(others) == 3
    assert quarantined() == {
        HANG: ["hang"] * 2,
        CRASH: ["crash"] * 2,
        WRONG: ["wrong-results"] * 2,
    }
    assert set(usable()) == {*GOOD, "silent", "baseline"}

    # Whoever asks for a planned walk is told of all that was made for it, in that order.
    ledger = open_ledger(SESSION)
    (planned,) = (one for one, _ in ledger.ended if one.id == walks[0]["id"])
    assert [one.id for one, _ in ledger.of(planned)] == [e["id"] for e in (*walks, *others)]
    assert not ledger.is_left(planned)
    done = ledger.done(planned)
    assert done is not None
    assert done[0].id == walks[-1]["id"]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_sweep_that_is_killed_again_and_again_has_the_same_samples(here: Path) -> None:
    """SIGKILL after each launch, or soon after the next began: that one is made again."""
    path = node(*THREE)
    assert sweep(path, *wish(*ALL), session=here / "whole") == 5
    columns = ["setting", "placement", "nbytes", "time_us", "ran", "unusable"]

    def used(session: Path) -> pd.DataFrame:
        table = samples(session)
        table = table[(table["unusable"] == "") & (table["setting"] != "baseline")][columns]
        return table.sort_values(columns).reset_index(drop=True)

    where = ["--simulate", str(path), "--launcher", "none", "--mode", "cpx-nps4", "--json"]
    command = [
        sys.executable,
        "-m",
        "rccltune",
        "sweep",
        "--runner",
        "rccl-tests",
        *where,
        *SMALL,
        *wish(*ALL),
        "-o",
        "part",
    ]
    n_killed = 0
    for _ in range(30):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as one:
            assert one.stdout is not None
            line = one.stdout.readline()
            if json.loads(line)["event"] == "done":
                break
            time.sleep(0.05 * (n_killed % 4))
            one.kill()
            n_killed += 1
    assert n_killed >= 5
    assert one.returncode == 5
    pd.testing.assert_frame_equal(used(here / "part"), used(here / "whole"))
    assert quarantined(here / "part") == quarantined(here / "whole")


def test_sigkill_is_borne_twice_and_bars_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    """It comes from outside: the walk is made again with all its settings; the third one counts."""
    path = node(fault("crash", "tree/ll", how="kill"))
    assert sweep(path, *TWO, "--json") == 5
    walks = [e for e in events(capsys) if "setting" in e["setting"]]
    assert [(e["setting"], e["failure"]) for e in walks] == [
        *[("2 settings", "killed")] * 3,
        ("1 setting", None),
    ]
    assert quarantined() == {"tree/ll": ["killed"] * 3}
    assert usable()["ring/ll"] == EACH


@pytest.mark.long
@pytest.mark.mpi
def test_a_rank_that_hangs_or_crashes_under_mpirun_names_its_setting(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every rank has a trace of its own, and others may not have come as far."""
    raw = raw_node()
    raw["scale"] |= {"ranks": 4, "devices_per_oam": 4}
    raw["fill"] = [{"ranks": 4, "placement": "node"}]
    raw["curves"] = [c | {"ranks": 4} for c in raw["curves"] if c.get("placement") == "node"]
    found = [
        fault("hang", "ring/simple/4", rank=2),
        fault("crash", "tree/ll/8", rank=0, how="abort"),
    ]
    path = Path("four.yaml")
    raw |= {"noise": {"sigma": 0.0}, "faults": found}
    path.write_text(yamls.dumped(raw), encoding="utf-8")
    good = ["tree/ll/2", "ring/ll/2", "ring/ll/4"]
    where = ["--simulate", str(path), "--launcher", "openmpi", "--mode", "cpx-nps4"]
    wanted = [*wish("ring/ll/2", "ring/simple/4", "tree/ll/2", "tree/ll/8", "ring/ll/4"), "--json"]
    assert run(["sweep", "--runner", "rccl-tests", *where, *SMALL, "--timeout", "6", *wanted]) == 5
    assert quarantined() == {"ring/simple/4": ["hang"] * 2, "tree/ll/8": ["crash"] * 2}
    walks = [e["failure"] for e in events(capsys) if e["setting"].endswith("settings")]
    assert walks == ["hang", "crash", None]
    assert {name: usable()[name] for name in good} == dict.fromkeys(good, EACH)


def test_a_memory_fault_is_not_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Not alone either; the others are measured, and a second one stops the sweep."""
    one = fault("crash", "tree/ll", how="memory-fault")
    assert sweep(node(one), *TWO, "--json") == 5
    made = events(capsys)
    assert [e["failure"] for e in made].count("memory-fault") == 1
    assert "tree/ll" not in {e["setting"] for e in made}
    assert quarantined() == {"tree/ll": ["memory-fault"]}
    assert usable()["ring/ll"] == EACH

    path = node(one, fault("crash", "ring/simple", how="memory-fault"))
    more = [*TWO, "--setting", "ring/simple"]
    assert sweep(path, *more, session=Path("two")) == 5
    assert lacks(capsys.readouterr().err, "2 launches", "GPU") == []


def test_a_quarantined_setting_is_left_out_of_later_walks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same command makes nothing, and another wish walks without it."""
    path = node(fault("crash", "tree/ll", how="segv"))
    assert sweep(path, *TWO) == 5
    said = capsys.readouterr().err
    assert lacks(said, "all_reduce", "tree/ll", "2 launches") == []
    assert f"{SESSION}/launches/" in said
    assert sweep(path, *TWO, "--json") == 5
    assert events(capsys) == []

    assert sweep(path, *TWO, "--max-bytes", "16K", "--json") == 5
    walks = [e for e in events(capsys) if e["setting"] != "baseline"]
    assert [(e["setting"], e["failure"]) for e in walks] == [("1 setting", None)]


def benchmark(script: str, *faults: dict[str, object]) -> list[str]:
    """A sweep's options for a script around the stand-in; $WALK is set in a walk."""
    for name, found in (("good", ()), ("bad", faults)):
        Path(f"{name}.node").write_bytes(sources.compile_node(node(*found)))
    program = Path("bench").resolve() / "all_reduce_perf"
    program.parent.mkdir()
    real = plugin.native_folder() / "sim" / program.name
    names = f"HERE={Path.cwd()}\nREAL={real}\nWALK=$RCCLTUNE_SCHEDULE\n"
    # Without --env too: what it can do is asked before anything is swept.
    names += f"export RCCLTUNE_SIM_NODE=$HERE/good.node RCCLTUNE_SIM_RANKS={RANKS}\n"
    program.write_text(f"#!/bin/bash\n{names}{script}\n")
    program.chmod(0o755)
    where = ["--rccl-tests", str(program.parent), "--np", str(RANKS), "--launcher", "none", *SMALL]
    return ["sweep", "--runner", "rccl-tests", *where, *TWO, "--json"]


# Steps: silent; silent, tree/ll, ring/ll; tree/ll, ring/ll, silent; tree/ll, … The walk ends in
# step 5, and its table in the middle of a row, as a node that crashed leaves it.
CUT = """
if [ -n "$WALK" ] && [ ! -e $HERE/cut ]; then
  touch $HERE/cut
  $REAL "$@" > $HERE/table
  for trace in ${RCCLTUNE_TRACE%/*}/trace-*.csv; do sed -i '/^#@ begin .* step=5 /q' $trace; done
  head -c $(($(grep -b -m5 -E '^ +1024 ' $HERE/table | tail -1 | cut -d: -f1) + 60)) $HERE/table
  END
fi
exec $REAL "$@"
"""


def test_whole_steps_of_a_walk_that_crashed_count_and_are_not_made_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The suspect ends well alone: it is not quarantined, and what it lacks is told."""
    assert run(benchmark(CUT.replace("END", "kill -SEGV $$"))) == 0
    captured = capsys.readouterr()
    made = [
        e for e in made_in(captured.out) if e["setting"] != "baseline" and not is_control(e["id"])
    ]
    assert [(e["setting"], e["failure"]) for e in made] == [
        ("2 settings", "crash"),
        ("1 setting", None),
        ("ring/ll", None),
    ]
    outcome = record(made[0]["id"], "outcome.json")
    assert (outcome["n_steps"], outcome["n_samples"]) == (5, 4 * SIZES * HALVES)
    assert outcome["suspect"] == {"algorithm": "ring", "protocol": "ll"}
    # One repeat of tree/ll was whole, so there is one more; silence goes along.
    schedule = record(made[1]["id"], "launch.json")["schedule"]["settings"]
    assert [s.get("role", s.get("algorithm")) for s in schedule] == [
        *("silent", "silent", "tree", "silent", "tree", "silent"),
    ]
    assert usable() == Counter(
        {"tree/ll": EACH, "silent": EACH, "ring/ll": EACH // REPEATS, "baseline": 3 * EACH // 2}
    )
    assert "all_reduce ring/ll: " in captured.err
    assert lacks(captured.err, "1 of", "2 times", "is measured") == []
    # The same samples come from the raw logs.
    before = samples()
    (SESSION / "samples.csv").unlink()
    assert run(["fit"]) in (0, 8)
    pd.testing.assert_frame_equal(samples(), before)


# A process that plans as the fixture ``whole`` has it.
WHOLE = """
from rccltune.cli import main
from rccltune.plan import rounds
real = rounds.parted
rounds.parted = lambda sweep, *more: real(sweep, *more) or (sweep,)
main()
"""


def test_a_walk_that_was_interrupted_is_made_again_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """rccltune itself is killed: nobody is suspected, and nothing of what was cut off decides."""
    wanted = benchmark(CUT.replace("END", "kill -KILL $PPID; exec sleep 60"))
    command = [sys.executable, "-c", WHOLE, *wanted]
    silence = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    assert subprocess.run(command, check=False, **silence).returncode == -signal.SIGKILL

    assert run(wanted) == 0
    captured = capsys.readouterr()
    [made] = [e for e in made_in(captured.out) if e["setting"] == "2 settings"]
    assert lacks(captured.err, f"launch {made['id']}", "was interrupted") == []
    outcome = record(made["id"], "outcome.json")
    assert outcome["status"] == "ok"
    assert not {"failure", "suspect"} & set(outcome)
    found = usable()
    assert [found[name] for name in ("tree/ll", "ring/ll", "silent")] == [EACH] * 3
    assert len(list(SESSION.glob("launches/*/earlier-1/stdout.log"))) == 1


def test_wrong_among_others_and_right_alone_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """It is not quarantined; its wrong results disqualify it all the same."""
    script = '[ -n "$WALK" ] && export RCCLTUNE_SIM_NODE=$HERE/bad.node\nexec $REAL "$@"'
    assert run(benchmark(script, fault("wrong", "tree/ll", elements=3))) == 0
    assert lacks(capsys.readouterr().err, "tree/ll") == []
    assert not (SESSION / "quarantine.json").exists()
    found = samples()
    assert (found[found["setting"] == "tree/ll"]["unusable"] == "wrong-results").any()
    assert usable()["ring/ll"] == EACH
    assert run(["fit"]) == 0
    assert run(["emit-config", "-o", "rules.csv"]) == 0
    assert ",tree,ll," not in Path("rules.csv").read_text()


MEMORY = "Memory access fault by GPU node-1 (Agent handle: 0x1) on address 0x7f0000000000."


@pytest.mark.parametrize(
    ("end", "failures"),
    [
        ("exit 3", ["crash"] * 2),
        ("kill -KILL $$", ["killed"] * 3),
        (f"echo '{MEMORY}' >&2; kill -ABRT $$", ["memory-fault"]),
    ],
)
def test_a_walk_that_fails_before_a_setting_is_made_once_more_and_blames_nobody(
    capsys: pytest.CaptureFixture[str], end: str, failures: list[str]
) -> None:
    """SIGKILL is borne once more, a memory fault not at all; then it counts as failed."""
    wanted = benchmark(f'if [ -n "$WALK" ]; then {end}; fi\nexec $REAL "$@"')
    # The same command tries it again.
    for _ in range(2):
        assert run(wanted) == 5
        captured = capsys.readouterr()
        assert lacks(captured.err, "1 of", "the launches") == []
        walks = [e for e in made_in(captured.out) if e["setting"] == "2 settings"]
        assert [e["failure"] for e in walks] == failures
    assert not (SESSION / "quarantine.json").exists()


def test_a_machine_that_stops_working_condemns_no_setting_of_a_walk(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After the first walk nothing works: the untouched benchmark tells, and nothing counts."""
    wedge = '[ -n "$WALK" ] && [ -e $HERE/broken ] && touch $HERE/wedged && bad=1\n'
    wedge += 'if [ -n "$bad" ] && [ ! -e $HERE/seen ]; then touch $HERE/seen; '
    wedge += 'RCCLTUNE_SIM_NODE=$HERE/bad.node exec $REAL "$@"; fi\n'
    wedge += '[ -e $HERE/wedged ] && exit 3\nexec $REAL "$@"'
    wanted = benchmark(wedge, fault("crash", "tree/ll", how="segv"))
    (here / "broken").touch()
    assert run(wanted) == 5
    said = capsys.readouterr().err
    assert "worked before" in said
    assert "quarantined" not in said

    for name in ("broken", "wedged"):
        (here / name).unlink()
    assert run(wanted) == 0
    assert usable()["ring/ll"] == usable()["tree/ll"] == EACH


def test_nothing_of_a_walk_counts_during_which_the_machine_changed(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whole as it may be."""
    wanted = benchmark('[ -n "$WALK" ] && touch $HERE/walked\nexec $REAL "$@"')
    original = preparation.prepare

    def changed() -> tuple[str, ...]:
        return ("the driver was 6.3, is 6.4",) if (here / "walked").exists() else ()

    def prepare(*args: object, **kwargs: object) -> object:
        ready = original(*args, **kwargs)
        return replace(ready, site=replace(ready.site, changed=changed))

    with monkeypatch.context() as patch:
        patch.setattr(preparing, "prepare", prepare)
        assert run(wanted) == 4
    assert lacks(capsys.readouterr().err, "6.3", "the driver") == []
    assert set(usable()) == {"baseline"}

    assert run(wanted) == 0
    assert usable()["tree/ll"] == usable()["ring/ll"] == EACH
