"""A scripted agent at work: what it says and calls, recorded as a transcript, and the habits all kinds share.

The habits are those seen in recorded coding agents: look around first, read files in windows, read again
before an edit what was not looked at lately, look at the result now and then, get an edit wrong sometimes,
and go back to files seen before, mostly recent ones and at times one from long ago (the rank of a file in
the order of last use is drawn from a power law).

Read with: ``context_workspace.py`` (the tools), ``context_edits.py``, ``context_bugs.py``,
``context_reading.py`` (the kinds of work).
"""

import re
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple, TypeAlias

from context_workspace import Result, Workspace, numbered_hits
from msgspec.structs import replace

from unspool.kernel import Message, ToolCall, assistant_message, tool_message, user_message

_FRESH = 12  # model calls for which an agent trusts what it read
_TAIL = 1.15  # exponent of the power law of going back


Change: TypeAlias = tuple[str, str, str]
"""Path, old text and new text of an edit."""


class Call(NamedTuple):
    """A call to make."""

    name: str
    args: dict[str, Any]


def read(path: str, start: int | None = None, end: int | None = None) -> Call:
    window = {"start": start, "end": end}
    return Call("read_file", {"path": path, **{key: at for key, at in window.items() if at is not None}})


def edit(path: str, old: str, new: str) -> Call:
    return Call("edit_file", {"path": path, "old": old, "new": new})


def write(path: str, content: str) -> Call:
    return Call("write_file", {"path": path, "content": content})


def grep(pattern: str, path: str = ".") -> Call:
    return Call("grep", {"pattern": pattern, "path": path})


def listing(path: str = ".") -> Call:
    return Call("list_dir", {"path": path})


def bash(command: str) -> Call:
    return Call("bash", {"command": command})


class Session:
    """The transcript so far, and the agent that goes on with it until about ``target`` model calls."""

    def __init__(self, workspace: Workspace, rand: Random, target: int) -> None:
        self.workspace = workspace
        self.rand = rand
        self.target = target
        self.replies = 0
        self.messages: list[Message] = []
        self._used: dict[str, int] = {}  # path → the reply that last looked at it, in order of last use

    @property
    def done(self) -> bool:
        return self.replies >= self.target

    # --- what is said ---------------------------------------------------------------------------

    def user(self, text: str) -> None:
        self._add(user_message(text))

    def say(self, text: str) -> None:
        """A reply without calls: the agent answers, and the user's turn begins."""
        self.replies += 1
        self._add(assistant_message(text))

    def reply(self, text: str, *calls: Call) -> list[Result]:
        """A reply with calls, which are run in order."""
        self.replies += 1
        made = [
            ToolCall(id=f"call_{self.replies}_{number}", name=call.name, args=call.args)
            for number, call in enumerate(calls, 1)
        ]
        self._add(assistant_message(text, *made))
        results = []
        for call in made:
            result = self.workspace.call(call.name, call.args)
            self._add(tool_message(call, result.text, is_error=result.failed))
            self._use(call.args.get("path", ""))
            results.append(result)
        return results

    def _add(self, message: Message) -> None:
        self.messages.append(replace(message, id=f"m{len(self.messages) + 1}"))

    def _use(self, path: str) -> None:
        if path.endswith((".py", ".md")):
            self._used.pop(path, None)
            self._used[path] = self.replies

    # --- habits ---------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.rand.random() < probability

    def look_around(self, folder: str) -> None:
        """What there is, how large, and what happened lately."""
        self.reply("I will look at the layout of the project first.", listing(), listing(folder))
        count = f"find {folder} -name '*.py' | sort | xargs wc -l | tail -60"
        self.reply(
            "How large are the modules, and what happened lately?", bash(count), bash("git log --oneline")
        )

    def open(self, path: str, text: str, *, whole: bool = False) -> None:
        """Read a file: at once when it is short, else in windows until it has seen enough."""
        length = len(self.workspace.lines(path))
        if length <= 350:
            self.reply(text, read(path))
            return
        start, size = 1, self.rand.choice((200, 250, 350))
        self.reply(text, read(path, 1, size))
        while (start := start + size) <= length and (whole or self.chance(0.45)):
            self.reply(
                self.rand.choice(("Reading on.", "", f"The rest of `{path}`.")),
                read(path, start, start + size),
            )

    def look_at(self, path: str, line: int, text: str) -> None:
        """Read the surroundings of a line."""
        before, after = self.rand.choice(((40, 80), (60, 120), (20, 60), (100, 200)))
        first, last = max(1, line - before), line + after
        if self.chance(0.12):
            self.reply(text, bash(f"sed -n '{first},{last}p' {path}"))
            self._use(path)
        else:
            self.reply(text, read(path, first, last))

    def find(self, pattern: str, path: str, text: str) -> list[tuple[str, int, str]]:
        """Path, number and line of what grep finds."""
        return list(numbered_hits(self.reply(text, grep(pattern, path))[0].text))

    def edit(self, text: str, *changes: Change) -> None:
        """Edit files (path, old, new), as carefully as agents do."""
        for path in dict.fromkeys(path for path, _, _ in changes):
            if self.replies - self._used.get(path, -99) > _FRESH:
                line = self._line_of(path, changes)
                self.look_at(path, line, f"I need to see `{path}` before I edit it.")
        if self.chance(0.05):
            path, old, _ = changes[0]
            wrong = edit(path, f"{old}  ", f"{old} ")
            self.reply(text, wrong)
            self.look_at(path, self._line_of(path, changes), "The text did not match; looking at it again.")
        self.reply(text, *[edit(*change) for change in changes])
        if self.chance(0.12):
            path, _, new = changes[-1]
            self.look_at(path, self._line_of(path, [(path, new, "")]), "Checking how that looks now.")

    def _line_of(self, path: str, changes: Sequence[Change]) -> int:
        first = next(old for where, old, _ in changes if where == path).split("\n")[0]
        lines = self.workspace.lines(path)
        return lines.index(first) + 1 if first in lines else 1

    def anchored(self, path: str, line: int, new: str) -> Change | None:
        """The edit that makes line ``line`` into ``new``, with as much around it as makes it unique."""
        lines = self.workspace.lines(path)
        text = "\n".join(lines)
        for extra in range(6):
            first, last = max(0, line - 1 - extra), line
            old = "\n".join(lines[first:last])
            if text.count(old) == 1:
                return path, old, "\n".join([*lines[first : line - 1], new])
        return None

    def go_back(self, probability: float = 0.12) -> None:
        """Look again at something seen before, if there is a reason to."""
        if not self.chance(probability):
            return
        known = [path for path in reversed(self._used) if path.endswith(".py")][1:]
        if not known:
            return
        weights = [1 / (rank + 1) ** _TAIL for rank in range(len(known))]
        path = self.rand.choices(known, weights)[0]
        lines = self.workspace.lines(path)
        names = re.findall(r"^\s*(?:async )?(?:def|class) (\w+)", "\n".join(lines), re.MULTILINE)
        if names and self.chance(0.35):
            name = self.rand.choice(names)
            self.reply(f"How was `{name}` written in `{path}`?", grep(rf"\b{name}\b", path))
        else:
            line = self.rand.randrange(1, len(lines) + 1)
            self.look_at(path, line, f"Let me check again how `{path}` does this.")

    def check(self, paths: Sequence[str], text: str = "Does it still compile?") -> None:
        """Compile; what does not is looked at and taken back."""
        said = self.reply(text, bash(f"python3 -m py_compile {' '.join(paths)} && echo compiled"))[0]
        broken = re.search(r"([\w./-]+\.py)\W+line (\d+)", said.text)
        if said.failed and broken:
            self.look_at(broken[1], int(broken[2]), f"`{broken[1]}` does not compile.")
            self.reply(
                "That was wrong; back to how it was.",
                bash(f"git diff {broken[1]}; git checkout -q {broken[1]}"),
            )

    def commit(self, message: str) -> str:
        """Commit, and the short hash that git tells."""
        quoted = message.replace("'", "")
        said = self.reply(
            "Committing this.", bash(f"git add -A && git commit -qm '{quoted}'; git log --oneline -1")
        )
        return said[0].text.split()[0]
