"""Every test of the agent runs on both backends, with a fake clock and a scripted model."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from scenarios import settle, tasks_living

Main = Callable[[], Awaitable[Any]]


@pytest.fixture(params=["asyncio", "trio"])
def go(request: pytest.FixtureRequest) -> Callable[[Main], Any]:
    """Runs an async function to its end; nothing it started may be left."""

    async def checked(main: Main) -> Any:
        living = tasks_living()
        with anyio.fail_after(20):
            result = await main()
        await settle()
        assert tasks_living() == living, "a task is left"
        return result

    def run(main: Main) -> Any:
        return anyio.run(checked, main, backend=request.param)

    return run
