"""Agents defined in Markdown files: front matter says what they are, the text is their system prompt.

::

    ---
    name: reviewer
    description: Reviews a change. Use it before each commit.
    tools: read_file, grep, mcp__github__*
    model: inherit
    max_turns: 20
    ---
    You review code. Say what is wrong, with file and line.

Keys: ``name`` (else the file's stem), ``description``, ``tools`` and ``leave_out`` or ``disallowed-tools`` (lists,
or names with commas), ``model`` (``inherit`` is the caller's), ``thinking`` or ``effort``, ``temperature``, ``context``,
``background``, ``handoffs``, ``max_turns``, ``budget`` (turns, tool_calls, tokens, cost, seconds). ``color``, ``mode``,
keys that begin with ``x-`` and the mapping ``metadata`` are the host's, in ``AgentDefinition.metadata``. Hyphens,
underscores and camelCase are the same. Reading needs PyYAML: ``pip install 'unspool[agents]'``.

Read with: ``definition_fields.py``, ``definition_front.py``.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from unspool.kernel.ports import ChatModel, Tool
from unspool.kernel.redaction import holds_key

from .definition import AgentDefinition, listed, unique, unknown_names
from .definition_checks import DefinitionError
from .definition_fields import Fields
from .definition_front import read_front

MAX_BYTES: Final = 256 * 1024  # of a file


def read_definitions(
    folder: str | os.PathLike[str],
    *,
    tools: Sequence[Tool] | None = None,
    models: Mapping[str, ChatModel | str] | None = None,
    recursive: bool = False,
) -> tuple[AgentDefinition, ...]:
    """The agents of a folder's ``*.md`` files, sorted by name. See ``read_definition`` for ``tools`` and ``models``.

    Only regular files are read, not links, and none whose name begins with a dot. ``recursive`` reads the folders
    below too. Agents may hand over to ones that are defined elsewhere: ``definitions`` checks that.

    Raises:
        DefinitionError: a file cannot be used, or two name the same agent.
        ImportError: PyYAML is not installed.
        OSError: the folder or a file cannot be read.
    """
    files = sorted(_files(Path(folder), recursive))
    return unique([read_definition(file, tools=tools, models=models) for file in files])


def read_definition(
    path: str | os.PathLike[str],
    *,
    tools: Sequence[Tool] | None = None,
    models: Mapping[str, ChatModel | str] | None = None,
) -> AgentDefinition:
    """The agent of a Markdown file.

    ``tools`` are those that callers will have: with them, a name of a tool that is not among them is an error here
    and not with the first call. ``models`` says which models names in the file stand for (``sonnet``); other names
    stay as they are, for ``register_models``.

    Raises:
        DefinitionError: the file cannot be used; the error names it and, where it is about a key, key and line.
        ImportError: PyYAML is not installed.
        OSError: the file cannot be read.
    """
    path = Path(path)
    return parse_definition(_read(path), name=path.stem, source=str(path), tools=tools, models=models)


def parse_definition(
    text: str,
    *,
    name: str = "",
    source: str = "",
    tools: Sequence[Tool] | None = None,
    models: Mapping[str, ChatModel | str] | None = None,
) -> AgentDefinition:
    """The agent of a Markdown text; ``name`` stands where it has none. See ``read_definition``.

    Raises:
        DefinitionError: the text cannot be used.
        ImportError: PyYAML is not installed.
    """
    where = source or "front matter"
    if holds_key(text):
        raise DefinitionError(f"{where}: holds a key of a model provider; give keys to the model")
    front = read_front(text, where)
    fields = Fields(front, where)
    arguments = {"name": name, **fields.arguments(models or {})}
    if not front.body:
        raise DefinitionError(f"{where}: no system prompt follows the front matter")
    try:
        agent = AgentDefinition(**arguments, system=front.body, source=source)
    except DefinitionError as error:
        raise DefinitionError(f"{where}: {error}") from error
    if tools is not None:
        _check_tools(agent, fields, [tool.spec.name for tool in tools])
    return agent


def _check_tools(agent: AgentDefinition, fields: Fields, names: Sequence[str]) -> None:
    for field, patterns in (("tools", agent.tools or ()), ("leave_out", agent.leave_out)):
        missing = unknown_names([pattern for pattern in patterns if isinstance(pattern, str)], names)
        if missing:
            raise fields.refusal(field, f"no such tool: {', '.join(missing)}; {listed(names)}")


def _read(path: Path) -> str:
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise DefinitionError(f"{path}: not a regular file")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise DefinitionError(f"{path}: larger than {MAX_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DefinitionError(f"{path}:{line}: not UTF-8") from None  # its text quotes the file


def _files(folder: Path, recursive: bool) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        found = [entry for entry in entries if not entry.name.startswith(".")]
    for entry in found:
        if entry.is_file(follow_symlinks=False) and entry.name.endswith(".md"):
            yield Path(entry)
        elif recursive and entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry), recursive)
