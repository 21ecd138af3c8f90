"""From nothing to a verified file in one command, on a simulated node whose truth is known."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import made
import pytest
from wording import lacks

from rccltune import tune
from rccltune.cli import run
from rccltune.measure.site import SiteRequest
from rccltune.model.reporter import Reporter
from rccltune.rules.rule_file import read_rules

pytestmark = pytest.mark.usefixtures("stand_ins", "here")
SESSION = Path(made.SESSION)
OWN = SESSION / made.RULES


def test_one_command_ends_in_verified_rules_and_says_how_to_use_them(tuned_once: Path) -> None:
    """Rules, exports, verdict, figures and page are there, and each says that it is simulated."""
    said = (tuned_once.parent / "stdout").read_text(encoding="utf-8")
    own = tuned_once / made.RULES
    exports = own.with_suffix(".env")
    assert lacks(said, f"source {exports}", "To use it now") == []
    assert lacks(said, str(tuned_once / "report.html"), "The page") == []
    assert "Verified, faster than the library's own choice:" in said
    text = own.read_text(encoding="utf-8")
    assert "# verified: with and without the rules in turns, SIMULATED" in text
    assert f"export NCCL_TUNER_CONFIG_FILE={own}" in exports.read_text(encoding="utf-8")
    assert list(tuned_once.glob("plots/speedup.png"))
    for one in (said, text, (tuned_once / "report.html").read_text(encoding="utf-8")):
        assert "SIMULATED" in one
    assert json.loads((tuned_once / "verdict.json").read_text())["simulated"] is True


def test_what_is_proven_is_the_node_files_truth(tuned_once: Path) -> None:
    """The gain at 64 KiB, and a rule that starts there and ends before the library does as well."""
    [row] = made.rows(tuned_once / made.RULES)
    assert row[:2] == ["allreduce", str(64 * made.KIB)]
    assert row[3:5] == ["ring", "simple"]
    assert int(row[2]) < 256 * made.KIB
    verdict = json.loads((tuned_once / "verdict.json").read_text())
    first = [one for one in verdict["verdicts"] if one["nbytes"] == 64 * made.KIB]
    truth = made.LIBRARY_US / made.FASTEST_US
    assert first
    for one in first:
        assert one["verdict"] == "faster"
        assert one["gain"]["value"] == pytest.approx(truth, rel=0.02)
    [rule] = (one for one in verdict["standings"] if one["state"] == "proven")
    assert rule["gain"]["low"] <= rule["gain"]["value"] <= rule["gain"]["high"]
    assert [rule["min_nbytes"], rule["max_nbytes"]] == [int(row[1]), int(row[2])]


def test_the_summary_as_markdown_has_a_row_a_rule_with_its_mean_and_least_gain(
    tuned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For a pull request; the headline is the page's."""
    assert run(["report", "-q", "--markdown", "table.md"]) == 0
    claim, *lines = Path("table.md").read_text(encoding="utf-8").splitlines()
    assert claim.strip("*") in " ".join(capsys.readouterr().out.split())
    assert "at the worst size" in claim
    [rule] = made.rows(tuned / made.RULES)
    [row] = (line.split(" | ") for line in lines if "ring/simple" in line)
    mean, worst = row[4].partition("×")[0], row[5].partition("×")[0]
    assert rule[4] in row[3]
    assert 1.0 < float(worst) <= float(mean)


@pytest.mark.usefixtures("undrawn")
def test_ll128_has_a_file_of_its_own_which_the_sites_exports_name_where_it_is_better(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On gfx942 ring/ll128 is offered only where it is forced, and here it wins from 64 KiB on."""
    node = made.node(here / "node.yaml")
    assert run(["tune", *made.words(node, "ring/ll", "ring/ll128")]) == 0
    said = capsys.readouterr().out
    other = SESSION / "ll128-forced" / OWN.name
    assert not any("ll128" in str(rule.setting) for rule in read_rules(OWN.read_bytes()).rules)
    file = read_rules(other.read_bytes())
    assert "ring/ll128" in {str(rule.setting) for rule in file.rules}
    assert file.needs == (("RCCL_LL128_FORCE_ENABLE", "1"),)
    text = OWN.with_suffix(".env").read_text(encoding="utf-8")
    assert "\nexport RCCL_LL128_FORCE_ENABLE=1\n" in text
    assert f"export NCCL_TUNER_CONFIG_FILE={other.resolve()}\n" in text
    assert "RCCL_LL128_FORCE_ENABLE=1" in said
    # Both pages say which rules are deployed.
    pages = [(path.parent / "report.html").read_text("utf-8") for path in (OWN, other)]
    words = ("OTHER RULES", "TO DEPLOY")
    assert [[word in page for word in words] for page in pages] == [[True, False], [False, True]]
    # What the site's exports name is what jobs are handed.
    assert run(["deploy", "site", str(SESSION)]) == 0
    [handed] = Path("site").rglob("rccl_tuner_*.csv")
    assert read_rules(handed.read_bytes()).needs == file.needs
    # Only beside the rules that deploy takes is it proposed.
    proposals = []
    for rules in (OWN, other, handed):
        capsys.readouterr()
        assert run(["explain", str(rules)]) == 0
        proposals.append(f"rccltune deploy DIR {rules.parent}" in capsys.readouterr().err)
    assert proposals == [False, True, False]


@pytest.mark.usefixtures("undrawn")
def test_a_budget_that_ends_before_ll128_is_forced_leaves_the_sites_rules(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first session proved is the answer, and is handed over."""
    report_session = tune._report_session

    def leave_a_moment(
        proof: tune._Proof, reporter: Reporter, confirms: SiteRequest | None, left_s: float
    ) -> tune.TuneResult:
        result = report_session(proof, reporter, confirms, left_s)
        measuring = proof.prepared.measuring
        measuring.budget_s = 0.0
        measuring.budget_s = 0.001 - (measuring.remaining_s() or 0.0)
        return result

    monkeypatch.setattr(tune, "_report_session", leave_a_moment)
    assert run(["tune", *made.words(made.node(here / "node.yaml"))]) == 0
    assert "The budget ended before" in " ".join(capsys.readouterr().err.split())
    assert read_rules(OWN.read_bytes()).rules
    assert run(["deploy", "site", str(SESSION)]) == 0


@pytest.mark.usefixtures("undrawn")
def test_a_verification_that_fails_leaves_nothing_to_deploy(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong results without any rule: exit code 9, a page that says so, and no rule file."""
    fault = {"kind": "wrong", "setting": "ring/ll", "elements": 3, "bytes": [80_000, 120_000]}
    node = made.node(here / "node.yaml", faults=[fault])
    assert run(["tune", *made.words(node)]) == 9
    assert lacks(capsys.readouterr().err, "wrong", "results") == []
    assert list(SESSION.glob("rccl_tuner*")) == []
    assert "NOT PROVEN" in (SESSION / "report.html").read_text(encoding="utf-8")
    assert run(["deploy", "site"]) != 0
    # Put there by hand it is refused all the same.
    [candidate] = (SESSION / "candidates").glob("*.csv")
    shutil.copy(candidate, OWN)
    capsys.readouterr()
    assert run(["deploy", "site"]) == 9
    assert not (here / "site").exists()


@pytest.mark.usefixtures("undrawn")
def test_a_workload_says_the_sizes_and_what_is_saved(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """record → tune: its sizes are swept, and the saving is a closed form of the node's times."""
    n_calls = 40
    comm = "#@ comm id=1 host=n pid={} context=0 since=1 nRanks=2 nNodes=1 calls=40 "
    comm += "keys=1 beyond=0 unknown=0 state=whole\n"
    head = "collective,nBytes,nRanks,nNodes,calls\n"
    row = f"allreduce,{64 * made.KIB},2,1,{2 * n_calls}\n"
    text = "".join(comm.format(pid) for pid in (1, 2)) + head + row
    Path("w.csv").write_text(text, encoding="utf-8")
    node = made.node(here / "node.yaml")
    words = ["--simulate", str(node), "--mode", "spx-nps1", "--workload", "w.csv"]
    words += made.ONE_SESSION
    words += ["--setting", "ring/ll", "--setting", "ring/simple", "--json"]
    assert run(["tune", *words]) == 0
    saving = json.loads(capsys.readouterr().out)["saving"]
    assert saving["known"] == 1
    assert saving["before_s"] == pytest.approx(n_calls * made.LIBRARY_US / 1e6, rel=0.05)
    assert saving["after_s"] == pytest.approx(n_calls * made.FASTEST_US / 1e6, rel=0.05)


DDA = ("--simulate", "mi300x-dda", "--mode", "spx-nps1", "--collective", "all_reduce")


def test_what_asks_no_tuner_is_said_before_any_time_is_spent(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 8 where that is all of the range; else the first lines name range, path and switch."""
    first = "all_reduce calls up to 8 MiB ask no tuner here: DDA takes them; RCCL_DDA_ENABLE=0"
    assert run(["tune", *DDA, "--min-bytes", "1K", "--max-bytes", "8M"]) == 8
    said = " ".join(capsys.readouterr().err.split())
    assert "no tuner is asked here at any size from 1 KiB to 8 MiB" in said
    assert f"{first} switches it off" in said
    assert "--env" in said
    assert not list(here.rglob("rank-*.csv"))
    assert run(["tune", *DDA, "--min-bytes", "1K", "--max-bytes", "16M", "--plan", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["past_tuner"]
    assert (one["max_nbytes"], one["path"], one["is_sure"]) == (8 << 20, "DDA", True)
    assert run(["tune", *DDA, "--min-bytes", "1K", "--max-bytes", "16M", "--plan"]) == 0
    assert " ".join(capsys.readouterr().out.split()).startswith(first)
    off = ("--env", "RCCL_DDA_ENABLE=0", "--max-bytes", "8M", "--plan", "--json")
    assert run(["tune", *DDA, *off]) == 0
    assert json.loads(capsys.readouterr().out)["past_tuner"] == []


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--collective", "all_reduces"], 2, "all_reduce"),
        (["--mode", "cpx-nps4"], 4, "spx-nps1"),
    ],
)
def test_mistakes_are_said_before_anything_is_measured(
    here: Path, capsys: pytest.CaptureFixture[str], more: list[str], code: int, said: str
) -> None:
    """With what to do, and nothing is made."""
    assert run(["tune", *made.words(made.SMALLEST), *more]) == code
    assert said in capsys.readouterr().err
    assert not list(here.rglob("rank-*.csv"))
