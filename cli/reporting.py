"""What a command that looks at sessions comes to: its exit status, and one line for what went wrong.

Read with: ``output.py``, ``app.py``.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from unspool.kernel.errors import LogError
from unspool.llm import ModelWarning

from .output import complain, stop_output
from .signals import PIPE_CLOSED

_NOT_DAMAGE: Final = frozenset({"", "busy", "exists", "has_forks", "no_fact", "no_session", "no_store"})


def status_of(act: Callable[[], int]) -> int:
    """Do what ``act`` does; its exit status, or that of what it raised.

    1: a log is damaged, a torn last line among it, or the output cannot be written. 2: it could not begin.
    141: the reader of stdout left.
    """
    try:
        with heeded() as told:
            status = act()
    except LogError as error:
        complain(str(error))
        return 1 if is_damage(error) else 2
    except BrokenPipeError:
        stop_output()
        return PIPE_CLOSED
    except OSError as error:
        if error.filename is not None:
            complain(f"log: cannot be opened (path={error.filename!r}, reason={error.strerror!r})")
            return 2
        stop_output()
        complain(f"output: cannot be written (reason={error.strerror!r})")
        return 1
    return status or (1 if told else 0)


def is_damage(error: LogError) -> bool:
    """Whether it says that a log is damaged, and not that something is missing or busy, or no store at all."""
    kind = str(error.details.get("kind", ""))
    if kind in ("not_a_log", "format"):
        return "line" in error.details
    return kind not in _NOT_DAMAGE


def tell_warnings() -> None:
    """Warnings go to stderr, each in one line, without the place in the code that they come from. Those about models
    are told, whatever the interpreter was told to do with warnings: a run goes on after them."""

    def tell(message: Warning | str, *where: object, **more: object) -> None:
        complain(str(message))

    warnings.showwarning = tell
    warnings.simplefilter("always", ModelWarning)


@contextmanager
def heeded() -> Iterator[list[str]]:
    """Warnings are told, each in one line, when this ends well; gives those about logs."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield told
    for warning in caught:
        if not issubclass(warning.category, ModelWarning):
            told.append(str(warning.message))
        complain(str(warning.message))
