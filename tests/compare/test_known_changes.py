"""Changes between releases that a comparison shows."""

from __future__ import annotations

import pandas as pd
import pytest

from rccltune.compare.known_changes import CHANGES, NewerSide, find_known_changes


def side(*, n_nodes: int = 1, **variables: str) -> NewerSide:
    """Of MI300X."""
    return NewerSide(arch="gfx942", n_nodes=n_nodes, variables=variables)


def known(
    libraries: tuple[str | None, str | None],
    ran: tuple[str, str],
    *,
    collective: str = "all_reduce",
    verdict: str = "slower",
    here: NewerSide | None = None,
) -> list[str]:
    """Releases since which something is known, of a comparison at one size."""
    row = {"collective": collective, "verdict": verdict, "a_ran": ran[0], "b_ran": ran[1]}
    here = here or side()
    found = find_known_changes(pd.DataFrame([row]), libraries, (here, here))
    return [str(one).partition(":")[0].removeprefix("known since ") for one in found]


DDA = ("ring/ll/8", "DDA (no tuner)")


def test_a_path_that_came_is_named() -> None:
    """Where a side takes it, and between the releases alone."""
    assert known(("RCCL 2.28.3", "RCCL 2.30.4"), DDA) == ["RCCL 2.30.4"]
    # Whichever side is the newer one.
    assert known(("RCCL 2.30.7", "RCCL 2.28.3"), DDA[::-1]) == ["RCCL 2.30.4"]
    assert known(("RCCL 2.28.3", "RCCL 2.30.4"), DDA, verdict="equal") == []
    assert known(("RCCL 2.28.3", "RCCL 2.30.4"), ("ring/ll/8", "ring/ll/8")) == []
    assert known(("RCCL 2.30.4", "RCCL 2.30.7"), DDA) == []
    assert known(("NCCL 2.28.9", "RCCL 2.30.4"), DDA) == []
    assert known((None, "RCCL 2.30.4"), DDA) == []


@pytest.mark.parametrize(
    ("libraries", "ran", "collective", "here", "since"),
    [
        (
            ("NCCL 2.30.7", "NCCL 2.31.2"),
            ("ring/ll/8", ""),
            "all_gather",
            side(NCCL_ALGO="allreduce:tree"),
            ["NCCL 2.31"],
        ),
        (("NCCL 2.30.7", "NCCL 2.31.2"), ("ring/ll/8", ""), "all_gather", side(), []),
        (
            ("RCCL 2.27.7", "RCCL 2.28.3"),
            ("perhaps MSCCL", "ring/ll/8"),
            "all_reduce",
            side(),
            ["RCCL 2.28.3"],
        ),
        (
            ("RCCL 2.22.3", "RCCL 2.28.3"),
            ("ring/simple/8", "ring/ll/8"),
            "reduce_scatter",
            side(),
            ["RCCL 2.27.7"],
        ),
        (
            ("RCCL 2.22.3", "RCCL 2.26.6"),
            ("ring/simple", "ring/ll128/8"),
            "all_reduce",
            side(n_nodes=2),
            ["RCCL 2.26.6"],
        ),
    ],
)
def test_others_are_named_where_they_show(
    libraries: tuple[str, str],
    ran: tuple[str, str],
    collective: str,
    here: NewerSide,
    since: list[str],
) -> None:
    """By a variable, a path that went, or a protocol that moved."""
    assert known(libraries, ran, collective=collective, here=here) == since


def test_each_has_a_source() -> None:
    """A file of the library, a changelog or a thread."""
    assert all(one.source and one.says for one in CHANGES)
