"""What tests of the why room share."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import Jobs

from rccltune import plugin
from rccltune.model.errors import MachineError


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    """A way to run jobs."""
    try:
        native = plugin.native_folder()
    except MachineError as error:
        pytest.skip(str(error))
    if not (native / "sim" / "all_reduce_perf").is_file():
        pytest.skip("this install has no stand-in benchmarks")
    return Jobs(folder=tmp_path, native=native)
