"""Work that reads more than it writes: a review with findings, and documentation of many modules.

Read with: ``context_session.py`` (the habits).
"""

import ast
import re
from typing import NamedTuple

from context_session import Session, bash, grep, read, write

_SUSPICIOUS = re.compile(
    r"# (?:TODO|XXX|FIXME|HACK)|except:|except Exception:|# type: ignore|assert |global |eval\("
)


class Finding(NamedTuple):
    """Something a review found: where, the line, and the commit and ticket it came with."""

    number: int
    path: str
    line: int
    text: str
    commit: str
    ticket: str


def review(session: Session, folder: str) -> None:
    """Read everything, note what is suspicious, then come back to the findings for the report."""
    paths = session.workspace.python_files(folder)
    session.rand.shuffle(paths)
    ticket = session.workspace.ticket()
    session.user(
        f"Review `{folder}` for {ticket}: read the modules, note what is risky with path, line, commit and ticket, "
        "and write the findings to REVIEW.md at the end."
    )
    session.look_around(folder)
    session.reply("Are there notes in the code?", grep(r"TODO\(|FIXME|XXX", folder))
    findings: list[Finding] = []
    for number, path in enumerate(paths):
        if session.replies > session.target * 0.7:
            break
        session.open(path, f"Reviewing `{path}`.", whole=session.chance(0.6))
        findings += _findings(session, path, len(findings))
        session.go_back(0.2)
        if number % 12 == 11 and len(findings) > 2 and session.chance(0.6):
            _ask_about(session, findings)
    _report(session, findings, ticket)
    while not session.done and findings:
        _ask_about(session, findings)
        for path in session.rand.sample(paths, 2):
            session.open(path, f"`{path}` may have the same weakness.", whole=session.chance(0.4))
            session.go_back(0.3)
    session.say(f"The review for {ticket} is in REVIEW.md, {len(findings)} findings.")


def _findings(session: Session, path: str, known: int) -> list[Finding]:
    lines = session.workspace.lines(path)
    spots = [number for number, line in enumerate(lines, 1) if _SUSPICIOUS.search(line)]
    found: list[Finding] = []
    for spot in session.rand.sample(spots, min(2, len(spots))):
        blamed = session.reply(
            f"Line {spot} of `{path}` looks risky. When did it come in?",
            bash(f"git blame -s -L {spot},{spot} {path}"),
            bash(f"git log --oneline -3 -- {path}"),
        )
        commit = blamed[0].text.split()[0].lstrip("^")
        ticket = re.search(r"[A-Z]{2,}-\d{4}", blamed[1].text)
        found.append(
            Finding(
                known + len(found) + 1,
                path,
                spot,
                lines[spot - 1].strip(),
                commit,
                ticket[0] if ticket else "",
            )
        )
    return found


def _report(session: Session, findings: list[Finding], ticket: str) -> None:
    """Each finding is looked at again before it goes into the report."""
    session.reply("Now the report.", write("REVIEW.md", f"# Review for {ticket}\n"))
    for finding in findings:
        if session.chance(0.5):
            session.look_at(finding.path, finding.line, f"Finding {finding.number} again, to quote it right.")
        last = session.workspace.lines("REVIEW.md")[-1]
        entry = f"{finding.number}. `{finding.path}:{finding.line}` ({finding.commit}, {finding.ticket}): `{finding.text}`"
        session.edit(f"Finding {finding.number}.", ("REVIEW.md", last, f"{last}\n{entry}"))
        if session.done:
            return


def _ask_about(session: Session, findings: list[Finding]) -> None:
    finding = session.rand.choice(findings)
    session.say(f"{len(findings)} findings so far.")
    session.user(f"Tell me more about finding {finding.number}, in `{finding.path}`. What would break?")
    session.look_at(
        finding.path, finding.line, f"That was line {finding.line}, from {finding.commit} ({finding.ticket})."
    )
    names = re.findall(
        r"(?:def|class) (\w+)", "\n".join(session.workspace.lines(finding.path)[: finding.line])
    )
    if names:
        hits = session.find(rf"\b{names[-1]}\b", ".", f"Who depends on `{names[-1]}`?")
        others = [hit for hit in hits if hit[0] != finding.path]
        for path, line, _ in others[:2]:
            session.look_at(path, line, f"`{path}` does.")
    session.reply(
        f"What else did {finding.commit} change?", bash(f"git show --stat {finding.commit} | head -40")
    )


def document(session: Session, folder: str) -> None:
    """Write a page for each module and a changelog, from reading the modules and the history."""
    paths = session.workspace.python_files(folder)
    session.rand.shuffle(paths)
    several = session.chance(0.5)
    session.user(
        f"Write docs for `{folder}`: a page in docs/ for each module with what it offers, docs/index.md that lists "
        "them, and CHANGELOG.md with an entry for each commit that changed the module, with hash and ticket."
    )
    session.look_around(folder)
    session.reply(
        "The two files that everything goes into.",
        write("docs/index.md", f"# {folder}\n"),
        write("CHANGELOG.md", "# Changelog\n"),
    )
    pages: list[str] = []
    entries: list[str] = []
    for number, path in enumerate(paths):
        if session.done:
            break
        _page(session, path, pages, entries)
        if several and number % 6 == 5:
            _question(session, pages, entries)
    session.check(paths[:5], "Nothing in the code has changed?")
    session.reply("The index and the changelog once more.", read("docs/index.md"), read("CHANGELOG.md"))
    session.say(f"{len(pages)} pages are written; the last entries are {' and '.join(entries[-2:])}.")


def _page(session: Session, path: str, pages: list[str], entries: list[str]) -> None:
    session.open(path, f"`{path}` is next.", whole=session.chance(0.5))
    offered = _offered("\n".join(session.workspace.lines(path)))
    if offered and session.chance(0.5):
        name = session.rand.choice(offered)[0]
        hits = session.find(rf"\b{name}\b", ".", f"How is `{name}` used elsewhere?")
        others = [hit for hit in hits if hit[0] != path and hit[0].endswith(".py")]
        if others:
            where, line, _ = session.rand.choice(others)
            session.look_at(where, line, f"An example from `{where}`.")
    session.go_back(0.2)
    page = f"docs/{path.removesuffix('.py').replace('/', '.')}.md"
    body = "\n".join(f"- `{name}`: {about}" for name, about in offered) or "Nothing public."
    session.reply(f"The page of `{path}`.", write(page, f"# {path}\n\n{body}\n"))
    last = session.workspace.lines("docs/index.md")[-1]
    session.edit("Into the index.", ("docs/index.md", last, f"{last}\n- [{path}]({page[5:]})"))
    log = session.reply("What happened to it?", bash(f"git log --oneline -5 -- {path}"))[0].text
    entry = log.splitlines()[0]
    last = session.workspace.lines("CHANGELOG.md")[-1]
    session.edit("Into the changelog.", ("CHANGELOG.md", last, f"{last}\n- {path}: {entry}"))
    pages.append(page)
    entries.append(" ".join(entry.split()[:2]).rstrip(":"))


def _question(session: Session, pages: list[str], entries: list[str]) -> None:
    at = session.rand.randrange(len(pages))
    page, entry = pages[at], entries[at]
    session.say(f"{len(pages)} pages are there.")
    session.user(f"The page {page} is thin. Say in it what {entry.split()[0]} changed, then go on.")
    session.reply(
        f"The page, and {entry}.", read(page), bash(f"git show --stat {entry.split()[0]} | head -30")
    )
    last = session.workspace.lines(page)[-1]
    if session.workspace.lines(page).count(last) == 1:
        session.edit(f"Adding what {entry} did.", (page, last, f"{last}\n\nChanged in {entry}."))


def _offered(source: str) -> list[tuple[str, str]]:
    """Name and first line of the docstring of each public function and class."""
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_":
            about = (ast.get_docstring(node) or "not described").splitlines() or [""]
            found.append((node.name, about[0][:100]))
    return found[:25]
