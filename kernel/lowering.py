"""The request's messages, grown instead of rebuilt, and the fingerprint that chains over them.

Lowering, blank removal and pair repair are kept for the prefix that the new view shares with the
last one, so that a turn costs what is new in it. A view that breaks the pairing, or does not
extend the last one, is lowered from where it differs or repaired as a whole.

The fingerprint is h(n) = H(h(n-1) ‖ digest(message n)) over what the model sees of each message;
h(0) covers system prompt, tools and options.

Read with: ``sequence.py`` (the rules), ``projection.py`` (the caller).
"""

from collections.abc import Sequence
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


class Lowering:
    """Lowered, repaired messages of a growing view and their fingerprint chain."""

    def __init__(self) -> None:
        self._view: Transcript[AgentMessage] = Transcript()
        self._out: Transcript[Message] = Transcript()
        self._chain: list[bytes] = []
        self._seed = b""
        self._open: list[str] = []  # calls of the last reply whose results have not come yet
        self._dropped: set[str] = set()  # calls of replies that are not replayed
        self.lowered = 0  # messages lowered so far, for the benchmark's counters
        self.encoded = 0  # bytes encoded for fingerprints so far, likewise

    def extend(self, view: Transcript[AgentMessage], seed: bytes) -> tuple[Transcript[Message], str]:
        """The request's messages for ``view`` and the fingerprint of the whole request.

        ``seed`` is the digest of system prompt, tools and options.
        """
        grown = view.extends(self._view) or not len(self._view)
        if not grown or not self._append(view.since(len(self._view))):
            self._rebuild(view)
        self._view = view
        out = self._out
        if self._open:  # results are missing: this request is repaired, the next may complete them
            out = Transcript(repair_message_sequence(out.since(0)))
        return out, self._fingerprint(out, seed)

    def _append(self, messages: Sequence[AgentMessage]) -> bool:
        """Lower messages that continue the view; False when they break the pairing."""
        out, waiting = self._out, list(self._open)
        for message in messages:
            self.lowered += 1
            lowered = message.to_message()
            if lowered is None:
                self._dropped.update(call.id for call in getattr(message, "tool_calls", ()))
                continue
            if lowered.role == "tool":
                if waiting and waiting[0] == lowered.tool_call_id:
                    del waiting[0]
                elif lowered.tool_call_id in self._dropped and lowered.tool_call_id not in waiting:
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
        self._out, self._open = out, waiting
        return True

    def _rebuild(self, view: Transcript[AgentMessage]) -> None:
        self.lowered += len(view)
        self._dropped = {
            call.id
            for message in view
            if message.to_message() is None
            for call in getattr(message, "tool_calls", ())
        }
        repaired = repair_message_sequence(to_messages(view))
        kept = 0
        for old, new in zip(self._out, repaired, strict=False):
            if old is not new and old != new:
                break
            kept += 1
        del self._chain[kept:]
        self._out = self._out.prefix(kept).extend(repaired[kept:])
        self._open = []

    def _fingerprint(self, out: Transcript[Message], seed: bytes) -> str:
        if seed != self._seed:
            self._seed = seed
            self._chain.clear()
        chain = self._chain if out is self._out else []
        value = chain[-1] if chain else seed
        for message in out.since(len(chain)):
            data = _seen(message)
            self.encoded += len(data)
            value = digest(value + digest(data))
            chain.append(value)
        return value.hex()
