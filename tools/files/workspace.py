"""Directories that agents work in: safe ways to read and to change files, and what each agent has read.

A file is changed only by an agent that has read its present content, and only if it still has that content at the
moment of writing. What an agent writes it knows. Contents are compared by SHA-256: time stamps don't count.
Everything here blocks: call it from a thread.
Read with: ``root.py`` (reading), ``change.py`` (what can be done to a file), ``read_state.py`` (who read what).
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from unspool.kernel.errors import ToolError
from unspool.kernel.events import AgentStart, Fact, ToolExecEnd
from unspool.kernel.ports import Refused, ToolContext
from unspool.tools.text import shown

from .buffered import BufferedRoots
from .buffers import Buffers, Content, buffer_at, content_at
from .change import Change, decode_file, unlink_link
from .descent import MissingFileError, Place
from .path_locks import lock_key, locked
from .preview import changed_lines
from .read_state import Contents, Lines, Reader, ReadState, reader_of
from .root import Root
from .text_file import NotTextError, decode

UNREAD = 2  # code of ``Refused``: never read, or only in part
CHANGED = 3  # code of ``Refused``: changed since it was read


class Workspace(BufferedRoots):
    """One or several directories, shared by the tools that read and change files in them, and by agents.

    Relative paths start at the first root, or where ``cwd`` says for a call (see ``Roots``); absolute ones may lie in
    any. With ``read_before_write`` an agent must have read a file before it may change it; without, nothing is asked
    of the past. Where one of the ``buffers`` of a host is open on a file, it is read and written instead of the disk.

    Raises:
        ToolDefinitionError: a root is not an existing directory.
    """

    def __init__(
        self,
        *roots: str | os.PathLike[str] | Root,
        read_before_write: bool = True,
        cwd: Callable[[ToolContext], str] | None = None,
        buffers: Buffers | None = None,
    ) -> None:
        given = (root.given if isinstance(root, Root) else root for root in roots)
        super().__init__(*given, cwd=cwd, buffers=buffers)
        self.roots = tuple(Root(top.given) for top in self.tops)
        self.read_before_write = read_before_write
        self._read = ReadState()
        self._contents = Contents()

    def saw(
        self,
        path: str,
        data_sha256: str,
        *,
        partial: bool,
        ctx: ToolContext,
        lines: Lines | None = None,
        total_lines: int | None = None,
        data: bytes | None = None,
    ) -> dict[str, Any]:
        """Note that the agent of a call has read a content of ``path``, or a part of it: lines from 1, both inclusive.

        Parts add up: an agent that has seen all ``total_lines`` has read the file. With the ``data`` the agent can be
        told later what is different in it. Gives what is to be put into ``ToolResult.details["file"]``, from which
        ``restore`` knows it again.
        """
        entry: dict[str, Any] = {"path": path, "sha256": data_sha256, "partial": partial}
        if partial and lines:
            entry |= {"lines": list(lines), "total_lines": total_lines}
        version = ""
        try:
            with self.at(ctx).place(path) as place:
                where = place.path
                if buffer_at(place, self.buffers) is not None:
                    content = content_at(place, self.buffers)
                    version = content.version if content and content.sha256 == data_sha256 else ""
        except ToolError:  # gone, or swapped, since it was read: there is nothing to change
            return entry
        self._read.add(
            reader_of(ctx),
            where,
            data_sha256,
            partial=partial,
            lines=lines,
            total=total_lines,
            version=version,
        )
        if data is not None:
            self._contents.keep(data_sha256, data)
        return entry | {"path": self.recorded(where)}

    def where(self, path: str) -> str:
        """The absolute path without links of the file at ``path``. Who changes several takes them in this order."""
        with self.place(path) as place:
            return place.path

    def check(self, path: str, ctx: ToolContext, *, must_exist: bool, whole: bool = True) -> Refused | None:
        """Why ``path`` can't be changed, for the ``validate`` of a tool; None where nothing speaks against it.

        Codes: 2 for what was never read, or read in part where it is needed ``whole``; 3 for what changed since.
        """
        try:
            here = self.at(ctx)
            with here.place(path) as place:
                content = content_at(place, self.buffers)
                if content is None:
                    return Refused(f"there is no {shown(path)}") if must_exist else None
                decode_file(content.data, path)
                return here._objection(place.path, content, ctx, whole=whole)
        except ToolError as error:
            return Refused(str(error))

    @contextmanager
    def changing(
        self, path: str, ctx: ToolContext, *, create: bool = False, whole: bool = False
    ) -> Iterator[Change]:
        """A file that nobody else of this process changes inside the ``with``.

        With ``create`` it need not exist. With ``whole`` a reading of a part is not enough. Several at once are taken
        in the order of ``where``, else two calls may wait for each other; who has waited a minute is told to try again.

        Raises:
            MissingFileError: there is no such file.
            ToolError: it can't be changed, was not read, or changed since.
        """
        reader, here = reader_of(ctx), self.at(ctx)
        with ExitStack() as stay:
            place = here._locked_place(path, ctx, stay)

            def note(where: str, content: Content | None) -> None:
                self._note(reader, where, content)

            change = Change(here, path, place, note, stay, self.buffers)
            if change.content is None:
                if not create:
                    raise MissingFileError(f"there is no {shown(path)}")
            else:
                objection = here._objection(place.path, change.content, ctx, whole=whole)
                if objection is not None:
                    raise ToolError(objection.message)
            yield change

    def delete(self, path: str, ctx: ToolContext) -> dict[str, Any]:
        """Remove a file the agent has read, or a link wherever it leads; gives its ``details``.

        Raises:
            ToolError: as ``changing``.
        """
        if link := unlink_link(self.at(ctx), path):
            return {"path": self.recorded(link), "deleted": True}
        with self.changing(path, ctx) as change:
            change.delete()
            return change.details

    def restore(
        self, facts: Iterable[Fact], *, session: str | None = None, agent: tuple[str, ...] | None = None
    ) -> None:
        """Know again what the agent of an earlier run, in this process or another, had read and written.

        The session and the agent are those of the facts unless they are given (a fork has a session of its own). What
        changed since is found by its content.
        """
        reader: Reader = (session or "", agent or ())
        for fact in facts:
            if isinstance(fact, AgentStart):
                reader = (
                    fact.session if session is None else session,
                    (fact.agent,) if agent is None else agent,
                )
            elif isinstance(fact, ToolExecEnd):
                one, several = fact.details.get("file"), fact.details.get("files")
                for entry in [one, *(several if isinstance(several, list) else [])]:
                    if isinstance(entry, dict) and isinstance(entry.get("path"), str):
                        self._restore(reader, entry)

    def _restore(self, reader: Reader, entry: dict[str, Any]) -> None:
        path = os.path.join(self.tops[0].path, entry["path"])
        match entry:
            case {"deleted": True}:
                self._read.drop(reader, path)
            case {"sha256": str(digest), "partial": True, "lines": [int(first), int(last)]}:
                lines, total = (first, last), entry.get("total_lines")
                self._read.add(reader, path, digest, partial=True, lines=lines, total=total)
            case {"sha256": str(digest), "partial": bool(partial)}:
                self._read.add(reader, path, digest, partial=partial)

    def _locked_place(self, path: str, ctx: ToolContext, stay: ExitStack) -> Place:
        """Where ``path`` is, its lock held as long as ``stay``."""
        place = stay.enter_context(self.place(path))
        key = lock_key(place)
        stay.enter_context(locked(key, shown(path), lambda: ctx.cancelled))
        place = stay.enter_context(self.place(path))  # it may be another since
        if lock_key(place) != key:
            raise ToolError(f"{shown(path)} was moved by somebody else just now: try again")
        return place

    def _objection(self, path: str, content: Content, ctx: ToolContext, *, whole: bool) -> Refused | None:
        if not self.read_before_write:
            return None
        stamp = self._read.get(reader_of(ctx), path)
        name = shown(self.relative(path))
        if stamp is None:
            return Refused(f"{name} exists and you have not read it: read it first", UNREAD)
        if content.differs(stamp.sha256, stamp.version):
            what = self._difference(stamp.sha256, content)
            return Refused(f"{name} changed since you read it: read it again{what}", CHANGED)
        if whole and stamp.partial:
            return Refused(f"you have read only a part of {name}: read the rest first", UNREAD)
        return None

    def _difference(self, old_sha256: str, now: Content) -> str:
        """The first lines that are others than those of the content that was read, if that is still known."""
        old = self._contents.get(old_sha256)
        if old is None or old_sha256 == now.sha256:
            return ""
        try:
            return f"; the change:\n{changed_lines(decode(old).text, decode(now.data).text)}"
        except NotTextError:
            return ""

    def _note(self, reader: Reader, path: str, content: Content | None) -> None:
        if content is None:
            self._read.drop(reader, path)
        else:
            self._read.add(reader, path, content.sha256, version=content.version)
            self._contents.keep(content.sha256, content.data)
