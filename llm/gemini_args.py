"""Puts a call's arguments together from ``partialArgs``: values, each with its place in the arguments.

A place is a JSON path (RFC 9535) of names and indexes: ``$.files[0].name``, ``$['a key']``. A text may come in
pieces; each but the last says that it continues. An object or array on the way is made when it is first needed.

Read with: ``gemini_stream.py`` (the caller), ``gemini_wire.py``.
"""

import re
from itertools import pairwise
from typing import Any, Final

from .gemini_wire import PartialArg

_STEP: Final = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_ESCAPE: Final = re.compile(r"\\(.)")
_MAX_STEPS: Final = 64
_MAX_GAP: Final = 1000  # places of an array that are skipped at once


class ArgsBuilder:
    """The arguments so far, as ``args``."""

    __slots__ = ("_args", "_continued", "_pieces", "_place")

    def __init__(self) -> None:
        self._args: dict[str, Any] = {}
        self._continued = ""  # the path of a text that goes on
        self._pieces: list[str] = []  # of that text
        self._place: tuple[Any, str | int] = self._args, ""  # where it is to stand

    @property
    def args(self) -> dict[str, Any]:
        self._settle()
        return self._args

    def add(self, piece: PartialArg) -> None:
        """Take in one piece.

        Raises:
            ValueError: its path is none, or leads through a value that has no inside.
        """
        value: Any = _value(piece)
        goes_on = isinstance(value, str) and self._continued == piece.json_path
        if goes_on and self._pieces:
            self._pieces.append(value)
        else:
            self._put(piece.json_path, value, goes_on)
        self._continued = piece.json_path if piece.will_continue and isinstance(value, str) else ""

    def _put(self, path: str, value: Any, goes_on: bool) -> None:
        steps = steps_of(path)
        place: Any = self.args
        for step, inner in pairwise(steps):
            known = _get(place, step)
            if known is None:
                known = {} if isinstance(inner, str) else []
                _set(place, step, known)
            place = known
        if goes_on:
            value = f"{_get(place, steps[-1]) or ''}{value}"
        _set(place, steps[-1], value)
        if isinstance(value, str):
            self._pieces, self._place = [value], (place, steps[-1])

    def _settle(self) -> None:
        if len(self._pieces) > 1:
            place, step = self._place
            place[step] = "".join(self._pieces)
        self._pieces = []


def steps_of(path: str) -> list[str | int]:
    """The names and indexes of a JSON path.

    Raises:
        ValueError: it is none, it has no steps, or too many.

    >>> steps_of("$.files[0]['a.b']")
    ['files', 0, 'a.b']
    """
    steps: list[str | int] = []
    end = 1
    while found := _STEP.match(path, end):
        name, index, single, double = found.groups()
        quoted = single if single is not None else double
        steps.append(int(index) if index else name if name else _ESCAPE.sub(r"\1", quoted))
        end = found.end()
    if path[:1] != "$" or end != len(path) or not 0 < len(steps) <= _MAX_STEPS:
        raise ValueError("not a path that leads into arguments")
    return steps


def _value(piece: PartialArg) -> Any:
    """The value of a piece; one that names none of the others is null."""
    for value in (piece.string_value, piece.number_value, piece.bool_value):
        if value is not None:
            return value
    return None


def _get(place: Any, step: str | int) -> Any:
    match place, step:
        case dict(), str():
            return place.get(step)
        case list(), int():
            return place[step] if step < len(place) else None
        case _:
            raise ValueError("the path leads through a value that has no inside")


def _set(place: Any, step: str | int, value: Any) -> None:
    _get(place, step)
    if isinstance(step, int):
        if step > len(place) + _MAX_GAP:
            raise ValueError("the path leads far beyond the end of an array")
        place.extend([None] * (step + 1 - len(place)))
    place[step] = value
