"""Files of thousands of rules are explained without asking the same again."""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING
from unittest import mock

from rccltune.model.settings import Setting
from rccltune.rules.decision import decisions
from rccltune.rules.explanation import RuleQuestion, explain
from rccltune.rules.plugin_answers import CallArguments
from rccltune.rules.plugin_library import PluginLibrary

if TYPE_CHECKING:
    from pathlib import Path


COLLECTIVES = ("allreduce", "allgather", "reducescatter", "broadcast")
A_SCALE = 100


def rows(n_rules: int) -> list[str]:
    """A hundred rules of each collective at a scale, of sizes that touch; some name buffers or groups."""
    draw = random.Random(1)
    made: list[str] = []
    for nodes, name in product(range(1, n_rules), COLLECTIVES):
        low = 0
        for _ in range(min(A_SCALE, n_rules - len(made))):
            high = low + draw.randint(1000, 100_000)
            cell = f"ring,{draw.choice(('ll', 'simple'))},{draw.choice((4, 8, 16, -1))}"
            asks = f"{draw.choice((1, 2, -1))},{draw.choice((0, 1, -1))}"
            made.append(f"{name},{low},{high},{cell},{nodes},{8 * nodes},{asks}")
            low = high + 1
        if len(made) == n_rules:
            break
    return made


def test_questions_grow_with_rules_and_not_with_their_square(tmp_path: Path) -> None:
    """A scale is opened once a version for all its collectives; a rule asks for its own bounds."""
    path = tmp_path / "rules.csv"
    asked = []
    for n_rules in (400, 1600):
        path.write_text("\n".join(rows(n_rules)) + "\n")
        with (
            mock.patch.object(
                PluginLibrary, "communicator", autospec=True, side_effect=PluginLibrary.communicator
            ) as opened,
            mock.patch("rccltune.rules.decision.decisions", side_effect=decisions) as decided,
        ):
            parts = explain(path, RuleQuestion()).parts
        assert len(parts) == n_rules // A_SCALE
        assert opened.call_count <= 6 * n_rules // (4 * A_SCALE)
        asked.append(sum(len(call.args[3]) for call in decided.call_args_list))
    assert asked[1] <= 4.2 * asked[0]


def test_each_value_that_a_row_names_is_asked_where_the_row_is(tmp_path: Path) -> None:
    """The plugin itself says what each call gets; a scale without such rows asks the usual one."""
    path = tmp_path / "rules.csv"
    path.write_text(
        "allreduce,1024,4096,ring,ll,-1,1,8,3,1\nallreduce,1024,4096,tree,ll,-1,2,16,-1,-1\n"
    )
    one, two = explain(path, RuleQuestion()).parts
    assert two.calls == ()
    ((call, stretches),) = one.calls
    assert call == CallArguments(num_pipe_ops=3, reg_buff=1)
    chosen = [s for s in stretches if s.setting is not None]
    assert [(s.min_nbytes, s.max_nbytes, s.setting) for s in chosen] == [
        (1024, 4096, Setting.parse("ring/ll"))
    ]
    assert {s.setting for s in one.stretches} == {None}
