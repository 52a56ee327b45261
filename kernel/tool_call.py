"""One call into one result: find, check, run, convert, cut to size.

``refusal`` decides without effects whether a call may run; ``Execution`` runs it in a task of its
own and keeps the outcome for the generator to record. What a tool raises is what the model reads;
only ``FatalToolError`` goes further.

Read with: ``tool_batch.py`` (when calls start), ``toolbox.py``.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, get_args

import msgspec

from .errors import CANCELED, FatalToolError, ToolError, describe, error_kind
from .json_edge import clean_json, clean_text, copy_json, encode_text
from .messages import Content, Document, Image, Text, ToolCall, ToolReference, clean_block
from .ports import JSON, Clock, ToolResult
from .run import Run
from .spawn import Job
from .toolbox import ResolvedTool

Blocks: TypeAlias = tuple[Content, ...]
_CONTENT_TYPES = get_args(Content)
_RESULT_TYPES = (Text, Image, Document, ToolReference)  # what a result may hold
MAX_LISTED = 64  # names of tools, and characters of a name, that a message repeats


class Refusal(NamedTuple):
    """A call that will not run: its outcome and what the model is told."""

    outcome: str
    text: str


class Outcome(NamedTuple):
    """What a call came to."""

    outcome: str
    content: Blocks
    details: dict[str, Any]
    fatal: BaseException | None = None


def refusal(run: Run, call: ToolCall) -> Refusal | None:
    """Why ``call`` may not run, or None; looks, and changes nothing."""
    if not call.completed:
        return Refusal("invalid", "the call was cut off by the output limit and was not executed")
    tool = run.toolbox.by_name.get(call.name)
    if tool is None:
        return Refusal("unknown_tool", _unknown(call.name, sorted(run.toolbox.by_name)))
    if call.args_invalid:
        return Refusal("invalid", _unparsed(call))
    limit = run.limits.tool_errors
    failures = run.state.errors_by_tool.get(call.name, 0)
    if limit is not None and failures >= limit:
        return Refusal("disabled", f"tool {call.name!r} is switched off after {failures} failures")
    try:
        problems = [clean_text(str(problem)) for problem in tool.check(call.args)]
    except Exception as error:  # noqa: BLE001 (a tool's own check is the tool's code: what it raises is an answer)
        return Refusal("invalid", f"arguments could not be checked: {describe(error)}")
    if problems:
        return Refusal("invalid", "arguments do not match the schema: " + "; ".join(problems))
    return None


def _unknown(name: str, known: list[str]) -> str:
    listed = ", ".join(known[:MAX_LISTED]) or "none"
    more = f" and {len(known) - MAX_LISTED} more" if len(known) > MAX_LISTED else ""
    shown = name if len(name) <= MAX_LISTED else f"{name[:MAX_LISTED]}…"
    return f"tool {shown!r} not found; available tools: {listed}{more}"


def _unparsed(call: ToolCall) -> str:
    text = call.args_text or ""
    shown = text if len(text) <= 500 else f"{text[:500]}…"
    return f"arguments are not a JSON object: {call.args_parse_error}; received: {shown}"


def _nothing() -> None:
    """No timer is set."""


class CallContext:
    """The ``ToolContext`` of a running call."""

    __slots__ = ("_execution", "_run", "call_id", "idempotency_key")

    def __init__(self, run: Run, execution: "Execution", key: str) -> None:
        self._run = run
        self._execution = execution
        self.call_id = execution.call.id
        self.idempotency_key = key

    @property
    def agent(self) -> tuple[str, ...]:
        return (self._run.config.agent,)

    @property
    def run_context(self) -> JSON:
        return self._run.context.run_context or {}

    @property
    def clock(self) -> Clock:
        return self._run.clock

    @property
    def cancelled(self) -> bool:
        return self._execution.cancelled

    def progress(self, summary: str = "", /, **payload: Any) -> None:
        """See ``ToolContext.progress``."""
        execution = self._execution
        if execution.outcome is None and execution.report(clean_text(summary), payload):
            self._run.poke()


class Execution:
    """A call under way; ``outcome`` is set when it is over."""

    __slots__ = (
        "_key",
        "_progress",
        "_reported",
        "_run",
        "_stop_timer",
        "abandoned",
        "began",
        "call",
        "cancelled",
        "interrupted",
        "job",
        "outcome",
        "safe",
        "started_at",
        "timed_out",
        "tool",
    )  # fmt: skip

    def __init__(self, run: Run, call: ToolCall, tool: ResolvedTool, key: str) -> None:
        self.call = call
        self.tool = tool
        self.safe = tool.is_safe(call.args)
        self.outcome: Outcome | None = None
        self._progress: deque[tuple[str, dict[str, Any]]] = deque(maxlen=1)
        self._reported = False
        self.abandoned = False
        self.began = False
        self.cancelled = False
        self.interrupted = False
        self.timed_out = False
        self.started_at = run.clock.monotonic()
        self._stop_timer: Callable[[], None] = _nothing
        self._run = run
        self._key = key
        self.job: Job | None = None

    def report(self, summary: str, payload: dict[str, Any]) -> bool:
        """Keep the newest progress; whether the generator is still to be told. Any thread."""
        self._progress.append((summary, payload))
        told, self._reported = self._reported, True
        return not told

    def take_progress(self) -> tuple[str, dict[str, Any]] | None:
        """The newest progress, once."""
        self._reported = False  # before it is taken: what comes from now on tells again
        return self._progress.popleft() if self._progress else None

    @property
    def has_news(self) -> bool:
        """Whether it ended or progressed."""
        return self.outcome is not None or bool(self._progress)

    def skip(self) -> None:
        """Do not run: a message came in between the announcement and the start."""
        self.outcome = Outcome("skipped", (Text(SKIPPED),), {})

    def start(self) -> None:
        """Run the tool in a task of its own."""
        self.started_at = self._run.clock.monotonic()
        self.job = self._run.spawn(self._perform)

    def cancel(self) -> None:
        """Ask the tool to stop; one that does not within the grace time is abandoned."""
        if self.job is None or self.cancelled or self.outcome is not None:
            return
        self.cancelled = True
        self.job.cancel()
        if not self.began:
            outcome, text = ("skipped", SKIPPED) if self.interrupted else ("cancelled", NOT_STARTED)
            self.outcome = Outcome(outcome, (Text(text),), {})
            self._run.wake.set()
            return
        self._stop_timer()
        self._stop_timer = self._run.clock.call_later(self._run.limits.grace_s, self._give_up)

    def _give_up(self) -> None:
        if self.outcome is None:
            self.abandon()
            self._run.wake.set()

    def abandon(self) -> Outcome:
        """The tool did not stop in time: what it still does or says is dropped."""
        self.abandoned = True
        self.outcome = self._stopped()
        if self.job is not None:
            self._run.abandon(self.job, self.call.name)
        return self.outcome

    def interrupt(self) -> None:
        """Ask the tool to stop because a message wants the agent's attention."""
        if not self.interrupted and self.outcome is None:
            self.interrupted = True
            self.cancel()

    async def _perform(self) -> None:
        if self.outcome is not None:
            return  # cancelled before its first step
        self.began = True
        limit_s = self.tool.spec.timeout_s
        if limit_s is not None:
            self._stop_timer = self._run.clock.call_later(limit_s, self._time_out)
        context = CallContext(self._run, self, self._key)  # kept nowhere: the two would hold each other
        outcome = None
        try:
            outcome = self._convert(await self.tool.tool.execute(copy_json(self.call.args), context))
        except BaseException as error:  # noqa: BLE001 (whatever a tool raises is an answer to the model; no task may end in an exception)
            outcome = self._failed(error)
        finally:
            self._stop_timer()
            if self.outcome is None:
                self.outcome = outcome or self._stopped()
            self._run.wake.set()

    def _time_out(self) -> None:
        self.timed_out = True
        self.cancel()

    def _failed(self, error: BaseException) -> Outcome:
        if self.cancelled or error_kind(error) == CANCELED:
            return self._stopped()
        text, fatal = f"{type(error).__name__}: {describe(error)}", None
        if isinstance(error, ToolError):
            first = error.args[0] if error.args else ""
            text = first if isinstance(first, str) and first else describe(error)
            fatal = error if isinstance(error, FatalToolError) else None
        content, _ = cut_to_size((Text(clean_text(text)),), self._limit)
        return Outcome("error", content, {}, fatal)

    def _stopped(self) -> Outcome:
        if self.timed_out:
            return _error(f"the tool took longer than {self.tool.spec.timeout_s:g} s and was stopped")
        if self.interrupted:
            return Outcome("interrupted", (Text(INTERRUPTED),), {})
        if self.cancelled or self._run.aborted:
            return Outcome("cancelled", (Text(CANCELLED),), {})
        return _error("the tool cancelled itself")

    @property
    def _limit(self) -> int:
        return self.tool.spec.max_result_bytes or self._run.limits.result_bytes

    def _convert(self, result: object) -> Outcome:
        try:
            content, details, is_error, replaced = to_content(result)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            return _error(f"the tool returned something that is not a result: {describe(error)}")
        if replaced:
            details = {**details, "replaced": replaced}
        content, size = cut_to_size(content, self._limit)
        if size:
            details = {**details, "truncated_from_bytes": size}
        return Outcome("error" if is_error else "ok", content, details)


CANCELLED = "cancelled while it was running; whether it had any effect is unknown"
INTERRUPTED = "interrupted by a new message while it was running; whether it had any effect is unknown"
NOT_STARTED = "not executed: the run was ended first"
LIMIT_REACHED = "not executed: the run may make no more tool calls"
SKIPPED = "not executed: a new message from the user came first"
UNKNOWN = (
    "the process ended while this call was running; whether it had any effect is unknown, "
    "and it was not run again"
)


def _error(text: str) -> Outcome:
    return Outcome("error", (Text(clean_text(text)),), {})


def to_content(result: object) -> tuple[Blocks, dict[str, Any], bool, int]:
    """Content blocks, details, whether it is an error, and the surrogates replaced.

    Text is taken as it is, blocks too; everything else becomes compact JSON text.

    Raises:
        TypeError: no JSON form.
        ValueError: a number that JSON does not have, or bytes that are not text.
    """
    if isinstance(result, str):
        clean = clean_text(str(result))
        return (Text(clean),), {}, False, int(clean != result)
    if isinstance(result, ToolResult):
        content, _, _, replaced = to_content(result.content)
        if not isinstance(result.details, dict):
            raise TypeError(f"details must be an object, not {type(result.details).__name__}")
        details, more = clean_json(msgspec.to_builtins(result.details))
        return content, details, result.is_error, replaced + more
    if isinstance(result, bytes | bytearray | memoryview):
        return (Text(_decode(bytes(result))),), {}, False, 0
    given = _blocks(result)
    if given:
        wrong = [type(block).__name__ for block in given if not isinstance(block, _RESULT_TYPES)]
        if wrong:
            raise TypeError(f"a result holds text, images, documents and tool references, no {wrong[0]}")
        blocks = [clean_block(block) for block in given]
        return tuple([block for block, _ in blocks]), {}, False, sum([n for _, n in blocks])
    if result is None:
        return (), {}, False, 0
    if isinstance(result, set | frozenset):
        result = sorted(result, key=repr)  # the order of a set is another in every process
    value, replaced = clean_json(msgspec.to_builtins(result, enc_hook=_to_plain))
    return (Text(value if isinstance(value, str) else encode_text(value)),), {}, False, replaced


def _blocks(result: object) -> list[Content]:
    """The content blocks that a result is made of; none where it is something else."""
    items: list[Any] = list(result) if isinstance(result, Sequence) else [result]
    return items if items and all(isinstance(item, _CONTENT_TYPES) for item in items) else []


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            "bytes that are not UTF-8 text; return text, or an Image or Document block"
        ) from error


def _to_plain(value: Any) -> Any:
    """JSON of a value that msgspec does not know: pydantic models say it themselves."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__qualname__} has no JSON form")


def cut_to_size(content: Blocks, limit: int) -> tuple[Blocks, int]:
    """Content whose text is at most about ``limit`` bytes, and the size before if it was more.

    Head and tail stay; the mark between them says how much is missing.
    """
    if sum([len(block.text) for block in content if type(block) is Text]) * 4 <= limit:
        return content, 0
    sizes = [len(block.text.encode()) if type(block) is Text else 0 for block in content]
    total = sum(sizes)
    if total <= limit:
        return content, 0
    left = limit
    cut: list[Content] = []
    for block, size in zip(content, sizes, strict=True):
        if type(block) is Text and size > left:
            cut.append(Text(_head_and_tail(block.text, size, left)))
            left = 0
        else:
            cut.append(block)
            left -= size
    return tuple(cut), total


def _head_and_tail(text: str, size: int, limit: int) -> str:
    half = limit // 2
    head = text[:half].encode()[:half].decode(errors="ignore")
    tail = text[-half:].encode()[-half:].decode(errors="ignore") if half else ""
    missing = size - len(head.encode()) - len(tail.encode())
    return f"{head}\n[… {missing:,} bytes left out …]\n{tail}"
