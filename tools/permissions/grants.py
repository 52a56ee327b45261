"""Grants that a person gives with a yes: for the session in memory, for always in a store.

Read with: ``scopes.py`` (what a grant covers), ``store.py``, ``engine.py``.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any, Final, Literal, TypeAlias, get_args

from msgspec import Struct

from .scopes import Scope
from .store import GrantStore, StoreError

Lasts: TypeAlias = Literal["once", "session", "always"]
"""How long a yes holds."""
_MAX_SESSIONS: Final = 256  # whose grants are remembered; after that the one unused longest is asked again
_MAX_KEYS: Final = 10_000  # of one session


class Kept(Struct, frozen=True):
    """What came of a person's yes: how long it holds, for which keys, and why that is not what was said."""

    lasts: Lasts
    keys: tuple[str, ...] = ()
    note: str = ""

    @property
    def details(self) -> dict[str, Any]:
        """As JSON, for the record."""
        details: dict[str, Any] = {"lasts": self.lasts, "keys": list(self.keys)}
        return details | {"note": self.note} if self.note else details


class Grants:
    """The grants of many sessions, and those in a store. Safe to use from several threads."""

    def __init__(self, store: GrantStore | None = None) -> None:
        self.store = store
        self._lock = Lock()
        self._sessions: OrderedDict[str, set[str]] = OrderedDict()

    def covers(self, session: str, key: str) -> str:
        """``session`` or ``always`` where a grant of that key holds; empty where none does.

        Raises:
            StoreError: the store can't be read.
        """
        with self._lock:
            known = self._sessions.get(session)
            if known is not None:
                self._sessions.move_to_end(session)
                if key in known:
                    return "session"
        return "always" if self.store is not None and self.store.has(key) else ""

    def keep(self, session: str, scopes: Iterable[Scope], said: object) -> Kept:
        """Keep what a person granted with the word ``said``. Anything but session and always is this call only."""
        scopes = tuple(scopes)
        keys = tuple([scope.key for scope in scopes])
        if said not in ("session", "always"):
            note = (
                ""
                if said in (None, "once")
                else f"no such grant: {said!r}, there are {', '.join(get_args(Lasts))}"
            )
            return Kept("once", note=note)
        if not scopes:
            return Kept("once", note="this can be granted for one call only")
        if said == "session":
            self.remember(session, keys)
            return Kept("session", keys)
        try:
            if self.store is None:
                raise StoreError("permissions: there is no store for grants")
            self.store.add(scopes)
        except StoreError as error:
            self.remember(session, keys)
            return Kept("session", keys, f"it could not be stored: {error}")
        return Kept("always", keys)

    def remember(self, session: str, keys: Iterable[str]) -> None:
        """Let keys be granted for a session."""
        with self._lock:
            known = self._sessions.setdefault(session, set())
            self._sessions.move_to_end(session)
            known.update(keys)
            if len(known) > _MAX_KEYS:
                known.clear()  # asked again, rather than remembered without end
            while len(self._sessions) > _MAX_SESSIONS:
                self._sessions.popitem(last=False)

    def forget(self, session: str) -> None:
        """Take back all grants of a session."""
        with self._lock:
            self._sessions.pop(session, None)


def recorded(details: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys granted for the session, or for longer, that a recorded verdict of the engine tells of."""
    grant = details.get("grant")
    if not isinstance(grant, Mapping) or grant.get("lasts") != "session":
        return ()
    keys = grant.get("keys")
    return tuple(key for key in keys if isinstance(key, str)) if isinstance(keys, list) else ()
