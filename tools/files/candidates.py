"""What to tell a model whose old text is not in the file: the lines it may have meant. Pure functions."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from unspool.kernel.json_edge import encodable
from unspool.tools.text import count_text

from .folding import fold
from .matching import is_too_large
from .newlines import View
from .similarity import bigrams, count_bigrams

MIN_SIMILARITY = 0.5
MAX_CANDIDATES = 3
MAX_FILE_SEARCHED = 500_000  # characters
MAX_OLD_SEARCHED = 50_000
_MAX_LINES = 12  # of one candidate that are shown
_MAX_LINE = 200  # characters
_MAX_COMPARED = 2000  # characters that are compared one by one
_MAX_DIFFERENCES = 3
_MAX_DIFFERENCE = 8  # characters
_TICKS = re.compile("`{3,}")


class Candidate(NamedTuple):
    """Lines ``first`` to ``first + size - 1``, counted from 0."""

    score: float
    first: int
    size: int


def not_found(view: View, old: str) -> str:
    """Why there is no ``old``, with up to three places that are at least half like it."""
    text = "old_string was not found"
    lines, old_lines = _split(view.shown), _split(old)
    if not is_searchable(lines, old_lines):
        exact = ", and only exact matches were looked for" if is_too_large(view, old) else ""
        return (
            f"{text}{exact}: the file or old_string is too large to look for text like it; read the lines again "
            "and copy them exactly"
        )
    near = similar(lines, old_lines, "old_string")
    return (
        f"{text}{near}"
        if near
        else f"{text}, nor anything like it: read the file again and copy the text exactly"
    )


def is_searchable(lines: Sequence[str], old: Sequence[str]) -> bool:
    """Whether looking for lines like ``old`` takes no longer than a second or two."""
    return sum(map(len, lines)) <= MAX_FILE_SEARCHED and sum(map(len, old)) <= MAX_OLD_SEARCHED


def similar(lines: list[str], old: list[str], mine: str) -> str:
    """Up to three places among ``lines`` that are at least half like ``old``, in words; ``""`` for none.

    ``mine`` is what the model calls ``old``.
    """
    found = candidates(lines, old)
    if not found:
        return ""
    parts = [". Most like it, did you mean one of these candidates?"]
    parts += [_snippet(lines, each) for each in found]
    best = found[0]
    first = "\n".join(lines[best.first : best.first + best.size])
    if told := _differences(first, "\n".join(old), best.first, mine):
        parts.append(f"The first one differs only in this: {told}")
    return "\n".join(parts)


def candidates(lines: list[str], old: list[str]) -> list[Candidate]:
    """The best places for ``old``, best first, that don't overlap and are at least half like it."""
    size = min(len(old), len(lines))
    wanted = count_bigrams(_plain(line) for line in old)
    pairs = [bigrams(_plain(line)) for line in lines]
    window: Counter[str] = Counter()
    total, common = 0, 0
    scored = []
    for at, entering in enumerate(pairs):
        for pair in entering:
            window[pair] += 1
            common += window[pair] <= wanted[pair]
        total += len(entering)
        if at >= size:
            leaving = pairs[at - size]
            for pair in leaving:
                common -= window[pair] <= wanted[pair]
                window[pair] -= 1
            total -= len(leaving)
        if at >= size - 1 and total:
            score = 2 * common / (total + wanted.total())
            if score >= MIN_SIMILARITY:
                scored.append(Candidate(score, at - size + 1, size))
    return _apart(scored)


def _apart(scored: list[Candidate]) -> list[Candidate]:
    kept: list[Candidate] = []
    for each in sorted(scored, key=lambda c: (-c.score, c.first)):
        if all(abs(each.first - other.first) >= each.size for other in kept):
            kept.append(each)
            if len(kept) == MAX_CANDIDATES:
                break
    return kept


def _split(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def _plain(line: str) -> str:
    return fold(line).strip()


def _snippet(lines: list[str], candidate: Candidate) -> str:
    first, last = candidate.first + 1, candidate.first + candidate.size
    part = lines[candidate.first : last]
    told = [line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…" for line in part[:_MAX_LINES]]
    if len(part) > _MAX_LINES:
        told.append(f"… ({count_text(len(part) - _MAX_LINES, 'line')} more)")
    text = encodable("\n".join(told))
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in ["", "", *_TICKS.findall(text)]))
    where = f"line {first}" if first == last else f"lines {first}-{last}"
    return f"{where} ({candidate.score:.0%} alike):\n{fence}text\n{text}\n{fence}"


def _differences(found: str, old: str, above: int, mine: str) -> str:
    """A few differences that are hard to see, by their code points; ``""`` where there are others.

    ``above`` is how many lines of the file are before ``found``.
    """
    if max(len(found), len(old)) > _MAX_COMPARED:
        return ""
    start, stop = _part(found, old)
    told: list[str] = []
    for tag, i, j, k, m in SequenceMatcher(None, found[start:stop], old, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        theirs, ours = found[start + i : start + j], old[k:m]
        if len(told) == _MAX_DIFFERENCES or max(len(theirs), len(ours)) > _MAX_DIFFERENCE:
            return ""
        if not _is_hard_to_see(theirs + ours):
            return ""
        line = above + 1 + found.count("\n", 0, start + i)
        column = start + i - found.rfind("\n", 0, start + i)
        told.append(f"line {line}, column {column}: the file has {_named(theirs)}, {mine} has {_named(ours)}")
    return "; ".join(told)


def _part(found: str, old: str) -> tuple[int, int]:
    """The part of ``found`` to compare ``old`` with, which may be only a part of a line itself."""
    blocks = SequenceMatcher(None, found, old, autojunk=False).get_matching_blocks()[:-1]
    if "\n" in found or not blocks:
        return 0, len(found)
    start = max(blocks[0].a - blocks[0].b, 0)
    return start, min(len(found), blocks[-1].a + len(old) - blocks[-1].b)


def _is_hard_to_see(text: str) -> bool:
    """Whether characters are not seen, or may look like others: those that aren't ASCII, but ideographs."""
    return text.isspace() or any(
        not char.isprintable() if char.isascii() else unicodedata.category(char) != "Lo" for char in text
    )


def _named(text: str) -> str:
    return " ".join(map(_code_point, text)) or "nothing"


def _code_point(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"the byte 0x{code - 0xDC00:02X}, which is not UTF-8"
    name = unicodedata.name(char, "")
    return f"U+{code:04X} {name}".rstrip()
