"""Work that changes many files at a time: a symbol renamed, a literal made a constant.

Read with: ``context_session.py`` (the habits).
"""

import re
from collections import Counter, defaultdict

from context_session import Call, Change, Session, bash, read, write

_BEFORE = r"([(\[{,=] ?|return )"  # where a literal is a value, not a word in a sentence
_LITERAL = r"""("[A-Za-z][\w/ :.-]{3,30}"|'[A-Za-z][\w/ :.-]{3,30}')"""
_KEYWORDS = {"__init__", "__repr__", "__enter__", "__exit__"}


def rename(session: Session, folder: str) -> None:
    """Rename symbols through the code base, one after the other."""
    symbols = _shared_names(session)
    several = session.chance(0.6)
    first, *_ = symbols
    session.user(
        f"Some names in `{folder}` are misleading. Start with `{first}`: call it `{_new_name(first)}` everywhere."
        + ("" if several else " Then go on with other names that several modules share, one commit each.")
    )
    session.look_around(folder)
    commits: list[tuple[str, str]] = []
    for number, name in enumerate(symbols):
        if session.done:
            break
        if several and number:
            session.say(f"`{commits[-1][1]}` is renamed, in commit {commits[-1][0]}.")
            session.user(f"Good. Now rename `{name}` to `{_new_name(name)}` in the same way.")
        ticket = session.workspace.ticket()
        _rename(session, name)
        commits.append((session.commit(f"{ticket}: rename {name} to {_new_name(name)}"), name))
        if number % 3 == 2:
            old, what = session.rand.choice(commits)
            session.reply(f"Comparing with what I did for `{what}` in {old}.", bash(f"git show --stat {old}"))
    told = "\n".join(f"- {commit}: `{name}`" for commit, name in commits)
    session.say(f"These names are changed:\n{told}")


def _rename(session: Session, name: str) -> None:
    new = _new_name(name)
    hits = session.find(rf"\b{name}\b", ".", f"Where is `{name}` used?")
    defined = next(((p, n) for p, n, line in hits if re.search(rf"(def|class) {name}\b", line)), hits[0][:2])
    session.look_at(*defined, f"This is where `{name}` is defined.")
    by_file: dict[str, list[int]] = defaultdict(list)
    for path, number, _ in hits:
        by_file[path].append(number)
    for path, numbers in by_file.items():
        if len(numbers) > 7:
            session.look_at(path, numbers[0], f"`{path}` uses it {len(numbers)} times.")
            session.reply(
                "Too many for single edits.", bash(f"sed -i 's/\\b{name}\\b/{new}/g' {path}; git diff --stat")
            )
            continue
        if path != defined[0]:
            session.look_at(path, numbers[0], f"Now `{path}`, {len(numbers)} places.")
        session.go_back()
        changes: list[Change] = []
        for number in numbers:
            line = session.workspace.lines(path)[number - 1]
            change = session.anchored(path, number, re.sub(rf"\b{name}\b", new, line))
            if change and not any(change[1] in old or old in change[1] for _, old, _ in changes):
                changes.append(change)
        for start in range(0, len(changes), 3):
            session.edit(f"`{name}` becomes `{new}` in `{path}`.", *changes[start : start + 3])
    left = session.find(rf"\b{name}\b", ".", "Is anything left?")
    for path in dict.fromkeys(path for path, _, _ in left):
        session.reply(
            f"`{path}` still has it.", bash(f"sed -i 's/\\b{name}\\b/{new}/g' {path}; grep -n '{new}' {path}")
        )
    session.check([path for path in by_file if path.endswith(".py")])


def _shared_names(session: Session) -> list[str]:
    """Names defined once and used in three to twelve files."""
    defined: Counter[str] = Counter()
    used: dict[str, set[str]] = defaultdict(set)
    uses: Counter[str] = Counter()
    for path in session.workspace.python_files():
        text = "\n".join(session.workspace.lines(path))
        defined.update(re.findall(r"^\s*(?:async )?(?:def|class) (\w{6,})", text, re.MULTILINE))
        for name in re.findall(r"\b\w{6,}\b", text):
            used[name].add(path)
            uses[name] += 1
    names = [name for name in sorted(defined) if defined[name] == 1 and name not in _KEYWORDS]
    names = [name for name in names if 3 <= len(used[name]) <= 12 and uses[name] <= 45]
    session.rand.shuffle(names)
    return names


def _new_name(name: str) -> str:
    bare = name.lstrip("_")
    mark = name[: len(name) - len(bare)]
    return f"{mark}Base{bare}" if bare[0].isupper() else f"{mark}do_{bare}"


def extract(session: Session, folder: str) -> None:
    """Give literals that occur in many files a name in one module."""
    literals = _shared_literals(session)
    home = f"{folder}/_constants.py"
    session.user(
        f"The same string literals are all over `{folder}`. Give those that several modules share a name in "
        f"`{home}` and use it. One commit for each literal, please, with ticket {session.workspace.ticket()}."
    )
    session.look_around(folder)
    session.reply(
        "The module for the constants comes first.",
        write(home, '"""Strings that several modules share."""\n'),
    )
    commits = []
    for number, literal in enumerate(literals):
        if session.done:
            break
        name = "S_" + re.sub(r"\W+", "_", literal).strip("_").upper()
        if not _extract(session, literal, name, home):
            continue
        commits.append(session.commit(f"{session.workspace.tickets[-1]}: name the literal {name}"))
        if number % 4 == 3:
            session.say(f"{name} is done in {commits[-1]}, {len(commits)} so far.")
            session.user("Go on. Keep the order of the constants as they were added.")
            session.reply(
                "Looking at the constants so far.", read(home), bash(f"git log --oneline -- {home}")
            )
    session.say(
        f"{len(commits)} literals have names now; the last is in {commits[-1]}, the first in {commits[0]}."
    )


def _extract(session: Session, literal: str, name: str, home: str) -> bool:
    hits = session.find(f"{_BEFORE}{literal}", ".", f"Where is {literal} a value?")
    hits = [hit for hit in hits if hit[0] != home and hit[0].endswith(".py")]
    if not hits:
        return False
    end = session.workspace.lines(home)[-1]
    session.edit(f"`{name}` goes into `{home}`.", (home, end, f"{end}\n{name} = {literal}"))
    by_file: dict[str, list[int]] = defaultdict(list)
    for path, number, _ in hits:
        by_file[path].append(number)
    for path, numbers in by_file.items():
        session.reply(f"`{path}`: its imports and the places.", read(path, 1, 60), *_windows(path, numbers))
        session.go_back()
        for number in numbers:
            line = session.workspace.lines(path)[number - 1]
            change = session.anchored(path, number, line.replace(literal, name))
            if change:
                session.edit(f"Using `{name}`.", change)
        lines = session.workspace.lines(path)
        place = next(
            (n for n, line in enumerate(lines, 1) if re.match(r"(?:import|from) (?!__)[^(]*$", line)), 0
        )
        if place and f"import {name}" not in "\n".join(lines):
            change = session.anchored(path, place, f"from ._constants import {name}\n{lines[place - 1]}")
            if change:
                session.edit(f"`{path}` needs the import.", change)
    session.check(list(by_file))
    session.find(f"{_BEFORE}{literal}", ".", "Is the literal gone?")
    return True


def _windows(path: str, numbers: list[int]) -> list[Call]:
    return [read(path, max(1, number - 30), number + 50) for number in numbers[:3] if number > 60]


def _shared_literals(session: Session) -> list[str]:
    """Strings that two to nine modules have."""
    where: dict[str, set[str]] = defaultdict(set)
    for path in session.workspace.python_files():
        for found in re.finditer(_BEFORE + _LITERAL, "\n".join(session.workspace.lines(path))):
            where[found[2]].add(path)
    shared = [literal for literal in sorted(where) if 2 <= len(where[literal]) <= 9]
    session.rand.shuffle(shared)
    return shared
