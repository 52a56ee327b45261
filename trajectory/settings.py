"""What a session's runs were set to, made again from its state: to go on with it under the same settings.

Read with: ``unspool.kernel.events`` (``AgentStart``, ``ConfigChanged``), ``unspool.kernel.config``.
"""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from unspool.kernel.errors import LogError
from unspool.kernel.limits import Limits
from unspool.kernel.ports import CallOptions, SystemBlock, ToolSpec
from unspool.kernel.state import AgentState

from .values import from_blob

T = TypeVar("T")


class RecordedSettings(Struct, frozen=True, kw_only=True):
    """The settings that the newest run of a session ended with; those of a new one where there is no run.

    ``tools`` are descriptions: what they do is the host's. ``model`` is a name, empty where there is no run.
    """

    model: str = ""
    system: tuple[SystemBlock, ...] = ()
    options: CallOptions = CallOptions()
    limits: Limits = Limits()
    tools: tuple[ToolSpec, ...] = ()


def recorded_settings(state: AgentState) -> RecordedSettings:
    """The settings that ``state`` names.

    Raises:
        LogError: a content is not in the log, or does not fit its type.
    """
    return RecordedSettings(
        model=state.model,
        system=_value(state, state.system, tuple[SystemBlock, ...], ()),
        options=_value(state, state.options, CallOptions, CallOptions()),
        limits=state.limits,
        tools=_value(state, state.tools, tuple[ToolSpec, ...], ()),
    )


def _value(state: AgentState, key: str, kind: type[T], default: T) -> T:
    if not key:
        return default
    details: dict[str, Any] = {"session": state.session, "hash": key}
    if key not in state.blobs:
        raise LogError("log: a setting is not in it", kind="missing_blob", **details)
    try:
        return from_blob(state.blobs[key], kind)
    except msgspec.ValidationError as error:
        reason = str(error)
        raise LogError("log: damaged setting", kind="undecodable", **details, reason=reason) from error
