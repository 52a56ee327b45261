"""A Markdown file with front matter taken apart: YAML between two lines ``---``, then the text.

What is read is plain: texts, numbers, lists and mappings. Anchors, aliases, tags, merge keys and keys
given twice are refused before anything is made of them, and so is what is too long or nested too deep.
Errors name the line and never say what stands there: it may be a secret.

Read with: ``markdown.py`` (the caller).
"""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from .definition_checks import DefinitionError

MAX_CHARS: Final = 32 * 1024  # of front matter: YAML is read slowly
MAX_DEPTH: Final = 16  # levels of lists and mappings
_FENCE: Final = "---"
_PROBLEMS: Final = (  # how PyYAML begins to tell the common ones
    ("mapping values are not allowed", "a ': ' inside a value; put the value in quotes"),
    ("found character '\\t'", "a tab; indent with spaces"),
    ("found character", "a character that no value begins with; put the value in quotes"),
    ("expected alphabetic or numeric character", "a value that begins with * or &; put it in quotes"),
    ("could not find expected ':'", "a line that is not 'key: value'"),
    ("found unexpected end of stream", "a quote that is never closed"),
    ("expected <block end>", "a line that does not fit the ones above; see its indentation and quotes"),
)


class Front(NamedTuple):
    """Front matter and what follows it. ``lines``: on which line of the file each key stands, from 1."""

    values: Mapping[str, Any]
    lines: Mapping[str, int]
    body: str


def read_front(text: str, where: str) -> Front:
    """The front matter of a text. ``where`` names the text in errors.

    Raises:
        DefinitionError: there is no front matter, or none that can be read.
        ImportError: PyYAML is not installed.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        raise DefinitionError(f"{where}:1: no front matter: the first line must be '---'")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), 0)
    if not end:
        raise DefinitionError(f"{where}:1: the front matter has no end: a line '---' must close it")
    front = "\n".join(lines[1:end]) + "\n"
    if len(front) > MAX_CHARS:
        raise DefinitionError(f"{where}: the front matter is longer than {MAX_CHARS} characters")
    values, places = _Reader(front, where).read()
    return Front(values, places, "\n".join(lines[end + 1 :]).strip())


class _Reader:
    """Reads YAML that is a mapping of texts to plain values."""

    def __init__(self, front: str, where: str) -> None:
        self._yaml = _yaml()
        self._front, self._where = front, where

    def read(self) -> tuple[dict[str, Any], dict[str, int]]:
        """The values by key, and the line of each."""
        try:
            self._check_events()
            loader = self._yaml.SafeLoader(self._front)
            root = loader.get_single_node()
            if root is None:
                return {}, {}
            if not isinstance(root, self._yaml.MappingNode):
                raise self._refusal(root, "expected 'key: value'")
            self._check_keys(root)
            return (
                {key.value: self._value(loader, key, value) for key, value in root.value},
                {key.value: _line(key.start_mark) for key, _ in root.value},
            )
        except self._yaml.YAMLError as error:
            raise self._unreadable(error) from None  # its text quotes the file

    def _check_events(self) -> None:
        """Refuse what plain values do without, before anything recursive or multiplying is done with it."""
        depth = 0
        for event in self._yaml.parse(self._front, Loader=self._yaml.SafeLoader):
            if isinstance(event, self._yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                raise self._refusal(
                    event, "anchors and aliases (&, *) are not read; quote what begins with one"
                )
            if getattr(event, "tag", None) is not None:
                raise self._refusal(event, "tags (!) are not read; quote what begins with one")
            if isinstance(event, self._yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, self._yaml.CollectionEndEvent):
                depth -= 1
            if depth > MAX_DEPTH:
                raise self._refusal(event, f"nested more than {MAX_DEPTH} levels deep")

    def _check_keys(self, root: Any) -> None:
        """See that all keys are texts, each once in its mapping: PyYAML would keep the last."""
        for mapping in self._mappings(root):
            seen = set()
            for key, _ in mapping.value:
                if key.tag != "tag:yaml.org,2002:str":
                    raise self._refusal(key, "a key that is not a text; put it in quotes")
                if key.value in seen:
                    raise self._refusal(key, "a key that is given twice")
                seen.add(key.value)

    def _mappings(self, node: Any) -> Iterator[Any]:
        if isinstance(node, self._yaml.MappingNode):
            yield node
            for _, value in node.value:
                yield from self._mappings(value)
        elif isinstance(node, self._yaml.SequenceNode):
            for item in node.value:
                yield from self._mappings(item)

    def _value(self, loader: Any, key: Any, node: Any) -> Any:
        try:
            return loader.construct_object(node, deep=True)
        except (ValueError, OverflowError):  # the 31st of February, a number of 10,000 digits
            raise self._refusal(key, "no such number or date; put a text in quotes") from None

    def _refusal(self, at: Any, what: str) -> DefinitionError:
        return DefinitionError(f"{self._where}:{_line(at.start_mark)}: {what}")

    def _unreadable(self, error: Any) -> DefinitionError:
        problem = str(getattr(error, "problem", None) or "")
        mark = getattr(error, "problem_mark", None)
        place = f":{_line(mark)}" if mark is not None else ""
        known = next((f": {text}" for begin, text in _PROBLEMS if problem.startswith(begin)), "")
        return DefinitionError(f"{self._where}{place}: not YAML{known}")


def _line(mark: Any) -> int:
    line: int = mark.line
    return line + 2  # marks count from 0, and the fence is a line too


def _yaml() -> Any:
    try:
        return importlib.import_module("yaml")
    except ImportError:
        raise ImportError("agents: PyYAML is not installed: pip install 'unspool[agents]'") from None
