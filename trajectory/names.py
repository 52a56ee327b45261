"""What sessions are called.

Read with: ``sessions.py``, ``jsonl.py``.
"""

import os
import re
from typing import Final

from unspool.kernel.errors import LogError
from unspool.kernel.redaction import holds_key

SUFFIX: Final = ".jsonl"
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def new_id() -> str:
    """An id that no other session has."""
    return os.urandom(16).hex()


def is_id(session: str) -> bool:
    """Whether a text is fit for a session's id."""
    return _ID.fullmatch(session) is not None and not holds_key(session)


def check_id(session: str) -> str:
    """An id that is fit for a file's name, and no key of a model provider.

    Raises:
        LogError: it is not.
    """
    if not _ID.fullmatch(session):
        raise LogError(
            "log: a session's id is made of A-Z a-z 0-9 . _ -, 128 at most, and begins with none of ._-",
            session=session,
        )
    if holds_key(session):
        raise LogError("log: a session's id holds a key of a model provider", session=session)
    return session


def named_by(path: str) -> str:
    """The id of the session in a file: what the file is called, ``<session>.jsonl``; a new one if that is none."""
    name, end = os.path.splitext(os.path.basename(path))
    return name if end == SUFFIX and is_id(name) else new_id()
