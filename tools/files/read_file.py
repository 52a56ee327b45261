"""``read_file``: lines of a text file, or of a stored text; images and PDFs as blocks; directories as lists.

What was read of a file is told in ``details["file"]`` (path, SHA-256 of the whole file, whether it was read only in part) and
noted in a ``Workspace``, whose tools change nothing that was not read. Files too large to be changed have no SHA-256.
"""

import base64
import difflib
import os
import re
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any, BinaryIO

from unspool.kernel.errors import LogError, ToolError
from unspool.kernel.function_tool import FunctionTool, tool
from unspool.kernel.messages import Document, Image, Text
from unspool.kernel.ports import BlobStore, ToolContext, ToolResult
from unspool.tools.text import MAX_RESULT, looks_binary, shown, shown_list, size_text

from .change import decode_file
from .images import for_model
from .list_dir import read_dir
from .root import MissingFileError, Roots
from .saving import MAX_FILE, sha256
from .sniffing import binary_kind, image_type, is_pdf
from .text_file import is_wide
from .text_range import MAX_LINES, Shown, TextRange
from .workspace import Workspace

MAX_IMAGE = 32 << 20  # bytes of a file that is scaled down
MAX_PDF = 16 << 20  # bytes
_BOM = b"\xef\xbb\xbf"
_SAMPLE = 8192
_SAMPLES = 64  # looks at a large file, to see whether it is text all through
_FEW = 8  # NULs in a sample that may be an accident, when a file begins as text
_MAX_SIBLINGS = 10_000  # names looked at for suggestions
_BLOB = "blob:"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_WITH_BLOBS = """\
Read a text file, an image, a PDF or a directory; or a text that was stored because of its length: its path is the blob:… \
that the shortened text names. Lines come as number, tab, text; the end says what range was shown."""


def read_file_tool(root: Roots, blobs: BlobStore | None = None) -> FunctionTool[..., str | ToolResult]:
    """The tool ``read_file`` on ``root``; it also opens ``blob:<digest>`` where there is a store."""

    @tool(read_only=True, max_result_bytes=MAX_RESULT, description=_WITH_BLOBS if blobs else "")
    def read_file(
        path: str, ctx: ToolContext, offset: int = 1, limit: int = MAX_LINES, column: int = 1
    ) -> str | ToolResult:
        """Read a text file, an image, a PDF or a directory. Text comes as number, tab, line; the end says what was shown.

        Args:
            path: the file, relative to the root directory
            offset: number of the first line to show, from 1
            limit: how many lines to show, at most 2000
            column: the character of each line to start at, from 1; to read on in lines that were cut
        """
        if min(offset, column) < 0:
            raise ToolError("offset and column must not be negative: they start at 1")
        first, column = max(offset, 1), max(column, 1)
        if path.startswith(_BLOB):
            stored = BytesIO(_stored(blobs, path))
            _refuse_binary(stored, path)
            return _text_of(stored, lambda: ctx.cancelled).render(first, limit, column).text
        here = root.at(ctx)
        try:
            if here.is_dir(path):
                return read_dir(here, path, ctx, first, limit)
            file = here.open_file(path)
        except MissingFileError as error:
            raise ToolError(f"{error}{_suggestions(here, path)}") from error
        with file:
            return _Reading(here, path, ctx).read(file, first, limit, column)

    return read_file


class _Reading:
    """One reading of a file."""

    def __init__(self, root: Roots, path: str, ctx: ToolContext) -> None:
        self._root = root
        self._path = path
        self._ctx = ctx

    def read(self, file: BinaryIO, first: int, limit: int, column: int) -> ToolResult:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        start = file.read(_SAMPLE) or b""
        mime_type = image_type(start)
        if mime_type:
            return self._image(self._whole(file, MAX_IMAGE), mime_type)
        if is_pdf(start):
            return self._pdf(self._whole(file, MAX_PDF))
        if is_wide(start):
            return self._wide(self._whole(file, MAX_FILE), first, limit, column)
        _refuse_binary(file, self._path)
        data = file.read(MAX_FILE + 1) if size <= MAX_FILE else b""
        is_small = size <= MAX_FILE and len(data) <= MAX_FILE
        text = _text_of(BytesIO(data) if is_small else file, lambda: self._ctx.cancelled)
        shown_lines = text.render(first, limit, column)
        return ToolResult(
            content=shown_lines.text,
            details={"file": self._saw(data if is_small else None, shown_lines), **shown_lines.details},
        )

    def _wide(self, data: bytes, first: int, limit: int, column: int) -> ToolResult:
        """Text that is UTF-16 or UTF-32, shown as any other."""
        decoded = decode_file(data, self._path)
        text = TextRange(BytesIO(decoded.text.encode()), lambda: self._ctx.cancelled)
        shown_lines = text.render(first, limit, column)
        note = f"[the file is {decoded.encoding.upper()}, and stays so when it is changed]"
        return ToolResult(
            content=f"{shown_lines.text}\n{note}",
            details={"file": self._saw(data, shown_lines), **shown_lines.details},
        )

    def _whole(self, file: BinaryIO, most: int) -> bytes:
        file.seek(0)
        data = file.read(most + 1) or b""
        if len(data) > most:
            raise ToolError(f"{shown(self._path)} is too large: over {size_text(most)}")
        return data

    def _image(self, data: bytes, mime_type: str) -> ToolResult:
        image = for_model(data, mime_type)
        width, height = image.size
        how = f", {image.note}" if image.note else ""
        note = f"image {image.mime_type}, {width}x{height} pixels, {size_text(len(image.data))}{how}"
        block = Image(data=base64.b64encode(image.data).decode(), mime_type=image.mime_type)
        return ToolResult(content=(Text(f"[{note}]"), block), details={"file": self._saw(data)})

    def _pdf(self, data: bytes) -> ToolResult:
        name = self._path.rpartition("/")[2]
        block = Document(data=base64.b64encode(data).decode(), mime_type="application/pdf", name=shown(name))
        note = Text(f"[PDF document, {size_text(len(data))}]")
        return ToolResult(content=(note, block), details={"file": self._saw(data)})

    def _saw(self, data: bytes | None, part: Shown | None = None) -> dict[str, Any]:
        """What is told of the file in ``details``; noted where writing asks for it. Without ``data`` it is too large."""
        partial = part is not None and not part.is_whole
        if data is None:
            return {"path": self._path, "partial": partial}
        digest = sha256(data)
        if not isinstance(self._root, Workspace):
            return {"path": self._path, "sha256": digest, "partial": partial}
        lines = None
        if part is not None and part.truncated != "columns" and part.first <= part.last:
            lines = (part.first, part.last)
        return self._root.saw(
            self._path,
            digest,
            partial=partial,
            ctx=self._ctx,
            lines=lines,
            total_lines=part.total if part else None,
            data=data if part else None,
        )


def _stored(blobs: BlobStore | None, path: str) -> bytes:
    """The stored text that a path of the form ``blob:<digest>`` names.

    Raises:
        ToolError: there is no store, or nothing of that name in it.
    """
    if blobs is None:
        raise ToolError(
            f"{shown(path)} can't be opened, no texts are stored here: make the call again that gave it"
        )
    digest = path.removeprefix(_BLOB)
    if not _DIGEST.fullmatch(digest):
        raise ToolError(
            f"{shown(path)} names no stored text: give blob: and all 64 hexadecimal digits, as the shortened "
            "text has them"
        )
    try:
        return blobs.get(digest)
    except LogError as error:
        raise ToolError(f"there is no stored text {path}: make the call again that gave it") from error


def _text_of(file: BinaryIO, stop: Callable[[], bool]) -> TextRange:
    """The text of a file, without the mark that may stand before it."""
    file.seek(0)
    file.seek(len(_BOM) if file.read(len(_BOM)) == _BOM else 0)
    return TextRange(file, stop)


def _refuse_binary(file: BinaryIO, path: str) -> None:
    """Refuse what is not text; leaves the file at its start."""
    size = file.seek(0, os.SEEK_END)
    for at, sample in _samples(file, size):
        if looks_binary(sample.replace(b"\0", b"", _FEW if at else 0)):
            kind = binary_kind(b"" if at else sample)
            raise ToolError(f"{shown(path)} is a binary file, not text: {kind}, {size_text(size)}")
    file.seek(0)


def _samples(file: BinaryIO, size: int) -> Iterator[tuple[int, bytes]]:
    """Pieces of a file and where they are: all of a small one, some of a large one."""
    step = max(_SAMPLE, size // _SAMPLES)
    for at in range(0, size, step):
        file.seek(at)
        yield at, file.read(_SAMPLE) or b""


def _suggestions(root: Roots, path: str) -> str:
    """Up to three names in the same directory that the model may have meant."""
    parent, _, name = path.rstrip("/").rpartition("/")
    try:
        with root.open_dir(parent or ("/" if path.startswith("/") else ".")) as fd, os.scandir(fd) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MAX_SIBLINGS), strict=False)]
    except (ToolError, OSError):
        return ""
    wanted, stem = name.casefold(), name.rpartition(".")[0].casefold() or name.casefold()
    near = sorted(n for n in names if wanted in n.casefold() or (stem and stem in n.casefold()))
    near += [n for n in difflib.get_close_matches(name, sorted(names), 3) if n not in near]
    return f"; near it: {shown_list(near[:3])}" if near else ""
