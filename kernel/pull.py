"""Lets a step be a plain coroutine that pauses whenever the consumer is to see something.

A step awaits ``pull()``; whoever drives it (``loop.py``) then yields the recorded events and goes
on when the consumer asks for more. What the step awaits otherwise passes through to the event
loop, asyncio's or trio's. Two nested async generators would do the same at four times the cost:
each registers with the loop and needs closing.

Read with: ``loop.py`` (the only driver).
"""

from collections.abc import Coroutine, Generator
from typing import Any

_PULL = object()


class _Pull:
    """Awaiting it hands over to the driver of the step."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        yield _PULL


_the_pull = _Pull()


def pull() -> _Pull:
    """Await this in a step: everything recorded is seen before the step goes on."""
    return _the_pull


class Drive:
    """A step under way: each await runs it to its next ``pull()`` or to its end (``done``)."""

    __slots__ = ("_step", "done")

    def __init__(self, step: Coroutine[Any, Any, None]) -> None:
        self._step = step
        self.done = False

    def __await__(self) -> Generator[Any, Any, None]:
        if self.done:
            return
        step = self._step
        resume: Any = step.send
        value: Any = None
        while True:
            try:
                awaited = resume(value)
            except StopIteration:
                self.done = True
                return
            if awaited is _PULL:
                return
            try:
                value = yield awaited
                resume = step.send
            except BaseException as error:  # noqa: BLE001 (it is raised inside the step, where it belongs)
                resume, value = step.throw, error

    def close(self) -> None:
        """End the step where it is; its ``finally`` blocks run and may not wait."""
        self._step.close()
