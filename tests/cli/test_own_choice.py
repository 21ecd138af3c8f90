"""What the library takes by itself, known from what it said that it ran, without any trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from rccltune.analyse.fit import fit_session
from rccltune.cli import run
from rccltune.model.reporter import Reporter
from rccltune.rules.reader import read_rules

SESSION = Path("rccltune-session")
N = 64
# Up to 352,128 bytes of a rank RCCL runs reduce_scatter on one node with LL, whatever its table
# says (RCCL 2.28.3 src/rccl_wrap.cc, rcclUpdateCollectiveProtocol).
RS_LL = 352128
pytestmark = pytest.mark.usefixtures("stand_ins", "here")


def test_a_session_of_the_rank_program_knows_the_librarys_own_choice(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Size by size, told by fit -v, and no rule names it where the library takes it anyway."""
    where = ["--mode", "cpx-nps4", "--simulate", "mi300x", "--collective", "reduce_scatter"]
    assert run(["sweep", *where, "--min-bytes", "4M", "--max-bytes", "64M"]) == 0
    done = fit_session(SESSION, reporter=Reporter())
    own = {nbytes: str(s) for by_size in done.own_choices.values() for nbytes, s in by_size.items()}
    assert {4 << 20, 16 << 20, 64 << 20} <= set(own)
    for nbytes, setting in own.items():
        assert setting == ("ring/ll" if nbytes // N <= RS_LL else "ring/simple")

    capsys.readouterr()
    assert run(["fit", "-v"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "What the library runs by itself: reduce_scatter, 64 ranks on 1 node: ring/ll" in said
    assert run(["emit-config", "-o", "rules.csv"]) == 0
    for rule in read_rules((here / "rules.csv").read_bytes()).rules:
        named = {s for n, s in own.items() if rule.min_nbytes <= n <= rule.max_nbytes}
        assert named != {str(rule.setting)}
