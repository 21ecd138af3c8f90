"""Signals strike where they may, wait where they must, and are never lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from rccltune.launch.signals import held, interruptible

KINDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    """Handlers of a program just started; one in the background may have inherited others."""
    handlers = (signal.default_int_handler, signal.SIG_DFL, signal.SIG_DFL)
    before = [signal.signal(kind, handler) for kind, handler in zip(KINDS, handlers, strict=True)]
    yield
    for kind, handler in zip(KINDS, before, strict=True):
        signal.signal(kind, handler)


@pytest.mark.parametrize("kind", KINDS)
def test_a_held_signal_strikes_after_the_block(kind: signal.Signals) -> None:
    """The block runs to its end, and the signal is not forgotten."""
    reached: list[bool] = []
    before = [signal.getsignal(k) for k in KINDS]

    def struck_twice() -> None:
        for _ in range(2):
            os.kill(os.getpid(), kind)
            reached.append(True)

    with pytest.raises(KeyboardInterrupt), interruptible(), held():
        struck_twice()
    assert reached == [True, True]
    assert [signal.getsignal(k) for k in KINDS] == before


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_ignored_stays_ignored(kind: signal.Signals) -> None:
    """``nohup`` ignores SIGHUP; a job in the background of a script ignores SIGINT."""
    signal.signal(kind, signal.SIG_IGN)
    with interruptible(), held():
        os.kill(os.getpid(), kind)
    with interruptible():
        os.kill(os.getpid(), kind)
    assert signal.getsignal(kind) is signal.SIG_IGN
