"""The tool calls of a generateContent answer.

A call comes whole, or in pieces: the first has the name, each but the last says that it continues. The rules:

1. A piece with a name starts a call, unless it repeats the id of one that continues; one without a name goes to
   the call that continues.
2. A call without an id, or with one that another call of the answer has, gets one made from the answer, the same
   each time. Such an id is never sent: see ``is_given``.
3. The arguments of a call in pieces are passed on when it ends, since they do not come in the order of the text.

Read with: ``gemini_stream.py`` (the caller), ``gemini_args.py``.
"""

import re
from collections.abc import Iterator
from typing import Final

from unspool.kernel.json_edge import decode_arguments, encode_text
from unspool.kernel.ports import ToolCallDelta

from .gemini_args import ArgsBuilder
from .gemini_wire import CallPart
from .wire_ids import made_up_id

_PREFIX: Final = "local_"
_MADE_UP: Final = re.compile(r"local_[0-9a-f]{24}(?:~\d+)?")  # the kernel numbers one that is taken


def is_given(id: str) -> bool:
    """Whether a call's id came from the provider rather than from here."""
    return bool(id) and _MADE_UP.fullmatch(id) is None


class PartialCall:
    """One call as far as it has come; ``block`` is its position in the reply."""

    __slots__ = ("args", "block", "builder", "continues", "given", "id", "name", "pieces", "signature")

    def __init__(self, block: int, part: CallPart) -> None:
        self.block = block
        self.given = part.id or ""
        self.id = ""
        self.name = part.name or ""
        self.args = ""  # once they are whole
        self.pieces: list[str] = []  # of arguments that come as text
        self.builder: ArgsBuilder | None = None  # where the arguments come in pieces
        self.continues = True
        self.signature = ""

    @property
    def runnable(self) -> bool:
        """Whether the call could be run as it stands."""
        return bool(self.name) and not self.continues and decode_arguments(self.args).error is None


class CallAssembler:
    """Pieces in, deltas out; ``calls`` are those of the answer so far."""

    __slots__ = ("_taken", "calls")

    def __init__(self) -> None:
        self.calls: list[PartialCall] = []
        self._taken: set[str] = set()  # the ids of the calls

    def continued(self, part: CallPart) -> PartialCall | None:
        """The call that a piece continues; None where it starts one (rule 1)."""
        call = self.calls[-1] if self.calls else None
        if call is None or not call.continues:
            return None
        same_id = not part.id or part.id == call.given
        return call if same_id and (not part.name or bool(part.id)) else None

    def start(self, part: CallPart, block: int, seed: str) -> Iterator[ToolCallDelta]:
        """The delta that opens a call at ``block``; ``seed`` tells this answer from others (rule 2)."""
        call = PartialCall(block, part)
        is_free = call.given and call.given not in self._taken
        call.id = call.given if is_free else made_up_id(f"{seed}/{block}", _PREFIX)
        self._taken.add(call.id)
        self.calls.append(call)
        yield ToolCallDelta(block, id=call.id, name=call.name)

    def add(self, call: PartialCall, part: CallPart, signature: str) -> Iterator[ToolCallDelta]:
        """The deltas for what a piece says of its call; an empty signature leaves the one there is.

        Raises:
            ValueError: the piece does not fit the arguments so far.
        """
        if signature and signature != call.signature:
            call.signature = signature
            yield ToolCallDelta(call.block, thought_signature=signature)
        if isinstance(part.args, str):
            call.pieces.append(part.args)
        elif part.args is not None:
            call.builder = call.builder or ArgsBuilder()
            call.builder.args.update(part.args)
        for piece in part.partial_args or ():
            call.builder = call.builder or ArgsBuilder()
            call.builder.add(piece)
        call.continues = bool(part.will_continue)
        if not call.continues:
            yield from self._pass_on(call)

    def finish(self) -> Iterator[ToolCallDelta]:
        """What there is of the arguments of calls that were cut; they stay incomplete."""
        for call in self.calls:
            if call.continues:
                yield from self._pass_on(call)

    def _pass_on(self, call: PartialCall) -> Iterator[ToolCallDelta]:
        call.args = encode_text(call.builder.args) if call.builder is not None else "".join(call.pieces)
        if call.args:
            yield ToolCallDelta(call.block, args=call.args)
