"""What a tool gave, as content blocks of a size that a model can take.

Text and blocks are taken as they are, everything else becomes compact JSON.

Read with: ``tool_call.py`` (the caller).
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, get_args

import msgspec

from .json_edge import clean_json, clean_text, encode_text
from .messages import Content, Document, Image, Text, ToolReference, clean_block
from .ports import ToolResult

Blocks: TypeAlias = tuple[Content, ...]
_CONTENT_TYPES = get_args(Content)
_RESULT_TYPES = (Text, Image, Document, ToolReference)  # what a result may hold


def to_content(result: object) -> tuple[Blocks, dict[str, Any], bool, int]:
    """Content blocks, details, whether it is an error, and the surrogates replaced.

    Text is taken as it is, blocks too; everything else becomes compact JSON text.

    Raises:
        TypeError: no JSON form.
        ValueError: a number that JSON does not have, or bytes that are not text.
    """
    if isinstance(result, str):
        clean = clean_text(str(result))
        return (Text(clean),), {}, False, int(clean != result)
    if isinstance(result, ToolResult):
        content, _, _, replaced = to_content(result.content)
        if not isinstance(result.details, dict):
            raise TypeError(f"details must be an object, not {type(result.details).__name__}")
        details, more = clean_json(msgspec.to_builtins(result.details))
        return content, details, result.is_error, replaced + more
    if isinstance(result, bytes | bytearray | memoryview):
        return (Text(_decode(bytes(result))),), {}, False, 0
    given = _blocks(result)
    if given:
        wrong = [type(block).__name__ for block in given if not isinstance(block, _RESULT_TYPES)]
        if wrong:
            raise TypeError(f"a result holds text, images, documents and tool references, no {wrong[0]}")
        blocks = [clean_block(block) for block in given]
        return tuple([block for block, _ in blocks]), {}, False, sum([n for _, n in blocks])
    if result is None:
        return (), {}, False, 0
    if isinstance(result, set | frozenset):
        result = sorted(result, key=repr)  # the order of a set is another in every process
    value, replaced = clean_json(msgspec.to_builtins(result, enc_hook=_to_plain))
    return (Text(value if isinstance(value, str) else encode_text(value)),), {}, False, replaced


def _blocks(result: object) -> list[Content]:
    """The content blocks that a result is made of; none where it is something else."""
    items: list[Any] = list(result) if isinstance(result, Sequence) else [result]
    return items if items and all(isinstance(item, _CONTENT_TYPES) for item in items) else []


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            "bytes that are not UTF-8 text; return text, or an Image or Document block"
        ) from error


def _to_plain(value: Any) -> Any:
    """JSON of a value that msgspec does not know: pydantic models say it themselves."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__qualname__} has no JSON form")


def cut_to_size(content: Blocks, limit: int) -> tuple[Blocks, int]:
    """Content whose text is at most about ``limit`` bytes, and the size before if it was more.

    Head and tail stay; the mark between them says how much is missing.
    """
    if sum([len(block.text) for block in content if type(block) is Text]) * 4 <= limit:
        return content, 0
    sizes = [len(block.text.encode()) if type(block) is Text else 0 for block in content]
    total = sum(sizes)
    if total <= limit:
        return content, 0
    left = limit
    cut: list[Content] = []
    for block, size in zip(content, sizes, strict=True):
        if type(block) is Text and size > left:
            cut.append(Text(_head_and_tail(block.text, size, left)))
            left = 0
        else:
            cut.append(block)
            left -= size
    return tuple(cut), total


def _head_and_tail(text: str, size: int, limit: int) -> str:
    half = limit // 2
    head = text[:half].encode()[:half].decode(errors="ignore")
    tail = text[-half:].encode()[-half:].decode(errors="ignore") if half else ""
    missing = size - len(head.encode()) - len(tail.encode())
    return f"{head}\n[… {missing:,} bytes left out …]\n{tail}"
