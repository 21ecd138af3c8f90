"""Signals strike where they may, wait where they must, and are never lost."""

from __future__ import annotations

import os
import signal
import threading
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


def test_a_held_signal_does_not_hide_an_error() -> None:
    """What failed inside stays in the chain."""

    def fail() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        raise ValueError

    with pytest.raises(KeyboardInterrupt) as caught, held():
        fail()
    assert isinstance(caught.value.__context__, ValueError)


def test_nothing_strikes_where_nothing_came() -> None:
    """The handlers are as before, and an error inside is the caller's."""
    before = [signal.getsignal(k) for k in KINDS]
    with pytest.raises(ValueError, match="own"), interruptible(), held():
        raise ValueError("own")
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


def test_a_thread_leaves_the_handlers_alone() -> None:
    """Only the main thread may set them; the block still runs."""
    before = [signal.getsignal(k) for k in KINDS]
    seen: list[bool] = []

    def body() -> None:
        with interruptible(), held():
            seen.append([signal.getsignal(k) for k in KINDS] == before)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == [True]
