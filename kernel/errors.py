"""What can go wrong, as classes with stable labels; the kernel never reads error text.

``error_kind`` is API: labels appear in logs and in hosts' ``match`` statements. A model adapter
raises the subclass of ``ModelError`` that fits and sets ``retry_after_s``; whether to retry or to
fail over is a property of the class.

Cancellation is not an error class here; it only has a label (``canceled``).
"""

import asyncio
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from .json_edge import clean_text


class AgentError(Exception):
    """The root of every error unspool raises on purpose.

    ``details`` holds the machine-readable keys of the message.
    """

    error_kind: ClassVar[str] = "unknown"

    def __init__(self, message: str = "", **details: Any) -> None:
        super().__init__(message)
        self.details = details

    def __str__(self) -> str:
        keys = ", ".join(f"{key}={value!r}" for key, value in self.details.items())
        text = str(self.args[0]) if self.args else ""
        return f"{text} ({keys})" if keys else text


class ModelError(AgentError):
    """A model call that failed, for a reason no other class names."""

    retryable: ClassVar[bool] = False
    failover_eligible: ClassVar[bool] = False

    def __init__(self, message: str = "", *, retry_after_s: float | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.retry_after_s = retry_after_s


class _Transient(ModelError):
    retryable = True
    failover_eligible = True


class RateLimitError(_Transient):
    """Too many requests or tokens for now."""

    error_kind = "rate_limit"


class OverloadedError(_Transient):
    """The provider has no capacity or failed inside (HTTP 5xx, 529)."""

    error_kind = "overloaded"


class ModelTimeoutError(_Transient):
    """The whole call took longer than it may."""

    error_kind = "timeout"


class StreamIdleError(_Transient):
    """The stream went silent for longer than it may."""

    error_kind = "stream_idle"


class NetworkError(_Transient):
    """No connection, or one that broke before an answer began."""

    error_kind = "network"


class PartialStreamError(ModelError):
    """The stream ended without its terminal event; ``text`` is what had come."""

    error_kind = "stream_partial"
    retryable = True

    def __init__(self, message: str = "", *, text: str = "", **details: Any) -> None:
        super().__init__(message, **details)
        self.text = text


class MalformedReplyError(PartialStreamError):
    """The reply came to its end, and the provider says that what the model wrote cannot be used (a call that
    does not parse). The model may do better the next time."""

    error_kind = "malformed_reply"
    failover_eligible = True


class AuthError(ModelError):
    """The key is missing, wrong, or may not do this."""

    error_kind = "auth"


class QuotaError(ModelError):
    """Paid-for use is used up: waiting does not help."""

    error_kind = "quota"


class ContextOverflowError(ModelError):
    """The request does not fit into the model's context window."""

    error_kind = "context_overflow"


class ContentFilterError(ModelError):
    """The provider refused the request or the answer."""

    error_kind = "content_filter"


class BadRequestError(ModelError):
    """The provider did not accept the request as it was made."""

    error_kind = "bad_request"


class ToolError(AgentError):
    """Raised by a tool to tell the model, in words, why the call failed."""

    error_kind = "tool_error"


class FatalToolError(ToolError):
    """Raised by a tool to end the whole run: siblings are cancelled, what there is is committed."""

    error_kind = "tool_fatal"


class ToolValidationError(AgentError):
    """Arguments that do not parse or do not fit the schema."""

    error_kind = "tool_validation"


class ToolDefinitionError(AgentError):
    """A tool, or a list of tools, that cannot be used as it is defined."""


class MaxTurnsError(AgentError):
    """The run used up its turns."""

    error_kind = "max_turns"


class LimitError(AgentError):
    """The run used up its tool calls (``max_tool_calls``) or its money (``budget``)."""

    def __init__(self, kind: str, message: str = "", **details: Any) -> None:
        super().__init__(message, **details)
        self.kind = kind


class HookError(AgentError):
    """A hook of the host raised."""

    error_kind = "hook"


class StopGuardError(AgentError):
    """The stop guard ended the run as failed."""

    error_kind = "stop_guard"


class LogError(AgentError):
    """The log refused a fact: nothing more can be made durable, so the run cannot go on."""

    error_kind = "log"


class CodecError(AgentError):
    """A stored record, or a message type, that cannot be read or written."""

    error_kind = "codec"


class MessageSequenceError(AgentError):
    """Tool calls and results that do not pair up."""


class ContinueError(AgentError):
    """There is nothing to continue from."""


class AgentBusyError(AgentError):
    """The agent has a run under way, or calls that wait for a decision."""

    error_kind = "busy"


class RunsHeldError(AgentError):
    """Somebody holds the agent's runs: none may start."""

    error_kind = "runs_held"


class OutputError(AgentError):
    """The last answer is not of the type that the agent was to give."""

    error_kind = "output"


class RunFailedError(AgentError):
    """Raised by ``RunResult.raise_for_error``: how the run ended and why."""


CANCELED = "canceled"


def error_kind(error: BaseException | None) -> str:
    """The stable label of an error; ``""`` for None, ``unknown`` for a foreign one."""
    match error:
        case None:
            return ""
        case LimitError():
            return error.kind
        case AgentError():
            return error.error_kind
        case asyncio.CancelledError():
            return CANCELED
        case TimeoutError():
            return ModelTimeoutError.error_kind
        case ConnectionError():
            return NetworkError.error_kind
        case _:
            return CANCELED if type(error).__name__ == "Cancelled" else "unknown"


def describe(error: BaseException) -> str:
    """What an error says, fit for a log: its own text, else its class; at most 2,000 characters."""
    try:
        text = str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 (a foreign error that cannot say what it is still has a class)
        text = type(error).__name__
    return clean_text(text if len(text) <= 2000 else f"{text[:2000]}…")


def is_retryable(error: BaseException) -> bool:
    """Whether asking again may help."""
    return isinstance(error, ModelError) and error.retryable


def is_context_overflow(error: BaseException | str | None) -> bool:
    """Whether the request did not fit: a smaller view helps, asking again does not. A label will do."""
    return (error if isinstance(error, str) else error_kind(error)) == ContextOverflowError.error_kind


def is_failover_eligible(error: BaseException | str | None) -> bool:
    """Whether another model, or another provider, may answer where this one did not. A label will do, such as
    ``RunResult.error_kind``."""
    if isinstance(error, ModelError):
        return error.failover_eligible
    return (error if isinstance(error, str) else error_kind(error)) in _ELIGIBLE


def failover_reason(error: BaseException | None) -> str:
    """The stable label of an error after which another model is worth asking, else ``""``."""
    return error_kind(error) if is_failover_eligible(error) else ""


def _kinds(cls: type[ModelError]) -> Iterator[type[ModelError]]:
    yield cls
    for each in cls.__subclasses__():
        yield from _kinds(each)


_ELIGIBLE: Final = frozenset(cls.error_kind for cls in _kinds(ModelError) if cls.failover_eligible) - {
    "unknown"
}
