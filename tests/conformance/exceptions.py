"""Where a folder's expectation is wrong or a matter of choice; the reasons are in ``docs/conformance.md``.

By the id of an exchange: the fields that are expected otherwise, as they would stand in ``expected``.
"""

from typing import Any, Final

INSTEAD: Final[dict[str, dict[str, Any]]] = {
    "cloudflare.openai-chat.n.cloudflare-data-extraction.fb15a0": {
        "text": '{"title":"Apples are tasty","author":"Hadley Wickham"}'
    },
}
END_TWICE: Final = frozenset(
    {
        "gemini.gemini.s.two-terminal-stream-agent-prompt-keeps-the-ans.4a3f1f",
        "gemini.gemini.s.two-terminal-stream-unicode-answer-after-the-f.ca020d",
    }
)
"""Streams that say twice that they end: one that is cut after the first time cannot be told from a whole one."""
