"""Ids that come out the same when the same thing is done again, so that nothing is sent or begun twice.

Read with: ``letters.py``.
"""

from hashlib import sha256
from os import urandom


def session_id(team: str, member: str, which: str) -> str:
    """The session of a member; ``which`` tells those apart that had its name one after the other."""
    return f"{team}.{member}.{which}"


def which_session(key: str) -> str:
    """``which`` for a member that the call ``key`` spawns: the same when the call is run again."""
    return sha256(key.encode()).hexdigest()[:16]


def call_letter_id(session: str, call_id: str, to: str) -> str:
    """The letter that a call of a tool sends to one reader."""
    return f"{session}/{call_id}/{to}"


def notice_id(session: str, kind: str, of: str) -> str:
    """What is told once about a run, or about a whole session."""
    return f"{session}/{kind}/{of}"


def host_letter_id() -> str:
    """A letter of the host: each is a new one."""
    return f"host/{urandom(8).hex()}"
