"""What ``.gitignore`` files leave out, by git's rules (gitignore(5)). Pure functions over bytes.

The last pattern that matches decides, ``!`` takes back in, a nearer file goes before one further up, and what lies
in a directory that is left out is left out with it. A directory that holds ``.git`` begins afresh. Names are
compared byte by byte, and no pattern backtracks: a hostile file costs no more than its length.

Other places where git looks (``.git/info/exclude``, the user's own file) are not looked at: what a search
finds does not depend on the machine. Read with: ``sweep.py`` (the walk that asks).
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

MAX_IGNORE_FILE = 128 << 10  # bytes; a larger file is not obeyed

_POSIX = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-~",
    b"lower": rb"a-z",
    b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb"\t-\r ",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}
_ANY = b"\0any"  # a component of two stars or more: any number of names
_STAR = b"\0star"
_SLASH = b"\0slash"
# Where programs read a pattern differently: braces, classes of classes, what a backslash does to a slash
_UNCOMMON = re.compile(rb"[{}\[\]\\\x80-\xff]|\*\*\*|\*\*[^/*]|[^/*!]\*\*")


class _Rule(NamedTuple):
    source: str  # of a regular expression for a base name; empty when the pattern is about a path
    steps: tuple[re.Pattern[bytes] | None, ...]  # one for each name of a path, None for any number of names
    takes_back: bool
    only_dirs: bool

    def matches(self, names: Sequence[bytes]) -> bool:
        """Whether it matches the path of these names, which begins where the file lies."""
        steps = self.steps
        if self.source:
            return steps[0] is not None and steps[0].fullmatch(names[-1]) is not None
        at = name = 0
        star = resume = -1
        while name < len(names):
            step = steps[at] if at < len(steps) else None
            if at < len(steps) and step is None:
                star, resume = at, name
                at += 1
                if at == len(steps):
                    return True  # something is left for the last ``**``, as there has to be
            elif step is not None and step.fullmatch(names[name]):
                at, name = at + 1, name + 1
            elif star >= 0:
                resume += 1
                at, name = star + 1, resume
            else:
                return False
        return at == len(steps)


class IgnoreFile:
    """The rules of one file.

    ``is_common`` is False when it holds a pattern that other programs are known to read in their own way.
    """

    def __init__(self, data: bytes) -> None:
        lines = [line.removesuffix(b"\r") for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
        kept = [line for line in map(_trimmed, lines) if line and not line.startswith(b"#")]
        rules = [rule for line in kept if (rule := _rule(line)) is not None]
        self.is_common = not any(_UNCOMMON.search(line) for line in kept)
        self._rules = rules[::-1]
        sources = {rule.source for rule in rules if rule.source}
        self._has_paths = any(not rule.source for rule in rules)
        self._some_name = re.compile("|".join(sources).encode("latin-1"), re.DOTALL) if sources else None

    def decides(self, names: Sequence[bytes], is_dir: bool) -> bool | None:
        """Whether the path of these names, relative to the file's directory, is left out; None: it says nothing."""
        if not self._has_paths and (self._some_name is None or not self._some_name.fullmatch(names[-1])):
            return None
        for rule in self._rules:
            if (is_dir or not rule.only_dirs) and rule.matches(names):
                return not rule.takes_back
        return None


class Ignores:
    """The files that count in a directory, nearest first, each with how many names lie above it."""

    def __init__(self, files: tuple[tuple[int, IgnoreFile], ...] = ()) -> None:
        self.files = files

    def within(self, depth: int, file: IgnoreFile | None, *, is_repository: bool) -> "Ignores":
        """What counts in a directory ``depth`` names deep that holds ``file``, and ``.git`` or not."""
        above = () if is_repository else self.files
        return Ignores(((depth, file), *above)) if file is not None else Ignores(above)

    def leave_out(self, names: Sequence[bytes], is_dir: bool) -> bool:
        for depth, file in self.files:
            decision = file.decides(names[depth:], is_dir)
            if decision is not None:
                return decision
        return False


def _trimmed(line: bytes) -> bytes:
    """Without spaces at the end, but for one that a backslash keeps."""
    end = len(line.rstrip(b" "))
    kept = line[:end]
    backslashes = len(kept) - len(kept.rstrip(b"\\"))
    return line[: end + 1] if backslashes % 2 and end < len(line) else kept


def _rule(line: bytes) -> _Rule | None:
    """The rule of a line; None for one that can't match anything."""
    takes_back = line.startswith(b"!")
    pattern = line[takes_back:]
    only_dirs = pattern.endswith(b"/")
    pattern = pattern[:-1] if only_dirs else pattern
    is_path = b"/" in pattern
    tokens = _tokens(pattern.removeprefix(b"/"))
    if not pattern or tokens is None:
        return None
    parts: list[list[bytes]] = [[]]
    for token in tokens:
        if token == _SLASH and is_path:
            parts.append([])
        else:
            parts[-1].append(token)
    if not is_path:
        source = _source(parts[0])
        return _Rule(source.decode("latin-1"), (_compiled(source),), takes_back, only_dirs)
    steps = tuple(None if _is_any(part) else _compiled(_source(part)) for part in parts)
    return _Rule("", steps, takes_back, only_dirs)


def _is_any(part: list[bytes]) -> bool:
    return len(part) > 1 and set(part) == {_STAR}


def _compiled(source: bytes) -> re.Pattern[bytes]:
    return re.compile(source, re.DOTALL)


def _tokens(pattern: bytes) -> list[bytes] | None:
    """Regular expressions for single bytes, with stars and slashes between; None when it can't match."""
    tokens: list[bytes] = []
    at = 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        if char == b"[":
            found = _class(pattern, at + 1)
            if found is None:
                return None
            token, at = found
            tokens.append(token)
            continue
        if char == b"\\":
            at += 1
            char = pattern[at : at + 1]
            if not char:
                return None
            tokens.append(_SLASH if char == b"/" else re.escape(char))
        else:
            special = {b"*": _STAR, b"/": _SLASH, b"?": b"[^/]"}
            tokens.append(special.get(char) or re.escape(char))
        at += 1
    return tokens


def _class(pattern: bytes, at: int) -> tuple[bytes, int] | None:
    """The class that begins after its bracket, and where it ends; None when it has no end."""
    negated = pattern[at : at + 1] in (b"!", b"^") and at < len(pattern)
    at += negated
    own: set[int] = set()
    before: int | None = None  # the last character, when a range can begin with it
    is_first = True
    while is_first or pattern[at : at + 1] != b"]":
        is_first = False
        if at >= len(pattern):
            return None
        named = re.compile(rb"\[:([a-z]*):\]").match(pattern, at)
        if named is not None:
            if named[1] not in _POSIX:
                return None
            own |= {code for code in range(256) if re.match(b"[" + _POSIX[named[1]] + b"]", bytes([code]))}
            before, at = None, named.end()
            continue
        is_range = pattern[at] == 45 and before is not None and pattern[at + 1 : at + 2] not in (b"", b"]")
        at += is_range
        at += pattern[at] == 92
        if at >= len(pattern):
            return None
        own |= set(range(before or 0, pattern[at] + 1)) if is_range else {pattern[at]}
        before, at = None if is_range else pattern[at], at + 1
    codes = (set(range(256)) - own if negated else own) - {47}
    chars = b"".join(b"\\x%02x" % code for code in sorted(codes))
    return (b"[" + chars + b"]" if chars else b"(?!)"), at + 1


def _source(part: list[bytes]) -> bytes:
    """A regular expression for one name; after each star the first fit is kept, so that nothing backtracks."""
    pieces: list[list[bytes]] = [[]]
    for token in part:
        if token == _STAR:
            pieces.append([])
        else:
            pieces[-1].append(b"(?!)" if token == _SLASH else token)
    first, *others = [b"".join(piece) for piece in pieces]
    if not others:
        return first
    middle = b"".join(b"(?>.*?" + piece + b")" for piece in others[:-1] if piece)
    return first + middle + b".*" + others[-1]
