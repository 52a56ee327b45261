"""How far lines are indented in a file, compared with how a model wrote them. Pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

_DEFAULT_STEP = "    "


def indent_of(line: str) -> str:
    """The blanks and tabs that ``line`` begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


class _Steps(NamedTuple):
    """One step of indentation as the model and as the file has it; empty where both have the same."""

    mine: str = ""
    theirs: str = ""

    def convert(self, blanks: str) -> str:
        count = len(blanks) // len(self.mine) if self.mine else 0
        return self.theirs * count if self.mine * count == blanks else blanks


class Reindent:
    """Gives new lines the indentation of the file's lines, by pairs of lines that are the same."""

    def __init__(self, pairs: Mapping[str, str], new: Iterable[str]) -> None:
        self._pairs = pairs
        self._steps = _steps(pairs, new)

    @classmethod
    def learn(cls, old: Sequence[str], found: Sequence[str], new: Iterable[str]) -> "Reindent | None":
        """From lines of the old text and the file's lines in their place; None where these contradict.

        Blank lines, and lines that differ in more than their indentation, teach nothing.
        """
        pairs: dict[str, str] = {}
        for mine, theirs in zip(old, found, strict=True):
            if mine.strip() and mine.strip() == theirs.strip():
                indent = indent_of(theirs)
                if pairs.setdefault(indent_of(mine), indent) != indent:
                    return None
        return cls(pairs, new)

    def line(self, line: str) -> str:
        """``line`` as it is indented in the file."""
        indent = indent_of(line)
        if not line.strip() or not self._pairs:
            return line
        return self._indent(indent) + line[len(indent) :]

    def _indent(self, indent: str) -> str:
        known = [each for each in self._pairs if indent.startswith(each)]
        if known:
            nearest = max(known, key=len)
            return self._pairs[nearest] + self._steps.convert(indent[len(nearest) :])
        nearest = min(self._pairs, key=len)  # the line stands further left than all that are known
        if not nearest.startswith(indent):
            return indent
        return self._pairs[nearest].removesuffix(self._steps.convert(nearest[len(indent) :]))


def _steps(pairs: Mapping[str, str], new: Iterable[str]) -> _Steps:
    """What the pairs say of a step, else a guess where only one of the two sides has tabs."""
    other_kind = any(("\t" in mine) != ("\t" in theirs) for mine, theirs in pairs.items() if mine and theirs)
    base = {"": ""} if other_kind else {}
    known = sorted((base | dict(pairs)).items(), key=lambda pair: len(pair[0]))
    found = [
        _one(lower, upper, pairs_lower, pairs_upper)
        for (lower, pairs_lower), (upper, pairs_upper) in pairwise(known)
        if upper.startswith(lower)
        and pairs_upper.startswith(pairs_lower)
        and len(pairs_upper) > len(pairs_lower)
    ]
    if found:
        return min(found, key=lambda steps: len(steps.mine))
    mine = _smallest([*pairs, *(indent_of(line) for line in new if line.strip())])
    theirs = _smallest(pairs.values())
    if mine and theirs and (mine == "\t") != (theirs == "\t"):
        return _Steps(mine, "\t" if theirs == "\t" else _DEFAULT_STEP)
    return _Steps()


def _one(lower: str, upper: str, their_lower: str, their_upper: str) -> _Steps:
    """One step, from a difference that may be several of them."""
    mine, theirs = upper[len(lower) :], their_upper[len(their_lower) :]
    for one, other in ((mine, theirs), (theirs, mine)):
        count = one.count("\t")
        if count == len(one) and len(other) % count == 0:
            step = other[: len(other) // count]
            return _Steps("\t", step) if one is mine else _Steps(step, "\t")
    return _Steps(mine, theirs)


def _smallest(indents: Iterable[str]) -> str:
    """A tab, or as many blanks as the smallest difference; ``""`` where nothing is indented."""
    each = sorted(set(indents), key=len)
    if any("\t" in indent for indent in each):
        return "\t"
    gaps = [len(b) - len(a) for a, b in pairwise(["", *each]) if len(b) > len(a)]
    return " " * min(gaps, default=0)
