"""unspool: an event-sourced agent kernel.

``agent_loop`` runs an agent and yields everything that happens as one typed stream of events. The
names here are those most programs need; each is also where it is defined, below
``unspool.kernel``. Models are in ``unspool.llm``, file tools in ``unspool.tools``, logs in
``unspool.trajectory``.
"""

from .kernel.abort import Abort, Inbox
from .kernel.agent import Agent
from .kernel.clock import FakeClock
from .kernel.codec import Codec
from .kernel.config import AgentContext, LoopConfig
from .kernel.errors import (
    AgentBusyError,
    AgentError,
    ContinueError,
    FatalToolError,
    LogError,
    ModelError,
    RunFailedError,
    RunsHeldError,
    ToolDefinitionError,
    ToolError,
)
from .kernel.events import (
    AgentEnd,
    AgentStart,
    ErrorEvent,
    Event,
    Fact,
    MessageDiscarded,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ModelResponse,
    QueueChanged,
    RetryEvent,
    Signal,
    ToolExecEnd,
    ToolExecStart,
    ToolExecUpdate,
    TurnEnd,
    TurnStart,
)
from .kernel.function_tool import raw_tool, tool
from .kernel.hooks import Hooks, StopVerdict, Verdict
from .kernel.limits import Limits, Retry
from .kernel.loop import agent_loop, agent_loop_continue
from .kernel.messages import (
    AgentMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    Usage,
    assistant_message,
    user_message,
)
from .kernel.model_names import register_models as _register_models
from .kernel.ports import CallOptions, ChatModel, EventLog, Tool, ToolContext, ToolResult, ToolSpec
from .kernel.state import AgentState, fold
from .kernel.stream import EventStream, RunResult
from .kernel.version import __version__

__all__ = [
    "Abort",
    "Agent",
    "AgentBusyError",
    "AgentContext",
    "AgentEnd",
    "AgentError",
    "AgentMessage",
    "AgentStart",
    "AgentState",
    "CallOptions",
    "ChatModel",
    "Codec",
    "ContinueError",
    "ErrorEvent",
    "Event",
    "EventLog",
    "EventStream",
    "Fact",
    "FakeClock",
    "FatalToolError",
    "Hooks",
    "Image",
    "Inbox",
    "Limits",
    "LogError",
    "LoopConfig",
    "Message",
    "MessageDiscarded",
    "MessageEnd",
    "MessageStart",
    "MessageUpdate",
    "ModelError",
    "ModelResponse",
    "QueueChanged",
    "Retry",
    "RetryEvent",
    "RunFailedError",
    "RunResult",
    "RunsHeldError",
    "Signal",
    "StopVerdict",
    "Text",
    "Thinking",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolDefinitionError",
    "ToolError",
    "ToolExecEnd",
    "ToolExecStart",
    "ToolExecUpdate",
    "ToolResult",
    "ToolSpec",
    "TurnEnd",
    "TurnStart",
    "Usage",
    "Verdict",
    "__version__",
    "agent_loop",
    "agent_loop_continue",
    "assistant_message",
    "fold",
    "raw_tool",
    "tool",
    "user_message",
]


def _preset_model(name: str) -> ChatModel:
    """The chat model of a preset, by ``provider/model``."""
    from .llm import model  # noqa: PLC0415  # loads the HTTP client's neighbours; a program may need none

    return model(name)


_register_models(_preset_model)
