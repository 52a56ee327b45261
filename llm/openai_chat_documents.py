"""What of OpenAI's formats is a text, a sound or a file; their files are PDFs first of all.

Read with: ``openai_chat_messages.py``, ``openai_responses_input.py`` (the callers).
"""

import base64
import re
from typing import Final

from unspool.kernel.messages import Document

_TEXTS: Final = re.compile(
    r"text/.+|application/(?:.+\+)?(?:json|xml|yaml|x-yaml|toml|javascript|typescript|sql|x-sh|x-ndjson|jsonl)"
)


def document_text(block: Document) -> str | None:
    """What a document of text says, after its name; None for any other, or where it is no UTF-8.

    >>> document_text(Document(data="aGk=", mime_type="text/plain", name="a.txt"))
    'a.txt:\\n\\nhi'
    """
    if block.data is None or not _TEXTS.fullmatch(_kind(block)):
        return None
    try:
        text = base64.b64decode(block.data).decode()
    except ValueError:
        return None
    return f"{block.name}:\n\n{text}" if block.name and text else text


def is_sound(block: Document) -> bool:
    return _kind(block).startswith("audio/")


def _kind(block: Document) -> str:
    return block.mime_type.partition(";")[0].strip().lower()
