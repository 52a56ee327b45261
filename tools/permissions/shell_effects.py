"""What commands read, write and talk to, as far as their arguments say: paths and hosts.

A best effort, and rather too many: an argument that may be a path is one.
"""

import itertools
import posixpath
import re
from collections.abc import Iterator, Sequence

import msgspec

from .hosts_of import hosts_of
from .options import has_option
from .read_only import MOSTLY_READ, ONLY_READ
from .shell_plan import ShellPlan, SimpleCommand, Word, names

NO_PATHS = names(
    "echo printf tr basename dirname pwd true false : seq sleep id whoami uname which type nproc arch "
    "groups tty free uptime ps printenv exit wait date set"
)
_PATTERN_FIRST = names("grep egrep fgrep rg jq sed awk")
_WRITERS = names(
    "rm rmdir mkdir touch tee ln chmod chown chgrp truncate install shred unlink mv mkfifo mknod patch "
    "unzip tar split csplit dd gzip gunzip bzip2 xz zstd rsync scp"
)


def with_effects(plan: ShellPlan) -> ShellPlan:
    """The plan with its reads, writes and hosts."""
    effects = _Effects()
    for command in plan.commands:
        effects.add(command)
    hosts, network = hosts_of(plan.commands)
    return msgspec.structs.replace(
        plan,
        reads=tuple(dict.fromkeys(effects.reads)),
        writes=tuple(dict.fromkeys(effects.writes)),
        hosts=hosts,
        network=network,
        paths_known=effects.known,
    )


class _Effects:
    """Paths so far, and the directories that the shell may be in."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.writes: list[str] = []
        self.known = True
        self._bases: list[str] = [""]

    def add(self, command: SimpleCommand) -> None:
        for redirect in command.redirects:
            if redirect.reads:
                self._put(redirect.target, self.reads)
            if redirect.writes and not redirect.is_duplicate:
                self._put(redirect.target, self.writes)
        for word in file_reads(command):
            self._put(word, self.reads)
        for word in file_changes(command):
            self._put(word, self.writes)
        self.known = self.known and not command.more_words
        if command.name == "cd":
            self._change_directory(command.arguments)

    def _put(self, word: Word, into: list[str]) -> None:
        path = _path(word)
        if path is None:
            self.known = False
        else:
            into += (posixpath.join(base, path) if path[:1] != "~" else path for base in self._bases)

    def _change_directory(self, arguments: Sequence[Word]) -> None:
        targets = [word for word in arguments if word.text not in ("-P", "-L", "--")]
        path = _path(targets[0]) if len(targets) == 1 else "~"
        if path is None or path == "-" or len(self._bases) > 8:
            self.known = False
        else:
            self._bases += [base if path == "" else posixpath.join(base, path) for base in list(self._bases)]


def _path(word: Word) -> str | None:
    """The path that a word is; a home directory stays ``~``, and a file that is named so becomes ``./~``."""
    if word.text is None:
        return word.raw if re.fullmatch(r"~[\w./-]*", word.raw) else None
    return f"./{word.text}" if word.text.startswith("~") else word.text


def file_reads(command: SimpleCommand) -> Iterator[Word]:
    """Arguments that a command may read as files: of the read-only ones, and the sources of copies."""
    name = command.name or ""
    arguments = command.arguments
    if name == "git":
        yield from (word for word in arguments if _looks_outside(word))
    elif name in ("cp", "install", "scp", "rsync", "ln"):
        yield from list(_path_arguments(arguments))[:-1]
    elif (name in ONLY_READ or name in MOSTLY_READ) and name not in NO_PATHS:
        paths = list(_path_arguments(arguments))
        if (
            name in _PATTERN_FIRST
            and paths
            and not has_option(arguments, "ef", "regexp file expression from-file")
        ):
            paths = [word for word in paths if word is not _first_positional(arguments)]
        yield from paths


def file_changes(command: SimpleCommand) -> Iterator[Word]:
    """Arguments that a command may create, change or remove: a best effort."""
    name = command.name or ""
    arguments = command.arguments
    paths = list(_path_arguments(arguments))
    if name == "cp":
        yield from (word for word in arguments if word.text is None or "=" in word.text)
        yield from paths if has_option(arguments, "t", "target-directory") else paths[-1:]
    elif name in ("chmod", "chown", "chgrp"):
        yield from paths[1:]
    elif name == "sed" and has_option(arguments, "i", "in-place"):
        yield from (word for word in paths if word is not _first_positional(arguments))
    elif name == "sort" and has_option(arguments, "o", "output"):
        yield from paths
    elif name == "uniq":
        yield from paths[1:]
    elif name == "find":
        yield from (b for a, b in itertools.pairwise(arguments) if (a.text or "")[:4] in ("-fpr", "-fls"))
    elif name in ("curl", "wget"):
        yield from _after(arguments, ("-o", "-O", "--output", "--output-document", "-P", "--output-dir"))
    elif name in _WRITERS:
        yield from paths


def _after(arguments: Sequence[Word], options: tuple[str, ...]) -> Iterator[Word]:
    for given, value in itertools.pairwise(arguments):
        if given.text in options and (value.text is None or "://" not in value.text):
            yield value
    for word in arguments:
        text = word.text or ""
        for option in options:
            if text.startswith(option) and len(text) > len(option):
                yield Word(word.raw, text[len(option) :].lstrip("="))


def _path_arguments(arguments: Sequence[Word]) -> Iterator[Word]:
    """Words that aren't options, and what inside an option may be a path."""
    for word in arguments:
        if word.text is None or not word.text.startswith("-"):
            if word.text not in ("", "]", ";"):
                yield word
        elif inside := re.search(r"=(.+)|(?:~|\.\.|/).*", word.text):
            yield Word(word.raw, inside[1] or inside[0])


def _first_positional(arguments: Sequence[Word]) -> Word | None:
    return next((word for word in arguments if word.text is None or not word.text.startswith("-")), None)


def _looks_outside(word: Word) -> bool:
    text = word.text if word.text is not None else word.raw
    return bool(re.match(r"(--[a-z-]+=)?(/|~|\.\./|\.\.$)", text))
