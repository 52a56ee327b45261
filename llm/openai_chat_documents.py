"""What of OpenAI's formats is a text, a sound or a file; their files are PDFs first of all.

Read with: ``openai_chat_messages.py``, ``openai_responses_input.py`` (the callers), ``media.py``.
"""

import re
from typing import Final

from .media import Source, decoded, text_in

SOUNDS: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
_TEXTS: Final = re.compile(
    r"text/.+|application/(?:.+\+)?(?:json|xml|yaml|x-yaml|toml|javascript|typescript|sql|x-sh|x-ndjson|jsonl)"
    r"|image/svg\+xml"
)
_SEEN_OR_HEARD: Final = ("audio/", "video/", "image/")
_ARCHIVES: Final = re.compile(
    r"application/(?:x-)?(?:zip|zip-compressed|gzip|tar|gtar|7z-compressed|rar|rar-compressed|bzip2?|xz|zstd"
    r"|java-archive)|application/vnd\.rar"
)


def is_text(kind: str) -> bool:
    """Whether a media type is one of texts."""
    return _TEXTS.fullmatch(kind) is not None


def is_seen_or_heard(kind: str) -> bool:
    """Whether a media type is one of images, sounds or films, which are no files here."""
    return kind.startswith(_SEEN_OR_HEARD)


def is_archive(kind: str) -> bool:
    """Whether a media type is one of packed files.

    >>> is_archive("application/zip"), is_archive("application/x-tar"), is_archive("application/pdf")
    (True, True, False)
    """
    return _ARCHIVES.fullmatch(kind) is not None


def document_text(source: Source, name: str) -> str | None:
    """What a document says, after its name; None for one that is no text in UTF-8.

    >>> document_text(Source("text/plain", "aGk="), "a.txt")
    'a.txt:\\n\\nhi'
    """
    text = text_in(decoded(source.data))
    return f"{name}:\n\n{text}" if name and text else text
