"""What ranks say arrives whole or not at all, and becomes one record for each host."""

from __future__ import annotations

import json
import random
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.machine.hosts import RankReport, compares, lines_of, merged, read_lines, value_of

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.lists(plain, max_size=5), st.randoms())
def test_answers_arrive_through_any_order_of_lines(
    answers: list[object], mixed: random.Random
) -> None:
    """Lines of many ranks mix; each answer is read as it was said."""
    lines = [line for who, one in enumerate(answers) for line in lines_of(one, f"host:{who}")]
    mixed.shuffle(lines)
    found = map(json.loads, read_lines("".join(lines)))
    assert sorted(map(repr, found)) == sorted(map(repr, answers))


@given(st.data())
def test_a_missing_or_torn_line_is_no_answer(data: st.DataObject) -> None:
    """Never half of one."""
    text = "".join(lines_of("x" * 5000, "host:1"))
    at = data.draw(st.integers(0, len(text) - 2))
    length = data.draw(st.integers(1, len(text) - at - 1))
    read = read_lines(text[:at] + text[at + length :])
    assert [json.loads(one) for one in read] in ([], ["x" * 5000])
    assert read_lines(text[:-3]) == ()


def test_ranks_of_a_host_become_one() -> None:
    """The first of each host says what it is, each what it sees."""
    first = RankReport(host="a", boot_id="1", facts={"mode": "cpx-nps4"}, variables={"NCCL_X": "1"})
    second = RankReport(
        host="a", boot_id="1", facts=None, variables={"NCCL_X": "1", "HOME": "/root"}
    )
    other = RankReport(host="b", boot_id="2", facts={"mode": "spx-nps1"}, variables={})
    found = merged([other, first, second])
    assert [(one.name, one.n_ranks) for one in found] == [("a", 2), ("b", 1)]
    assert found[0].facts == (("mode", "cpx-nps4"), ("NCCL_X", "1"))
    assert merged([RankReport(**asdict(first))]) == merged([first])


@pytest.mark.parametrize(
    ("name", "compared"),
    [
        ("NCCL_ALGO", True),
        ("RCCL_LL128_FORCE_ENABLE", True),
        ("HSA_NO_SCRATCH_RECLAIM", True),
        ("HIP_FORCE_DEV_KERNARG", True),
        ("ROCR_VISIBLE_DEVICES", True),
        ("RCCLTUNE_RECORD", True),
        ("RCCLTUNE_RUN_ID", False),
        ("OMPI_COMM_WORLD_RANK", False),
        ("SLURM_PROCID", False),
        ("PMI_RANK", False),
        ("HOSTNAME", False),
        ("LD_LIBRARY_PATH", False),
    ],
)
def test_what_the_libraries_read_is_compared(name: str, compared: bool) -> None:
    """Not what a launcher gives every rank for itself."""
    assert compares(name) is compared


@given(st.permutations([str(number) for number in range(8)]))
def test_a_device_for_each_rank_is_alike_on_every_host(order: list[str]) -> None:
    """Ranks start in any order."""
    assert value_of("ROCR_VISIBLE_DEVICES", order) == value_of(
        "ROCR_VISIBLE_DEVICES", sorted(order)
    )


def test_devices_by_serial_number_count_only() -> None:
    """No other host has them; a rank that sees all devices is still another thing."""
    assert value_of("HIP_VISIBLE_DEVICES", ["GPU-1a", "GPU-2b"]) == value_of(
        "HIP_VISIBLE_DEVICES", ["GPU-3c", "GPU-4d"]
    )
    assert value_of("HIP_VISIBLE_DEVICES", ["GPU-1a,GPU-2b"]) != value_of(
        "HIP_VISIBLE_DEVICES", ["GPU-3c"]
    )
    assert value_of("ROCR_VISIBLE_DEVICES", ["0,1"]) != value_of("ROCR_VISIBLE_DEVICES", [None])
