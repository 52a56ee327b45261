"""What programs run that are made to run others: ``env``, ``xargs``, ``find -exec``, ``sh -c``, …

A wrapper is read only where each of its options is known; otherwise it can't be said which word is
the program. Programs that run something by a side door are in ``code_options``.
"""

import re
from collections.abc import Callable, Sequence

from .find_actions import find_actions
from .inner import Inner, Wrapped, filled
from .options import literal
from .shell_plan import Unreadable, Word, names
from .shell_syntax import RESERVED
from .wrapper_options import PREFIXES, Options, program_at

SHELLS = names("sh bash dash ash rbash")
_OTHER_SHELLS = names("zsh ksh ksh93 mksh pdksh yash fish csh tcsh rc es elvish nu xonsh pwsh posh")


_RUNNERS = {  # two words, and the rest is a program
    ("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("pdm", "run"), ("hatch", "run"), ("rye", "run"),
    ("bundle", "exec"), ("pnpm", "exec"), ("npm", "exec"), ("conda", "run"), ("pixi", "run"), ("uv", "x"),
    ("pipx", "run"), ("yarn", "exec"), ("pyenv", "exec"), ("rbenv", "exec"), ("cargo", "exec"), ("mise", "exec"),
}  # fmt: skip
_STARTERS = names("parallel sem entr tmux screen at batch socat gdb lldb expect systemd-run nsenter")
_REFUSED = {
    **dict.fromkeys(_OTHER_SHELLS, "another shell"),
    **dict.fromkeys(_STARTERS, "runs commands in ways that are not analysed"),
}


def wrapped(words: Sequence[Word], *, more_words: bool = False) -> Wrapped:
    """What a command runs besides itself; ``more_words`` tells that unknown arguments follow.

    Raises:
        Unreadable: it runs something, and what can't be told.
    """
    name = literal(words[0]).rpartition("/")[2]
    if name in _REFUSED:
        raise Unreadable(f"{name}: {_REFUSED[name]}")
    if name.startswith(("ld-linux", "ld-musl", "ld.so")):
        return Wrapped((Inner(tuple(words[1:])),)) if len(words) > 1 else Wrapped()
    special = _SPECIAL.get(name)
    if special is not None:
        return special(words, more_words)
    if name in PREFIXES:
        return _prefix(words, more_words, PREFIXES[name])
    if len(words) > 1 and (name, words[1].text) in _RUNNERS:
        return _runner(words[2:], more_words)
    return Wrapped()


def _prefix(words: Sequence[Word], more_words: bool, options: Options) -> Wrapped:
    at = program_at(words, options)
    for word in words[at : at + options.skip]:
        literal(word)
    rest = tuple(words[at + options.skip :])
    if not rest and more_words:
        raise Unreadable("the program comes from elsewhere")
    if rest and rest[0].raw in RESERVED | {"!", "{", "}"}:
        raise Unreadable("a wrapper in front of a compound command")
    inner = (Inner(rest, more_words=more_words or options.more_words),) if rest else ()
    return Wrapped(inner, options.transparent)


def _runner(rest: Sequence[Word], more_words: bool) -> Wrapped:
    words = tuple(rest)
    while words and words[0].text is not None and words[0].text.startswith("-"):
        if words[0].text not in ("--", "--no-sync", "--frozen", "--locked", "-q", "--quiet", "--offline"):
            raise Unreadable(f"an option that is not known: {words[0].text}")
        words = words[1:]
    return Wrapped((Inner(words, more_words=more_words, covered=True),) if words else ())


def _command(words: Sequence[Word], more_words: bool) -> Wrapped:
    if len(words) > 1 and words[1].text in ("-v", "-V", "-pv", "-pV"):
        return Wrapped(transparent=True)
    return _prefix(words, more_words, PREFIXES["command"])


def _time(words: Sequence[Word], more_words: bool) -> Wrapped:
    if len(words) == 1:
        raise Unreadable("a wrapper in front of a compound command")
    return _prefix(words, more_words, PREFIXES["time"])


def _env(words: Sequence[Word], more_words: bool) -> Wrapped:
    """Assignments stay in front: ``shell_commands`` takes them off."""
    at = 1
    while at < len(words):
        text = literal(words[at])
        if text in ("-i", "-", "-0", "--ignore-environment", "--null"):
            at += 1
        elif text in ("-u", "--unset"):
            at += 2
        elif text.startswith("-") and text != "--":
            raise Unreadable(f"an option that is not known: {text}")
        else:
            at += text == "--"
            break
    rest = tuple(words[at:])
    if more_words and all("=" in literal(word) for word in rest):
        raise Unreadable("the program comes from elsewhere")
    shows = all("=" in (word.text or word.prefix) for word in rest)  # the environment: there is no program
    return Wrapped((Inner(rest, more_words=more_words),) if rest else (), transparent=not shows)


def _xargs(words: Sequence[Word], more_words: bool) -> Wrapped:
    """``-I{}`` puts the input into the words, so those that hold it are not literal."""
    options = PREFIXES["xargs"]
    at = program_at(words, options)
    given = [i for i in range(1, at) if literal(words[i]).startswith("-I")]
    if not given:
        return _prefix(words, more_words, options)
    if len(given) > 1:
        raise Unreadable("xargs with several replacements")
    mark = literal(words[given[0]])[2:] or literal(words[given[0] + 1])
    rest = tuple(filled(word, mark) for word in words[at:])
    return _prefix((words[0], *rest), more_words, Options(transparent=True))


def _shell(words: Sequence[Word], more_words: bool) -> Wrapped:
    at, runs_code, transparent = 1, False, True
    while at < len(words) and (text := literal(words[at]))[:1] in ("-", "+") and text not in ("-", "--"):
        at += 1
        if text in ("--posix", "--noprofile", "--norc"):
            continue
        if text in ("--version", "--help"):
            return Wrapped()
        if not re.fullmatch(r"[-+][celuxvnfhao]+", text):
            raise Unreadable(f"an option that is not known: {text}")
        runs_code = runs_code or "c" in text
        transparent = transparent and "l" not in text
        if "o" in text:
            if at == len(words) or literal(words[at]) not in ("pipefail", "errexit", "nounset", "xtrace"):
                raise Unreadable("an unusual shell option")
            at += 1
    if at < len(words) and words[at].text in ("-", "--"):
        at += 1
    if at == len(words):
        raise Unreadable("a shell that runs what it reads")
    if not runs_code:  # a script, also one that is found by PATH
        return Wrapped((Inner(tuple(words[at:]), more_words=more_words, covered=True),))
    return Wrapped((Inner(code=literal(words[at])),), transparent)


def _eval(words: Sequence[Word], more_words: bool) -> Wrapped:
    if more_words:
        raise Unreadable("eval of arguments from elsewhere")
    code = " ".join(literal(word) for word in words[1:])
    return Wrapped((Inner(code=code.removeprefix("-- ")),), transparent=True)


def _trap(words: Sequence[Word], more_words: bool) -> Wrapped:
    if len(words) < 3 or words[1].text in ("-", ""):
        return Wrapped(transparent=True)
    return Wrapped((Inner(code=literal(words[2 if words[1].text == "--" else 1])),), transparent=True)


def _watch(words: Sequence[Word], more_words: bool) -> Wrapped:
    at = program_at(words, Options("bcdegtxp", "n", "beep color differences exec no-title", "interval"))
    return Wrapped((Inner(code=" ".join(literal(word) for word in words[at:])),))


def _own_shell(words: Sequence[Word], more_words: bool) -> Wrapped:
    """``su`` and ``script``: shell code behind each ``-c``."""
    inner: list[Inner] = []
    for i, word in enumerate(words[1:], 1):
        text = literal(word)
        if text in ("-c", "--command") and i + 1 < len(words):
            inner.append(Inner(code=literal(words[i + 1])))
        elif text.startswith("--command="):
            inner.append(Inner(code=text.partition("=")[2]))
    if not inner or more_words:
        raise Unreadable("it starts a shell")
    return Wrapped(tuple(inner))


def _flock(words: Sequence[Word], more_words: bool) -> Wrapped:
    options = Options("nsxuoeFv", "wE", skip=1)
    rest = words[program_at(words, options) + 1 :]
    if len(rest) == 2 and rest[0].text == "-c":
        return Wrapped((Inner(code=literal(rest[1])),))
    return _prefix(words, more_words, options)


def _ssh(words: Sequence[Word], more_words: bool) -> Wrapped:
    """The code runs elsewhere, and is shown all the same."""
    at = program_at(words, Options("46AaCfGgKkMNnqsTtVvXxYy", "bcDEeiIJLlmOpQRSWw"))
    if at + 1 < len(words):
        return Wrapped((Inner(code=" ".join(literal(word) for word in words[at + 1 :])),))
    if more_words or at == len(words):
        raise Unreadable("ssh with arguments from elsewhere")
    return Wrapped()


_SPECIAL: dict[str, Callable[[Sequence[Word], bool], Wrapped]] = {
    **dict.fromkeys(SHELLS, _shell),
    "env": _env,
    "xargs": _xargs,
    "find": find_actions,
    "command": _command,
    "time": _time,
    "eval": _eval,
    "trap": _trap,
    "watch": _watch,
    "ssh": _ssh,
    "su": _own_shell,
    "script": _own_shell,
    "flock": _flock,
}
