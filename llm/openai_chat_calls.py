"""Puts tool calls together from the pieces that chat/completions servers send.

The format says: ``index`` names the call, id and name come with its first piece, then argument
text. Servers leave out indexes, use index 0 for every call, repeat id and name on each piece, omit
ids, or send the arguments a second time. The rules, in order:

1. A piece with an index belongs to the call at that index; one without to the call of the same id,
   else to the last call.
2. A new id together with a name starts a new call, whatever the index says.
3. Another name, or a name without an index, starts a new call once the arguments are complete; another name also
   while there are none; and where there are no ids, the same name with other complete arguments does.
4. A call whose id never came gets one made from the answer, the same each time.
5. Text after complete arguments is held back: a repetition of them is dropped when the answer ends,
   anything else is passed on and makes the arguments invalid. Half of it is never run.

Read with: ``openai_chat_stream.py`` (the caller), ``tests/llm/test_openai_chat_stream.py``.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.kernel.json_edge import decode_arguments, encode_text
from unspool.kernel.ports import ToolCallDelta

from .decoder import check_blocks
from .openai_chat_kept import kept_call
from .openai_chat_wire import CallPart
from .whole_object import ObjectScan, is_object
from .wire_ids import made_up_id

_decode = msgspec.json.Decoder().decode


class PartialCall:
    """One call as far as it has come; ``block`` is its position in the reply."""

    __slots__ = ("_scan", "block", "custom", "extra", "held", "id", "name", "pieces")

    def __init__(self, block: int) -> None:
        self.block = block
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self._scan = ObjectScan(self.pieces)
        self.held: list[str] = []  # rule 5
        self.custom = False  # of a free-form tool
        self.extra: Any = None  # what the server wants back with it

    @property
    def args(self) -> str:
        return "".join(self.pieces)

    @property
    def complete(self) -> bool:
        """Whether the arguments so far are one whole JSON object (and nothing follows)."""
        if self.held or (self.pieces and self.pieces[-1].rstrip()[-1:] not in ("", "}")):
            return False
        return self._scan.is_whole()

    @property
    def runnable(self) -> bool:
        """Whether the call could be run as it stands: empty arguments mean none."""
        return bool(self.name) and not self.held and decode_arguments(self.args).error is None


class CallAssembler:
    """Pieces in, deltas out. ``first_block`` is the reply's block index of the first call."""

    __slots__ = ("_by_id", "_by_index", "_first_block", "calls", "repeated")

    def __init__(self, first_block: int) -> None:
        self._first_block = first_block
        self._by_index: dict[int | str | None, PartialCall] = {}
        self._by_id: dict[str, PartialCall] = {}  # the last of each id
        self.calls: list[PartialCall] = []
        self.repeated: list[str] = []  # ids of calls whose arguments came more than once

    def add(self, part: CallPart) -> ToolCallDelta | None:
        """The delta for one piece, if it says anything new."""
        function = part.function
        if function is not None and not (part.id or part.custom or function.name or part.extra_content):
            args, call = function.arguments, self._by_index.get(part.index)
            if call is not None and type(args) is str and not call.held and "{" not in args:
                call.pieces.append(args)  # what nearly every piece is
                return ToolCallDelta(call.block, "", "", args) if args else None
        return self._add(part)

    def _add(self, part: CallPart) -> ToolCallDelta | None:
        name, args = _content(part)
        id = "" if part.id is None else str(part.id)
        if not (id or name or args or part.extra_content):
            return None
        call = self._find(part.index, id, name, args) or self._open(part.index)
        new_id = "" if call.id else id
        if new_id:
            call.id = new_id
            if (other := self._by_id.get(new_id)) is None or other.block < call.block:
                self._by_id[new_id] = call
        new_name, call.name = ("" if call.name else name), call.name or name
        call.custom = call.custom or part.custom is not None
        call.extra = part.extra_content or call.extra
        args = self._admit(call, args)
        if new_id or new_name or args:
            return ToolCallDelta(call.block, id=new_id, name=new_name, args=args)
        return None

    def finish(self, seed: str) -> Iterator[ToolCallDelta]:
        """The last deltas: what was held back, what is kept beside, and ids for calls that have none.

        ``seed`` tells this answer from others, so that made-up ids differ between answers.
        """
        for call in self.calls:
            held, call.held = "".join(call.held), []
            if not call.id:
                call.id = made_up_id(f"{seed}/{call.block}")
                yield ToolCallDelta(call.block, id=call.id)
            if held and _repeats(call.args, held):
                self.repeated.append(call.id)
            elif held:
                call.pieces.append(held)
                yield ToolCallDelta(call.block, args=held)
            if (kept := kept_call(call.custom, call.extra)) is not None:
                yield ToolCallDelta(call.block, thought_signature=kept)

    def _find(self, index: int | str | None, id: str, name: str, args: str) -> PartialCall | None:
        """The open call that a piece continues; None when it starts a new one."""
        if index is not None:
            call = self._by_index.get(index)
        else:
            call = self._by_id.get(id) or (self.calls[-1] if self.calls else None)
        if call is None:
            return None
        if id and name and call.id and id != call.id:
            return None
        if index is None and id and call.id and id != call.id:
            return None
        if name and call.name and (not id or id != call.id) and _is_over(call, index, id, name, args):
            return None
        return call

    def _open(self, index: int | str | None) -> PartialCall:
        check_blocks(len(self.calls))
        call = PartialCall(self._first_block + len(self.calls))
        self.calls.append(call)
        if index is not None:
            self._by_index[index] = call
        return call

    def _admit(self, call: PartialCall, args: str) -> str:
        """The part of new argument text that may be passed on now (rule 5)."""
        if call.held:
            call.held.append(args)
            return ""
        if not args:
            return ""
        if args.lstrip()[:1] == "{" and call.pieces and call.complete:
            call.held.append(args)
            return ""
        call.pieces.append(args)
        return args


def _is_over(call: PartialCall, index: int | str | None, id: str, name: str, args: str) -> bool:
    """Whether a piece that names a call, and not by the id of this one, is of another; see rule 3."""
    if name != call.name and not call.pieces:
        return True
    if not call.complete:
        return False
    if index is None or name != call.name:
        return True
    return not (id or call.id) and is_object(args) and not _repeats(call.args, args)


def _content(part: CallPart) -> tuple[str, str]:
    """Name and argument text of a piece."""
    if (custom := part.custom) is not None:
        return custom.name or "", custom.input or ""
    if (function := part.function) is None:
        return "", ""
    args: Any = function.arguments
    return function.name or "", args if type(args) is str else "" if args is None else encode_text(args)


def _repeats(args: str, held: str) -> bool:
    """Whether ``held`` is ``args`` again, any number of times, written alike or not."""
    copies, rest = divmod(len(held), len(args))
    if not rest and held == args * copies:
        return True
    try:
        return bool(_decode(held) == _decode(args))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
