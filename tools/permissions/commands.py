"""What the engine asks about shell commands: the one place where it meets their analysis.

Paths in a command are of two sorts: those that the analysis knows to be read or written, and every other word,
which may be a path: ``Mentions`` holds both.
"""

import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from . import read_only, shell_commands, shell_rules
from .shell_effects import NO_PATHS
from .shell_plan import DOCUMENTS, ShellPlan, SimpleCommand, Word
from .tool_shapes import Depth

_SIMPLE_GLOB = re.compile(r"(?:~(?=$|/))?[\w./*?@%+=,:-]*", re.ASCII)
_GREP = re.compile(r"-[A-Za-z]*[rRd]|--(?:rec|der|di)")
_COPY = re.compile(r"-[A-Za-z]*[rRa]|--(?:rec|arc)")
_SEARCHES = {  # program: the argument with which it reads all that is below a directory
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "diff"), _GREP),
    **dict.fromkeys(("cp", "scp", "rsync", "zip"), _COPY),
    **dict.fromkeys(
        ("tar", "bsdtar"), re.compile(r"-?[A-Za-z]*[cru]|--(?:create|append|update|catenate|concat)")
    ),
}
_HERE_IF_UNTOLD = frozenset(
    {"grep", "egrep", "fgrep", "zgrep", "rg"}
)  # search where they are if no path is given
_PLAIN_OPTION = re.compile(
    r"-[nriRlcHhowvxsIEFPSu.]+|--[a-z-]+=.*|--hidden|--no-ignore|--recursive"
)  # no value follows
_HIDDEN = re.compile(r"-[A-Za-z]*[u.]|--hid|--no-ig|--unr")
_SHOWS_NO_FILE = NO_PATHS | {"test", "["}
_MAX_WORDS = 2000  # of one command line
_MAX_FOUND = 1000  # paths that a wildcard may stand for
_MAX_BASES = 16  # directories that a command line may be in


class Mentions(NamedTuple):
    """Paths in a command, absolute or relative to where it runs.

    ``words`` may be paths. ``complete`` is False where there may be more than can be read.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    words: tuple[str, ...]
    redirects: bool
    complete: bool


@lru_cache(maxsize=64)
def analyse(command: str) -> ShellPlan:
    """What a command line would do.

    Raises:
        ToolDefinitionError: the extra ``permissions`` is not installed.
    """
    return shell_commands.analyse(command)


def allowed_by(plan: ShellPlan, patterns: Sequence[str]) -> str:
    """The pattern of an allow rule that covers, alone or with others, what a line runs; empty where that is not
    so. Parts that only read need none, where it is known what they read. A rule is about a command, not about paths:
    where a path may be in what the line doesn't say (``cat $x``, ``xargs cat``), none covers it.
    """
    if not all(command.name in _SHOWS_NO_FILE or _shows_words(command) for command in plan.commands):
        return ""
    return shell_rules.allowed_by(plan, patterns, or_read_only=shows_paths(plan)) or ""


def denies(plan: ShellPlan, pattern: str) -> Literal["yes", "maybe", "no"]:
    """Whether the pattern of a deny rule matches something that a line runs."""
    return shell_rules.denies(plan, pattern)


def _shows_words(command: SimpleCommand) -> bool:
    targets = (redirect.target for redirect in command.redirects if not redirect.is_duplicate)
    return not command.more_words and all(map(_is_plain, (*command.words[1:], *targets)))


def is_read_only(plan: ShellPlan) -> bool:
    """Whether a line surely changes nothing and talks to nobody."""
    return read_only.is_read_only(plan)


def only_reads(command: str | None) -> bool:
    """Whether a command line surely changes nothing, and says what it reads. For ``plan_allows``: the paths that it
    reads are still looked at.
    """
    if command is None:
        return False
    plan = analyse(command)
    return is_read_only(plan) and shows_paths(plan)


def searched(plan: ShellPlan) -> Depth:
    """Whether a line reads all files below a directory, or all but the hidden ones."""
    depths = {_searches(command) for command in plan.commands}
    return "all" if "all" in depths else "visible" if "visible" in depths else ""


def shows_paths(plan: ShellPlan) -> bool:
    """Whether every path that a line names can be read from it."""
    plain = all(map(_is_plain, itertools.chain(_words(plan), _documents(plan))))
    return plain and not plan.unknown and not any(command.more_words for command in plan.commands)


def mentions(plan: ShellPlan, cwd: str) -> Mentions:
    """The paths in a command line that starts in the directory ``cwd``; wildcards stand for what is there now."""
    bases, complete = directories(plan, cwd)
    words = list(itertools.islice(_words(plan), _MAX_WORDS + 1))
    found: dict[str, None] = {}
    for word in words[:_MAX_WORDS]:
        if word.text is not None:
            texts: Iterable[str] = _readings(word.text)
        elif _is_plain(word):
            texts = itertools.chain.from_iterable(_expanded(word.raw, base) for base in bases)
        else:
            complete = False
            continue
        for text in texts:
            complete = complete and (word.text is not None or not _is_taken_apart(text))
            absolute = text.startswith(("/", "~"))
            found.update(dict.fromkeys([text] if absolute else [os.path.join(base, text) for base in bases]))
    if _searches_where_it_runs(plan):
        found.update(dict.fromkeys(bases))
    complete = complete and shows_paths(plan) and len(words) <= _MAX_WORDS and len(found) <= _MAX_FOUND
    return Mentions(
        reads=plan.reads,
        writes=plan.writes,
        words=tuple(itertools.islice(found, _MAX_FOUND)),
        redirects=any(redirect.writes for command in plan.commands for redirect in command.redirects),
        complete=complete,
    )


def programs(plan: ShellPlan) -> list[str]:
    """The names of all programs that a line runs, as far as they can be told, those with a path left out."""
    names = (command.words[0].text or "" for command in plan.commands if command.words)
    return list(dict.fromkeys(name for name in names if name and "/" not in name))


def runs_git(plan: ShellPlan) -> bool:
    """Whether git is among the programs that a line runs."""
    return any(command.name == "git" for command in plan.commands)


def _searches(command: SimpleCommand) -> Depth:
    options = [word.text or "" for word in command.arguments]
    if (recursive := _SEARCHES.get(command.name or "")) is not None:
        return "all" if any(map(recursive.match, options)) else ""
    if command.name != "rg":
        return ""
    return "all" if any(_HIDDEN.match(option) for option in options) else "visible"


def _searches_where_it_runs(plan: ShellPlan) -> bool:
    """Whether a command of the line may search its own directory: one that surely is given another does not."""
    for command in plan.commands:
        texts = [word.text if word.text is not None else word.prefix for word in command.arguments]
        options = [text for text in texts if text.startswith("-")]
        names_paths = len(texts) - len(options) > 1 and all(_PLAIN_OPTION.fullmatch(text) for text in options)
        if command.name in _HERE_IF_UNTOLD and _searches(command) and not names_paths:
            return True
    return False


def _words(plan: ShellPlan) -> Iterator[Word]:
    for command in plan.commands:
        yield from command.words[1:]
        for redirect in command.redirects:
            if redirect.op not in DOCUMENTS and not redirect.is_duplicate:
                yield redirect.target


def _documents(plan: ShellPlan) -> Iterator[Word]:
    """Texts that commands read, which would also show what a variable holds."""
    for command in plan.commands:
        yield from (redirect.target for redirect in command.redirects if redirect.op in DOCUMENTS)


def _is_plain(word: Word) -> bool:
    """Whether a word says what it stands for, if only by wildcards."""
    return word.text is not None or (not word.inner and _SIMPLE_GLOB.fullmatch(word.raw) is not None)


def _readings(text: str) -> Iterator[str]:
    """What in an argument may be a path: all of it, the value of an option, what ``@`` reads."""
    if not text or "\0" in text or len(text) > 4096:
        return
    if not text.startswith("-"):
        yield text
    elif not text.startswith("--") and len(text) > 2:
        yield text[2:]
    if "=" in text:
        yield text.partition("=")[2]
    for mark in ("@", "file://", *([] if "://" in text else ":")):  # user@x, @x, HEAD:x, host:x
        if mark in text:
            yield text.partition(mark)[2]


def _is_taken_apart(name: str) -> bool:
    """Whether a program would not take a name for a file, as it comes from a wildcard: an option, or ``@file``."""
    return os.path.basename(name).startswith(("-", "@"))


def _expanded(pattern: str, base: str) -> Iterator[str]:
    matches = glob.iglob(os.path.expanduser(pattern), root_dir=base)
    yield from itertools.islice((os.path.join(base, match) for match in matches), _MAX_FOUND + 1)


def directories(plan: ShellPlan, cwd: str) -> tuple[list[str], bool]:
    """The directories in which a command of the line may run, and whether those are all."""
    bases, complete = [cwd], True
    for command in plan.commands:
        targets = _directories(command)
        complete = complete and None not in targets
        known = [target for target in targets if target is not None]
        bases += [os.path.join(base, target) for base in bases for target in known]
        if len(bases) > _MAX_BASES:
            return bases[:_MAX_BASES], False
    return bases, complete


def _directories(command: SimpleCommand) -> list[str | None]:
    """Where ``cd`` and options such as ``git -C`` lead; None for what the line doesn't say."""
    if command.name in ("cd", "pushd"):
        words = [word for word in command.arguments if word.text not in ("-L", "-P", "--")]
        targets = [None if word.text in ("", "-") else word.text for word in words]
        return [target if target is None else os.path.expanduser(target) for target in targets or ["~"]]
    found: list[str | None] = []
    for option, value in itertools.pairwise(command.arguments):
        if option.text in ("-C", "--directory", "--chdir"):
            found.append(value.text)
    return found
