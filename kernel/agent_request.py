"""The request that a run would send, made without running.

Read with: ``agent.py`` (the caller), ``request.py`` (what a run does).
"""

from .config import AgentContext, LoopConfig
from .loop import Session, open_run
from .ports import ModelRequest
from .projection import Projector
from .request import choose_view
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
