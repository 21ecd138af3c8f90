"""Verification against simulated nodes whose truth is known: what loses goes, what wins stays."""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from eight import RANKS, raw_node, written
from kept import sweep_once
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.model.chosen import Rule
from rccltune.rules.reader import read_rules
from rccltune.verify.verdict_store import verdict_name

pytestmark = pytest.mark.usefixtures("stand_ins", "here", "whole")
KIB, MIB = 1024, 1 << 20
SESSION = Path("rccltune-session")
# What stands of mine.csv.
LEFT = SESSION / "verified-mine.csv"


def node(**changes: object) -> Path:
    """The shipped node on eight ranks with these changes, beside the session."""
    raw = raw_node()
    for key, value in changes.items():
        raw[key] = [*raw.get(key, []), *value] if isinstance(value, list) else value
    return written(raw, Path("node.yaml"))


def swept(
    path: Path | str | None = None, *more: str, smallest: str = "1K", largest: str = "1M"
) -> None:
    """A session with two settings; verify needs its sizes and ranks."""
    path = node() if path is None else path
    words = ["--mode", "cpx-nps4", "--simulate", str(path), "--launcher", "none"]
    words += ["--collective", "all_reduce", "--min-bytes", smallest, "--max-bytes", largest]
    words += ["--setting", "tree/ll", "--setting", "ring/simple"]
    assert sweep_once([*words, *more, "-q"], SESSION) == 0


def rules_file(
    *rows: tuple[int, int, str], needs: Mapping[str, str] | None = None, ranks: int = RANKS
) -> Path:
    """Rules for so many ranks, in the order given."""
    lines = [f"#@ needs {name}={value}\n" for name, value in (needs or {}).items()]
    lines += [f"allreduce,{low},{high},{name},-1,1,{ranks},-1,-1\n" for low, high, name in rows]
    path = Path("mine.csv")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def verify(*more: str) -> int:
    """With a file of ours."""
    return run(["verify", "--rules", "mine.csv", *more])


def rules(path: Path = LEFT) -> list[Rule]:
    """What stands."""
    return list(read_rules(path.read_bytes()).rules)


def verdict(name: str = "verdict_verified-mine.json") -> dict[str, Any]:
    """What is kept of it."""
    found: dict[str, Any] = json.loads((SESSION / name).read_text(encoding="utf-8"))
    return found


def test_what_a_sweep_emits_stands_and_carries_its_evidence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """AMD's table: tree/ll is 1.2 to 2 times as fast as the library's own choice up to 512 KiB."""
    swept("mi300x", smallest="16K")
    assert run(["emit-config", "-q"]) == 0
    [path] = SESSION.glob("rccl_tuner_*.csv")
    before = [(r.min_nbytes, r.max_nbytes, r.setting) for r in rules(path)]
    capsys.readouterr()
    assert run(["verify"]) == 0
    said = capsys.readouterr().out
    assert "SIMULATED" in said
    assert "is slower than without rules, beyond noise" in said
    assert "the library against itself, in the same launches: ±" in said
    assert [(r.min_nbytes, r.max_nbytes, r.setting) for r in rules(path)] == before
    text = path.read_text(encoding="utf-8")
    assert "# verified: with and without the rules in turns, SIMULATED" in text
    assert ", shown between launches too" in text
    assert verdict("verdict.json")["sha256"]
    # Once more: nothing is measured again, and nothing is said twice.
    n = len(list(SESSION.glob("verification/launches/*")))
    assert run(["verify", "-q"]) == 0
    assert path.read_text(encoding="utf-8") == text
    assert len(list(SESSION.glob("verification/launches/*"))) == n


def test_a_rule_that_loses_in_part_of_its_range_keeps_the_rest() -> None:
    """tree/ll wins to 2 MiB and loses 19 % against RCCL's own ring/ll at 4 MiB."""
    # On eight ranks the library would not choose ring/ll there.
    swept("mi300x", smallest="64K", largest="4M")
    rules_file((0, 4 * MIB, "tree,ll"), ranks=64)
    assert verify() == 0
    [left] = rules()
    assert left.min_nbytes == 64 * KIB
    # The site runs ring/ll there, which is 390 us at 1 MiB and 701 at 4 (tree/ll: 286 and 831).
    assert 512 * KIB <= left.max_nbytes < 3 * MIB
    assert "#@ hole" in LEFT.read_text(encoding="utf-8")
    assert verdict()["rounds"] >= 2


def test_what_a_lost_rule_did_is_no_word_on_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    """tree/ll takes twice as long as ring/simple at 4 MiB: the rule goes, and so does its 0.5x."""
    swept(smallest="64K", largest="16M")
    rules_file((64 * KIB, 256 * KIB, "tree,ll"), (4 * MIB, 16 * MIB, "tree,ll"))
    capsys.readouterr()
    assert verify() == 0
    said = capsys.readouterr().out
    [left] = rules()
    assert left.max_nbytes < 4 * MIB
    [slowest] = re.findall(r"the slowest looks ([0-9.]+)x", said)
    assert float(slowest) > 0.9
    assert min(one["ratio"] for one in verdict()["verdicts"]) < 0.7


@pytest.mark.long
def test_a_vendors_rows_behind_ours_are_not_held_against_the_site_and_stay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They are what the site has anyway: not winning drops none, and they count as no rule."""
    swept(largest="16M")
    rules_file((0, 64 * KIB, "ring,simple"), (64 * KIB + 1, 256 * KIB, "tree,ll"))
    path = Path("mine.csv")
    vendors = "#@ base sha256=ab\nallreduce,65536,524288,tree,ll,8,1,8,-1,-1\n"
    path.write_text(path.read_text(encoding="utf-8") + vendors, encoding="utf-8")
    assert verify() == 0
    assert "1 rule of 2 stand" in capsys.readouterr().out.replace("rules of", "rule of")
    (kept, vendors_own) = rules()
    assert (kept.vendor, vendors_own.vendor, vendors_own.min_nbytes) == (False, True, 64 * KIB)
    assert 64 * KIB < kept.min_nbytes < 65 * KIB


@pytest.mark.long
def test_vendors_rows_that_are_slower_than_the_site_are_not_the_sites(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A base of another release: exit code 9, and nothing is written."""
    swept(largest="16M")
    rules_file((64 * KIB, 256 * KIB, "tree,ll"))
    path = Path("mine.csv")
    vendors = "#@ base sha256=ab\nallreduce,0,16384,ring,simple,-1,1,8,-1,-1\n"
    path.write_text(path.read_text(encoding="utf-8") + vendors, encoding="utf-8")
    assert verify() == 9
    assert lacks(capsys.readouterr().err, "this library") == []
    assert not LEFT.exists()


def test_a_rule_that_wins_nowhere_is_dropped_and_the_file_says_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """ring/simple for small calls: twice as slow as the library's own ring/ll."""
    swept()
    rules_file((0, 64 * KIB, "ring,simple"))
    capsys.readouterr()
    assert verify() == 0
    assert rules() == []
    assert "# dropped: allreduce,1024,65536,ring,simple" in LEFT.read_text(encoding="utf-8")
    assert "0 rules of 1 stand" in capsys.readouterr().out


def test_what_the_library_chooses_by_itself_is_cut_off_a_rule() -> None:
    """It runs ring/ll up to 64 KiB, and the rule wins where it does not."""
    swept()
    rules_file((0, 64 * KIB, "ring,ll"), (64 * KIB + 1, MIB, "tree,ll"))
    assert verify() == 0
    text = LEFT.read_text(encoding="utf-8")
    assert "#@ hole 1024 65536 verified: the library chooses it by itself" in text
    assert [str(rule.setting) for rule in rules()] == ["tree/ll"]


def test_what_the_library_chooses_by_itself_wins_where_the_sites_tuner_chooses_worse() -> None:
    """The site's table has ring/simple at small sizes, which is twice as slow there."""
    table = Path("site.csv")
    table.write_text(f"allreduce,0,65536,ring,simple,-1,1,{RANKS},-1,-1\n")
    site = {"NCCL_TUNER_PLUGIN": plugin.library(), "NCCL_TUNER_CONFIG_FILE": table.resolve()}
    swept(None, *(word for name in site for word in ("--env", f"{name}={site[name]}")))
    rules_file((KIB, 64 * KIB, "ring,ll"))
    assert verify() == 0
    assert not verdict()["paired"]
    assert [str(rule.setting) for rule in rules()] == ["ring/ll"]


@pytest.mark.long
def test_a_fallback_in_a_lost_region_goes_as_well() -> None:
    """Without the first rule it would be what answers, and nobody verified that."""
    swept(largest="16M")
    rules_file((2 * MIB, 16 * MIB, "tree,ll"), (MIB, 16 * MIB, "tree,ll"))
    assert verify() == 0
    assert all(rule.max_nbytes < 4 * MIB for rule in rules())


def test_losers_are_kept_on_request_and_the_exit_code_says_so() -> None:
    """And nothing is written."""
    swept()
    rules_file((0, 64 * KIB, "ring,simple"))
    assert verify("--keep-losers") == 9
    assert not LEFT.exists()


@pytest.mark.long
def test_a_setting_that_is_slow_between_powers_of_two_is_found() -> None:
    """60 % slower from 1.4 to 1.8 times a power of two, where no sweep over powers looks."""
    path = node(
        effects=[
            {"setting": "tree/ll", "between": {"low": 1.35, "high": 1.75, "factor": 2.4}},
        ]
    )
    swept(path, largest="16M")
    assert run(["emit-config", "-q"]) == 0
    [own] = SESSION.glob("rccl_tuner_*.csv")
    assert rules(own)
    assert run(["verify", "-q"]) == 0
    for rule in rules(own):
        for power in range(10, 20):
            slow = round(1.5 * (1 << power))
            assert not rule.min_nbytes <= slow <= rule.max_nbytes


def test_wrong_results_under_a_rule_cut_it() -> None:
    """Only where they are wrong, and with the neighbourhood that nobody measured."""
    fault = {"kind": "wrong", "setting": "tree/ll", "bytes": [100_000, 200_000], "elements": 3}
    swept()
    rules_file((0, 512 * KIB, "tree,ll"))
    assert verify("--simulate", str(node(faults=[fault]))) == 0
    assert rules()
    for rule in rules():
        assert rule.max_nbytes < 100_000 or rule.min_nbytes > 200_000


def test_a_file_that_was_cut_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is started; what its last line must be is named."""
    swept(node())
    path = rules_file((0, 512 * KIB, "tree,ll"))
    path.write_text(f"#@ format 1\n{path.read_text('utf-8')}", encoding="utf-8")
    assert verify() == 3
    said = capsys.readouterr().err
    assert lacks(said, "1 rows", "'#@ end 1'", "cut") == []


def test_wrong_results_without_rules_end_it_without_a_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The machine is at fault then."""
    swept()
    rules_file((0, 64 * KIB, "tree,ll"))
    fault = {"kind": "wrong", "setting": "ring/ll", "elements": 3}
    path = node(faults=[fault])
    assert verify("--simulate", str(path)) == 9
    assert lacks(capsys.readouterr().err, "WRONG", "RESULTS") == []
    assert not LEFT.exists()
    assert not (SESSION / "verdict_verified-mine.json").exists()
    kept = json.loads((SESSION / "refused_verified-mine.json").read_text(encoding="utf-8"))
    assert lacks(kept["message"], "WRONG", "RESULTS") == []


@pytest.mark.long
def test_each_rule_file_has_a_verdict_of_its_own() -> None:
    """Another file's, verified later, leaves that of the session's own as it was."""
    swept(largest="16M")
    assert run(["emit-config", "-q"]) == 0
    assert run(["verify", "-q"]) == 0
    own = (SESSION / "verdict.json").read_bytes()
    rules_file((0, 32 * KIB, "tree,ll"))
    # An earlier one that failed counts no more where the next ends well.
    (SESSION / "refused_verified-mine.json").write_text("{}", encoding="utf-8")
    assert verify("-q") == 0
    assert not (SESSION / "refused_verified-mine.json").exists()
    assert (SESSION / "verdict.json").read_bytes() == own
    assert Path(verdict()["path"]).name == LEFT.name


def test_verdicts_are_named_for_their_files() -> None:
    """The session's own is plain; its files for a placement have that, others their name."""
    plain = "rccl_tuner_gfx942_cpx-nps4.csv"
    named = {
        SESSION / plain: "verdict.json",
        SESSION.resolve() / plain: "verdict.json",
        SESSION / "rccl_tuner_gfx942_cpx-nps4_one-oam.csv": "verdict_one-oam.json",
        Path(plain): "verdict_rccl_tuner_gfx942_cpx-nps4.json",
        Path("out.csv"): "verdict_out.json",
    }
    assert {path: verdict_name(path, SESSION, plain) for path in named} == named


def test_a_drift_does_not_decide() -> None:
    """10 % slower from the middle of it on: both arms alike, since they take turns."""
    noise = {"sigma": 0.01, "drift": [[0, 1.0], [6.0, 1.0], [6.2, 1.1], [100, 1.1]]}
    swept(node(noise=noise))
    rules_file((0, 512 * KIB, "tree,ll"))
    assert verify("-q") == 0
    assert [(r.min_nbytes, r.max_nbytes) for r in rules()] == [(KIB, 512 * KIB)]


@pytest.mark.long
def test_a_rule_under_a_path_is_the_finding(capsys: pytest.CaptureFixture[str]) -> None:
    """No call of its sizes asks a tuner."""
    bypass = {"path": "direct", "collective": "all_reduce", "bytes": [0, 64 * KIB]}
    curve = {
        "collective": "all_reduce",
        "setting": "direct",
        "kind": "modelled",
        "source": "a test",
        "points": [[8, 50.0], [64 * KIB, 60.0]],
    }
    swept(node(bypasses=[bypass], curves=[curve]), largest="16M")
    rules_file((0, 32 * KIB, "tree,ll"), (128 * KIB, 512 * KIB, "tree,ll"))
    capsys.readouterr()
    assert verify() == 0
    assert [r.min_nbytes for r in rules()] == [128 * KIB]
    said = capsys.readouterr().out
    assert "a path takes the calls before a tuner is asked" in said
    assert "past the tuner" in said


def test_a_file_that_the_plugin_refuses_is_refused_with_every_mistake(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before anything is started."""
    swept()
    Path("mine.csv").write_text("allreduce,9,1,tree,ll,-1,1,64\nfoo,1,2,tree,zz,-1,1,64\n")
    assert verify() == 3
    assert "mine.csv:1" in capsys.readouterr().err
    assert not (SESSION / "verification").exists()


def test_a_line_that_rccl_would_cut_is_told_before_anything_is_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is verified is written again; the end of this line would be a rule to RCCL."""
    swept()
    row = "allreduce,0,9,tree,ll,-1,1,8,-1,-1\n"
    Path("mine.csv").write_text(f"#@ needs A={'v' * 240},{row}{row}")
    assert verify() == 3
    assert lacks(capsys.readouterr().err, "199 bytes", "is longer") == []
    assert not (SESSION / "verification").exists()


def test_a_file_for_another_scale_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """64 ranks are not eight."""
    swept()
    Path("mine.csv").write_text("allreduce,0,9,tree,ll,-1,1,64,-1,-1\n")
    assert verify() == 2
    assert lacks(capsys.readouterr().err, "8 ranks", "1 node", "no rule") == []


def test_a_file_without_any_rule_says_that_nothing_was_worth_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """More ranks would not help, nor would another emit-config."""
    swept()
    Path("mine.csv").write_text("#@ hole 0 9223372036854775807 baseline not beaten\n")
    assert verify() == 2
    said = capsys.readouterr().err
    assert lacks(said, "to verify") == []
    assert not (SESSION / "verification").exists()


def test_without_a_sweep_there_is_nothing_to_verify_by(here: Path) -> None:
    """Sizes and ranks come from it."""
    rules_file((0, 9, "tree,ll"))
    assert verify() == 7


def test_what_the_environment_does_by_itself_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A variable that makes all from 2 MiB on a quarter faster: one figure, with its interval."""
    many = {"name": "many", "when": {"env": {"NCCL_MIN_NCHANNELS": "32"}}}
    gain = {"variant": "many", "factor": 0.8, "bytes": [2 * MIB, 1 << 40]}
    swept(
        node(variants=[many], effects=[gain], noise={"sigma": 0.003}), smallest="128K", largest="8M"
    )
    rules_file((0, MIB, "tree,ll"), needs={"NCCL_MIN_NCHANNELS": "32"})
    assert verify() == 0
    said = capsys.readouterr().out
    assert lacks(said, "NCCL_MIN_NCHANNELS=32") == []
    found = verdict()["environment"]
    assert 1.15 < found["low"] < found["ratio"] < found["high"] < 1.3
    assert found["launches"] >= 4


def test_a_choice_that_suffers_from_what_ran_before_is_no_gain() -> None:
    """tree/ll takes what ring/ll takes; that is 40 % slower once tree/ll ran in the launch.

    Pairs say 1.4; the untouched site, in launches of its own, says that it is nothing.
    """
    raw = raw_node()
    own = next(one for one in raw["curves"] if one["setting"] == "ring/ll")
    carry = {
        "setting": "ring/ll",
        "after": {"setting": "tree/ll", "within": "launch"},
        "factor": 1.4,
    }
    curve = {**own, "setting": "tree/ll", "kind": "modelled"}
    curve.pop("measured", None)
    quiet = {"sigma": 0.003, "launch_sigma": 0.003}
    swept(node(effects=[carry], curves=[curve], noise=quiet))
    rules_file((0, 128 * KIB, "tree,ll"))
    assert verify("-q") == 0
    assert rules() == []


def test_a_rule_that_hangs_is_cut_out_and_the_rest_is_verified(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Twice, so that it was no accident; exit code 0 with what is left."""
    fault = {"kind": "crash", "setting": "ring/simple", "bytes": [70_000, 250_000]}
    swept()
    rules_file((0, 64 * KIB, "tree,ll"), (64 * KIB + 1, 256 * KIB, "ring,simple"))
    assert verify("--simulate", str(node(faults=[fault]))) == 0
    assert [(r.max_nbytes, str(r.setting)) for r in rules()] == [(64 * KIB, "tree/ll")]
    said = capsys.readouterr().err
    assert "the benchmark fails with it at " in said
    assert "verified: the benchmark fails" in LEFT.read_text(encoding="utf-8")


def test_rules_that_all_hang_from_the_start_are_not_at_fault(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A rank without the plugin hangs at whichever rule comes first: exit code 9, no file."""
    swept()
    rules_file((0, 64 * KIB, "tree,ll"), (64 * KIB + 1, 512 * KIB, "ring,simple"))
    broken = node(faults=[{"kind": "no-plugin", "rank": 5}])
    assert verify("--simulate", str(broken), "--timeout", "3") == 9
    assert lacks(capsys.readouterr().err, "and environment") == []
    assert not LEFT.exists()


def test_a_benchmark_that_warms_up_otherwise_is_matched_from_the_end() -> None:
    """One pass more or fewer before the table shifts every step: the arms are told all the same."""
    faults = [{"kind": "shift", "passes": passes, "probability": 0.5} for passes in (1, -1)]
    swept()
    rules_file((0, 256 * KIB, "tree,ll"))
    assert verify("-q", "--simulate", str(node(faults=faults))) == 0
    assert [(r.min_nbytes, r.max_nbytes) for r in rules()] == [(KIB, 256 * KIB)]


def test_rules_that_slow_what_they_do_not_answer_go(capsys: pytest.CaptureFixture[str]) -> None:
    """Everything is 8 % slower in the pass behind one that ran tree/ll: hot, say."""
    heat = {"after": {"setting": "tree/ll", "within": "pass"}, "factor": 1.08}
    swept()
    rules_file((0, 32 * KIB, "tree,ll"))
    assert verify("--simulate", str(node(effects=[heat]))) == 0
    assert rules() == []
    assert lacks(capsys.readouterr().err, "not answer") == []
    assert verify("--keep-losers", "--simulate", str(node(effects=[heat]))) == 9


def test_a_rule_of_a_few_bytes_does_not_stand() -> None:
    """As fine as a quarter of an octave is what verification sees."""
    swept()
    rules_file((0, 65535, "tree,ll"), (465904, 465911, "tree,ll"))
    assert verify("-q") == 0
    assert [r.min_nbytes for r in rules()] == [1024]


@pytest.mark.parametrize("edge", [42_031, 700_001])
def test_a_verified_rule_ends_at_a_size_that_ran(edge: int) -> None:
    """Slow over a third of a percent beside a boundary that no benchmark calls: nobody would see."""
    swept()
    rules_file((0, edge, "tree,ll"))
    assert verify() == 0
    (kept,) = rules()
    ran = {one["nbytes"] for one in verdict()["verdicts"]}
    assert kept.max_nbytes in ran
    assert 0 < edge - kept.max_nbytes < edge / 100


def test_progress_is_told_launch_by_launch_and_what_is_there_is_not_made_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The lines of a sweep; once more, it says what is there."""
    swept()
    rules_file((0, 256 * KIB, "tree,ll"))
    capsys.readouterr()
    assert verify("-v") == 0
    lines = [x for x in capsys.readouterr().err.splitlines() if x.startswith("[")]
    n = sum("verification" in str(path) for path in SESSION.rglob("outcome.json"))
    assert len(lines) == n
    assert lines[0].startswith("[1/")
    assert lacks(" ".join(lines), "all_reduce") == []
    assert verdict()["launches"] == n
    first = next(path for path in SESSION.glob("verification/launches/*/outcome.json"))
    first.unlink()
    assert verify("-v") == 0
    said = capsys.readouterr().err
    assert "launches are there already" in said
    assert sum(line.startswith("[") for line in said.splitlines()) == 1


@pytest.mark.long
def test_what_rules_need_goes_where_it_harms_sizes_without_rules() -> None:
    """LL128's variable makes everything from 6 MiB on 5 % slower; what needs no variable stays."""
    forced = {"name": "forced", "when": {"env": {"RCCL_LL128_FORCE_ENABLE": "1"}}}
    harm = {"variant": "forced", "factor": 1.08, "bytes": [6 * MIB, 1 << 40]}
    path = node(variants=[forced], effects=[harm], noise={"sigma": 0.005})
    swept(path, "--setting", "tree/ll128", largest="16M")
    needs = {"RCCL_LL128_FORCE_ENABLE": "1"}
    rules_file(
        (0, 256 * KIB, "tree,ll"),
        (256 * KIB + 1, MIB, "tree,ll128"),
        (256 * KIB + 1, 700_000, "tree,ll"),
        needs=needs,
    )
    # As the session's own file: what stands replaces it, and the exports beside it follow.
    own = Path("mine.csv").rename(SESSION / "rccl_tuner_gfx942_cpx-nps4.csv")
    exports = "export RCCL_LL128_FORCE_ENABLE=1\nexport NCCL_TUNER_CONFIG_FILE=own.csv\n"
    own.with_suffix(".env").write_text(exports, encoding="utf-8")
    assert run(["verify", "-q"]) == 0
    left_exports = own.with_suffix(".env").read_text(encoding="utf-8").splitlines()
    assert left_exports == [
        "# verified: RCCL_LL128_FORCE_ENABLE slows sizes without a rule",
        "export NCCL_TUNER_CONFIG_FILE=own.csv",
    ]
    assert "#@ needs" not in own.read_text(encoding="utf-8")
    left = [(rule.min_nbytes, str(rule.setting)) for rule in rules(own)]
    # A rule begins at the smallest size that was measured.
    assert (1024, "tree/ll") in left
    assert all(name == "tree/ll" for _, name in left)
    # Behind the rule that is not selectable any more the fallback was verified too.
    assert max(rule.max_nbytes for rule in rules(own)) > 512 * KIB


# tree/ll then takes what ring/ll takes, the library's own choice there (the node file's curves).
AS_THE_LIBRARY = [[16 * KIB, 129 / 87], [256 * KIB, 148 / 119]]
CROWD = {"name": "crowd", "when": {"beside": "all_gather"}}
GRAPHS = {"name": "graphs", "when": {"graph": True}}
SLOW_UNDER = {
    "dtype": ({"dtype": "bfloat16"}, [], ["--dtype", "bfloat16"]),
    "graph": ({"variant": "graphs"}, [GRAPHS], ["--graph", "4"]),
    "beside": ({"variant": "crowd"}, [CROWD], ["--beside", "all_gather:4M"]),
}


@pytest.mark.parametrize(
    "what", ["dtype", *(pytest.param(w, marks=pytest.mark.long) for w in ("graph", "beside"))]
)
def test_a_rule_that_loses_under_another_condition_is_cut_there(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three times as slow from 100 to 200 KB there, and only there: the sweep never saw it."""
    where, variants, option = SLOW_UNDER[what]
    effect = {"setting": "tree/ll", "bytes": [100_000, 200_000], "factor": 3, **where}
    swept(node(effects=[effect], variants=variants))
    rules_file((0, 512 * KIB, "tree,ll"))

    assert verify("-q") == 0
    assert [(r.min_nbytes, r.max_nbytes) for r in rules()] == [(KIB, 512 * KIB)]
    capsys.readouterr()
    assert verify(*option) == 0
    assert len(rules()) == 2
    for rule in rules():
        assert rule.max_nbytes < 100_000 or rule.min_nbytes > 200_000
    said = capsys.readouterr().out
    assert lacks(said, "the library's") == []
    text = LEFT.read_text(encoding="utf-8")
    assert lacks(text, "verified") == []
    assert len(verdict()["conditions"]) == 2


@pytest.mark.long
def test_a_rule_need_not_win_under_another_condition() -> None:
    """As fast as the library there and no faster: it stands on what it gains otherwise."""
    slow = {"setting": "tree/ll", "dtype": "bfloat16", "points": AS_THE_LIBRARY}
    swept(node(effects=[slow]), largest="16M")
    rules_file((16 * KIB, 256 * KIB, "tree,ll"))

    assert verify("--dtype", "bfloat16") == 0
    assert [(r.min_nbytes, r.max_nbytes) for r in rules()] == [(16 * KIB, 256 * KIB)]


@pytest.mark.long
def test_what_runs_beside_is_gone_afterwards_and_kept_short() -> None:
    """In a folder of its own, with the rules in the tuned arm as a job would have them."""
    swept(node(variants=[CROWD]), largest="16M")
    rules_file((0, 64 * KIB, "tree,ll"))
    assert verify("--beside", "all_gather") == 0
    companions = list(SESSION.glob("verification/launches/*/beside"))
    launches = [
        json.loads((one.parent / "launch.json").read_text(encoding="utf-8")) for one in companions
    ]
    assert {one["variant"]["name"] for one in launches if "variant" in one} == {"tuned"}
    for folder in companions:
        log = folder / "stdout.log"
        assert "1048576" in log.read_text(encoding="utf-8")
        assert log.stat().st_size <= 1 << 16
    # Locks are the stand-in's own word for who runs.
    with (SESSION / "verification/node.node.running").open("rb+") as stream:
        fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_companion_that_fails_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """It is not the rules' fault, nor the benchmark's."""
    crash = {"kind": "crash", "how": "segv", "collective": "all_gather"}
    swept(node(faults=[crash]))
    rules_file((0, 64 * KIB, "tree,ll"))
    capsys.readouterr()
    assert verify("--beside", "all_gather") == 5
    assert lacks(capsys.readouterr().err, "it ended") == []
    assert not LEFT.exists()


@pytest.mark.parametrize(
    ("option", "word"),
    [("all_gather:0", "no size"), ("all_gathr", "all_gathr"), ("all_gather:4Q", "4Q")],
)
def test_what_cannot_run_beside_is_refused(
    option: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is started."""
    assert verify("--beside", option) == 2
    assert word in capsys.readouterr().err
