"""What the answer of a Gemini model is to look like: ``response_format``, as fields of the request or in words.

Generations before 3 refuse JSON as the format of an answer beside tools ("Function calling with a response mime
type: 'application/json' is unsupported"). Where tools may be called, such a model is asked in the system prompt,
with a ``LeftOutWarning``: nothing then holds it to the format, so whoever needs it checks the answer, as agents
with a typed answer do. Tools that may not be called are not sent, and the format is asked for.

Read with: ``gemini_request.py`` (the caller), ``gemini_schema.py``.
"""

import warnings
from typing import Any, Final

from unspool.kernel.json_edge import encode_text

from .gemini_schema import gemini_schema
from .gemini_wire import FORMAT
from .origins import LeftOutWarning
from .response_formats import neutral_format, unknown_format
from .schemas import plain_schema

_WIRE: Final = frozenset(  # either spelling is understood
    {"responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities"}
    | {"response_mime_type", "response_schema", "response_json_schema", "response_modalities"}
)


def response_format(neutral: dict[str, Any], *, json_schema: bool) -> dict[str, Any]:
    """The fields of ``generationConfig`` that ask for a format.

    The wire's own fields (``responseMimeType`` and its kin) pass as they are. ``json_schema`` is that of the dialect.

    Raises:
        BadRequestError: it is neither of the forms in ``response_formats.py`` nor of the wire's.
    """
    match neutral_format(neutral) or neutral:
        case {"type": "json"}:
            return {"responseMimeType": "application/json"}
        case {"type": "json_schema", "schema": schema}:
            key = "responseJsonSchema" if json_schema else "responseSchema"
            sent = plain_schema(schema) if json_schema else gemini_schema(schema)
            return {"responseMimeType": "application/json", key: sent}
        case {"type": "text"}:
            return {}
        case _ if not _WIRE.isdisjoint(neutral):
            return neutral
        case _:
            raise unknown_format(neutral, FORMAT)


def excludes_tools(neutral: dict[str, Any] | None, generation: float) -> bool:
    """Whether a model takes this format only without tools; one whose generation is not known takes both."""
    asked = None if neutral is None else neutral_format(neutral)
    return 0 < generation < 3 and asked is not None and asked["type"] != "text"


def format_in_words(neutral: dict[str, Any]) -> str:
    """A format as the system prompt asks for it."""
    warnings.warn(
        f"response_format is not sent in {FORMAT}: the system prompt asks for it, since tools exclude it",
        LeftOutWarning,
        stacklevel=2,
    )
    words = "Your final answer, once you call no more tools, is JSON alone: no words around it, no fence."
    if schema := (neutral_format(neutral) or {}).get("schema"):
        words += f" It matches this JSON Schema:\n{encode_text(plain_schema(schema))}"
    return words
