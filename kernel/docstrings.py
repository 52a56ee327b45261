"""What a Google-style docstring tells a model: the description, and a text for each parameter.

Read with: ``tool_definition.py`` (the caller).
"""

import inspect
import re
from typing import NamedTuple

_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns?|Raises|Yields?):\s*")
_ENTRY = re.compile(r"(\w+)\s*(?:\([^)]*\))?:\s*(.*)")


class Docs(NamedTuple):
    """The text before the first section, and the entries of ``Args:`` by parameter."""

    description: str
    parameters: dict[str, str]


def read_docstring(doc: str) -> Docs:
    """What ``doc`` says; sections other than ``Args:`` are left out."""
    head: list[str] = []
    entries: dict[str, list[str]] = {}
    section, indent, current = "", 0, ""
    for line in inspect.cleandoc(doc).splitlines():
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        if _SECTION.fullmatch(line):
            section, indent = text[0], 0
        elif not section:
            head.append(line)
        elif section in "AP" and text:
            indent = indent or depth
            entry = _ENTRY.fullmatch(text) if depth == indent else None
            if entry:
                current = entry[1]
                entries[current] = [entry[2]]
            elif current:
                entries[current].append(text)
    return Docs("\n".join(head).strip(), {name: " ".join(lines).strip() for name, lines in entries.items()})
