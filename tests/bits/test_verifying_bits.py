"""Rules that keep the bits are judged by their bits, on the ranks of a simulated node."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from rccltune.cli import run
from rccltune.measure.instrument import session_instrument
from rccltune.measure.passes import RunPlan
from rccltune.measure.request import session_request
from rccltune.model.errors import CommandLineError, VerificationError
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Scale
from rccltune.ranks import plan
from rccltune.ranks.plan import Label
from rccltune.report import words
from rccltune.report.contents import read_contents
from rccltune.rules.rule_file import read_rules
from rccltune.verify import same_bits
from rccltune.verify.communicators import CommunicatorPairs
from rccltune.verify.rewriting import hash_rules, select_rules

SESSION = Path("rccltune-session")
# Of 4 ranks with two ring orders these add by another tree, or by several.
OTHERS = ("tree,ll,4", "tree,ll,8", "tree,ll,-1", "ring,ll,1", "ring,simple,4", "ring,simple,-1")


def test_slower_rules_stay_as_they_are(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is trimmed; what they cost and gain is said, and kept."""
    before = read_rules(rules.read_bytes()).rules
    capsys.readouterr()
    assert run(["verify"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    after = read_rules(rules.read_bytes())
    assert [(r.min_nbytes, r.max_nbytes, r.setting) for r in after.rules] == [
        (r.min_nbytes, r.max_nbytes, r.setting) for r in before
    ]
    assert f"keeps the bits {after.bits}" in said
    stored = json.loads((SESSION / "verdict.json").read_text(encoding="utf-8"))
    assert stored["bits"] == after.bits
    assert {one["state"] for one in stored["standings"]} == {"keeps bits"}
    assert all(one["rules_us"] > 0 < one["library_us"] for one in stored["bits_times"])
    assert run(["check"]) == 0
    assert f"keeps the bits {after.bits}" in " ".join(capsys.readouterr().out.split())
    shown = read_contents(SESSION, reporter=Reporter())
    said = words.headline(shown)
    assert f"Results keep their bits ({after.bits})" in said
    assert "of the library's own time" in said
    assert not any("must gain" in line for line in words.method(shown))
    text = rules.read_text(encoding="utf-8")
    rules.write_text(re.sub(r"#@ bits .*", "#@ bits trees-1", text), encoding="utf-8")
    assert "not verified" in words.headline(read_contents(SESSION, reporter=Reporter()))


def test_other_bits_end_with_9(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All channels have two chains; the file stays, and deploy refuses it."""
    text = rules.read_text(encoding="utf-8")
    rules.write_text(re.sub(r"tree,ll,\d+", "tree,ll,-1", text), encoding="utf-8")
    assert run(["verify"]) == 9
    assert "2 trees: bits depend on size" in capsys.readouterr().err
    assert run(["check"]) == 9
    said = capsys.readouterr().out
    assert "other bits" in said
    assert "wrong results" not in said
    assert run(["deploy", "out"]) == 9


def _probed(rows: str) -> list[int]:
    file = read_rules(f"#@ bits trees-1\n{rows}#@ end {rows.count('reduce,')}\n".encode())
    return [step.call.nbytes for step in same_bits.plan_probes(file.rules, 4, 0)]


def test_sizes_without_a_rule_are_probed_too() -> None:
    """Below the largest rule the library's own choice may add otherwise; above it nothing is."""
    whole = "allreduce,0,65536,tree,ll,1,1,4,-1,-1\n"
    assert max(_probed(whole)) == 65536
    cut = _probed(
        "allreduce,0,1024,tree,ll,1,1,4,-1,-1\nallreduce,32768,65536,tree,ll,1,1,4,-1,-1\n"
    )
    assert any(1024 < nbytes < 32768 for nbytes in cut)
    assert max(cut) == 65536
    assert min(_probed("allreduce,32768,65536,tree,ll,1,1,4,-1,-1\n")) < 32768


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("allreduce,1024,9223372036854775807,tree,ll,1,1,4,-1,-1", "no end"),
        ("allreduce,1024,65536,tree,ll,1,1,4,-1,0", "group or buffers"),
        ("allreduce,1024,65536,tree,ll,1,1,4,2,-1", "group or buffers"),
        ("reduce,1024,65536,ring,ll,1,1,4,-1,-1", "cannot be probed"),
    ],
)
def test_a_rule_that_cannot_be_probed_is_refused(row: str, why: str) -> None:
    """It would be said to keep bits of which nobody knows."""
    with pytest.raises(CommandLineError, match=f"from 1 KiB: .*{why}"):
        _probed(f"{row}\n")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_no_file_passes_whose_rule_is_of_another_class(rules: Path) -> None:
    """200 files, each with some of its sizes answered by a setting that adds otherwise."""
    measured = session_request(SESSION, {})
    sides = CommunicatorPairs(
        instrument=session_instrument(measured, SESSION),
        sweep=measured.sweep,
        session=SESSION,
        needs=(),
        reporter=Reporter(),
    )
    text, drawn = rules.read_text(encoding="utf-8"), random.Random(7)
    name = read_rules(text.encode()).bits
    assert name is not None
    row = next(line for line in text.splitlines() if line.startswith("allreduce,"))
    passed = []
    with sides.measuring.closing():
        for number in range(200):
            cut = drawn.randrange(1 << 15, 1 << 20)
            setting = drawn.choice(OTHERS)
            lines = [
                row.replace(",1048576,", f",{cut},"),
                f"allreduce,{cut + 1},1048576,{setting},1,4,-1,-1",
            ]
            made = text.replace(row, "\n".join(drawn.choice((lines, lines[::-1]))))
            made = made.replace("#@ end 1", "#@ end 2")
            found = select_rules(read_rules(made.encode()), Scale(n_nodes=1, n_ranks=4))
            assert len(found) == 2
            digest = hash_rules(made, [str(number)])
            steps = tuple(same_bits.plan_probes(found, 4, number))
            unit = RunPlan(
                plugin=True, communicators={Label(plan.VERIFY, 0, digest): steps}, rules=made
            )
            sides.measuring.complete(unit)
            table = sides.measuring.table()
            orders = table[(table["rules"] == digest) & (table["step"] == plan.ORDER)]
            try:
                same_bits.refuse_other_bits(orders, name, found, str(rules))
            except VerificationError:
                continue
            passed.append(lines)
    assert passed == []
