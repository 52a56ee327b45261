"""``CallOptions.context_management``: what the provider is asked to do itself when the context grows.

``{"compact_at": 150_000}`` asks for a summary of what came before once the prompt has so many tokens: it comes as
a block of the reply that only its provider reads, and goes back with it. ``{"clear_results": {"at": 100_000}}`` asks to
show the model old results of tools no more; the transcript keeps them. What else a provider knows goes into
``CallOptions.extra``, in its own words.

Read with: ``anthropic_context.py``, ``openai_responses_request.py`` (who have it), ``unspool.context.provider``.
"""

import warnings
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from unspool.kernel.errors import BadRequestError
from unspool.kernel.ports import CallOptions

from .origins import LeftOutWarning

_Count: TypeAlias = Annotated[int, Meta(ge=0)]


class ClearResults(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Clear results of tools above ``at`` tokens, but for the newest ``keep`` and those of the tools ``exclude``.

    ``at_least`` is how many tokens it must be worth, since it changes the cached prefix. None leaves it to the provider.
    """

    at: _Count | None = None
    keep: _Count | None = None
    at_least: _Count | None = None
    exclude: tuple[str, ...] = ()


class ContextManagement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked for; ``compact_at`` in tokens."""

    compact_at: _Count | None = None
    clear_results: ClearResults | None = None


_NOTHING = ContextManagement()


def context_management(options: CallOptions) -> ContextManagement:
    """What ``options`` ask for.

    Raises:
        BadRequestError: it is not of the form above.
    """
    if options.context_management is None:
        return _NOTHING
    try:
        return msgspec.convert(options.context_management, ContextManagement)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"context_management: {error}") from None


def warn_unmanaged(options: CallOptions, format: str, *known: str) -> None:
    """Say what a format cannot ask its server for; ``known`` is what it can.

    Raises:
        BadRequestError: as ``context_management``.
    """
    asked = context_management(options)
    for name in asked.__struct_fields__:
        if name not in known and getattr(asked, name) is not None:
            what = f"{name} of context_management is not sent: {format} has nothing like it"
            warnings.warn(what, LeftOutWarning, stacklevel=2)
