"""Puts the blocks of an Anthropic Messages answer together from their starts and deltas.

Text, thinking and calls of tools become the kernel's own blocks. Every other block (tools that the server runs and
their results, uploads, compactions, kinds that do not exist yet) is kept as it came, once it is whole, and goes
back as it came. The rules:

1. A start may hold a whole block, and deltas may follow: text and thinking go on, arguments and signatures begin
   anew, because the start's are a placeholder where deltas come.
2. What a block has besides the fields the kernel models (citations of a text, the caller of a call) follows it as
   an opaque block of its own, ``fields_of_<type>``, which is joined to it again in requests.
3. Indexes order the blocks, whatever comes first. One that is used again names a new block after all others.
4. A delta without a start begins a block of its kind, and so does text or thinking in a block of another kind
   (some servers send text in the middle of a call).

The wire's block ``n`` is the reply's block ``2n``, what follows it by rule 2 is ``2n + 1``.

Read with: ``anthropic_stream.py`` (the caller), ``anthropic_messages.py`` (the way back).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from unspool.kernel.json_edge import decode_arguments, encode_text
from unspool.kernel.messages import Opaque
from unspool.kernel.ports import BlockEvent, StreamEvent, TextDelta, ThinkingDelta, ToolCallDelta

from .anthropic_wire import FORMAT, Fields, text_of
from .decoder import check_blocks
from .wire_ids import made_up_id

FIELDS_OF: Final = "fields_of_"
_MODELLED: Final = {  # of each kind of block
    "text": {"type", "text"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input"},
}
_KIND_OF_DELTA: Final = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}


class PartialBlock:
    """One block as far as it has come; ``position`` is its index in the reply."""

    __slots__ = (
        "args",
        "fields",
        "input",
        "kind",
        "name",
        "position",
        "signature",
        "signed",
        "stopped",
        "texts",
    )

    def __init__(self, kind: str, position: int, fields: Fields) -> None:
        self.kind = kind  # empty: not one of the kernel's
        self.position = position
        self.fields = fields  # what the kernel does not model; of an unknown block, all of it
        self.texts: dict[str, list[str]] = {}  # the pieces of those fields that went on
        self.name = ""
        self.args: list[str] = []  # of a call, or of a tool that the server runs
        self.input: Any = None  # the arguments that came with the start
        self.signature = ""  # that came with the start
        self.signed: list[str] = []  # and what came later
        self.stopped = False

    @property
    def runnable(self) -> bool:
        """Whether a call could be run as it stands."""
        return self.stopped and bool(self.name) and decode_arguments("".join(self.args)).error is None

    def join_texts(self) -> None:
        self.fields.update((key, "".join(pieces)) for key, pieces in self.texts.items())


class BlockAssembler:
    """Blocks and pieces of them in, events out. ``seed`` goes into the ids of calls that come without one."""

    __slots__ = ("_by_index", "_next", "_used", "blocks", "seed")

    def __init__(self) -> None:
        self.seed = ""
        self.blocks: list[PartialBlock] = []  # as they began
        self._by_index: dict[Any, PartialBlock] = {}
        self._used: set[int] = set()
        self._next = 0  # the position after all others

    @property
    def calls(self) -> list[PartialBlock]:
        return [block for block in self.blocks if block.kind == "tool_use"]

    def whole(self, wire: Fields) -> Iterator[StreamEvent]:
        """The events of a block that comes in one piece."""
        index = len(self.blocks)
        yield from self.start(index, wire)
        yield from self.stop(index)

    def start(self, index: Any, wire: Fields) -> Iterator[StreamEvent]:
        """The events of a block's start."""
        check_blocks(len(self.blocks))
        kind = _kind_of(wire)
        modelled = _MODELLED.get(kind, ())
        fields = {key: value for key, value in wire.items() if key not in modelled and _says(key, value)}
        block = PartialBlock(kind, self._free_position(index), fields if kind else dict(wire))
        self.blocks.append(block)
        self._by_index[_key(index)] = block
        match kind:
            case "text":
                if text := text_of(wire.get("text")):
                    yield TextDelta(text, block.position)
            case "thinking":
                block.signature = text_of(wire.get("signature"))
                if text := text_of(wire.get("thinking")):
                    yield ThinkingDelta(text, block.position)
            case "redacted_thinking":
                yield ThinkingDelta(index=block.position, redacted=wire["data"])
            case "tool_use":
                block.name, block.input = text_of(wire.get("name")), wire.get("input")
                id = text_of(wire.get("id")) or made_up_id(f"{self.seed}/{block.position}")
                yield ToolCallDelta(block.position, id=id, name=block.name)

    def delta(self, index: Any, wire: Fields) -> Sequence[StreamEvent]:
        """The events of a piece of a block."""
        said = text_of(wire.get("type"))
        block = self._find(index)
        if block is not None:
            return self._more(block, said, wire)
        if said not in _KIND_OF_DELTA:
            return ()
        begun = [*self.start(index, {"type": _KIND_OF_DELTA[said]})]
        return [*begun, *self._more(self.blocks[-1], said, wire)]

    def _more(self, block: PartialBlock, said: str, wire: Fields) -> Sequence[StreamEvent]:
        kind = block.kind
        if said == "text_delta" and kind == "text":
            if text := text_of(wire.get("text")):
                return (TextDelta(text, block.position),)
        elif said == "input_json_delta" and kind == "tool_use":
            if args := text_of(wire.get("partial_json")):
                block.args.append(args)
                return (ToolCallDelta(block.position, args=args),)
        elif said == "thinking_delta" and kind == "thinking":
            if text := text_of(wire.get("thinking")):
                return (ThinkingDelta(text, block.position),)
        elif said == "signature_delta" and kind == "thinking":
            block.signed.append(text_of(wire.get("signature")))
        elif said == "citations_delta" and kind == "text":
            _add(block, "citations", [wire.get("citation")])
        elif not kind:
            _grow(block, said, wire)
        elif said in ("text_delta", "thinking_delta"):
            return self._beside(block, said, wire)
        return ()

    def _beside(self, block: PartialBlock, said: str, wire: Fields) -> Sequence[StreamEvent]:
        """A piece of another kind than its block: it is of a block of its own, which further ones go on with."""
        key, kind = (block.position, _KIND_OF_DELTA[said]), _KIND_OF_DELTA[said]
        if (other := self._by_index.get(key)) is not None:
            return self._more(other, said, wire)
        begun = [*self.start(None, {"type": kind})]
        other = self._by_index[key] = self.blocks[-1]
        return [*begun, *self._more(other, said, wire)]

    def stop(self, index: Any) -> Iterator[StreamEvent]:
        """The last events of a block."""
        block = self._find(index)
        if block is not None and not block.stopped:
            yield from _last(block)
            block.stopped = True

    def close(self) -> Iterator[StreamEvent]:
        """The last events of blocks whose end never came; their calls stay as they are, not stopped."""
        for block in self.blocks:
            if not block.stopped:
                yield from _last(block)
            else:  # pieces may have come after its end
                block.join_texts()

    def _find(self, index: Any) -> PartialBlock | None:
        """The block at an index; without one, the last that began."""
        if index is None and self.blocks:
            return self.blocks[-1]
        return self._by_index.get(_key(index))

    def _free_position(self, index: Any) -> int:
        position = 2 * index if type(index) is int and index >= 0 else self._next
        if position in self._used:
            position = self._next
        self._used.add(position)
        self._next = max(self._next, position + 2)
        return position


def _last(block: PartialBlock) -> Iterator[StreamEvent]:
    if not block.kind:
        block.join_texts()
        if block.args and (given := decode_arguments("".join(block.args))).error is None:
            block.fields["input"] = given.args
        yield BlockEvent(Opaque(provider=FORMAT, data=block.fields), block.position)
        return
    if signature := "".join(block.signed) or block.signature:
        yield ThinkingDelta(index=block.position, signature=signature)
    if block.input and not block.args:
        args = block.input if isinstance(block.input, str) else encode_text(block.input)
        block.args.append(args)
        yield ToolCallDelta(block.position, args=args)
    if block.fields:
        data = {"type": f"{FIELDS_OF}{block.kind}", **block.fields}
        yield BlockEvent(Opaque(provider=FORMAT, data=data), block.position + 1)


def _kind_of(wire: Fields) -> str:
    """Which of the kernel's blocks this is; empty for none."""
    kind = wire.get("type")
    if kind == "redacted_thinking" and not isinstance(wire.get("data"), str):
        return ""
    return kind if isinstance(kind, str) and kind in _MODELLED else ""


def _key(index: Any) -> Any:
    return index if isinstance(index, int | str) else None


def _says(key: str, value: Any) -> bool:
    """Whether a field tells anything; a call by the model itself is the ordinary case."""
    return bool(value) and not (key == "caller" and value == {"type": "direct"})


def _grow(block: PartialBlock, said: str, wire: Fields) -> None:
    """Join a delta to a block that is kept as it is: texts and lists go on, anything else is replaced."""
    if said == "input_json_delta":
        if args := text_of(wire.get("partial_json")):
            block.args.append(args)
    elif said == "citations_delta":
        _add(block, "citations", [wire.get("citation")])
    else:
        for key, value in wire.items():
            if key != "type":
                _add(block, key, value)


def _add(block: PartialBlock, key: str, value: Any) -> None:
    match block.fields.get(key), value:
        case str(known), str():
            block.texts.setdefault(key, [known]).append(value)
        case list(known), list():
            known += value
        case known, _ if known is None or value is not None:
            block.texts.pop(key, None)
            block.fields[key] = value
