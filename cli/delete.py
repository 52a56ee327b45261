"""``unspool delete``: sessions that nobody wants any more.

Read with: ``places.py``, ``asking.py``.
"""

from .asking import ask, can_ask
from .output import complain, console, write_json
from .places import StoredSession


def delete(place: StoredSession, *, forks: bool, sure: bool, as_json: bool) -> int:
    """Delete a session, after a question unless ``sure``, and print the ids of what is gone.

    1: the answer was no. 2: nobody is there to be asked.

    Raises:
        LogError: as ``Sessions.delete``.
    """
    if not sure:
        if not can_ask():
            complain("delete: there is no terminal to ask on, give --yes")
            return 2
        what = " and everything that was forked from it" if forks else ""
        if not ask(f"delete session {place.name}{what}?"):
            return 1
    for session in place.sessions.delete(place.name, forks=forks):
        if as_json:
            write_json({"session": session})
        else:
            console().print(session, soft_wrap=True)
    return 0
