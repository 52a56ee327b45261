"""Calls of free-form tools, whose input is any text, where they are sent as calls of ordinary ones.

OpenAI's formats have such tools, and say so in the signatures of their calls. Anywhere else the input becomes the
one argument of a call.

Read with: ``openai_chat_kept.py``, ``openai_responses_kept.py`` (write the signatures).
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from unspool.kernel.json_edge import encode_text
from unspool.kernel.messages import ToolCall


class _Kept(Struct, frozen=True):
    """What the signatures have in both formats, as far as they say that the tool is free-form."""

    custom: Any = False
    item: Any = None


_decode: Final = msgspec.json.Decoder(_Kept).decode


def sent_args(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call that is sent as an ordinary one; those that did not parse are sent as none."""
    return {"input": free_form_input(call)} if _is_free_form(call) else call.args


def sent_arguments(call: ToolCall) -> str:
    """The same as JSON, as the model wrote it."""
    return encode_text(sent_args(call)) if _is_free_form(call) else call.arguments_text


def free_form_input(call: ToolCall) -> str:
    """What a free-form tool was given: any text, which no JSON has to be."""
    return call.arguments_text if call.args_text is None else call.args_text


def _is_free_form(call: ToolCall) -> bool:
    if not call.thought_signature or "custom" not in call.thought_signature:
        return False
    try:
        kept = _decode(call.thought_signature)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    item = kept.item if isinstance(kept.item, dict) else {}
    return kept.custom is True or item.get("type") == "custom_tool_call"
