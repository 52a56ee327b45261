"""``$'…'``: the text that bash makes of it."""

import re

from .shell_plan import Unreadable

_ESCAPE = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3}))"
)
_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


def decode_ansi(source: str, pos: int) -> tuple[str, int]:
    """The text of the quotes whose inside starts at ``pos``, and where they end.

    Raises:
        Unreadable: no end, an escape other than the documented ones, NUL, or bytes that are no ASCII.
    """
    text: list[str] = []
    while pos < len(source) and source[pos] != "'":
        if source[pos] != "\\":
            text.append(source[pos])
            pos += 1
            continue
        match = _ESCAPE.match(source, pos)
        if match is None:
            raise Unreadable("an unusual escape in $'…'")
        text.append(_character(match))
        pos = match.end()
    if pos >= len(source):
        raise Unreadable("a quote without an end")
    return "".join(text), pos + 1


def _character(match: re.Match[str]) -> str:
    simple, hexadecimal, short, long, octal = match.groups()
    if simple:
        return _SIMPLE.get(simple, simple)
    code = int(octal, 8) if octal else int(hexadecimal or short or long, 16)
    if not 0 < code < 128:
        raise Unreadable("NUL or bytes that are no ASCII in $'…'")
    return chr(code)
