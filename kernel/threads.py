"""Runs a synchronous tool in a worker thread that is waited for, also when the call is cancelled.

A thread cannot be stopped from outside. A cancelled call tells its tool (``ToolContext.cancelled``)
and stays until the thread is done, so that "cancelled" means that nothing goes on; the kernel
gives up on it after the grace time and says so.

Read with: ``function_tool.py`` (the caller), ``spawn.py``.
"""

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar, checkpoint_if_cancelled

from .errors import ToolError
from .spawn import current_backend

T = TypeVar("T")
MAX_THREADS = 64  # for tools of one event loop; anyio's own 40 are left to the host
_limiter: RunVar[CapacityLimiter] = RunVar("unspool_tool_threads")


async def in_thread(call: Callable[[], T], cancelled: Callable[[], bool]) -> T:
    """The result of ``call``, made in a thread of our own limiter, with this task's context.

    A call that is cancelled before its thread begins is not made.
    """
    backend = current_backend()
    waker = backend.waker()
    results: list[T] = []
    errors: list[BaseException] = []

    def begin() -> None:
        if not cancelled():
            results.append(call())  # not returned: trio refuses a coroutine as the result of a thread

    async def work() -> None:
        try:
            await to_thread.run_sync(begin, limiter=_our_limiter())
        except BaseException as error:  # noqa: BLE001 (raised again in the task that waits for it)
            errors.append(error)
        finally:
            waker.set()

    job = backend.spawn(work)
    await backend.shielded(waker.wait, lambda: job.done or bool(results or errors))
    await checkpoint_if_cancelled()
    if errors:
        raise errors[0]
    if not results:
        raise ToolError("cancelled before it began")
    return results[0]


def _our_limiter() -> CapacityLimiter:
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = CapacityLimiter(MAX_THREADS)
        _limiter.set(limiter)
    return limiter
