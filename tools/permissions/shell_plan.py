"""What a shell command line would do, as plain values.

Built by ``shell_commands.analyse``; read by ``shell_rules`` (rules) and by the permission engine.
"""

import msgspec


def names(text: str) -> frozenset[str]:
    """A set of names, written with blanks between them."""
    return frozenset(text.split())


DOCUMENTS = ("<<", "<<-", "<<<")
"""Redirections whose target is the text that is read."""


class Unreadable(Exception):
    """The command line, or a part of it, can't be known for sure; the text is the reason."""


class Word(msgspec.Struct, frozen=True):
    """One word of a command, quotes removed.

    ``text`` is None where bash would put in something that the line doesn't say: an expansion, a
    substitution, a pattern. ``prefix`` is then the literal text in front of it. ``splits`` tells that
    it may become several words, or none, of any text; ``inner`` is the code of its substitutions.
    """

    raw: str
    text: str | None
    prefix: str = ""
    splits: bool = False
    inner: tuple[str, ...] = ()

    @property
    def is_argument(self) -> bool:
        """Whether it surely is no option, whatever is put in."""
        return not self.splits and bool(self.prefix) and not self.prefix.startswith("-")


class Assignment(msgspec.Struct, frozen=True):
    """``NAME=value`` in front of a command, on its own, or after ``export`` and the like."""

    name: str
    value: Word


class Redirect(msgspec.Struct, frozen=True):
    """A redirection: ``op`` as written (``>``, ``<<<``, …), its descriptor, and the target word.

    The target of a here-document is its body.
    """

    op: str
    target: Word
    fd: str = ""

    @property
    def reads(self) -> bool:
        return self.op in ("<", "<>")

    @property
    def writes(self) -> bool:
        """Whether it may write a file. The standard streams, /dev/null and the like are none; another descriptor
        may be anything that the shell has open.
        """
        if self.op in ("<", *DOCUMENTS):
            return False
        text = self.target.text
        if self.is_duplicate:
            return text is None or text.rstrip("-") not in ("", "0", "1", "2")
        return text not in ("/dev/null", "/dev/stdout", "/dev/stderr")

    @property
    def is_duplicate(self) -> bool:
        """Whether the target is a descriptor, not a file."""
        text = self.target.text
        return self.op == "<&" or (
            self.op == ">&" and text is not None and (text == "-" or text.rstrip("-").isdecimal())
        )

    @property
    def is_network(self) -> bool:
        start = self.target.text if self.target.text is not None else self.target.prefix
        return self.op not in DOCUMENTS and start.startswith(("/dev/tcp/", "/dev/udp/"))


class SimpleCommand(msgspec.Struct, frozen=True):
    """One program or builtin with its words, as bash would run it.

    A wrapper (``env``, ``xargs``, ``sh -c``) is a command, and what it runs are commands of their own
    that name it in ``wrappers``. ``transparent`` marks a wrapper that adds nothing of its own, so
    that rules look at what it runs only; ``covered`` marks what is run by a program whose trade that
    is (``uv run``), so that an allow rule for the outer one is enough. ``more_words``: arguments that
    the line doesn't say follow. ``code``: text that an interpreter runs (``python -c``).
    """

    words: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    wrappers: tuple[str, ...] = ()
    transparent: bool = False
    covered: bool = False
    more_words: bool = False
    code: str = ""
    unknown: str = ""

    @property
    def name(self) -> str | None:
        """Base name of the program; None where it isn't literal, "" for assignments alone."""
        if not self.words:
            return ""
        text = self.words[0].text
        return None if text is None else text.rpartition("/")[2]

    @property
    def arguments(self) -> tuple[Word, ...]:
        return self.words[1:]


class ShellPlan(msgspec.Struct, frozen=True):
    """Every command that a line would or might run, in the order of the text, and what they touch.

    ``unknown`` is why something can't be known for sure ("" where all is known); ``commands`` is then
    what could be seen. Paths are as written, relative ones to the directory at the start; after a
    ``cd`` each is given for every directory it may mean. ``~`` at their start is the home directory.
    ``paths_known`` is False where a path is read or written that the line doesn't say.
    """

    text: str
    commands: tuple[SimpleCommand, ...] = ()
    operators: frozenset[str] = frozenset()
    unknown: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    network: bool = False
    paths_known: bool = True
