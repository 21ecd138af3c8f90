"""Signals that end what is under way, or wait until it is done.

Python raises KeyboardInterrupt between any two instructions, also in handlers that run around a
fork, whose exceptions it drops: a Ctrl-C at that moment would be lost. So what must not be cut in
half holds the signals until it is done.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_Handler = Callable[[int, FrameType | None], object]
_FROM_OUTSIDE: Final = (signal.SIGTERM, signal.SIGHUP)
_ALL: Final = (signal.SIGINT, *_FROM_OUTSIDE)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and a closed terminal end the block with KeyboardInterrupt, as Ctrl-C does.

    What is ignored, SIGHUP under nohup say, or handled by somebody stays so.
    """
    kinds = [kind for kind in _FROM_OUTSIDE if signal.getsignal(kind) is signal.SIG_DFL]
    with _handling(dict.fromkeys(kinds, _interrupt)):
        yield


@contextmanager
def held() -> Iterator[None]:
    """Let no signal disturb the block; the first that came strikes when the block is over."""
    signals: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        signals.append(number)

    before = {kind: signal.getsignal(kind) for kind in _ALL}
    kinds = [kind for kind, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    try:
        with _handling(dict.fromkeys(kinds, note)):
            yield
    finally:
        if signals:
            handler = before[signal.Signals(signals[0])]
            if callable(handler):
                handler(signals[0], None)
            else:
                os.kill(os.getpid(), signals[0])


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


@contextmanager
def _handling(handlers: dict[signal.Signals, _Handler]) -> Iterator[None]:
    """Only the main thread may set handlers; in another the block runs as it is."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {kind: signal.signal(kind, handler) for kind, handler in handlers.items()}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
