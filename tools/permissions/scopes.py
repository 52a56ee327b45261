"""The parts of a request that are decided one by one, and what exactly a person's yes to each would cover."""

import hashlib
import json
from functools import lru_cache

from msgspec import Struct

from unspool.kernel.json_edge import clean_text
from unspool.tools.text import shown

from .directories import Directories
from .modes import Capability
from .paths import Place
from .requests import Request
from .shell_plan import ShellPlan

_MAX_SHOWN = 200  # characters of a command in a text for people


class Access(Struct, frozen=True, kw_only=True):
    """One thing that a call would do: to a path, with a host, by a command, or just as the tool that it is.

    A ``mention`` is a path in a command: rules and roots may forbid it, whether it is allowed is up to the
    command. It is ``loose`` where nobody knows whether the command reads or writes it.
    ``host`` is None where the URL does not plainly name one.
    """

    capability: Capability
    place: Place | None = None
    url: str = ""
    host: str | None = ""
    agent: str = ""
    plan: ShellPlan | None = None
    mention: bool = False
    loose: bool = False
    is_cwd: bool = False


class Scope(Struct, frozen=True, order=True):
    """What a grant covers: one ``capability`` of one ``tool`` on one ``target``.

    The target is an absolute path, a host, the hash of a command and its directory or of a URL without a plain host,
    an agent, or empty.
    ``text`` is for people.
    """

    capability: str
    tool: str
    target: str
    text: str

    @property
    def key(self) -> str:
        """What it is known by."""
        return f"{self.capability}:{self.tool}:{self.target}"


def scope_of(request: Request, access: Access, roots: Directories, cwd: str) -> Scope:
    """What a grant for one access covers, and no more than that."""
    if access.mention or access.plan is not None or request.code is not None:
        source = request.command if request.command is not None else request.code or ""
        return Scope("exec", request.tool, _digest(source, cwd), f"{request.tool} {_short(source)}")
    if access.place is not None:
        target, text = access.place.real, shown(roots.shown(access.place))
    elif access.capability == "network" and access.url:
        target = access.host or _digest(access.url, "")
        text = shown(access.host or access.url)
    else:
        target = text = access.agent
    if request.key and not target:
        return Scope(request.key, request.tool, "", request.tool)
    return Scope(access.capability, request.tool, target, f"{request.tool} {text}".rstrip())


@lru_cache(maxsize=64)
def _digest(command: str, cwd: str) -> str:
    return hashlib.sha256(json.dumps([command, cwd]).encode()).hexdigest()


@lru_cache(maxsize=64)
def _short(command: str) -> str:
    text = shown(clean_text(command))
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
