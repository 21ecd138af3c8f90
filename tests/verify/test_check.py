"""check: rules that were verified hold, no longer win, or cannot be told; what they are bound to."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from wording import lacks

from rccltune.check.bound import compare_machine, read_deployed_rules
from rccltune.check.holding import choose_sizes
from rccltune.cli import run
from rccltune.measure.request import merge_request
from rccltune.measure.sweep_schema import PERF
from rccltune.model.measurement import Fingerprint
from rccltune.model.rule import RESTORES, RuleState
from rccltune.model.settings import Mode, Scale
from rccltune.rules.rule_file import read_rules
from rccltune.verify.rewriting import select_rules

MI300X = Fingerprint(
    hosts=("n1",),
    product="AMD Instinct MI300X",
    arch="gfx942",
    mode=Mode.parse("cpx-nps4"),
    cu_count=38,
)
HEAD = "#@ format 1\n#@ requires arch=gfx942 cus=38 compute=CPX memory=NPS4\n"


def rule_file(*rules: str, library: str = "RCCL 2.27.7") -> bytes:
    """A file of ours with these rules."""
    text = f"{HEAD}#@ library {library}\n" + "".join(f"{one}\n" for one in rules)
    return f"{text}#@ end {len(rules)}\n".encode()


RULE = "allreduce,65536,1048576,tree,ll,-1,1,64,-1,-1"


def test_what_a_file_is_bound_to_is_held_against_the_machine() -> None:
    """Each thing that differs is named with both values; what is not known is no difference."""
    file = read_rules(rule_file(RULE))
    assert file.errors == ()
    assert compare_machine(file, MI300X, "RCCL 2.27.7+hip7.2") == ((), ())
    other = replace(MI300X, mode=Mode.parse("spx-nps1"), cu_count=304)
    differing, unknown = compare_machine(file, other, "RCCL 2.28.3")
    assert lacks(differing, "cus: 38", "304 here", "CPX", "SPX here", "NPS4", "NPS1 here") == []
    assert lacks(differing, "library: RCCL 2.27.7 in the file, RCCL 2.28.3 here") == []
    assert unknown == ()
    differing, unknown = compare_machine(file, replace(MI300X, cu_count=None), None)
    assert differing == ()
    assert lacks(unknown, "cus: 38", "library: RCCL 2.27.7", "unknown here") == []


def test_a_rule_is_called_at_its_ends_and_at_powers_of_two() -> None:
    """Where it is the one that answers; sizes of all_gather are whole blocks of all ranks."""
    rules = select_rules(
        read_rules(
            rule_file(
                "allreduce,100000,300000,tree,ll,-1,1,64,-1,-1",
                "allreduce,200000,600000,ring,ll,-1,1,64,-1,-1",
                "allgather,5000,9000,ring,ll,-1,1,64,-1,-1",
            )
        ),
        Scale(n_nodes=1, n_ranks=64),
    )
    first, second, third = (sizes for _, sizes in choose_sizes(rules, Scale(n_nodes=1, n_ranks=64)))
    assert first == (100000, 131072, 262144, 300000)
    assert second == (524288, 600000)
    assert all(nbytes % (4 * 64) == 0 and 5000 <= nbytes <= 9000 for nbytes in third)
    assert 8192 in third


def test_rules_of_a_session_hold_until_something_differs(
    swept: Path, verified_once: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One good way, a file that was changed, and a rule that says what the library does."""
    assert run(["check", "s", "--quick"]) == 0
    assert "nobody verified these rules" in capsys.readouterr().out
    shutil.rmtree(swept)
    shutil.copytree(verified_once, swept)
    (rules,) = swept.glob("rccl_tuner*.csv")
    capsys.readouterr()
    assert run(["check", "s", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (rule,) = told["rules"]
    assert rule["standing"] == "holds"
    # Of a simulated node the gain is the one that verification found, but for where it is called.
    assert abs(rule["gain"]["value"] / rule["verified"]["value"] - 1) < 0.05
    assert told["simulated"] is True

    assert run(["check", "s", "--quick"]) == 0
    assert "as they were" in capsys.readouterr().out
    own = swept / "own.csv"
    own.write_text(rules.read_text().replace("ring,simple", "ring,ll"))
    assert own.read_text() != rules.read_text()
    assert run(["check", "s", "--rules", str(own)]) == 9
    assert (
        lacks(capsys.readouterr().out, "no longer wins", "the same by itself", "0 of 1 rules hold")
        == []
    )
    rules.chmod(0o644)
    rules.write_text(own.read_text())
    assert run(["check", "s", "--quick"]) == 9
    assert lacks(capsys.readouterr().out, "not those that were verified") == []
    assert run(["check", "s", "--json"]) == 9
    told = json.loads(capsys.readouterr().out)
    assert lacks(told["error"], "not those that were verified", "0 of 1 rules hold") == []
    assert Path(told["where"]).name == rules.name
    assert "rccltune tune" in told["hint"]


def test_a_rule_behind_another_is_no_change(verified: Path) -> None:
    """As tune leaves it where a setting cannot be had everywhere; one more than verified is."""
    (rules,) = verified.glob("rccl_tuner*.csv")
    text = rules.read_text()
    (line,) = (one for one in text.splitlines() if one.startswith("allreduce,"))
    behind = line.replace("ring,simple", "tree,ll")
    rules.chmod(0o644)
    rules.write_text(text.replace(line, f"{line}\n{behind}").replace("#@ end 1", "#@ end 2"))
    assert run(["check", "s", "--quick"]) == 9
    verdict = json.loads((verified / "verdict.json").read_text())
    assert verdict["fallbacks"] == 0
    (verified / "verdict.json").write_text(json.dumps(verdict | {"fallbacks": 1}))
    assert run(["check", "s", "--quick"]) == 0


def test_a_deployed_folder_knows_the_gains_that_were_proven(tmp_path: Path) -> None:
    """From the comment above each rule, as long as the file is the one that was deployed."""
    content = rule_file(
        RULE,
        f"# verified: 1.02x (0.99 to 1.05) by graph over 9 sizes; {RESTORES}",
        "allgather,5000,9000,ring,ll,-1,1,64,-1,-1",
    ).replace(RULE.encode(), b"# verified: 1.42x (1.41 to 1.44) by graph\n" + RULE.encode())
    (tmp_path / "rccl_tuner.csv").write_bytes(content.replace(b"#@ end 3", b"#@ end 2"))
    digest = hashlib.sha256((tmp_path / "rccl_tuner.csv").read_bytes()).hexdigest()
    (tmp_path / "README").write_text(f"{digest}  rccl_tuner.csv\n")
    request = merge_request(None, {}, runner=PERF)
    first, second = read_deployed_rules(tmp_path, request).verified or ()
    assert str(first.gain) == "1.42x (1.41 to 1.44)"
    assert (first.state, second.state) == (RuleState.PROVEN, RuleState.RESTORES)
    (tmp_path / "README").write_text("another\n")
    assert read_deployed_rules(tmp_path, request).verified is None


@pytest.mark.usefixtures("verified")
def test_a_deployed_folder_checks_itself(tmp_path: Path) -> None:
    """By its own script; a rule file that was changed there is seen without measuring."""
    assert run(["deploy", "folder", "s", "-q"]) == 0
    folder = tmp_path / "folder"
    node = Path(__file__).resolve().parents[2] / "examples/nodes/smallest.yaml"
    words = ["--quick", "--simulate", str(node), "--mode", "spx-nps1", "--np", "2"]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"

    def checked() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [folder / "check", *words],
            env={"PATH": path, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    done = checked()
    assert done.returncode == 0, done.stderr
    (rules,) = folder.glob("rccl_tuner*.csv")
    rules.chmod(0o644)
    rules.write_text(f"# changed\n{rules.read_text()}")
    done = checked()
    assert (done.returncode, lacks(done.stdout, "SHA-256", "README")) == (9, [])
    (folder / "env.sh").unlink()
    assert run(["check", str(folder)]) == 7
