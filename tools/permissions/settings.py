"""What a decision is made by."""

from collections.abc import Callable, Collection

from msgspec import Struct

from .directories import Directories
from .modes import Mode
from .requests import Request
from .rules import Rules


class Settings(Struct, frozen=True, kw_only=True):
    """How a request is judged. ``sensitive`` are ask rules for files that are not edited or shown in passing.

    ``granted`` says by what a key is granted, if it is.
    """

    roots: Directories
    mode: Mode
    rules: Rules
    sensitive: Rules
    plan_tools: Collection[str]
    plan_allows: Callable[[Request], bool] | None
    deny_unknown: bool
    granted: Callable[[str], str]
