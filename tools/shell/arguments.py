"""What a model may say to ``bash``, and what it is told of it.

Read with: ``bash.py``.
"""

from typing import Any

from unspool.kernel.ports import JSON

TIMEOUT_S, MAX_TIMEOUT_S = 120.0, 600.0
BACKGROUND_TIMEOUT_S, MAX_BACKGROUND_TIMEOUT_S = 600.0, 86_400.0
_DESCRIPTION = """\
Run a command in bash. The directory (cd) and exported variables are kept for the next command, unless it ends its \
shell itself (exit, exec, set -e). There is no input and no terminal: nothing can be answered or confirmed. Processes \
left in the background are ended with the command{background}. Of a long output the beginning and the end are shown."""
_IN_BACKGROUND = ": use run_in_background for a server, or for what takes long"


def description(*, background: bool) -> str:
    """What the tool is for; ``background``: whether there are background tasks."""
    return _DESCRIPTION.format(background=_IN_BACKGROUND if background else "")


def timeout_of(args: JSON, *, background: bool) -> float:
    """How many seconds a command may take."""
    default, limit = (
        (BACKGROUND_TIMEOUT_S, MAX_BACKGROUND_TIMEOUT_S) if background else (TIMEOUT_S, MAX_TIMEOUT_S)
    )
    given = args.get("timeout") or 0
    return min(float(given), limit) if given > 0 else default


def schema(*, background: bool) -> dict[str, Any]:
    """The JSON Schema of the arguments."""
    times = f"seconds until it is ended; {TIMEOUT_S:.0f} by default, at most {MAX_TIMEOUT_S:.0f}"
    if background:
        times += f" (in the background {BACKGROUND_TIMEOUT_S:.0f}, at most {MAX_BACKGROUND_TIMEOUT_S:.0f})"
    properties: dict[str, Any] = {
        "command": {"type": "string", "description": "what bash shall run; may have several lines"},
        "timeout": {"type": "number", "description": times},
        "workdir": {
            "type": "string",
            "description": "directory for this command only, from the current one; it must exist",
        },
        "description": {"type": "string", "description": "what it does, in a few words"},
    }
    if background:
        properties["run_in_background"] = {
            "type": "boolean",
            "description": "do not wait: get the id of a task at once",
        }
    return {
        "type": "object",
        "properties": properties,
        "required": ["command"],
        "additionalProperties": False,
    }
