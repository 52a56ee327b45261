"""Options in front of the program that a wrapper runs: ``timeout -k 5 10 make``.

Each option must be known: otherwise it can't be said which word is the program.
"""

from collections.abc import Sequence
from typing import NamedTuple

from .options import literal
from .shell_plan import Unreadable, Word


class Options(NamedTuple):
    """Options in front of the program: short letters and long names, without and with a value."""

    flags: str = ""
    values: str = ""
    long_flags: str = ""
    long_values: str = ""
    skip: int = 0  # words between the options and the program
    transparent: bool = False
    more_words: bool = False


PREFIXES = {
    "nohup": Options(transparent=True),
    "nice": Options("0123456789", "n", "", "adjustment", transparent=True),
    "ionice": Options("t", "cnpPu", "ignore", "class classdata", transparent=True),
    "timeout": Options(
        "v", "ks", "foreground preserve-status verbose", "kill-after signal", skip=1, transparent=True
    ),
    "stdbuf": Options("", "ioe", "", "input output error", transparent=True),
    "setsid": Options("cw", "", "ctty wait", transparent=True),
    "time": Options("p", transparent=True),
    "command": Options("p", transparent=True),
    "builtin": Options(transparent=True),
    "exec": Options("cl", "a", transparent=True),
    "busybox": Options(),
    "toybox": Options(),
    "sudo": Options(
        "ABEHknPS", "ugpCrtThUDR", "askpass preserve-env set-home non-interactive stdin", "user group"
    ),
    "doas": Options("nL", "uC"),
    "pkexec": Options(long_values="user"),
    "runuser": Options(values="u"),
    "fakeroot": Options(),
    "chroot": Options(long_values="userspec groups", skip=1),
    "unshare": Options(
        "rmnuipUCTfc", "", "mount net pid user uts ipc fork map-root-user mount-proc map-current-user", ""
    ),
    "taskset": Options("a", "", "all-tasks", "", skip=1),
    "chrt": Options("bfiorRv", "", "", "", skip=1),
    "strace": Options("cCdfFhiqrtTvVwxyz", "abeEIoOpPsSuUX"),
    "ltrace": Options("cCfhiLrStTV", "aAeFlnopsuwx"),
    "setarch": Options("RBFILSTXZ3v", skip=1),
    "linux32": Options("R"),
    "linux64": Options("R"),
    "unbuffer": Options("p"),
    "rlwrap": Options(),
    "caffeinate": Options("disum", "tw"),
    "xvfb-run": Options("a", "", "auto-servernum", ""),
    "valgrind": Options("qv", long_flags="leak-check error-exitcode tool quiet track-origins"),
    "proxychains": Options("q"),
    "proxychains4": Options("q"),
    "xargs": Options(
        "0rtx", "dEILnPs", "null no-run-if-empty verbose", "max-args max-procs max-lines delimiter", more_words=True,
        transparent=True,
    ),
}  # fmt: skip


def program_at(words: Sequence[Word], options: Options) -> int:
    """Index of the first word behind the options; the number of words where there is none.

    Raises:
        Unreadable: an option isn't known or has no value.
    """
    at = 1
    while at < len(words):
        text = literal(words[at])
        if text == "--":
            return at + 1
        if not text.startswith("-") or text == "-":
            return at
        at += 1 + (_takes_next_long(text, options) if text.startswith("--") else _takes_next(text, options))
    if at > len(words):
        raise Unreadable("an option without its value")
    return at


def _takes_next_long(text: str, options: Options) -> bool:
    name, equals, _ = text[2:].partition("=")
    if name in options.long_values.split():
        return not equals
    if name not in options.long_flags.split():
        raise Unreadable(f"an option that is not known: {text}")
    return False


def _takes_next(text: str, options: Options) -> bool:
    for i, letter in enumerate(text[1:], 2):
        if letter in options.values:
            return i == len(text)
        if letter not in options.flags:
            raise Unreadable(f"an option that is not known: {text}")
    return False
