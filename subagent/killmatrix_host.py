"""Who uses the agents of the killed tree.

Read with: ``killmatrix_plan.py``, ``unspool.trajectory.killmatrix_host`` (the tools, and the host of one session).
"""

from unspool.kernel.agent import Agent
from unspool.kernel.ports import EventLog
from unspool.trajectory.killmatrix_host import Effects, EffectTool
from unspool.trajectory.killmatrix_plan import SPECS
from unspool.trajectory.killmatrix_points import Points
from unspool.trajectory.sessions import Sessions

from .killmatrix_plan import PROMPT, ROOT, TOOLS, PlannedReplies, decision_on, planned_agents
from .subagents import Subagents


class TreeHost:
    """Who uses the agents. It knows nothing but what the state of the root shows."""

    def __init__(self, log: EventLog, sessions: Sessions | None, points: Points, folder: str) -> None:
        self.effects = Effects(folder)
        self._points = points
        self.subagents = Subagents(planned_agents(), sessions=sessions)
        self.agent: Agent[str] = Agent(
            PlannedReplies(ROOT),
            name=ROOT,
            tools=[*(EffectTool(SPECS[name], self) for name in TOOLS), self.subagents.tool],
            log=log,
        )

    def points_of(self, session: str) -> Points:
        """See ``ToolHost.points_of``."""
        return self._points.within(session)

    def say(self) -> None:
        """Nothing: nobody says anything meanwhile."""

    async def drive(self) -> None:
        """Use the agents until the tree has ended."""
        for _ in range(10):  # runs; two are enough
            state = self.agent.state
            if not state.queue_count:
                await self.agent.run(PROMPT)
            elif state.waiting_calls:
                await self.agent.resume(
                    {each.call.id: decision_on(each.call.id) for each in state.waiting_calls}
                )
            elif self.agent.can_continue:
                await self.agent.continue_()
            else:
                return
        raise RuntimeError(f"the tree does not end (end_reason={self.agent.state.end_reason!r})")
