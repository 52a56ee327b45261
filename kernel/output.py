"""Answers of a type: the schema the model is given, and what its last answer is checked against.

Read with: ``agent.py`` (the owner), ``type_schema.py``.
"""

import re
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .config import LoopConfig
from .hooks import StopGuard, StopInfo, StopVerdict
from .schema import pydantic_issues
from .type_schema import schema_for

if TYPE_CHECKING:
    from pydantic import ValidationError

OutT = TypeVar("OutT")
MAX_REMINDERS = 2  # how often the model is told what is wrong before the run fails


class Output(Generic[OutT]):
    """How answers become values of ``type``."""

    def __init__(self, type: type[OutT]) -> None:
        from pydantic import TypeAdapter  # noqa: PLC0415  # 50 ms that an import of unspool must not cost

        self.type = type
        self._reminders: dict[str, int] = {}  # of the newest run, by its id
        self._adapter: TypeAdapter[OutT] = TypeAdapter(type)
        self.format: dict[str, Any] = {
            "type": "json_schema",
            "name": re.sub(r"[^A-Za-z0-9_-]", "_", getattr(type, "__name__", "output")),
            "schema": schema_for(type),
        }

    def parse(self, text: str) -> OutT:
        """The answer's value.

        Raises:
            ValueError: it is not JSON of this type; ``problem`` says why in words.
        """
        return self._adapter.validate_json(_without_fence(text))

    def problem(self, text: str) -> str:
        """What is wrong with an answer, in words for the model; empty where nothing is."""
        try:
            self.parse(text)
        except ValueError as error:
            issues = pydantic_issues(_as_pydantic(error), {})
            return "; ".join([issue.text for issue in issues]) or str(error)
        return ""

    def guard(self, config: LoopConfig) -> StopGuard:
        """A guard that has the model answer again where its answer is not of the type, then asks the host's."""
        hosts = config.hooks.stop_guard

        async def guard(info: StopInfo) -> StopVerdict:
            problem = self.problem(info.reply.text if info.reply is not None else "")
            if problem:
                run_id = info.state.run_id
                count = self._reminders.get(run_id, 0) + 1
                self._reminders = {run_id: count}
                if count > MAX_REMINDERS:
                    return StopVerdict(
                        "fail", f"output: the answer is not a {self.format['name']}: {problem}"
                    )
                return StopVerdict("go_on", config.texts.output_invalid.format(problems=problem))
            if hosts is None:
                return StopVerdict()
            verdict = hosts(info)
            return await verdict if isawaitable(verdict) else verdict

        return guard


def _as_pydantic(error: ValueError) -> "ValidationError":
    return error  # type: ignore[return-value]  # validate_json raises nothing else


def _without_fence(text: str) -> str:
    """The JSON of an answer that puts it into a Markdown code fence, as many models do."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") + 1 : -3]
    return text
