"""The message that tells an agent that a task has ended.

A user message with a tagged block. What the task wrote is escaped, so that it can't close the block, and bounded.
``metadata["task"]`` marks the message for hosts and holds the task as JSON.
"""

import re

from unspool.kernel.messages import Message, user_message

from .entry import Task, summary

MAX_TAIL = 4000  # characters of output
MAX_FIELD = 1000  # characters of a command, of an error
_NOT_XML = re.compile("[^\t\n\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def notice(task: Task, tail: str) -> Message:
    """The message for a task that has ended; ``tail`` is the end of its output."""
    fields = [
        ("task-id", task.id),
        ("kind", task.kind),
        ("status", task.status),
        ("summary", summary(task, task.started_at)),
        ("command", _head(task.command)),
        ("exit-code", "" if task.exit_code is None else str(task.exit_code)),
        ("error", _head(task.error)),
        ("output-tail", tail[-MAX_TAIL:]),
        ("output-file", task.output_file),
    ]
    lines = [f"<{name}>{_escaped(text)}</{name}>" for name, text in fields if text]
    text = "\n".join(["<task-notification>", *lines, "</task-notification>"])
    return user_message(text, metadata={"task": task.details})


def _head(text: str) -> str:
    return text if len(text) <= MAX_FIELD else f"{text[:MAX_FIELD]}…"


def _escaped(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _NOT_XML.sub("\ufffd", text)
