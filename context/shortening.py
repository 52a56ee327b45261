"""How much a result or a text holds, and its two ends: what strategies that shorten have in common.

Read with: ``trimming.py``, ``offloading.py``, ``squeezing.py``, ``clearing.py``.
"""

from collections.abc import Sequence
from typing import Any

from unspool.kernel.messages import Content, Message, Text
from unspool.kernel.ports import ToolSpec

from .marks import kind_of, mark_of

# Kinds that hold nothing to shorten any more.
GONE = frozenset({"cleared", "collapsed", "dropped", "summary"})


def is_gone(message: Message) -> bool:
    """Whether a strategy has left no more of a message than what says so."""
    return kind_of(message) in GONE


def full_size(message: Message) -> tuple[int, int]:
    """Lines and characters of the text of a message as it was written, whatever was left out since."""
    mark, text = mark_of(message), message.text
    return int(mark.get("lines", line_count(text))), int(mark.get("characters", len(text)))


def line_count(text: str) -> int:
    """How many lines a text has, the last one with or without a line end."""
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def way_to(digest: str, tools: Sequence[ToolSpec]) -> str:
    """How what is stored under ``digest`` is read, as a model is told; only its name where no tool opens it."""
    opens = any(tool.name == "read_file" for tool in tools)
    return (
        f"read_file opens it as blob:{digest}, by offset and limit" if opens else f"stored as blob:{digest}"
    )


def size_text(lines: int, characters: int) -> str:
    """``340 lines, 12,031 characters``."""
    return f"{lines:,} line{'' if lines == 1 else 's'}, {characters:,} characters"


def ends_of(text: str, head: int, tail: int) -> tuple[str, str]:
    """At most the first ``head`` and the last ``tail`` characters of a text that is longer; whole lines,
    where that costs no more than half of them. Without the line ends towards the middle."""
    first, last = text[:head], text[len(text) - tail :]
    if text[head : head + 1] != "\n" and (end := first.rfind("\n")) >= head // 2:
        first = first[:end]
    if tail and text[len(text) - tail - 1] != "\n" and 0 <= (start := last.find("\n")) < tail // 2:
        last = last[start + 1 :]
    return first.removesuffix("\n"), last.removeprefix("\n")


def with_text(message: Message, text: str) -> tuple[Content, ...]:
    """The content of a message with ``text`` in place of all its text: where the first text block was, other
    blocks around it as they are."""
    blocks: list[Content] = []
    placed = False
    for block in message.content:
        if type(block) is not Text:
            blocks.append(block)
        elif not placed:
            blocks.append(Text(text))
            placed = True
    return tuple(blocks if placed else [Text(text), *blocks])


def original_size(message: Message) -> dict[str, Any]:
    """``lines`` and ``characters`` of a message as written, for its mark."""
    lines, characters = full_size(message)
    return {"lines": lines, "characters": characters}


def blob_of(message: Message) -> str:
    """The digest under which the whole text of a message is stored; empty where it is not."""
    return str(mark_of(message).get("blob", ""))


def carried(message: Message) -> dict[str, Any]:
    """What the mark of a shortened message has to say of the original, however often it is shortened."""
    blob = blob_of(message)
    return {**original_size(message), **({"blob": blob} if blob else {})}


def joined(parts: Sequence[str]) -> str:
    """Parts that are not empty, a line end between them."""
    return "\n".join([part for part in parts if part])
