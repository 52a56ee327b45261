"""Typed answers of children as JSON, and typed arguments.

Read with: ``child.py`` and ``agent_tool.py`` (the callers), ``unspool.kernel.output``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from unspool.kernel.output import Output
from unspool.kernel.schema import pydantic_issues

if TYPE_CHECKING:
    from pydantic import ValidationError


def as_json(type: Any, text: str) -> str:
    """An answer of a type as JSON text.

    Raises:
        ValueError: it is none.
    """
    from pydantic import TypeAdapter  # noqa: PLC0415  # 50 ms that an import of unspool must not cost

    adapter: TypeAdapter[Any] = TypeAdapter(type)
    return adapter.dump_json(Output(type).parse(text)).decode()


def problem_with(type: Any, args: Mapping[str, Any]) -> str | None:
    """Why arguments are not of a type, beyond what its schema says; None where they are."""
    from pydantic import TypeAdapter  # noqa: PLC0415  # as above

    adapter: TypeAdapter[Any] = TypeAdapter(type)
    try:
        adapter.validate_json(msgspec.json.encode(dict(args)))
    except ValueError as error:
        issues = pydantic_issues(cast("ValidationError", error), args)
        return "; ".join([issue.text for issue in issues]) or str(error)
    return None
