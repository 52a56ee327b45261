"""What Ctrl-C does: the first one ends a run in an orderly way, a second one ends the process.

SIGTERM is treated alike. Leaving at once is safe: each fact is in the log as a whole line.

Read with: ``run.py``, ``unspool.kernel.abort``.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130  # exit status, as a shell reports it for SIGINT
PIPE_CLOSED: Final = 141  # the same for SIGPIPE
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def quit_on_signals() -> None:
    """End the process at a signal, without a traceback, until a run listens to them."""
    for number in _SIGNALS:
        signal.signal(number, _quit)


def _quit(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def leave(status: int) -> None:
    """End the process without waiting for worker threads that did not stop."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)


@contextmanager
def on_interrupt(act: Callable[[], None]) -> Iterator[None]:
    """Call ``act`` on the running event loop at the first signal; the second ends the process.

    The loop is woken through its own descriptor: a signal that comes as it goes to sleep is not left
    until something else wakes it. A blocked loop does not hold up the second one.
    """
    loop = asyncio.get_running_loop()

    def first(number: int, frame: FrameType | None) -> None:
        quit_on_signals()

    before = [signal.getsignal(number) for number in _SIGNALS]
    for number in _SIGNALS:
        loop.add_signal_handler(number, act)
        signal.signal(number, first)
    try:
        yield
    finally:
        for number, handler in zip(_SIGNALS, before, strict=True):
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
