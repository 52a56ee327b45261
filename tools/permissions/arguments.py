"""Texts taken out of a call's arguments, by their names."""

from collections.abc import Mapping
from typing import Any

from unspool.kernel.errors import ToolError
from unspool.kernel.ports import JSON
from unspool.tools.files.apply_patch import parse_patch

_MAX_TEXTS = 200  # in one argument, as many as a patch may change files


class Arguments:
    """Takes texts out of arguments; ``unclear`` names what was not there or no text."""

    def __init__(self, args: JSON, default: str) -> None:
        self._args = args
        self._default = default
        self.unclear = ""

    def optional(self, name: str) -> str | None:
        value = self._args.get(name)
        if value is not None and not isinstance(value, str):
            self.unclear = f"the argument {name}"
            return None
        return value

    def text(self, name: str) -> str | None:
        """The text of an argument that must be there."""
        value = self.optional(name)
        if value is None:
            self.unclear = f"the argument {name}"
        return value

    def texts(self, *names: str) -> tuple[str, ...]:
        """The texts of some arguments; each is one, or a list of them."""
        found: list[str] = []
        for name in names:
            value = self._args.get(name)
            if value is None and self._default:
                value = self._default
            values = value if isinstance(value, list) else [value]
            texts = [one for one in values if isinstance(one, str)]
            if not texts or len(texts) < len(values) or len(texts) > _MAX_TEXTS:
                self.unclear = f"the argument {name}"
            found.extend(texts[:_MAX_TEXTS])
        return tuple(found)

    def patched(self, name: str) -> tuple[str, ...]:
        """The files that a patch changes, each once, as the tool itself reads them."""
        patch = self.text(name)
        try:
            files = parse_patch(patch) if patch is not None else []
        except ToolError:
            self.unclear = "the patch"
            return ()
        return tuple(dict.fromkeys(path for file in files for path in (file.path, file.move_to) if path))

    def agents(self, name: str) -> tuple[str, ...]:
        """The agents that a call starts: one, or those of its ``tasks`` and its ``chain``."""
        steps = [self._args, *_steps(self._args, "tasks"), *_steps(self._args, "chain")]
        found = tuple(step[name] for step in steps if isinstance(step.get(name), str))
        if not found:
            self.unclear = f"the argument {name}"
        return found


def _steps(args: JSON, name: str) -> list[Mapping[str, Any]]:
    value = args.get(name)
    return [step for step in value if isinstance(step, Mapping)] if isinstance(value, list) else []
