"""``import --baseline-choices``: a baseline that nobody measured, from what the library chooses.

Expected figures are worked out by hand from AMD's table: at 1 MiB ring/ll (390 us) is chosen and
tree/ll128 (258 us) is the fastest, at 4 MiB ring/ll (701 us) and ring/simple (418 us).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wording import lacks

from rccltune.cli import run
from rccltune.model import DERIVED, Reporter, Role
from rccltune.session import load_samples, open_session

ROOT = Path(__file__).parents[2]
TABLE = str(ROOT / "examples/mi300x-cpx-nps4/all_reduce.csv")
CHOICES = str(ROOT / "examples/mi300x-cpx-nps4/rccl-2.27.7-choices.csv")
HEAD = "collective,nodes,ranks,setting,algorithm,protocol,channels,nbytes,time_us\n"
# The time of AMD's table for what RCCL 2.27.7 chooses at that size, in us.
EXPECTED = {
    32: 70,
    1024: 154,
    16384: 129,
    262144: 148,
    1048576: 390,
    4194304: 701,
    134217728: 9996,
}


def derived(folder: Path) -> dict[int, float | None]:
    """Times of the derived baseline by size."""
    samples = load_samples(open_session(folder), Reporter())
    return {s.nbytes: s.time_us for s in samples if s.key.variant == DERIVED}


def test_each_size_gets_the_time_of_what_is_chosen(here: Path) -> None:
    """And the log that it is read from again gives the same."""
    assert run(["import", TABLE, "--baseline-choices", CHOICES, "-o", "s"]) == 0
    assert derived(here / "s") == EXPECTED
    (here / "s/samples.csv").unlink()
    assert derived(here / "s") == EXPECTED
    assert run(["import", TABLE, "--baseline-choices", CHOICES, "-o", "s"]) == 0
    assert derived(here / "s") == EXPECTED


def test_rules_are_held_against_it_and_say_that_it_is_derived(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the baseline where no untouched run is there, and proves nothing."""
    assert run(["import", TABLE, "--baseline-choices", CHOICES, "-o", "s", "-q"]) == 0
    capsys.readouterr()
    assert run(["emit-config", "s", "--json", "-o", "rules.csv"]) == 0
    zones = json.loads(capsys.readouterr().out)["zones"]
    gains = {z["measured_to"]: z["gain"]["median"] for z in zones if z["setting"] is not None}
    assert gains[1048576] == pytest.approx(390 / 258 - 1)
    assert gains[4194304] == pytest.approx(701 / 418 - 1)
    assert {z["proof"] for z in zones if z["setting"] is not None} == {"derived"}
    text = (here / "rules.csv").read_text()
    assert lacks(text, "UNPROVEN") == []
    assert lacks(" ".join(text.split()), "RCCL", "2.27.7") == []
    assert run(["emit-config", "s", "--proven", "-o", "-", "-q"]) == 0
    assert "#@ rules 0" in capsys.readouterr().out
    assert run(["report", "s", "-q"]) == 0
    assert "(derived, not measured)" in capsys.readouterr().out


def test_a_measured_baseline_is_never_mixed_with_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where one is there, none is derived; where it comes later, it is the baseline."""
    (here / "site.csv").write_text(
        "# rccltune: collective=all_reduce nodes=1 ranks=64 mode=cpx-nps4 arch=gfx942 cus=38\n"
        '# rccltune: product="AMD Instinct MI300X" placement=out rank_placement=node\n'
        "setting,nbytes,time_us\nbaseline,1048576,300\n"
    )
    assert run(["import", TABLE, "site.csv", "--baseline-choices", CHOICES, "-o", "a"]) == 2
    assert "was measured" in capsys.readouterr().err
    assert not (here / "a").exists()
    assert run(["import", TABLE, "--baseline-choices", CHOICES, "-o", "b"]) == 0
    assert run(["import", "site.csv", "-o", "b"]) == 0
    capsys.readouterr()
    assert run(["emit-config", "b", "--json", "-o", "rules.csv"]) == 0
    zones = json.loads(capsys.readouterr().out)["zones"]
    assert "derived" not in {zone.get("proof") for zone in zones}
    assert "derived baseline" not in (here / "rules.csv").read_text()
    roles = {s.key.setting.role for s in load_samples(open_session(here / "b"), Reporter())}
    assert Role.BASELINE in roles


@pytest.mark.parametrize(
    ("rows", "code", "said"),
    [
        ("", 6, "header and no rows"),
        ("all_reduce,1,64,tree/ll,,,,1024,94\n", 6, "does not say what the library chose"),
        ("all_reduce,1,8,baseline,ring,ll,1,1024,\n", 6, "no choice of a setting is known"),
        ("all_reduce,1,64,baseline,direct,,8,1024,\n", 6, "does not say what the library chose"),
        ("all_reduce,1,64,baseline,pat,simple,8,1024,\n", 6, "pat/simple was not measured"),
    ],
)
def test_what_no_baseline_can_be_derived_from(
    here: Path, capsys: pytest.CaptureFixture[str], rows: str, code: int, said: str
) -> None:
    """The file is refused with the reason, and no session is begun."""
    (here / "choices.csv").write_text(HEAD + rows)
    assert run(["import", TABLE, "--baseline-choices", "choices.csv", "-o", "s"]) == code
    assert said in capsys.readouterr().err
    assert not (here / "s").exists()


def test_two_derived_baselines_are_not_pooled(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other choices need another session."""
    assert run(["import", TABLE, "--baseline-choices", CHOICES, "-o", "s"]) == 0
    (here / "choices.csv").write_text(HEAD + "all_reduce,1,64,baseline,ring,simple,8,1024,\n")
    assert run(["import", TABLE, "--baseline-choices", "choices.csv", "-o", "s"]) == 2
    assert lacks(capsys.readouterr().err, "new session") == []
    assert derived(here / "s") == EXPECTED


def test_the_real_library_is_not_here(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how to get it; for a machine that no simulated node stands for, it is not asked."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(here))
    assert run(["import", TABLE, "--baseline-choices", "real", "-o", "s"]) == 4
    assert "scripts/fetch-rccl" in capsys.readouterr().err
