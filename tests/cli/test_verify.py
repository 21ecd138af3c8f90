"""Verification on a simulated node whose truth is known: what loses goes, what wins stays."""

from __future__ import annotations

from pathlib import Path

import made
import pytest

from rccltune.cli import run

pytestmark = pytest.mark.usefixtures("stand_ins", "here")
KIB, MIB = 1024, 1 << 20
SESSION = Path(made.SESSION)
# What stands of mine.csv, and what is kept of it.
LEFT = SESSION / "verified-mine.csv"


def rules_file(*rows: tuple[int, int, str], ranks: int = 2) -> Path:
    """Rules for so many ranks, in the order given."""
    lines = [f"allreduce,{low},{high},{name},-1,1,{ranks},-1,-1\n" for low, high, name in rows]
    path = Path("mine.csv")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def verify(*more: str) -> int:
    """With a file of ours."""
    return run(["verify", "--rules", "mine.csv", *more])


@pytest.mark.usefixtures("swept")
def test_wrong_results_under_a_rule_cut_it(here: Path) -> None:
    """Only where they are wrong, and with the neighbourhood that nobody measured."""
    fault = {"kind": "wrong", "setting": "ring/simple", "bytes": [90_000, 120_000], "elements": 3}
    rules_file((64 * KIB, 200 * KIB, "ring,simple"))
    assert verify("--simulate", str(made.node(here / "bad.yaml", faults=[fault])), "-q") == 0
    for row in made.rows(LEFT):
        assert int(row[2]) < 90_000 or int(row[1]) > 120_000


@pytest.mark.usefixtures("swept")
@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        # The plugin refuses both lines, and each is named.
        ("allreduce,0,9,rink,ll,-1,1,2,-1,-1\nallreduce,9,0,ring,ll,-1,1,2,-1,-1\n", 3, "rink"),
        ("#@ format 1\nallreduce,65536,131072,ring,simple,-1,1,2,-1,-1\n", 3, "'#@ end 1'"),
        ("allreduce,65536,131072,ring,simple,-1,1,4,-1,-1\n", 2, "no rule of this file is for 2"),
        ("allreduce,1,99,ring,simple,-1,1,2,-1,-1\n", 2, "sweep the sizes that they are for"),
        # The plugin would end every rank; nothing is blamed on the library.
        (
            (
                "#@ format 1\n#@ requires arch=gfx942 compute=CPX memory=NPS4\n"
                "allreduce,65536,131072,ring,simple,-1,1,2,-1,-1\n#@ end 1\n"
            ),
            *(3, "this one has compute=SPX"),
        ),
        (
            "#@ requires product=NVIDIA-H200\nallreduce,65536,131072,ring,simple,-1,1,2,-1,-1\n",
            *(3, "product=NVIDIA-H200, and this one has AMD's GPUs"),
        ),
        ("# nothing\n", 2, "this file has no rule"),
        ("#@ needs LD_PRELOAD=x\nallreduce,65536,131072,ring,simple,-1,1,2,-1,-1\n", 2, "--allow"),
    ],
    ids=[
        "mistakes",
        "cut",
        "other ranks",
        "other sizes",
        "another mode",
        "another product",
        "empty",
        "needs code",
    ],
)
def test_what_cannot_be_verified_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], text: str, code: int, said: str
) -> None:
    """With what is wrong and what to do."""
    Path("mine.csv").write_text(text, encoding="utf-8")
    assert verify() == code
    assert said in capsys.readouterr().err
    assert not list(SESSION.glob("runs/3"))
