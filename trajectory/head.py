"""The head of a log: what it came to, small enough to be kept somewhere else.

Read with: ``record.py``.
"""

from typing import NamedTuple

from unspool.kernel.errors import LogError


class Head(NamedTuple):
    """Number and hash of the last record of a log; as text ``<seq>:<hash>``.

    The hash covers everything before it, so a log that still holds this record is whole up to it: kept
    apart from the log, a head tells a log whose last records are gone from one that never had them.
    """

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @staticmethod
    def of(given: "Head | str | None") -> "Head | None":
        """A head from its text.

        Raises:
            LogError: that is no head.
        """
        if given is None or isinstance(given, Head):
            return given
        seq, colon, hashed = given.partition(":")
        if not (colon and seq.isdecimal() and len(hashed) == 22):
            raise LogError("log: a head is <number>:<hash>", given=given)
        return Head(int(seq), hashed)
