"""``ask_user``: a question for the person; the answer is what they say when they let the call pass.

The call waits as any call that needs approval: the run pauses, or ``Hooks.approve`` answers. The answer comes from
``ToolContext.decision`` alone, never from the arguments, so a model can't answer itself.

``Verdict.allow(reason="Blue", by="ann")`` answers in words, ``Verdict.allow(details={"choice": 2})`` takes the second
option, counted from 1; with both, the words are a comment. ``Verdict.deny`` declines.
"""

from typing import Any, Final

from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import RawTool, raw_tool
from unspool.kernel.ports import JSON, ToolContext, ToolResult

from .text import MAX_RESULT, shown

MAX_QUESTION = 4000  # characters
MAX_OPTIONS = 10
MAX_OPTION = 300  # characters of one option
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "question": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_QUESTION,
            "description": "one question, with what the person needs to know to answer it",
        },
        "options": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_OPTION},
            "minItems": 2,
            "maxItems": MAX_OPTIONS,
            "uniqueItems": True,
            "description": "answers to choose from; the person may give another",
        },
    },
    "required": ["question"],
    "additionalProperties": False,
}


def ask_user_tool() -> RawTool:
    """The tool ``ask_user``."""
    return raw_tool(
        "ask_user",
        "Ask the person a question and wait for the answer. Use it where only they can decide; not for "
        "what you can find out yourself.",
        _SCHEMA,
        _answer,
        preview=_preview,
        title="Question",
        activity="waiting for an answer",
        read_only=True,
        concurrency_safe=False,
        destructive=False,
        idempotent=True,  # the answer was given before the call runs
        open_world=False,
        needs_approval=True,
        max_result_bytes=MAX_RESULT,
    )


async def _preview(args: JSON, ctx: ToolContext) -> JSON:
    """The question and the options, as data and as text with the numbers that ``choice`` counts."""
    options: list[str] = args.get("options") or []
    lines = [args["question"], *(f"{number}. {shown(text)}" for number, text in enumerate(options, 1))]
    return {"text": "\n".join(lines), "question": args["question"], "options": options}


async def _answer(args: JSON, ctx: ToolContext) -> ToolResult:
    decision = ctx.decision
    said = decision.reason.strip() if decision is not None else ""
    choice = decision.details.get("choice") if decision is not None else None
    option = _option(args.get("options") or [], choice) if choice is not None else ""
    by = decision.by if decision is not None else ""
    answer = {"answer": option or said, "choice": choice, "comment": said if option else "", "by": by}
    return ToolResult(content=_text(option, said), details={"answer": answer})


def _option(options: list[str], choice: object) -> str:
    """The option that was chosen.

    Raises:
        ToolError: there is no such option.
    """
    if type(choice) is not int or not 1 <= choice <= len(options):
        raise ToolError(
            f"the answer cannot be used: it names option {choice!r} of {len(options)}; ask again if you need it"
        )
    return options[choice - 1]


def _text(option: str, said: str) -> str:
    if option:
        return f"The person chose: {option}" + (f"\nThey added: {said}" if said else "")
    if said:
        return f"The person answered: {said}"
    return "The person let the question pass without an answer: go on as you think best, or ask more exactly."
