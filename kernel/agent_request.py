"""What is done with the context between runs: the next request made without sending it, a compaction.

Read with: ``agent.py`` (the caller), ``request.py`` (what a run does).
"""

from .config import AgentContext, LoopConfig
from .events import ContextCompacting
from .loop import Session, open_run
from .ports import ContextManager, ModelRequest
from .projection import Projector
from .request import choose_view, compact
from .stream import Span


async def build_request(session: Session, config: LoopConfig, context: AgentContext) -> ModelRequest:
    """What the model would be sent now, by the same steps as in a run; only what a strategy does is recorded.

    Raises:
        HookError: ``before_request`` raised.
    """
    run = open_run(Session(session.recorder, Projector(), session.toolbox), context, config, Span())
    try:
        view = await choose_view(run)
    finally:
        await run.stop_jobs(config.limits.grace_s)
    return run.projector.draft(run.projector.as_view(view.messages), run.request)


async def compact_now(
    session: Session, config: LoopConfig, context: AgentContext, manager: ContextManager, instructions: str
) -> bool:
    """Have the manager make the conversation smaller; whether it did. All of it is recorded."""
    run = open_run(Session(session.recorder, Projector(), session.toolbox), context, config, Span())
    run.record(ContextCompacting("manual", instructions))
    await run.flush()
    try:
        return await compact(run, manager, "manual", instructions)
    finally:
        await run.stop_jobs(config.limits.grace_s)
