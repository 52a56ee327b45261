"""Names that look like another: what a model wrote, and what the file is really called.

A model composes letters that a file system decomposes (``é`` as one code point or as two), straightens quotes, and
types a plain space where a name holds a narrow one. A name that is not there is looked for under these forms: reading
finds the file that is meant, and writing makes no second file whose name looks the same. So is a name that is not
UTF-8, by the U+FFFD that it is shown with. Upper and lower case, and letters that merely resemble each other, are
different names.
"""

import os
import unicodedata
from typing import Final

from unspool.kernel.errors import ToolError
from unspool.kernel.json_edge import encodable
from unspool.tools.text import shown, shown_list

_PLAIN: Final = {ord(char): "'" for char in "‘’‚‛ʼ′"} | {ord(char): '"' for char in "“”„‟″"}

_JOINERS: Final = "\u200c\u200d"  # they shape letters of some scripts, and emoji


def appearance(name: str) -> str:
    """What a name looks like: composed, with plain quotes and spaces, without what can't be seen."""
    if not name.isascii():
        name = unicodedata.normalize("NFC", encodable(name)).translate(_PLAIN)
        name = "".join(_seen(char) for char in name)
    return name.strip(" ")


def variant(fd: int, name: str) -> str | None:
    """The name in the directory ``fd`` that looks like ``name``, which is not there itself.

    Raises:
        ToolError: there are several.
    """
    wanted = appearance(name)
    with os.scandir(fd) as entries:
        found = sorted(entry.name for entry in entries if appearance(entry.name) == wanted)
    if len(found) > 1:
        raise ToolError(
            f"there is no {shown(name)}, but several names look like it: {shown_list(list(map(ascii, found)))}"
        )
    return found[0] if found else None


def is_visible(name: str) -> bool:
    """Whether all of a name can be seen, so that it can't pass for another one."""
    hidden = (unicodedata.category(char) in ("Cf", "Cc") and char not in _JOINERS for char in name)
    return name == name.strip() and not any(hidden)


def _seen(char: str) -> str:
    category = unicodedata.category(char)
    return " " if category == "Zs" else "" if category == "Cf" else char
