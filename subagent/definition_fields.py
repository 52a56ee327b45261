"""The keys that front matter of an agent may have, and what becomes of each.

Other programs' spellings of the same keys are read too. Values are checked strictly, by pydantic; errors
name key and line, and what was expected, never the value.

Read with: ``markdown.py`` (the caller), ``definition_front.py``.
"""

import functools
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NotRequired, cast

from unspool.kernel.ports import CallOptions, ThinkingLevel
from unspool.kernel.schema import pydantic_issues
from unspool.kernel.type_schema import arguments_adapter

from .budget import Budget
from .definition import ContextMode
from .definition_checks import DefinitionError
from .definition_front import Front

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

_FIELDS: Final[Mapping[str, Any]] = {
    "name": str,
    "description": str,
    "model": str,
    "thinking": ThinkingLevel,
    "temperature": float,
    "tools": list[str],
    "leave_out": list[str],
    "handoffs": list[str],
    "context": ContextMode,
    "background": bool,
    "max_turns": int,
    "budget": dict[str, Any],
    "mode": Literal["subagent", "all"],
    "color": str,
    "metadata": dict[str, Any],
}
_BUDGET: Final[Mapping[str, Any]] = {
    "turns": int,
    "tool_calls": int,
    "tokens": int,
    "cost": float,
    "seconds": float,
}
_ALIASES: Final = {"disallowed_tools": "leave_out", "effort": "thinking"}  # as Claude Code has them
_SPELLING: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|-")
_LISTS: Final = ("tools", "leave_out", "handoffs")
_AS_THEY_ARE: Final = ("name", "thinking", "context", "background", *_LISTS)
_TO_METADATA: Final = ("color", "mode")


class Fields:
    """The fields of one file's front matter."""

    def __init__(self, front: Front, where: str) -> None:
        self._where, self._written = where, dict[str, str]()
        self._lines = front.lines
        self._metadata: dict[str, Any] = {}
        self._values: dict[str, Any] = {}
        for key, value in front.values.items():
            self._take(key, value)
        self._check(_fields_adapter(), self._values)

    def _take(self, key: str, value: Any) -> None:
        if key.startswith("x-"):
            self._metadata[key] = value
            self._written[key] = key
            return
        spelled = _SPELLING.sub("_", key).lower()
        field = _ALIASES.get(spelled, spelled)
        self._written.setdefault(field, key)
        if field not in _FIELDS:
            raise self.refusal(
                field,
                f"no such key; there are {', '.join(sorted(_FIELDS))}; what is for other programs goes under "
                "metadata, or begins with x-",
            )
        if field in self._values:
            raise DefinitionError(
                f"{self._at(key)}: the same as {self._written[field]!r}, which is given too"
            )
        if field == "thinking" and value is False:  # YAML 1.1 reads off as false
            value = "off"
        if field in _LISTS and isinstance(value, str):
            value = self._names(field, value)
        self._values[field] = value

    def arguments(self, models: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of an ``AgentDefinition``; ``models`` says what models some names stand for."""
        given = self._values
        found: dict[str, Any] = {field: given[field] for field in _AS_THEY_ARE if field in given}
        if "description" in given:
            found["description"] = given["description"].strip()
        if "temperature" in given:
            if not math.isfinite(given["temperature"]):
                raise self.refusal("temperature", "must be finite")
            found["options"] = CallOptions(temperature=given["temperature"])
        if (model := given.get("model", "inherit")) != "inherit":
            found["model"] = models.get(model, model)
        return found | {"budget": self._budget(), "metadata": self._host_values()}

    def refusal(self, field: str, what: str, path: str = "") -> DefinitionError:
        """What is wrong with a field, as an error that names file, line and key; ``path`` goes below the key."""
        key = self._written.get(field, field)
        return DefinitionError(f"{self._at(key)}{path}: {what}")

    def _at(self, key: str) -> str:
        return f"{self._where}:{self._lines[key]}: {key if len(key) <= 64 else f'{key[:64]}…'}"

    def _check(
        self, adapter: "TypeAdapter[dict[str, Any]]", values: dict[str, Any], inside: str = ""
    ) -> None:
        try:
            adapter.validate_python(values)
        except ValueError as error:
            issue = pydantic_issues(cast("ValidationError", error), values)[0]
            path = issue.path.removeprefix("$")
            field = inside or path.removeprefix(".").partition("[")[0].partition(".")[0]
            known = f"no such key; there are {', '.join(_BUDGET)}"  # keys of the file itself are known by now
            text = known if issue.kind == "unknown" else issue.message
            raise self.refusal(
                field, text, path if inside else path[1 + len(field) :]
            ) from None  # its cause quotes the value

    def _names(self, field: str, value: str) -> list[str]:
        names = [name.strip() for name in value.split(",") if name.strip()]
        if not names:
            raise self.refusal(field, "names nothing; write [] for none, or leave the key out")
        return names

    def _budget(self) -> Budget:
        amounts = dict(self._values.get("budget", {}))
        if amounts:
            self._check(_budget_adapter(), amounts, "budget")
        if "max_turns" in self._values:
            if "turns" in amounts:
                raise self.refusal("max_turns", "the same as budget.turns, which is given too")
            amounts["turns"] = self._values["max_turns"]
        for name, amount in amounts.items():
            try:
                Budget(**{name: amount})
            except ValueError as error:
                field = "max_turns" if name == "turns" and "max_turns" in self._values else "budget"
                raise self.refusal(field, str(error).removeprefix("budget: ")) from None
        return Budget(**amounts)

    def _host_values(self) -> dict[str, Any]:
        given = dict(self._values.get("metadata", {}))
        for field, value in (("metadata", given), *self._metadata.items()):
            if not _is_json(value):
                text = "not JSON (a date, a number too large or not finite); put it in quotes"
                raise self.refusal(field, text)
        return (
            {key: self._values[key] for key in _TO_METADATA if key in self._values} | given | self._metadata
        )


def _is_json(value: Any) -> bool:
    match value:
        case dict():
            return all(_is_json(inner) for inner in value.values())
        case list():
            return all(_is_json(inner) for inner in value)
        case float():
            return math.isfinite(value)
        case int():
            return -(2**63) <= value < 2**63
        case _:
            return value is None or isinstance(value, str)


@functools.cache
def _fields_adapter() -> "TypeAdapter[dict[str, Any]]":
    return _adapter(_FIELDS)


@functools.cache
def _budget_adapter() -> "TypeAdapter[dict[str, Any]]":
    return _adapter(_BUDGET)


def _adapter(fields: Mapping[str, Any]) -> "TypeAdapter[dict[str, Any]]":
    return arguments_adapter({name: NotRequired[hint] for name, hint in fields.items()})
