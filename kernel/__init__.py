"""The kernel: messages, events, the fold, the protocols, the loop.

Importing it loads no pydantic, no HTTP client and no tokenizer. ``__all__`` is its public surface;
the names most programs need are also in ``unspool`` itself.
"""

if __name__ != "unspool.kernel":
    raise ImportError("kernel/ is not a top-level package: import unspool.kernel")

from .abort import Abort, Inbox
from .clock import FakeClock, SystemClock
from .codec import Codec, Record, event_schema
from .config import AgentContext, Hooks, LoopConfig, StopInfo, StopVerdict, TurnInfo
from .errors import (
    AgentError,
    AuthError,
    BadRequestError,
    CodecError,
    ContentFilterError,
    ContextOverflowError,
    ContinueError,
    FatalToolError,
    HookError,
    LimitError,
    LogError,
    MaxTurnsError,
    MessageSequenceError,
    ModelError,
    ModelTimeoutError,
    NetworkError,
    OverloadedError,
    PartialStreamError,
    QuotaError,
    RateLimitError,
    RunFailedError,
    StopGuardError,
    StreamIdleError,
    ToolDefinitionError,
    ToolError,
    ToolValidationError,
    error_kind,
    is_retryable,
)
from .events import (
    AgentEnd,
    AgentStart,
    AppMessage,
    ApprovalDecided,
    ApprovalRequested,
    ChildEnded,
    ChildEvent,
    ChildStarted,
    ConfigChanged,
    ContextCompacted,
    ContextCompacting,
    ContextProjected,
    ErrorEvent,
    Event,
    Fact,
    Handoff,
    MessageDiscarded,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ModelResponse,
    QueueChanged,
    Replaced,
    RetryEvent,
    Signal,
    Stored,
    ToolExecDispatch,
    ToolExecEnd,
    ToolExecStart,
    ToolExecUpdate,
    TurnEnd,
    TurnStart,
    UnknownFact,
)
from .limits import Limits, Retry
from .loop import agent_loop, agent_loop_continue
from .messages import (
    AgentMessage,
    Content,
    ContextDemand,
    ContextItem,
    Cost,
    Document,
    Image,
    Message,
    Opaque,
    OpaqueMessage,
    Reduced,
    Text,
    Thinking,
    ToolCall,
    ToolReference,
    Usage,
    assistant_message,
    make_call,
    tool_message,
    user_message,
)
from .ports import (
    BlobStore,
    BlockEvent,
    CallOptions,
    ChatModel,
    Clock,
    Compaction,
    ContextManager,
    ContextSnapshot,
    ContextUsage,
    EventLog,
    ModelRequest,
    Projection,
    StreamEnd,
    StreamEvent,
    SystemBlock,
    TextDelta,
    ThinkingDelta,
    Tool,
    ToolCallDelta,
    ToolCallEnd,
    ToolContext,
    ToolResult,
    ToolSpec,
)
from .projection import PassThrough
from .reply import ReplyBuilder, generate
from .retry import retry_delay
from .sequence import (
    SequenceIssue,
    assert_message_sequence,
    collect_context_demands,
    collect_context_items,
    repair_message_sequence,
    to_messages,
    validate_message_sequence,
)
from .state import AgentState, apply, fold
from .steps import next_step
from .stream import EventStream, RunResult
from .transcript import Transcript
