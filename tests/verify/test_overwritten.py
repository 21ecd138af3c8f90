"""What the library itself says that it ran, where it may write over a rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yamls

from rccltune.cli import run
from rccltune.model.settings import Setting
from rccltune.rules.header import written_over
from rccltune.rules.rule_file import read_rules
from rccltune.verify.executed import find_ends
from rccltune.verify.verdict_file import RanAt

NODE = Path(__file__).resolve().parents[2] / "examples/nodes/smallest.yaml"
RULES = "reducescatter,65536,524288,ring,simple,-1,1,2,-1,-1\n"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, once: Path) -> Path:
    """Two ranks of the smallest node with RCCL 2.27.7 and times of reduce_scatter."""
    del once
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    raw = yamls.loaded(NODE.read_text(encoding="utf-8"))
    raw["release"]["rccl"] = "2.27.7"
    raw["curves"] += [{**one, "collective": "reduce_scatter"} for one in raw["curves"]]
    path = tmp_path / "node.yaml"
    path.write_text(yamls.dumped(raw), encoding="utf-8")
    (tmp_path / "rules.csv").write_text(RULES, encoding="utf-8")
    return path


def verified(node: Path, *, overwrites: bool) -> dict[str, object]:
    """The rule's verdict in a build that writes over it, or not."""
    raw = yamls.loaded(node.read_text(encoding="utf-8"))
    raw["library"]["overwrites"] = overwrites
    node.write_text(yamls.dumped(raw), encoding="utf-8")
    words = ["--simulate", str(node), "--mode", "spx-nps1", "--collective", "reduce_scatter"]
    sizes = ["--min-bytes", "64K", "--max-bytes", "1M", "--np", "2", "--communicators", "2"]
    settings = ["--setting", "ring/ll", "--setting", "ring/simple"]
    assert run(["sweep", *words, *sizes, *settings, "-o", "s"]) == 0
    run(["verify", "s", "--rules", "rules.csv", "--communicators", "2"])
    (one,) = json.loads(Path("s/verdict_verified-rules.json").read_text())["standings"]
    found: dict[str, object] = one
    return found


def test_a_build_that_writes_over_a_rule_is_found_out(
    node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """LL of up to 352128 bytes a rank: the plugin answers, and the library runs something else."""
    one = verified(node, overwrites=True)
    assert one["state"] != "proven"
    ran = one["ran"]
    assert isinstance(ran, list)
    assert [end["nbytes"] for end in ran] == [65536, 524288]
    assert {end["answer"]["protocol"] for end in ran} == {"simple"}
    assert {end["ran"]["protocol"] for end in ran} == {"ll"}
    said = capsys.readouterr()
    assert "ring/simple was answered and ring/ll" in said.out
    # Before anything was measured: what is known of the number alone.
    assert "some builds: reduce_scatter up to 688 KiB runs ll whatever a rule says" in said.err


def test_a_build_that_obeys_is_shown_to(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Written beside the rule: deploy and job then have nothing to warn of."""
    one = verified(node, overwrites=False)
    assert one["state"] == "proven"
    assert "was answered and" not in capsys.readouterr().out
    content = Path("s/verified-rules.csv").read_bytes()
    assert "ran as answered at 64 KiB and 512 KiB" in content.decode().replace("\n# ", " ")
    assert written_over(content, read_rules(content)) == ()


HEAD = "#@ requires arch=gfx942\n# library: {}\n"


@pytest.mark.parametrize(
    ("library", "verified", "said"),
    [
        ("RCCL 2.27.7", "", "RCCL 2.27.7, some builds: reduce_scatter up to 688 KiB runs ll"),
        ("2.27.7", "", "RCCL 2.27.7, some builds: reduce_scatter up to 688 KiB runs ll"),
        ("RCCL 2.28.3", "", None),
        ("RCCL 2.27.7", "# verified: 1.20x; ran as answered at 64 KiB\n", None),
        (
            "RCCL 2.27.7",
            "# verified: 1.20x; ring/simple was answered and\n# ring/ll/4 ran at 64 KiB\n",
            "when they were verified ring/simple was answered and ring/ll/4 ran at 64 KiB",
        ),
    ],
)
def test_a_file_says_what_is_written_over_it(library: str, verified: str, said: str | None) -> None:
    """By the release that it was measured with, unless the library itself was asked."""
    content = (HEAD.format(library) + verified + RULES).encode()
    found = written_over(content, read_rules(content))
    assert [one.startswith(said or "") for one in found] == [True] * (said is not None)


def test_a_rules_ends_are_the_sizes_that_were_called_first_and_last() -> None:
    """One alone is both; channels are a bound, and no other setting."""
    executed = {
        nbytes: RanAt(
            nbytes=nbytes, answer=Setting.parse("ring/ll/8"), ran=Setting.parse(f"ring/{ran}/4")
        )
        for nbytes, ran in ((8, "ll"), (64, "simple"), (512, "ll"))
    }
    assert [one.nbytes for one in find_ends(executed, 8, 1023)] == [8, 512]
    assert [one.nbytes for one in find_ends(executed, 9, 511)] == [64]
    assert find_ends(executed, 513, 1023) == ()
    assert [one.is_as_answered for one in executed.values()] == [True, False, True]
