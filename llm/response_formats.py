"""``CallOptions.response_format``, in the spellings that people know.

``{"type": "json"}`` asks for any JSON object, ``{"type": "json_schema", "schema": …}`` (with ``name`` and ``strict``
where wanted) for one of a schema. OpenAI's own spellings mean the same in every format: ``json_object``, and a
schema one level deeper, under ``json_schema``. ``{"type": "text"}`` is what comes if nothing is asked for.

Read with: the ``*_request.py`` files, ``gemini_format.py`` (the callers).
"""

from typing import Any

from unspool.kernel.errors import BadRequestError


def neutral_format(form: dict[str, Any]) -> dict[str, Any] | None:
    """``form`` in the first spelling of each; None where it is none of them.

    >>> neutral_format({"type": "json_object"}), neutral_format({"type": "text"})
    ({'type': 'json'}, {'type': 'text'})
    >>> neutral_format({"type": "json_schema", "json_schema": {"name": "n", "schema": {}}})
    {'type': 'json_schema', 'name': 'n', 'schema': {}}
    """
    match form:
        case {"type": "json" | "json_object"}:
            return {"type": "json"}
        case {"type": "json_schema", "json_schema": {"schema": dict()} as inner}:
            return {"type": "json_schema", **inner}
        case {"type": "json_schema", "schema": dict()}:
            return form
        case {"type": "text"}:
            return {"type": "text"}
        case _:
            return None


def unknown_format(form: dict[str, Any], format: str) -> BadRequestError:
    """The error for a format that is none of them, and none of the wire's own either."""
    what = 'it is {"type": "json"}, or {"type": "json_schema", "schema": …}'
    return BadRequestError(f"response_format: not known in {format}: {what}", type=str(form.get("type")))
