"""Where servers that speak chat/completions differ.

Read with: ``openai_chat_request.py``, ``openai_chat_messages.py`` (the users), ``presets.py`` (the known ones).
"""

from dataclasses import dataclass

from .openai_chat_thinking import Thinking, by_effort


@dataclass(frozen=True, slots=True)
class ChatDialect:
    """How one server takes the format; the defaults are what nearly all of them take.

    ``max_tokens`` is the name of that field, ``thinking`` says how hard to think (see
    ``openai_chat_thinking.py``). ``replay_thinking`` names the message field that reasoning goes back in; None
    leaves it out; with ``thinking_with_calls`` a reply that calls has it, though empty, since the server refuses
    one without. ``system_role`` is the role of the system prompt. ``strict`` says whether a tool may be
    strict, ``json_schema`` whether a reply may be given a schema (where not, it is asked for as any object, with a
    warning), ``stream_usage`` whether a stream can be asked for its usage, ``cache_key`` whether
    ``prompt_cache_key`` is known, ``cache_marks`` whether ``cache_control`` is.

    Some gateways want more: ``result_name`` the tool's name with each result, ``assistant_after_results`` an
    assistant message between results and the next user message, ``empty_tools`` a list of tools, though empty,
    whenever the history has calls.

    ``key_header`` is the header that carries the key; None is a bearer token.
    """

    max_tokens: str = "max_tokens"
    thinking: Thinking = by_effort
    replay_thinking: str | None = None
    thinking_with_calls: bool = False
    system_role: str = "system"
    strict: bool = True
    json_schema: bool = True
    stream_usage: bool = True
    cache_key: bool = False
    cache_marks: bool = False
    result_name: bool = False
    assistant_after_results: bool = False
    empty_tools: bool = False
    key_header: str | None = None
