"""How a run begins: in a new session, or in one that is there, under the settings it had.

Read with: ``app.py``, ``resume.py``, ``run.py``, ``unspool.trajectory.settings``.
"""

import functools
import importlib.util
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from msgspec.structs import replace

from unspool import llm
from unspool.kernel.errors import AgentError, BadRequestError
from unspool.kernel.events import Fact
from unspool.kernel.json_edge import clean_text
from unspool.kernel.limits import Limits
from unspool.kernel.ports import ChatModel
from unspool.kernel.state import AgentState
from unspool.trajectory import RecordedSettings, SessionHandle, Sessions, recorded_settings
from unspool.trajectory.sessions import append_about

from .places import LogFile, Place, StoredSession, open_store
from .reporting import heeded
from .run import open_log
from .toolset import Toolset, ToolWish, notes_of

_URL: Final = "unspool.base_url"  # in a session's metadata: the server that was named


class ModelChoice(NamedTuple):
    """What was said about the model. ``preset`` says that ``name`` is from the environment: a session that
    has a model of its own keeps it. ``window`` are the tokens that it takes, 0 where that was not said."""

    name: str = ""
    preset: bool = False
    base_url: str = ""
    window: int = 0


class Begun(NamedTuple):
    """A session that is open for writing: where it stands, under which settings, how it is told of at the end,
    what was noted about it by opening it, and the store that it is in, if it is in one."""

    log: SessionHandle
    state: AgentState
    settings: RecordedSettings
    ending: str
    about: tuple[Fact, ...] = ()
    sessions: Sessions | None = None


@contextmanager
def begun(*, file: str, store: str, session: str = "", title: str = "") -> Iterator[Begun]:
    """A new session: in a JSONL file, or in a store.

    Raises:
        LogError: it cannot be made, or is there already.
    """
    if file:
        with open_log(file) as log:
            yield _begun(log, title, f"trajectory: {log.path}")
        return
    with open_store(store, create=True) as sessions, sessions.create(session) as stored:
        yield _begun(stored, title, f"session: {stored.session}", sessions)


def _begun(log: SessionHandle, title: str, ending: str, sessions: Sessions | None = None) -> Begun:
    about = append_about(log, clean_text(title), None, time.time()) if title else None
    state = log.state()
    return Begun(log, state, recorded_settings(state), ending, (about,) if about else (), sessions)


def at_server(begun: Begun, choice: ModelChoice) -> Begun:
    """The session with the server noted at which it is asked from now on, where that has changed."""
    return noted(begun, {_URL: _without_secrets(choice.base_url) if choice.base_url else None})


def with_tools(begun: Begun, wish: ToolWish, toolset: Toolset) -> Begun:
    """The session with its tools noted; the tools take up what it left.

    Raises:
        AgentError: agents that can be called have no place for their sessions.
    """
    toolset.keep_in(begun.sessions)
    if begun.state.runs:
        toolset.restore((record.fact for record in begun.log.records()), begun.log.session)
    return noted(begun, notes_of(wish, begun.state))


def noted(begun: Begun, values: Mapping[str, Any]) -> Begun:
    """The session with ``values`` in its metadata, where they have changed; None takes one out."""
    metadata = {**begun.state.metadata, **values}
    metadata = {key: value for key, value in metadata.items() if value is not None}
    if metadata == begun.state.metadata:
        return begun
    about = append_about(begun.log, None, metadata, time.time())
    return begun._replace(state=begun.log.state(), about=(*begun.about, about) if about else begun.about)


@contextmanager
def continued(place: Place, title: str = "") -> Iterator[Begun]:
    """A session that is there. A torn last record is cut off, which is told.

    Raises:
        LogError: it has another writer, or is damaged.
    """
    with place:
        with heeded():
            log = place.open()
        with log:
            what = "trajectory" if isinstance(place, LogFile) else "session"
            sessions = place.sessions if isinstance(place, StoredSession) else None
            yield _begun(log, title, f"{what}: {place.name}", sessions)


def _without_secrets(url: str) -> str:
    """A URL without user, password and query: it is recorded."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _price() -> llm.Price | None:
    """The kept prices, where they are installed. They are loaded once a reply is there: it takes a while."""
    if importlib.util.find_spec("genai_prices") is None:
        return None
    prices = functools.cache(llm.kept_prices)
    return lambda name, usage, ttl: prices()(name, usage, ttl)


def make_model(choice: ModelChoice, session: Begun | None) -> ChatModel:
    """The model that was asked for, else that of the session, else that of the environment.

    A server that was named on the command line is not gone back to by itself: a key of the environment would go
    wherever the log of a session says.

    Raises:
        AgentError: there is none, it cannot be made, or it is to be said again where it is.
    """
    recorded = session.settings.model if session else ""
    asked = choice.name if choice.name and not choice.preset else ""
    name = asked or recorded or choice.name
    if not name:
        raise BadRequestError("no model: give -m provider/model or set UNSPOOL_MODEL")
    if session and not asked and not choice.base_url and (url := session.state.metadata.get(_URL)):
        raise BadRequestError(
            f"the session was at another server: give --base-url {url} to go on there, or -m {name} to leave it"
        )
    try:
        window = choice.window or (session.state.window if session and name == recorded else 0)
        return llm.model(name, base_url=choice.base_url or None, price=_price(), context_window=window)
    except AgentError as error:
        if name != recorded or choice.name == name:
            raise
        raise BadRequestError(f"{error}: it is the session's model, -m gives it another") from error


def limits_of(settings: RecordedSettings, max_turns: int | None) -> Limits:
    """The recorded limits, with another number of turns where one is given."""
    return settings.limits if max_turns is None else replace(settings.limits, turns=max_turns)


def missing_tools(settings: RecordedSettings, toolset: Toolset) -> str:
    """What is to be said of tools that the session had and this command has not; empty if there are none."""
    missing = [spec.name for spec in settings.tools if spec.name not in toolset.names]
    return f"tools of the session that are not here: {', '.join(missing)}" if missing else ""
