"""Long texts of the model and of tools lose their middle.

Read with: ``squeezing.py`` (the last resort), ``offloading.py``.
"""

from typing import TypeGuard

from unspool.kernel.messages import AgentMessage, Content, Message, Text
from unspool.kernel.ports import Edit

from .marks import kind_of, marked
from .shortening import original_size
from .work import Rewrite, Work


class TrimText:
    """Shortens text blocks of more than ``threshold`` characters to the first ``head`` and the last ``tail``.

    Only text that the assistant wrote and tool results; not the newest ``keep`` messages, nor the turn under
    way. What users, the system and applications say stays whole, and so does all reasoning.
    """

    name = "light_trim"

    def __init__(
        self,
        *,
        keep: int = 4,
        threshold: int = 4000,
        head: int = 1200,
        tail: int = 800,
        commits: bool = True,
    ) -> None:
        if keep < 0 or min(head, tail) < 0 or head + tail >= threshold:
            raise ValueError(
                f"context: head and tail must be less than threshold (head={head}, tail={tail}, "
                f"threshold={threshold}, keep={keep})"
            )
        self.keep = keep
        self.threshold = threshold
        self.head = head
        self.tail = tail
        self.commits = commits

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        end = min(work.tail, max(0, len(work.view) - self.keep))
        edits: list[Edit] = []
        for at, message in enumerate(work.view[:end]):
            if not _may_be_trimmed(message):
                continue
            short = self._trimmed(message)
            if short is not None and work.tokens(short) < work.tokens(message):
                edits.append(Edit(start=at, stop=at + 1, messages=(short,)))
        return Rewrite(edits=edits, note=f"{len(edits)} messages") if edits else None

    def _trimmed(self, message: Message) -> Message | None:
        """A message with its long blocks shortened; None where there are none."""
        content = tuple([self._block(block) for block in message.content])
        count = sum([old is not new for old, new in zip(message.content, content, strict=True)])
        if not count:
            return None
        return marked(message, content, "trimmed", blocks=count, **original_size(message))

    def _block(self, block: Content) -> Content:
        if type(block) is not Text or len(block.text) <= self.threshold:
            return block
        text = block.text
        left_out = len(text) - self.head - self.tail
        line = f"[… {left_out:,} characters left out …]"
        return Text("\n".join([text[: self.head], line, text[len(text) - self.tail :]]))


def _may_be_trimmed(message: AgentMessage) -> TypeGuard[Message]:
    """Whether the model or a tool wrote it, and it is as they wrote it."""
    return (
        isinstance(message, Message)
        and message.role in ("assistant", "tool")
        and not message.failed
        and not kind_of(message)
    )
