"""From nothing to a verified file in one command, on simulated nodes whose truth is known."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yamls
from eight import raw_node, written
from wording import lacks

from rccltune.cli import run
from rccltune.rules.reader import read_rules
from rccltune.simulate import sources

pytestmark = pytest.mark.usefixtures("stand_ins", "here", "whole")
SESSION = Path("rccltune-session")
WORDS = ["--launcher", "none", "--collective", "all_reduce", "--min-bytes", "1K"]
WORDS += ["--max-bytes", "2M"]


def tune(node: str, *more: str) -> int:
    """In this process."""
    return run(["tune", "--mode", "cpx-nps4", "--simulate", node, *WORDS, *more])


def eight() -> str:
    """The shipped node on eight ranks."""
    return str(written(raw_node(), Path("node.yaml")))


def test_one_command_ends_in_verified_rules_and_says_how_to_use_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """AMD's table: the tree wins up to a mebibyte."""
    node = eight()
    assert tune(node, "--plan", "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert tune(node) == 0
    said = capsys.readouterr().out
    # As many of the sweep as the plan says; of the verification at least, there may be more rules.
    made = {p.parent.parent.parent.name for p in SESSION.rglob("outcome.json")}
    assert made == {SESSION.name, "verification"}
    assert len(list(SESSION.glob("launches/*/outcome.json"))) == len(planned["launches"])
    n_verified = len(list(SESSION.glob("verification/launches/*/outcome.json")))
    assert planned["verification"]["n_launches"] <= n_verified
    assert lacks(said, "SIMULATED") == []
    assert "Verified, faster than the library's own choice:" in said
    assert "tree/ll" in said
    [path] = SESSION.glob("rccl_tuner_*.csv")
    assert f"source {path.with_suffix('.env').resolve()}" in said
    text = path.read_text(encoding="utf-8")
    assert "# verified: with and without the rules in turns" in text
    assert read_rules(text.encode()).rules
    assert list(SESSION.glob("plots/*-speedup.png"))


@pytest.mark.parametrize(
    ("collectives", "n_launches"),
    [
        # Four sizes an octave, a launch each, twice; four of the untouched site, and four checked.
        (["all_reduce"], 4 * 2 + 4 + 4),
        (["all_reduce", "broadcast"], 2 * 16),
        (["alltoall"], 0),
    ],
)
def test_a_plan_says_what_proving_adds_and_makes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], collectives: list[str], n_launches: int
) -> None:
    """Beside the sweep's own plan; a launch of this node takes a second to start."""
    words = ["--mode", "cpx-nps4", "--simulate", "mi300x", "--launcher", "none", "--plan"]
    words += [word for one in collectives for word in ("--collective", one)]
    assert run(["sweep", "--runner", "rccl-tests", *words]) == 0
    swept = capsys.readouterr().out
    assert run(["tune", *words]) == 0
    said = capsys.readouterr()
    *lines, last = said.out.splitlines()
    assert "\n".join(lines) == swept.rstrip("\n")
    assert f"at least {n_launches} launches" in last
    assert f"about {n_launches} s;" in last
    assert "SIMULATED node" in said.err
    assert list(here.iterdir()) == []


@pytest.mark.long
def test_the_same_command_again_measures_nothing_and_says_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever was done is not done again."""
    assert tune(eight(), "--setting", "tree/ll", "--setting", "ring/simple") == 0
    first = capsys.readouterr().out
    made = {p: p.stat().st_mtime_ns for p in SESSION.rglob("outcome.json")}
    assert tune(eight(), "--setting", "tree/ll", "--setting", "ring/simple") == 0
    assert {p: p.stat().st_mtime_ns for p in SESSION.rglob("outcome.json")} == made
    assert capsys.readouterr().out == first


@pytest.mark.usefixtures("undrawn")
def test_where_nothing_is_to_be_won_no_rule_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    """Up to 128 KiB the library runs ring/ll, and the tree is made three times as slow."""
    raw = raw_node()
    slow = [{"setting": name, "factor": 3.0} for name in ("tree/ll", "tree/ll128", "ring/ll128")]
    raw["effects"] = [*raw.get("effects", []), *slow]
    Path("node.yaml").write_text(yamls.dumped(raw), encoding="utf-8")
    more = ["--setting", "tree/ll", "--setting", "ring/ll", "--max-bytes", "128K"]
    assert tune("node.yaml", *more) == 0
    said = capsys.readouterr().out
    assert "Nothing to gain here" in said
    [path] = SESSION.glob("rccl_tuner_*.csv")
    assert not read_rules(path.read_bytes()).rules


@pytest.mark.long
def test_the_variants_that_are_named_are_measured_and_gains_choose(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """--variant is the sweep's here, not the choice's."""
    more = ["--variant", "channels-32", "--setting", "tree/ll", "--setting", "ring/simple"]
    assert tune(eight(), *more, "--json", "-q") == 0
    done = finished(capsys.readouterr().out)
    names = [one["variant"]["name"] for one in done["emitted"]["environments"]]
    assert names == ["channels-32"]
    assert done["verified"][0]["simulated"] is True


def with_channels(*effects: dict[str, Any], raw: dict[str, Any] | None = None) -> str:
    """A node on which tree/ll wins up to 70 kB alone and NCCL_MIN_NCHANNELS does things.

    The shipped one where none is given: on eight ranks its library would choose ring/ll up to
    256 KiB only.
    """
    if raw is None:
        path = sources.node_path("mi300x", "cpx-nps4")
        raw = yamls.loaded(path.read_text(encoding="utf-8"))
    raw["noise"] = {"sigma": 0.003}
    raw["variants"] = [
        *raw.get("variants", []),
        {"name": "many", "when": {"env": {"NCCL_MIN_NCHANNELS": "32"}}},
    ]
    raw["effects"] = [
        *raw.get("effects", []),
        {"setting": "tree/ll", "factor": 3.0, "bytes": [70_000, 1 << 40]},
        *({"variant": "many", **effect} for effect in effects),
    ]
    Path("node.yaml").write_text(yamls.dumped(raw), encoding="utf-8")
    return "node.yaml"


CHANNELS = ("--variant", "channels-32", "--setting", "tree/ll", "--setting", "ring/simple")


@pytest.mark.usefixtures("undrawn")
def test_an_environment_that_wins_more_has_files_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Everything takes 0.7 times as long with 32 channels; the site as it is comes first."""
    node = with_channels({"factor": 0.7, "bytes": [0, 1 << 40]}, raw=raw_node())
    assert tune(node, *CHANNELS) == 0
    said = capsys.readouterr().out
    [own] = SESSION.glob("rccl_tuner_*.csv")
    other = SESSION / "channels-32" / own.name
    exports = [path.with_suffix(".env").read_text(encoding="utf-8") for path in (own, other)]
    assert ["\nexport NCCL_MIN_NCHANNELS=32\n" in text for text in exports] == [False, True]
    for path in (own, other):
        text = path.read_text(encoding="utf-8")
        assert "# verified: with and without the rules in turns" in text
        assert read_rules(text.encode()).rules
        assert f"source {path.with_suffix('.env').resolve()}" in said
    # What it costs is said before what it gains.
    cost, gain = said.index("It costs: "), said.index("launches, without a rule")
    assert said.index("Verified, faster") < cost < gain
    verdicts = [json.loads(path.read_text()) for path in sorted(SESSION.glob("verdict*.json"))]
    assert [one["needs"] for one in verdicts] == [{}, {"NCCL_MIN_NCHANNELS": "32"}]
    # Everywhere, silence with the variable beside silence without: walks next to each other.
    assert verdicts[1]["environment"]["ratio"] == pytest.approx(1 / 0.7, rel=0.02)
    assert verdicts[1]["environment"]["launches"] == 8
    launches = [
        json.loads(path.read_text()) for path in SESSION.glob("verification/launches/*/launch.json")
    ]
    names = [one["variant"]["name"] for one in launches if "variant" in one]
    assert set(names) == {"tuned", "tuned-needs"}
    # The page that goes to others has both pairs, wherever the session lies by then.
    SESSION.rename("moved")
    assert run(["report", "moved", "--force"]) == 0
    page = html.unescape(Path("moved/report.html").read_text(encoding="utf-8"))
    assert lacks(page, "With NCCL_MIN_NCHANNELS=32 in the job's environment, verified too") == []
    assert f"Put channels-32/{own.name} where" in page


@pytest.mark.usefixtures("undrawn")
def test_ll128_has_a_file_of_its_own_which_the_sites_exports_name_where_it_is_better(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the smallest node ring/ll128 wins from 32 KiB on, and only forced LL128 offers it."""
    node = repository / "examples/nodes/smallest.yaml"
    words = ["--simulate", str(node), "--mode", "spx-nps1", *WORDS]
    words += ["--setting", "ring/ll", "--setting", "ring/ll128"]
    assert run(["tune", *words]) == 0
    said = capsys.readouterr().out
    [own] = SESSION.glob("rccl_tuner_*.csv")
    other = SESSION / "ll128-forced" / own.name
    assert not any("ll128" in str(rule.setting) for rule in read_rules(own.read_bytes()).rules)
    file = read_rules(other.read_bytes())
    assert "ring/ll128" in {str(rule.setting) for rule in file.rules}
    assert file.needs == (("RCCL_LL128_FORCE_ENABLE", "1"),)
    for text in (path.with_suffix(".env").read_text(encoding="utf-8") for path in (own, other)):
        assert "\nexport RCCL_LL128_FORCE_ENABLE=1\n" in text
        assert f"export NCCL_TUNER_CONFIG_FILE={other.resolve()}\n" in text
    assert lacks(said, "slower nowhere", "RCCL_LL128_FORCE_ENABLE=1") == []
    # What the site's exports name is what jobs are handed.
    assert run(["deploy", "site", str(SESSION)]) == 0
    [handed] = Path("site").rglob("rccl_tuner_*.csv")
    assert read_rules(handed.read_bytes()).needs == file.needs


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("factor", "wins"), [(0.94, True), (0.995, False)])
def test_an_environment_that_wins_without_any_rule_is_verified_alone(
    capsys: pytest.CaptureFixture[str],
    factor: float,
    wins: bool,
) -> None:
    """Where the library already chooses the best, 32 channels may still gain (2 H100: 5 %)."""
    slow = [
        {"setting": one, "factor": 3.0, "bytes": [0, 1 << 40]} for one in ("tree/ll", "ring/simple")
    ]
    node = with_channels({"factor": factor, "bytes": [100_000, 1 << 40]})
    raw = yamls.loaded(Path(node).read_text(encoding="utf-8"))
    raw["effects"] += slow
    Path(node).write_text(yamls.dumped(raw), encoding="utf-8")
    settings = ("--setting", "ring/ll", "--setting", "tree/ll")
    assert tune(node, "--variant", "channels-32", *settings) == 0
    said = capsys.readouterr()
    assert "rules" not in said.out.partition("Verified")[2]
    [own] = SESSION.glob("rccl_tuner_*.csv")
    other = SESSION / "channels-32" / own.name
    assert not read_rules(own.read_bytes()).rules
    file = read_rules(other.read_bytes())
    if not wins:
        # Asked for, so that there is a file; it asks for nothing.
        assert lacks(said.out, "Nothing to gain here") == []
        assert (file.rules, file.needs) == ((), ())
        return
    assert (file.rules, dict(file.needs)) == ((), {"NCCL_MIN_NCHANNELS": "32"})
    exports = other.with_suffix(".env").read_text(encoding="utf-8")
    assert [line for line in exports.splitlines() if line.startswith("export ")] == [
        "export NCCL_MIN_NCHANNELS=32"
    ]
    verdict = json.loads((SESSION / "verdict_channels-32.json").read_text(encoding="utf-8"))
    [gain] = verdict["environment_gains"]
    assert gain["gain"]["low"] < 1 / factor < gain["gain"]["high"]
    assert 64_000 < gain["min_nbytes"] < 200_000
    assert gain["max_nbytes"] == 2 << 20
    # Launches of the site and of the environment in turns, one of each with its results checked.
    assert verdict["launches"] == 2 * (8 + 1)
    assert f"source {other.with_suffix('.env').resolve()}" in said.out
    page = html.unescape((SESSION / "report.html").read_text(encoding="utf-8"))
    assert "Nothing is to be won here in the environment as it is" in page
    assert "without a rule, between" in page


@pytest.mark.long
def test_an_environment_that_harms_sizes_without_rules_is_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With channels-32 small calls are faster, and those between 512 KiB and 1 MiB a third slower.

    The sweep, at powers of two, sees the gain alone; verification sees the harm twice, and no
    rules are written for it.
    """
    small = {"factor": 0.7, "bytes": [0, 70_000]}
    harm = {"factor": 1.5, "bytes": [550_000, 1_000_000]}
    assert tune(with_channels(small, harm), *CHANNELS) == 0
    said = capsys.readouterr()
    assert lacks(said.err, "NCCL_MIN_NCHANNELS=32") == []
    [path] = SESSION.glob("rccl_tuner_*.csv")
    rules = read_rules(path.read_bytes()).rules
    assert {str(rule.setting) for rule in rules} == {"tree/ll", "ring/simple"}
    assert not list(SESSION.glob("channels-32/*.csv"))
    exports = path.with_suffix(".env").read_text(encoding="utf-8")
    assert "\nexport NCCL_MIN_NCHANNELS" not in exports


def finished(text: str) -> dict[str, Any]:
    """What tune says in the end with --json."""
    lines = (line for line in text.strip().splitlines() if not line.startswith('{"event"'))
    found: dict[str, Any] = json.loads("\n".join(lines))
    return found


@pytest.mark.usefixtures("undrawn")
def test_a_workload_says_the_sizes_and_what_is_saved(capsys: pytest.CaptureFixture[str]) -> None:
    """record → tune: its sizes are swept, its rules proven, and the saving is a closed form."""
    calls = {16384: 40, 65536: 10}
    rows = "".join(f"allreduce,{nbytes},64,1,{64 * n}\n" for nbytes, n in calls.items())
    comm = "#@ comm id=1 host=n pid={} context=0 since=1 nRanks=64 nNodes=1 calls=50 state=whole\n"
    head = "collective,nBytes,nRanks,nNodes,calls\n"
    ranks = "".join(comm.format(pid) for pid in range(1, 65))
    Path("w.csv").write_text(ranks + head + rows, encoding="utf-8")
    words = ["--mode", "cpx-nps4", "--simulate", "mi300x", "--launcher", "none"]
    words += ["--setting", "tree/ll", "--setting", "ring/simple", "--workload", "w.csv"]

    assert run(["tune", *words, "--json"]) == 0

    done = finished(capsys.readouterr().out)
    samples = pd.read_csv(SESSION / "samples.csv", keep_default_na=False)
    assert set(samples["nbytes"]) == set(calls)
    (standing,) = done["verified"][0]["standings"]
    assert standing["stands"]
    assert standing["min_nbytes"] <= min(calls) < max(calls) <= standing["max_nbytes"]
    usable = samples[samples["unusable"] == ""]
    times = usable.groupby(["setting", "nbytes"])["time_us"].median()
    before = sum(n * times["baseline", nbytes] for nbytes, n in calls.items())
    after = sum(n * times["tree/ll", nbytes] for nbytes, n in calls.items())
    saving = done["saving"]
    assert saving["known"] == 1
    # Of each rank: curves take the median of runs and then of placements, samples all at once.
    assert saving["before_s"] == pytest.approx(1e-6 * before, rel=0.02)
    assert saving["saved_s"] == pytest.approx(1e-6 * (before - after), rel=0.05)


@pytest.mark.long
def test_the_vendors_rows_stand_behind_what_was_proven(capsys: pytest.CaptureFixture[str]) -> None:
    """--base: verified rules first, then the vendor's, which nothing of ours has measured."""
    vendors = (
        "allreduce,16384,524287,ring,ll,-1,1,8,-1,-1\n"
        "allreduce,67108864,9999999999,ring,simple,56,1,64,-1,-1\n"
    )
    Path("base.csv").write_text(vendors, encoding="utf-8")

    more = ["--base", "base.csv", "--setting", "tree/ll", "--setting", "ring/simple"]
    assert tune("mi300x", *more) == 0

    assert lacks(capsys.readouterr().out, "2 rows", "base.csv") == []
    [path] = SESSION.glob("rccl_tuner_*.csv")
    text = path.read_text(encoding="utf-8")
    assert "# verified: with and without the rules in turns" in text
    rules = read_rules(text.encode()).rules
    assert [rule.vendor for rule in rules] == [False, False, True, True]
    assert not list(SESSION.glob("*.verified"))


def test_a_base_that_is_none_is_said_before_anything_is_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 3, and no session: an hour later would be too late."""
    assert tune("mi300x", "--base", "missing.csv") == 3
    assert lacks(capsys.readouterr().err, "the base") == []
    assert not SESSION.exists()
