"""What a mailbox says no with, in words for a model, and how it checks what it is given.

Read with: ``memory_mailbox.py``, ``sqlite_mailbox.py``.
"""

from .errors import BoxClosed, BoxFull, UnknownMember


def unknown(name: str) -> UnknownMember:
    return UnknownMember("there is no member of that name", member=name)


def closed(name: str) -> BoxClosed:
    return BoxClosed("it has stopped and takes no more letters", member=name)


def gone() -> BoxClosed:
    return BoxClosed("the mailbox was closed")


def full(name: str, capacity: int) -> BoxFull:
    return BoxFull(
        "its box is full: it has to read first; send again later, or less", member=name, capacity=capacity
    )


def check_capacity(capacity: int) -> None:
    """Raises:
    ValueError: it is not positive.
    """
    if capacity < 1:
        raise ValueError(f"open: a box takes at least one letter (capacity={capacity})")


def check_receive(limit: int, lease_s: float) -> None:
    """Raises:
    ValueError: one of them is not positive.
    """
    if limit < 1 or lease_s <= 0:
        raise ValueError(
            f"receive: at least one letter, for more than 0 s (limit={limit}, lease_s={lease_s})"
        )
