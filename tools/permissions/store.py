"""Grants that outlive the process, in a JSON file that only its owner can read.

It is written to a temporary file beside it, made durable and renamed over the old one, while a lock is held on a
third file: two processes never lose each other's grants. What others have added or taken back counts at once.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from unspool.kernel.errors import AgentError

from .scopes import Scope

try:
    import fcntl
except ImportError:  # Windows has no flock
    fcntl = None  # type: ignore[assignment]

_VERSION = 1


class StoreError(AgentError):
    """The file of grants can't be read or written."""


class GrantStore:
    """The grants in the file ``path``. Safe to share between threads and processes.

    Keep the file outside the workspace. A file that is missing holds none; the directory is made when it is
    needed.

    Raises:
        StoreError: the file is damaged, of a later version, or not readable.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)
        self._guard = Lock()
        self._known: dict[str, Scope] = {}
        self._stamp: tuple[int, ...] | None = None
        self.grants()

    def __repr__(self) -> str:
        return f"GrantStore({self.path!r})"

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are its own."""
        return (self.path, f"{self.path}.lock")

    def grants(self) -> tuple[Scope, ...]:
        """The grants there are by now, in order of their keys.

        Raises:
            StoreError: the file can't be read.
        """
        with self._guard:
            return tuple(self._fresh().values())

    def has(self, key: str) -> bool:
        """Whether a grant of that key is stored.

        Raises:
            StoreError: the file can't be read.
        """
        with self._guard:
            return key in self._fresh()

    def add(self, scopes: Iterable[Scope]) -> None:
        """Keep grants; those that are there already stay.

        Raises:
            StoreError: the file can't be read or written; nothing is changed then.
        """
        added = {scope.key: scope for scope in scopes}
        self._change(lambda known: {**known, **added})

    def remove(self, key: str) -> None:
        """Take a grant back; no error if there is none.

        Raises:
            StoreError: the file can't be read or written.
        """
        self._change(lambda known: {name: scope for name, scope in known.items() if name != key})

    def _change(self, change: Callable[[dict[str, Scope]], dict[str, Scope]]) -> None:
        with self._guard:
            try:
                os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
                with _locked(f"{self.path}.lock"):
                    known = self._read()
                    changed = dict(sorted(change(known).items()))
                    if changed != known:
                        _write(self.path, changed)
                    self._known, self._stamp = changed, _stamp(self.path)
            except OSError as error:
                raise StoreError(
                    "permissions: the grants can't be stored", path=self.path, reason=error.strerror
                ) from error

    def _fresh(self) -> dict[str, Scope]:
        stamp = _stamp(self.path)
        if stamp is None or stamp != self._stamp:
            self._known, self._stamp = self._read(), stamp
        return self._known

    def _read(self) -> dict[str, Scope]:
        try:
            with open(self.path, encoding="utf-8") as file:
                return _decode(json.load(file))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StoreError(
                "permissions: the grants can't be read", path=self.path, reason=error.strerror
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                "permissions: the file of grants is damaged", path=self.path, reason=str(error)
            ) from error


def _decode(data: Any) -> dict[str, Scope]:
    if data["version"] != _VERSION:
        raise ValueError(f"it is of version {data['version']!r}, not {_VERSION}")
    scopes = [
        Scope(**{name: str(entry[name]) for name in Scope.__struct_fields__}) for entry in data["grants"]
    ]
    return {scope.key: scope for scope in sorted(scopes, key=lambda scope: scope.key)}


def _write(path: str, grants: dict[str, Scope]) -> None:
    entries = [{name: getattr(scope, name) for name in Scope.__struct_fields__} for scope in grants.values()]
    text = json.dumps({"version": _VERSION, "grants": entries}, indent=2, ensure_ascii=True) + "\n"
    fd, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=f".{os.path.basename(path)}.")  # 0600
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _stamp(path: str) -> tuple[int, ...] | None:
    """What changes whenever the file is replaced or written; None where there is none."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_ino, info.st_mtime_ns, info.st_size


@contextmanager
def _locked(path: str) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
