"""Type hints, file by file: much of it is looking up elsewhere what a function is given.

Read with: ``context_session.py`` (the habits).
"""

import re

from context_session import Call, Change, Session, bash, grep, read

_HINTS = {
    "name": "str", "path": "str", "text": "str", "key": "str", "msg": "str", "line": "str", "encoding": "str",
    "data": "bytes", "size": "int", "limit": "int", "timeout": "float | None", "n": "int", "port": "int",
    "charset": "str", "func": "Callable[..., Any]", "callback": "Callable[..., Any]", "value": "object",
}  # fmt: skip
_PLAIN = re.compile(r"^(\s*)((?:async )?def )(\w+)\(([\w\s,=.'\"*-]*)\):$")


def hints(session: Session, folder: str) -> None:
    """Add type hints to the modules of a folder, and commit every three."""
    paths = [path for path in session.workspace.python_files(folder) if _plain(session, path)]
    session.rand.shuffle(paths)
    ticket = session.workspace.ticket()
    several = session.chance(0.5)
    session.user(
        f"{ticket}: `{folder}` has no type hints. Add them file by file to the functions where the types are "
        "clear from the callers, compile after each file, and commit every three files."
    )
    session.look_around(folder)
    commits: list[str] = []
    finished: list[str] = []
    for path in paths:
        if session.done:
            break
        _annotate(session, folder, path)
        finished.append(path)
        if len(finished) % 3 == 0:
            session.reply("Three files are done.", bash("git diff --stat"))
            commits.append(session.commit(f"{ticket}: type hints for {', '.join(finished[-3:])}"))
            if several and len(commits) % 2 == 0:
                _follow_up(session, commits, finished, ticket)
    session.check(finished, "All that I changed, once more.")
    session.say(
        f"Hints are in {len(finished)} modules, commits {', '.join(commits) or 'none yet'} of {ticket}."
    )


def _annotate(session: Session, folder: str, path: str) -> None:
    session.open(path, f"Next is `{path}`.", whole=True)
    places = _plain(session, path)
    for start in range(0, min(len(places), 9), 3):
        part = places[start : start + 3]
        asked = [name for _, name in part if len(name) > 5][:2]
        if asked:
            calls = [grep(rf"\b{name}\(", folder) for name in asked]
            said = session.reply(f"Who calls {' and '.join(asked)}, and with what?", *calls)
            _look_at_caller(session, path, said[0].text)
        session.go_back(0.15)
        changes: list[Change] = []
        for number, _ in part:
            line = session.workspace.lines(path)[number - 1]
            change = session.anchored(path, number, _hinted(line))
            if change and not any(change[1] in old or old in change[1] for _, old, _ in changes):
                changes.append(change)
        if changes:
            session.edit(f"Hints for {len(changes)} functions.", *changes)
    _import(session, path)
    session.check([path])


def _look_at_caller(session: Session, path: str, found: str) -> None:
    hits = re.findall(r"^([\w./]+\.py):(\d+):", found, re.MULTILINE)
    others = [(where, int(number)) for where, number in hits if where != path]
    if others and session.chance(0.6):
        where, number = session.rand.choice(others[:6])
        session.look_at(where, number, f"`{where}` calls it; what does it pass?")


def _import(session: Session, path: str) -> None:
    """What the hints need goes under the first plain import of the module, where there is one."""
    lines = session.workspace.lines(path)
    number = next((n for n, line in enumerate(lines, 1) if re.match(r"import \w+$", line)), 0)
    change = number and session.anchored(
        path, number, f"{lines[number - 1]}\nfrom typing import Any, Callable"
    )
    if change:
        session.edit("The names that the hints use.", change)


def _follow_up(session: Session, commits: list[str], finished: list[str], ticket: str) -> None:
    session.say(f"{len(finished)} modules so far, last commit {commits[-1]}.")
    early = session.rand.choice(finished)
    commit = commits[finished.index(early) // 3] if finished.index(early) // 3 < len(commits) else commits[-1]
    session.user(f"A reviewer of {ticket} asks about `{early}`: are the hints in {commit} right? Then go on.")
    calls: list[Call] = [bash(f"git show {commit} -- {early}"), read(early, 1, 120)]
    session.reply(f"Looking at {commit} and at `{early}` again.", *calls)


def _plain(session: Session, path: str) -> list[tuple[int, str]]:
    """Line and name of each function in one line without hints, not the special ones."""
    found = []
    for number, line in enumerate(session.workspace.lines(path), 1):
        matched = _PLAIN.match(line)
        if matched and not matched[3].startswith("__"):
            found.append((number, matched[3]))
    return found


def _hinted(line: str) -> str:
    matched = _PLAIN.match(line)
    if not matched:
        return line
    given = [_hinted_parameter(part.strip()) for part in matched[4].split(",") if part.strip()]
    return f"{matched[1]}{matched[2]}{matched[3]}({', '.join(given)}) -> Any:"


def _hinted_parameter(parameter: str) -> str:
    name, equals, default = parameter.partition("=")
    if name in {"self", "cls", "*", "/"}:
        return parameter
    hint = _HINTS.get(name, "Any")
    if default == "None" and "None" not in hint and hint != "Any":
        hint += " | None"
    return f"{name}: {hint} = {default}" if equals else f"{name}: {hint}"
