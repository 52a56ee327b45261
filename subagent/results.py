"""What a call of a child came to, and how several results are told.

Read with: ``child.py`` (who makes one), ``texts.py``, ``subagent_tool.py``.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from unspool.kernel.errors import ToolError
from unspool.kernel.messages import Text
from unspool.kernel.ports import ToolResult
from unspool.kernel.tool_call import Outcome

from . import texts
from .tally import Tally


class ChildResult(NamedTuple):
    """What a child came to; how it ended is the ``end_reason`` of its run, never its text.

    ``thread`` is the session that a later call may go on with, empty where none can. ``problem`` says why there is
    no answer. ``value`` is a typed answer as JSON text.
    """

    agent: str
    session: str
    thread: str
    tally: Tally
    problem: str = ""
    value: str = ""
    cancelled: bool = False

    @property
    def display(self) -> str:
        """The answer as a model reads it."""
        return self.value or texts.display(self.tally.output, self.tally.terminal)

    @property
    def text(self) -> str:
        """The answer, or why there is none, with the thread to go on with."""
        if self.problem:
            return texts.failure(self.agent, self.problem, self.tally, self.thread)
        if self.value or not self.thread:
            return self.display
        return f"{self.display}\n\n{texts.thread_line(self.thread)}"

    @property
    def details(self) -> dict[str, Any]:
        """The same for hosts, as JSON."""
        tally = self.tally
        said = {
            "agent": self.agent,
            "session": self.session,
            "output": tally.output,
            "end_reason": tally.end_reason,
            "turns": tally.turns,
            "tools": tally.tools,
            "usage": texts.usage_details(tally.usage),
        }
        given = {"thread": self.thread, "terminal_result": tally.terminal, "problem": self.problem}
        if self.problem:
            given |= {"error_kind": tally.error_kind, "error": tally.error}
        return said | {name: value for name, value in given.items() if value}

    def answer(self) -> object:
        """The result of a call with this one child.

        Raises:
            ToolError: it has no answer.
        """
        if self.cancelled:
            return Outcome("cancelled", (Text(self.text),), self.details)
        if self.problem:
            raise ToolError(self.text, **self.details)
        return ToolResult(content=self.text, details=self.details)


class Failed(NamedTuple):
    """A child that could not be called at all."""

    agent: str
    problem: str

    @property
    def text(self) -> str:
        return self.problem

    @property
    def details(self) -> dict[str, Any]:
        return {"agent": self.agent, "problem": self.problem}


def parallel_result(results: Sequence[ChildResult | Failed]) -> ToolResult:
    """The results of children that ran side by side, in the order in which they were asked for."""
    good = sum(not each.problem for each in results)
    parts = [f"{good}/{len(results)} succeeded"]
    for number, each in enumerate(results, 1):
        parts.append(f"## {number}. {each.agent}{': failed' if each.problem else ''}\n{each.text}")
    return ToolResult(content="\n\n".join(parts), details=_several("parallel", results, good, len(results)))


def chain_result(results: Sequence[ChildResult | Failed], steps: int) -> ToolResult:
    """The last result of a chain; where a step failed, its error and the results before it."""
    last, good = results[-1], sum(not each.problem for each in results)
    details = _several("chain", results, good, steps)
    if not last.problem:
        return ToolResult(content=last.text, details=details)
    parts = [f"step {len(results)} of {steps} failed, the others were not run:\n{last.text}"]
    for number, each in enumerate(results[:-1], 1):
        parts.append(f"## {number}. {each.agent}\n{each.text}")
    return ToolResult(content="\n\n".join(parts), details=details)


def _several(mode: str, results: Sequence[ChildResult | Failed], good: int, total: int) -> dict[str, Any]:
    return {
        "mode": mode,
        "succeeded": good,
        "total": total,
        "results": [each.details for each in results],
    }
