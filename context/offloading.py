"""Large tool results go to a store and leave their two ends.

Read with: ``unspool.kernel.ports`` (``BlobStore``); ``read_file`` of ``unspool.tools`` opens what is stored.
"""

from unspool.kernel.json_edge import encodable
from unspool.kernel.messages import Message
from unspool.kernel.ports import BlobStore, Edit

from .calls import Answered, answered
from .marks import kind_of, marked
from .shortening import ends_of, joined, line_count, original_size, size_text, way_to, with_text
from .work import Rewrite, Work

_SHARE = 4  # a result of more than a fourth of the target is never left whole


class OffloadToolResults:
    """Stores the text of tool results of more than ``min_tokens`` and leaves ``head`` and ``tail``
    characters, by whole lines, with a line between them that says how to read the rest.

    The newest ``keep`` of them stay, and those of the turn under way, unless one alone takes more than a
    fourth of the target. Images and other blocks stay. The agent needs a tool that opens ``blob:<digest>``:
    ``file_tools(root, blobs=blobs)``.
    """

    name = "offload"

    def __init__(
        self,
        blobs: BlobStore,
        *,
        min_tokens: int = 2000,
        keep: int = 2,
        head: int = 1500,
        tail: int = 1000,
        commits: bool = True,
    ) -> None:
        if min(min_tokens, keep, head, tail) < 0:
            raise ValueError(
                f"context: offloading has settings below 0 (min_tokens={min_tokens}, keep={keep}, head={head}, tail={tail})"
            )
        self.min_tokens = min_tokens
        self.keep = keep
        self.head = head
        self.tail = tail
        self.commits = commits
        self._blobs = blobs

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        """What to store and shorten.

        Raises:
            LogError: the store fails.
        """
        large = [each for each in answered(work.view) if self._is_large(each, work)]
        newest = large[max(0, len(large) - self.keep) :]
        first = newest[0].at if newest else len(work.view)
        edits: list[Edit] = []
        for each in large:
            protected = each.at >= min(first, work.tail)
            if protected and work.tokens(each.message) <= work.budget.target // _SHARE:
                continue
            short = self._short(each, "0" * 64, work)
            if work.tokens(short) < work.tokens(each.message):
                short = self._short(each, self._blobs.put(encodable(each.message.text).encode()), work)
                edits.append(Edit(start=each.at, stop=each.at + 1, messages=(short,)))
        return Rewrite(edits=edits, note=f"{len(edits)} results") if edits else None

    def _is_large(self, each: Answered, work: Work) -> bool:
        message = each.message
        if any(str(value).startswith("blob:") for value in each.call.args.values()):
            return False  # it was read from there
        has_more = len(message.text) > self.head + self.tail
        return has_more and not kind_of(message) and work.tokens(message) > self.min_tokens

    def _short(self, each: Answered, digest: str, work: Work) -> Message:
        """A result with the middle of its text left out."""
        text = each.message.text
        head, tail = ends_of(text, self.head, self.tail)
        left_out = size_text(
            max(1, line_count(text) - line_count(head) - line_count(tail)), len(text) - len(head) - len(tail)
        )
        line = f"[… {left_out} left out here; {way_to(digest, work.tools)} …]"
        size = len(encodable(text).encode())
        content = with_text(each.message, joined([head, line, tail]))
        return marked(
            each.message, content, "offloaded", blob=digest, bytes=size, **original_size(each.message)
        )
