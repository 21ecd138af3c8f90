"""The whole way, as typed: import, fit, emit-config, plot."""

from __future__ import annotations

import csv
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from rccltune.cli import run
from rccltune.rules.rule_file import read_rules

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EXAMPLE = str(EXAMPLES / "mi300x-cpx-nps4/all_reduce.csv")


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_four_verbs_need_no_argument(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """README's way: published table in, rule file and figures out."""
    assert [run(["import", EXAMPLE]), run(["fit"]), run(["emit-config"]), run(["plot"])] == [0] * 4

    session = here / "rccltune-session"
    read = read_rules((session / "rccl_tuner_gfx942_cpx-nps4.csv").read_bytes())
    assert read.findings == ()
    assert read.needs == (("RCCL_LL128_FORCE_ENABLE", "1"),)
    assert dict(read.requires) == {
        "arch": "gfx942",
        "cus": "38",
        "compute": "CPX",
        "memory": "NPS4",
    }
    assert len(list((session / "plots").glob("*.png"))) >= 3
    assert "rccltune-session" in capsys.readouterr().err.splitlines()[0]


SESSION = Path("rccltune-session")
OWN = "rccl_tuner_gfx942_cpx-nps4.csv"


@pytest.mark.usefixtures("here")
def test_rules_of_ll128_need_its_variable(capsys: pytest.CaptureFixture[str]) -> None:
    """On one node of gfx942 the library offers it with that alone; what is kept says it too."""
    run(["import", EXAMPLE])
    said = "They need RCCL_LL128_FORCE_ENABLE=1 in the job's environment"
    assert run(["emit-config"]) == 0
    assert said in capsys.readouterr().out
    path = SESSION / OWN
    assert read_rules(path.read_bytes()).needs == (("RCCL_LL128_FORCE_ENABLE", "1"),)
    exports = path.with_suffix(".env").read_text("utf-8")
    assert "\nexport RCCL_LL128_FORCE_ENABLE=1\n" in exports
    path.write_text(path.read_text().replace("#@ format 1", "# verified: it is\n#@ format 1"))
    assert run(["emit-config"]) == 0
    assert said in capsys.readouterr().out


BAD_INPUT = {
    "empty file": (b"", 6),
    "binary file": (bytes(range(256)) * 20, 6),
    "UTF-16": ("size count type\n".encode("utf-16"), 6),
    "header without rows": (b"setting,nbytes,time_us\n", 6),
    "rows without header": (
        b"     1024   256   float   sum   -1   10.0   0.10   0.18   0   10.0 0.10 0.18 0\n",
        6,
    ),
    "a rule file": (b"# rules\nallreduce,0,8,ring,ll,-1,1,8,-1,-1\n", 6),
    "sizes repeated with other values": (
        (
            b"# rccltune: collective=all_reduce ranks=8 nodes=1\nsetting,nbytes,time_us\n"
            b"tree/ll,1024,10\ntree/ll,1024,99\n"
        ),
        6,
    ),
}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_leaves_the_session_unchanged(
    published: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Each gets its exit code, a message with the file, a next step, and touches nothing."""
    content, code = BAD_INPUT[name]
    before = snapshot(published)
    Path("bad.log").write_bytes(content)
    capsys.readouterr()

    assert run(["import", "bad.log"]) == code
    said = capsys.readouterr().err
    assert "bad.log" in said
    assert "Hint:" in said
    assert snapshot(published) == before


@pytest.mark.usefixtures("published")
def test_an_anonymous_table_joins_when_the_user_says_so(here: Path) -> None:
    """Unknown agrees with unknown only, until --assume machine=same."""
    (here / "more.csv").write_text(
        "# rccltune: collective=all_reduce ranks=64 nodes=1 placement=out\n"
        "setting,nbytes,time_us\nring/ll,65536,140\n"
    )

    assert run(["import", "more.csv"]) == 7
    assert run(["import", "more.csv", "--assume", "machine=same"]) == 0


@pytest.mark.usefixtures("published")
def test_an_existing_rule_file_is_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --force a file that would change stays; the same bytes are no change."""
    run(["emit-config", "-o", "rules.csv"])
    assert run(["emit-config", "-o", "rules.csv"]) == 0
    assert run(["emit-config", "-o", "rules.csv", "--tolerance", "10"]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["emit-config", "-o", "rules.csv", "--tolerance", "10", "--force"]) == 0


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["fit", "nowhere"], 7, "no session here"),
        (["emit-config", "--baseline", "tree/ll/7"], 2, "was not measured"),
        (["emit-config", "--tolerance", "-1"], 2, "--tolerance"),
        (["import", "x", "--baseline", "--algorithm", "tree"], 2, "--baseline"),
        (["import", "x", "--algorithm", "oak"], 2, "unknown algorithm"),
        (["import", "x", "--mode", "warp9"], 2, "no mode"),
        (["import"], 2, "FILE"),
        (["sweeep"], 2, "sweeep"),
    ],
)
def test_mistakes_on_the_command_line_are_named(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    """What is wrong and what to write instead, with the design's exit code."""
    Path("x").touch()
    assert run(arguments) == code
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("published")
def test_a_bug_keeps_its_traceback_in_a_file(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1, one line for the user, the traceback in a file whose path is printed."""
    monkeypatch.setenv("TMPDIR", str(here))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("rccltune.analyse.session_fit.curves", lambda *_: 1 / 0)
    capsys.readouterr()

    assert run(["fit"]) == 1
    path = Path(capsys.readouterr().err.strip().rpartition(" ")[2])
    assert "ZeroDivisionError" in path.read_text()


def test_help_needs_no_heavy_library() -> None:
    """rccltune --help imports none of numpy, scipy, pandas, matplotlib, rich, yaml."""
    script = (
        "import sys\nfrom rccltune.cli import run\nassert run(['--help']) == 0\n"
        "heavy = {'numpy', 'scipy', 'pandas', 'matplotlib', 'rich', 'yaml'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )

    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_zones_of_a_sweep_by_nccl_tests_are_those_of_that_day(here: Path) -> None:
    """Two H200, 2026-11-22: ring with LL, then with LL128, to where Simple takes over."""
    assert run(["import", str(EXAMPLES / "h200x2-nccl-2.28.9/sweep.csv")]) == 0
    assert run(["emit-config", "-o", "rules.csv"]) == 0
    made = read_rules((here / "rules.csv").read_bytes()).rules
    assert [str(one.setting) for one in made] == ["ring/ll", "ring/ll128"]
    assert 1.5 <= made[0].min_nbytes / 2**20 <= 2
    assert made[1].max_nbytes / 2**20 == pytest.approx(5.68, rel=0.01)


def test_a_rule_of_two_h200_says_what_its_sizes_say() -> None:
    """In the placement that gains less, by the timing mode that counts; and no size of it is slower."""
    folder = EXAMPLES / "h200x2-nccl-2.28.9"
    with (folder / "verification.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    text = (folder / "rccl_tuner.csv").read_text(encoding="utf-8")
    told = [float(one) for one in re.findall(r"^# verified: ([\d.]+)x \(", text, re.MULTILINE)]
    assert {row["n_wrong"] for row in rows} == {"0", ""}
    for rule, said in zip(read_rules(text.encode()).rules, told, strict=True):
        own = [
            row
            for row in rows
            if row["timing"] == ("graph" if int(row["nbytes"]) <= 4 << 20 else "loop")
            and rule.reaches(int(row["nbytes"]))
        ]
        by_placement: dict[str, list[float]] = {}
        for row in own:
            assert row["n_wrong"] == "0"
            assert row["verdict"] in ("faster", "not slower")
            by_placement.setdefault(row["placement"], []).append(float(row["ratio"]))
        assert len(by_placement) == 2
        least = min(statistics.geometric_mean(ratios) for ratios in by_placement.values())
        assert said == pytest.approx(least, abs=0.006)


def test_what_was_verified_on_a_shared_gpu_wins_in_its_ranges_and_loses_nowhere() -> None:
    """No size below 0.98 beyond noise; each rule's median from its own rows."""
    folder = EXAMPLES / "h100-shared-nccl-2.30.7"
    with (folder / "verification.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    text = (folder / "rccl_tuner.csv").read_text(encoding="utf-8")
    rules = read_rules(text.encode()).rules
    told = [
        float(one) for one in re.findall(r"^# verified: ([\d.]+) times as fast", text, re.MULTILINE)
    ]

    assert {row["n_wrong"] for row in rows} == {"0"}
    assert all(float(row["high"]) >= 0.98 for row in rows)
    for rule, said in zip(rules, told, strict=True):
        ratios = [
            float(row["ratio"])
            for row in rows
            if rule.min_nbytes <= int(row["nbytes"]) <= rule.max_nbytes
        ]
        assert min(ratios) > 0.98
        # That day's rccltune said the higher one of two in the middle.
        assert said == pytest.approx(statistics.median_high(ratios), abs=0.01)
