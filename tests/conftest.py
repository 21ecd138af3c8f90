"""What every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parents[1]

# Machines that run these tests are slow and noisy; a deadline would test them and not us.
settings.register_profile("rccltune", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rccltune")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real logs and sweeps beside the checkout; they are no part of it."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the shared data folder is not beside this checkout")
    return folder
