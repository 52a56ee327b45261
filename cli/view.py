"""Events on a screen, in a pipe, or as JSON: each as it happens.

``TextView`` is for people: colours on a terminal, plain text elsewhere. Control characters that
come from models and files are shown, never sent to the terminal. It needs no signals: what was not
streamed is shown when it is committed, so that a log can be shown like a run.

Read with: ``run.py``, ``show.py``, ``unspool.kernel.events``.
"""

import time
from collections.abc import Iterable
from typing import Any, BinaryIO, Final, Protocol

from rich.console import Console
from rich.text import Text

from unspool.kernel.codec import Codec
from unspool.kernel.events import (
    AgentEnd,
    AgentStart,
    ApprovalDecided,
    ApprovalRequested,
    ContextCompacted,
    ErrorEvent,
    Event,
    MessageDiscarded,
    MessageEnd,
    MessageUpdate,
    ModelResponse,
    RetryEvent,
    ToolExecEnd,
    ToolExecStart,
    ToolExecUpdate,
    TurnStart,
)
from unspool.kernel.json_edge import encode_text
from unspool.kernel.messages import Content, Message, Usage
from unspool.kernel.messages import Text as TextBlock

_RESULT_LINES: Final = 8
_PROGRESS_S: Final = 1.0  # at least between two lines of progress
_LINE_CHARS: Final = 160
_HIDDEN: Final = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n\r"},
    **{code: 0xFFFD for code in range(0x80, 0xA0)},
    0x7F: 0x2421,
    0x0D: None,
}


class View(Protocol):
    """Shows events, and lines that tell about the run; ``OSError`` where the output takes no more."""

    def show(self, event: Event, /) -> None: ...
    def tell(self, text: str, /) -> None: ...


class JsonView:
    """One event a line, encoded as in a log, and nothing else; facts and signals."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._codec = Codec()

    def show(self, event: Event, /) -> None:
        self._out.write(self._codec.encode(event) + b"\n")
        self._out.flush()

    def tell(self, text: str, /) -> None:
        """Not among the events."""


class PlainConsole(Console):
    """A rich console that leaves a closed pipe to its caller."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 (called by rich while it handles the error)


class TextView:
    """Text, calls, results, usage and time, for people.

    With ``live`` fatal errors are left to the caller, who tells them when the run has ended.
    ``ended`` says whether the last run seen has its end.
    """

    def __init__(self, console: Console, *, live: bool) -> None:
        self.ended = True
        self._console = console
        self._live = live
        self._open_line = False
        self._streamed = False
        self._started_at = 0.0
        self._progressed_at = 0.0

    def show(self, event: Event, /) -> None:
        match event:
            case MessageUpdate(delta, kind):
                self._update(delta, kind)
            case MessageEnd():
                self._message(event)
            case ToolExecStart():
                self._line("→ ", f"{event.tool}({show_arguments(event.args)})", style="cyan")
            case ToolExecEnd():
                self._result(event)
            case TurnStart():
                self._line("", f"turn {event.index}", style="bold")
            case AgentStart():
                self.ended, self._started_at = False, event.time
                self._line("", f"{event.agent} · {event.model}", style="bold")
            case AgentEnd():
                self.ended = True
                self._end(event)
            case _:
                self._note(event)

    def tell(self, text: str, /) -> None:
        self._line("", text, style="bold magenta")

    def say(self, text: str) -> None:
        """A line as it is."""
        self._line("", text)

    def _note(self, event: Event) -> None:
        """The lines that tell how it goes."""
        match event:
            case ApprovalRequested():
                reason = f" ({event.reason})" if event.reason else ""
                self._line("? ", f"waits for approval: {', '.join(event.call_ids)}{reason}", style="yellow")
            case ApprovalDecided():
                by = f" by {event.by}" if event.by else ""
                verdict = "approved" if event.approved else "declined"
                self._line("· ", f"{event.call_id} {verdict}{by}", style="dim")
            case ModelResponse(error_kind=""):
                self._line("· ", _joined([_usage(event.usage), _seconds(event.total_s)]), style="dim")
            case MessageDiscarded():
                self._line("· ", f"discarded: {event.reason}", style="yellow")
            case RetryEvent():
                text = (
                    f"{event.error_kind}: retry {event.attempt} of {event.limit} in {_seconds(event.delay_s)}"
                )
                self._line("· ", text, style="yellow")
            case ContextCompacted():
                sizes = (event.tokens_before, event.tokens_after)
                tokens = f": {sizes[0]:,} to {sizes[1]:,} tokens" if None not in sizes else ""
                self._line("· ", f"context made smaller ({event.reason}){tokens}", style="dim")
            case ToolExecUpdate(kind="progress") if event.summary.strip():
                self._progress(event)
            case ErrorEvent() if not (event.fatal and self._live):
                self._line("! ", f"{event.kind}: {event.message}", style="red")

    def _progress(self, event: ToolExecUpdate) -> None:
        """The newest of what a call says of its work, once a second at most: its result says it all."""
        now = time.monotonic()
        if now - self._progressed_at >= _PROGRESS_S:
            self._progressed_at = now
            self._line("  … ", cut_line(event.summary.strip()), style="dim")

    def _update(self, delta: str, kind: str) -> None:
        if kind == "tool_call" or not delta:
            return
        self._streamed = self._streamed or kind == "text"
        self._write(delta, "italic dim" if kind == "thinking" else "")

    def _message(self, event: MessageEnd) -> None:
        message, streamed = event.message, self._streamed
        self._streamed = False
        if message is None or message.role == "tool":
            return
        if message.role == "assistant":
            if not streamed and message.text:
                self._line("", message.text)
        else:
            self._line("> ", message.text or _kinds(message), style="green")
        self._end_line()

    def _result(self, event: ToolExecEnd) -> None:
        style = "cyan" if event.outcome == "ok" else "red"
        self._line("← ", f"{event.tool} {event.outcome}, {_seconds(event.duration_s)}", style=style)
        lines = content_text(event.content).splitlines()
        for line in lines[:_RESULT_LINES]:
            self._line("  | ", cut_line(line), style="dim")
        if len(lines) > _RESULT_LINES:
            self._line("  | ", f"… {len(lines) - _RESULT_LINES} more lines", style="dim")

    def _end(self, event: AgentEnd) -> None:
        counts = f"{_count(event.turns, 'turn')}, {_count(event.tool_calls, 'call')}"
        if event.tool_errors:
            counts += f", {_count(event.tool_errors, 'error')}"
        took = _seconds(max(0.0, event.time - self._started_at))
        text = _joined([event.reason, counts, _usage(event.usage), took])
        self._line("", text, style="bold" if event.reason == "stop" else "bold yellow")

    def _line(self, mark: str, text: str, style: str = "") -> None:
        self._end_line()
        self._write(f"{mark}{text}\n", style)

    def _end_line(self) -> None:
        if self._open_line:
            self._write("\n", "")

    def _write(self, text: str, style: str) -> None:
        self._open_line = not text.endswith("\n")
        self._console.print(Text(printable(text), style), end="", soft_wrap=True)


def printable(text: str) -> str:
    """``text`` without what would command a terminal; line ends and tabs stay."""
    return text.translate(_HIDDEN)


def cut_line(line: str) -> str:
    return line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}…"


def show_arguments(args: dict[str, Any]) -> str:
    return cut_line(", ".join([f"{key}={encode_text(value)}" for key, value in args.items()]))


def content_text(content: Iterable[Content]) -> str:
    parts = [
        block.text if isinstance(block, TextBlock) else f"[{type(block).__name__.lower()}]"
        for block in content
    ]
    return "\n".join(parts)


def _kinds(message: Message) -> str:
    return content_text(message.content) or "(nothing)"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _usage(usage: Usage) -> str:
    """``1,200 tokens in (1,000 cached), 34 out, $0.0012``; empty where nothing was counted."""
    if not usage.total_tokens:
        return ""
    cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
    text = f"{usage.context_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"
    return f"{text}, ${usage.cost.total:.4f}" if usage.cost else text


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s"


def _joined(parts: Iterable[str]) -> str:
    return " · ".join([part for part in parts if part])
