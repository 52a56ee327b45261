"""Blocks of every kind, the kernel's own and those that only one format has.

Read with: ``request_table.py`` (the user).
"""

from typing import Any, Final

from unspool.kernel.messages import (
    Content,
    Document,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolReference,
    make_call,
)
from unspool.llm.openai_chat_kept import kept_call
from unspool.llm.openai_responses_kept import kept_call as kept_item
from unspool.llm.openai_responses_kept import kept_message, kept_reasoning

GIVEN: Final = "aGk="
USER: Final[dict[str, Content]] = {
    "text": Text("hi"),
    "blank text": Text(" "),
    "image": Image(data=GIVEN, mime_type="image/png"),
    "image without a type": Image(data=GIVEN),
    "image by url": Image(url="https://example.org/a.png"),
    "image by data url": Image(url=f"data:image/png;base64,{GIVEN}"),
    "no image": Image(),
    "pdf": Document(data=GIVEN, mime_type="application/pdf", name="a.pdf"),
    "pdf without a name": Document(data=GIVEN),
    "pdf by url": Document(url="https://example.org/a.pdf", name="a.pdf"),
    "text document": Document(data=GIVEN, mime_type="text/plain", name="a.txt"),
    "sound": Document(data=GIVEN, mime_type="audio/wav"),
    "archive": Document(data="gIGC", mime_type="application/zip", name="a.zip"),
    "reference": ToolReference("search"),
    "block of another": Opaque(provider="elsewhere", data={"type": "x"}),
}
_ITEM: Final = {"id": "ws_1", "type": "web_search_call", "status": "completed"} | {
    "action": {"type": "search", "query": "q", "queries": ["q"]}
}
_SERVED: Final = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "q"},
}
_FOUND: Final = {"type": "web_search_result", "url": "https://example.org", "title": "t"}
_RESULT: Final = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{**_FOUND, "encrypted_content": "e", "page_age": None}],
}
_CITED: Final = {"type": "web_search_result_location", "url": "https://example.org", "title": "t"} | {
    "encrypted_index": "e",
    "cited_text": "c",
}
USER_OWN: Final[dict[str, Any]] = {
    "openai-chat": {"type": "file", "file": {"file_id": "file-1"}},
    "openai-responses": {"type": "input_file", "file_id": "file-1"},
    "anthropic-messages": {
        "type": "search_result",
        "source": "s",
        "title": "t",
        "content": [{"type": "text", "text": "x"}],
    },
    "gemini": {"fileData": {"fileUri": "https://example.org/a.mp4", "mimeType": "video/mp4"}},
}
ASSISTANT_OWN: Final[dict[str, tuple[Content, ...]]] = {
    "openai-chat": (
        Opaque(
            provider="openai-chat",
            data={
                "type": "reasoning_details",
                "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s"}],
            },
        ),
        Opaque(
            provider="openai-chat",
            data={"type": "audio", "audio": {"id": "audio_1", "data": GIVEN, "transcript": "t"}},
        ),
        Opaque(
            provider="openai-chat",
            data={"type": "annotations", "annotations": [{"type": "url_citation", "url_citation": {}}]},
        ),
        Text("so"),
    ),
    "openai-responses": (
        Thinking(
            text="hm",
            signature=kept_reasoning(
                {
                    "id": "rs_1",
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": "hm"}],
                    "encrypted_content": "e",
                },
                "summary",
            ),
        ),
        Opaque(provider="openai-responses", data=_ITEM),
        Text("so"),
        kept_message(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "phase": "final_answer",
                "content": [{"type": "output_text", "text": "so", "annotations": [], "logprobs": []}],
            },
            "rs_1",
        )
        or Text(""),
    ),
    "anthropic-messages": (
        Opaque(provider="anthropic-messages", data=_SERVED),
        Opaque(provider="anthropic-messages", data=_RESULT),
        Text("so"),
        Opaque(
            provider="anthropic-messages",
            data={"type": "fields_of_text", "citations": [_CITED]},
        ),
    ),
    "gemini": (
        Opaque(provider="gemini", data={"executableCode": {"language": "PYTHON", "code": "1"}}),
        Opaque(
            provider="gemini",
            data={"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        ),
        Text("so"),
        Opaque(provider="gemini", data={"thoughtSignature": GIVEN}),
    ),
}
SIGNATURES: Final = {
    "openai-responses": kept_reasoning(
        {"id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}, "content"
    ),
}
FIRST, SECOND = make_call("c1", "search", '{"q": "x"}'), make_call("c2", "clock")
CALLS: Final[dict[str, ToolCall]] = {
    "call": FIRST,
    "call with spaces": make_call("c1", "search", '{ "q" : "x" }'),
    "call with broken arguments": make_call("c1", "search", '{"q":'),
    "call with a long id": make_call(f"tool:{'x' * 90}", "search", '{"q": "x"}'),
    "call with a signature": ToolCall(id="c1", name="search", args={"q": "x"}, thought_signature=GIVEN),
}
OWN_CALLS: Final[dict[str, dict[str, ToolCall]]] = {
    "openai-responses": {
        "call with an item's id": ToolCall(
            id="c1",
            name="search",
            args={"q": "x"},
            thought_signature=kept_item({"type": "function_call", "id": "fc_1", "status": "completed"}, ""),
        ),
        "free-form call": ToolCall(
            id="c1",
            name="search",
            args_text="x",
            args_invalid=True,
            thought_signature=kept_item({"type": "custom_tool_call", "id": "ctc_1"}, ""),
        ),
    },
    "openai-chat": {
        "call with a signature of Gemini": ToolCall(
            id="c1",
            name="search",
            args={"q": "x"},
            thought_signature=kept_call(False, {"google": {"thought_signature": GIVEN}}),
        ),
        "free-form call": ToolCall(
            id="c1", name="search", args_text="x", args_invalid=True, thought_signature=kept_call(True, None)
        ),
    },
}
