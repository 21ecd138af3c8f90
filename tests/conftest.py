"""What every test may use."""

from __future__ import annotations

import gc
import os
import pwd
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import forked
import pytest
from hypothesis import HealthCheck, settings

REPOSITORY = Path(__file__).resolve().parents[1]

# Machines that run these tests are slow and noisy; a deadline would test them and not us.
settings.register_profile("rccltune", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rccltune")
# Of the quick run, the same ones each time; the long tests draw a hundred new ones.
settings.register_profile(
    "quick", settings.get_profile("rccltune"), max_examples=20, derandomize=True, database=None
)


def pytest_configure(config: pytest.Config) -> None:
    """Where long tests are left out, most examples are too, unless a test says how many."""
    if _leaves_long_out(config):
        settings.load_profile("quick")


def _leaves_long_out(config: pytest.Config) -> bool:
    return bool(config.getoption("markexpr") == "not long")


@pytest.fixture(scope="session")
def is_quick(pytestconfig: pytest.Config) -> bool:
    """Whether a sweep over many cases tries a sample of them; with the long tests it tries all."""
    return _leaves_long_out(pytestconfig)


@pytest.fixture(scope="session", autouse=True)
def home() -> Iterator[None]:
    """Open MPI, which tests start themselves, ends where HOME is unset; rccltune must not."""
    with pytest.MonkeyPatch.context() as patch:
        if "HOME" not in os.environ:
            patch.setenv("HOME", pwd.getpwuid(os.getuid()).pw_dir)
        yield


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Notes of which sessions were made here go to a folder of the tests, not to the user's."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figure is drawn, as a file or on a page: that takes longer than all that is measured here.

    For whoever asks what is proven or said; tests/report draws.
    """
    monkeypatch.setattr("rccltune.report.plots.plot_session", lambda *_, **__: None)
    monkeypatch.setattr("rccltune.report.page._draw_kind", lambda *_: iter(()))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Tests and modules stay until the end: no collection of garbage looks at them again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """What tests forked processes from ends with them."""
    forked.end()


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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Any order must do; a seed makes one that can be had again."""
    parser.addoption("--shuffle", metavar="SEED", help="run the tests in an order of this seed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every worker of xdist shuffles alike, as it has to."""
    seed = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests were skipped for which reason: what this machine could not show."""
    reasons = Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    if reasons:
        terminalreporter.section("skipped, by reason")
    for reason, n in reasons.most_common():
        terminalreporter.write_line(f"{n:5} {reason}")
