"""Dump folders by the names that RCCL gives its files (src/misc/npkit.cc, develop 0cbce2a7)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wording import lacks

from rccltune.npkit import read_dump, why_useless

EVENT = bytes(16)


def written(folder: Path, events: list[list[int]], *, form: str = "buf") -> Path:
    """A dump of so many events for each rank and buffer, as the library leaves it."""
    folder.mkdir(exist_ok=True)
    for rank, buffers in enumerate(events):
        for number, n_events in enumerate(buffers):
            (folder / f"gpu_events_rank_{rank}_{form}_{number}").write_bytes(EVENT * n_events)
        (folder / f"cpu_events_rank_{rank}_channel_0").write_bytes(b"")
        (folder / f"cpu_clock_period_num_rank_{rank}").write_text("1")
        (folder / f"cpu_clock_period_den_rank_{rank}").write_text("1000000000")
        (folder / f"gpu_clock_rate_rank_{rank}").write_text("100000")
    return folder


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=6))
def test_all_that_is_there_is_counted(
    tmp_path_factory: pytest.TempPathFactory, events: list[list[int]]
) -> None:
    """Ranks, events and files, whatever the buffers hold."""
    found = read_dump(written(tmp_path_factory.mktemp("dump"), events))
    assert found.ranks == tuple(range(len(events)))
    assert found.n_gpu_events == sum(map(sum, events))
    assert found.n_files == sum(len(buffers) + 4 for buffers in events)
    useless = why_useless(found, len(events))
    assert (useless is None) == (found.n_gpu_events > 0)


class TestUseless:
    """Each with what would help."""

    def why(self, folder: Path, n_ranks: int) -> str:
        """What is said."""
        found = why_useless(read_dump(folder), n_ranks)
        assert found is not None
        return found

    def test_ranks_are_missing(self, tmp_path: Path) -> None:
        """Those of a host that writes elsewhere."""
        said = self.why(written(tmp_path, [[1], [1]]), 4)
        assert lacks(said, "rank 2", "3", "no dump") == []
        assert "every host" in said

    def test_many_are(self, tmp_path: Path) -> None:
        """Not all are listed."""
        assert "0, 1, 2, 3, 4, 5, 6, 7, …" in self.why(_only(tmp_path), 64)

    def test_no_switch_was_compiled_in(self, tmp_path: Path) -> None:
        """ENABLE_NPKIT alone records nothing."""
        assert "ENABLE_NPKIT_EVENT" in self.why(written(tmp_path, [[0, 0]]), 1)


def _only(folder: Path) -> Path:
    (folder / "gpu_clock_rate_rank_63").write_text("100000")
    return folder
