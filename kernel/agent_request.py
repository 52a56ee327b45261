"""What is done with the context between runs: the next request made without sending it, a compaction.

Read with: ``agent.py`` (the caller), ``request.py`` (what a run does).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .abort import Abort
from .config import AgentContext, LoopConfig
from .errors import ContinueError
from .events import ContextCompacting
from .loop import Session, open_run
from .ports import Compaction, ContextManager, ModelRequest
from .projection import Projector
from .request import choose_view, compact, compacted
from .run import Aborted, Run
from .stream import Span


async def build_request(
    session: Session, config: LoopConfig, context: AgentContext, abort: Abort
) -> ModelRequest:
    """What the model would be sent now, by the same steps as in a run; only what a strategy does is recorded.

    Raises:
        HookError: ``before_request`` raised.
        ContinueError: ``abort`` was fired meanwhile.
    """
    async with _beside(session, config, context, abort) as run:
        try:
            view = await choose_view(run)
        except Aborted:
            raise ContinueError("request: aborted while a strategy was at work on it") from None
        return run.projector.draft(run.projector.as_view(view.messages), run.request)


async def compact_now(
    session: Session,
    config: LoopConfig,
    context: AgentContext,
    manager: ContextManager,
    instructions: str,
    abort: Abort,
) -> bool:
    """Have the manager make the conversation smaller; whether it did. All of it is recorded, also that ``abort``
    ended it."""
    async with _beside(session, config, context, abort) as run:
        run.record(ContextCompacting("manual", instructions))
        await run.flush()
        try:
            return await compact(run, manager, "manual", instructions)
        except Aborted:
            run.warn("context", "compaction failed: aborted")
            run.record(compacted(run, Compaction(changed=False), "manual", len(run.state.messages)))
            return False


@asynccontextmanager
async def _beside(
    session: Session, config: LoopConfig, context: AgentContext, abort: Abort
) -> AsyncIterator[Run]:
    """What a run would have, without one; its tasks end with it, or when ``abort`` is fired."""
    run = open_run(Session(session.recorder, Projector(), session.toolbox), context, config, Span())
    abort.listen(run.abort)
    try:
        yield run
    finally:
        run.over = True
        abort.unlisten(run.abort)
        await run.stop_jobs(config.limits.grace_s)
