"""The request's messages, grown instead of rebuilt, and the fingerprint that chains over them.

Lowering, blank removal and pair repair are kept for the prefix that the new view shares with the
last one, so that a turn costs what is new in it. A view that breaks the pairing, or does not
extend the last one, is lowered from where it differs or repaired as a whole.

The fingerprint is H(seed ‖ h(n)), with h(n) = H(h(n-1) ‖ digest(message n)) over what the model sees
of each message; the seed covers system prompt, tools and options, which may change at no cost.

Read with: ``sequence.py`` (the rules), ``projection.py`` (the caller).
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import msgspec

from .messages import AgentMessage, Message
from .sequence import repair_message_sequence, to_messages, without_blanks
from .transcript import Transcript

_encode = msgspec.json.Encoder().encode


def digest(data: bytes) -> bytes:
    """16 bytes that stand for ``data``."""
    return blake2b(data, digest_size=16).digest()


def hash_of(value: object) -> str:
    """The hash under which a value made of structs and JSON is stored, as hexadecimal text."""
    return digest(_encode(value)).hex()


def _seen(message: Message) -> bytes:
    """What the model sees of a message: not its id, time, usage or metadata."""
    return _encode((message.role, message.content, message.tool_call_id, message.is_error))


def _same(a: Message, b: Message) -> bool:
    """Whether a model sees the same: 1 and 1.0 are equal, but not the same text."""
    return a is b or (a == b and _seen(a) == _seen(b))


def fingerprint_of(messages: Iterable[Message], seed: bytes) -> str:
    """The fingerprint of a request whose messages are sent as they are."""
    value = b""
    for message in messages:
        value = digest(value + digest(_seen(message)))
    return digest(seed + value).hex()


def same_prefix(a: Sequence[object], b: Sequence[object]) -> int:
    """How many items two sequences share, by identity, from their beginning."""
    count = 0
    for left, right in zip(a, b, strict=False):
        if left is not right:
            break
        count += 1
    return count


class Lowering:
    """Lowered, repaired messages of a growing view and their fingerprint chain."""

    def __init__(self) -> None:
        self.lowered = 0  # messages lowered so far, for the benchmark's counters
        self.encoded = 0  # bytes encoded for fingerprints so far, likewise
        self._forget()

    def _forget(self) -> None:
        """Begin anew."""
        self._view: Transcript[AgentMessage] = Transcript()
        self._out: Transcript[Message] = Transcript()
        self._chain: list[bytes] = []
        self._marks: list[int] = []  # length of ``_out`` after each message of the view, -1 inside a pair
        self._open: list[str] = []  # calls of the last reply whose results have not come yet
        self._dropped: dict[str, int] = {}  # calls of replies that are not replayed, and where those stand
        self._repaired = False  # the pairing of the view is broken: it is repaired as a whole

    def extend(self, view: Transcript[AgentMessage], seed: bytes) -> tuple[Transcript[Message], str]:
        """The request's messages for ``view`` and the fingerprint of the whole request.

        ``seed`` is the digest of system prompt, tools and options.
        """
        try:
            self._follow(view)
        except BaseException:  # a message that cannot be lowered: nothing half done may stay
            self._forget()
            raise
        out = self._out
        if self._open:  # results are missing: this request is repaired, the next may complete them
            out = Transcript(repair_message_sequence(out.since(0)))
        return out, self._fingerprint(out, seed)

    def _follow(self, view: Transcript[AgentMessage]) -> None:
        start = len(self._view)
        if start and not view.extends(self._view):
            start = self._cut(view)
        if start < 0 or not self._append(view.since(start)):
            self._rebuild(view)
        self._view = view

    def _cut(self, view: Transcript[AgentMessage]) -> int:
        """Go back to where ``view`` parts from the last one; how much of it is lowered then, -1 for none."""
        if not self._marks:
            return -1
        start = same_prefix(self._view, view)
        while start > 0 and self._marks[start - 1] < 0:
            start -= 1
        length = self._marks[start - 1] if start else 0
        del self._marks[start:], self._chain[length:]
        self._out, self._open = self._out.prefix(length), []
        self._view = self._view.prefix(start)
        self._dropped = {id: place for id, place in self._dropped.items() if place < start}
        self._repaired = self._repaired and start > 0
        return start

    def _append(self, messages: Sequence[AgentMessage]) -> bool:
        """Lower messages that continue the view; False when they break the pairing."""
        out, waiting, marks = self._out, list(self._open), self._marks
        for message in messages:
            self.lowered += 1
            marks.append(-1 if waiting else len(out))  # for a message that is left out
            lowered = message.to_message()
            if lowered is None:
                for call in getattr(message, "tool_calls", ()):
                    self._dropped.setdefault(call.id, len(marks) - 1)
                continue
            if lowered.role == "tool":
                lowered = without_blanks(lowered) or lowered
                if waiting and waiting[0] == lowered.tool_call_id:
                    del waiting[0]
                elif self._is_dropped(lowered.tool_call_id, waiting):
                    continue
                else:
                    return False
            elif waiting:
                return False
            else:
                kept = without_blanks(lowered)
                if kept is None:
                    continue
                lowered = kept
                if lowered.role == "assistant":
                    waiting = [call.id for call in lowered.tool_calls]
            out = out.append(lowered)
            marks[-1] = -1 if waiting else len(out)
        self._out, self._open = out, waiting
        return True

    def _is_dropped(self, call_id: str, waiting: Sequence[str]) -> bool:
        """Whether a result goes with the reply that is not replayed. In a view that is repaired as a whole
        another call of that id may have taken it."""
        return not self._repaired and call_id in self._dropped and call_id not in waiting

    def _rebuild(self, view: Transcript[AgentMessage]) -> None:
        self.lowered += len(view)
        self._repaired = True
        self._dropped = {
            call.id: place
            for place, message in enumerate(view)
            if message.to_message() is None
            for call in getattr(message, "tool_calls", ())
        }
        repaired = repair_message_sequence(to_messages(view))
        kept = 0
        for old, new in zip(self._out, repaired, strict=False):
            if not _same(old, new):
                break
            kept += 1
        del self._chain[kept:]
        self._marks[:] = [-1] * len(view)
        self._out = self._out.prefix(kept).extend(repaired[kept:])
        self._open = []

    def _fingerprint(self, out: Transcript[Message], seed: bytes) -> str:
        chain = self._chain if out is self._out else []
        value = chain[-1] if chain else b""
        for message in out.since(len(chain)):
            data = _seen(message)
            self.encoded += len(data)
            value = digest(value + digest(data))
            chain.append(value)
        return digest(seed + value).hex()
