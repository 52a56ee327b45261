"""Programs that run code or other programs by a side door: ``git -c core.pager=…``, ``tar -I``, ``sed e``."""

import re
from collections.abc import Callable, Sequence

from .shell_plan import Unreadable, Word, names

# Program: short letters, long names of options that run a program.
_DOORS: dict[str, tuple[str, str]] = {
    "tar": (
        "IF",
        "to-command checkpoint-action use-compress-program info-script new-volume-script rsh-command",
    ),
    "rsync": ("e", "rsh rsync-path"),
    "scp": ("SoFD", ""),
    "sftp": ("SoFDb", ""),
    "sort": ("", "compress-program"),
    "rg": ("", "pre hostname-bin"),
    "fd": ("xX", "exec exec-batch"),
    "fdfind": ("xX", "exec exec-batch"),
    "man": ("PHC", "pager html config-file"),
    "zip": ("T", "unzip-command"),
    "split": ("", "filter"),
    "wget": ("e", "execute use-askpass config"),
    "nc": ("ec", "exec sh-exec"),
    "ncat": ("ec", "exec sh-exec"),
    "crontab": ("e", ""),
    "ip": ("b", "batch"),
}
_EDITORS = names("vi vim nvim view vimdiff ex ed emacs nano pico joe")
_INTERPRETERS = {  # name: letters of the options that take code
    "python": "c", "python2": "c", "python3": "c", "pypy": "c", "pypy3": "c", "perl": "eEMm", "ruby": "e", "node": "ep",
    "nodejs": "ep", "php": "rBRE", "lua": "e", "luajit": "e", "Rscript": "e", "osascript": "e", "julia": "eE",
    "bun": "ep", "tclsh": "", "elixir": "e", "groovy": "e", "ghc": "e", "scala": "e", "swift": "e",
}  # fmt: skip
_INFORMS = names("--version -V -VV -v --help -h")


def interpreted_code(name: str, arguments: Sequence[Word]) -> str:
    """The code that an interpreter is given as an argument; "" for anything else.

    Raises:
        Unreadable: it runs what it reads from its input, or code that isn't literal.
    """
    letters = _INTERPRETERS.get(re.sub(r"(?<=\d)\.\d+$", "", name))
    if letters is None:
        return ""
    script = False
    for at, word in enumerate(arguments):
        if word.text is None and not word.is_argument and not script:
            raise Unreadable(f"{name} may run code that is not literal")
        text = word.text or word.prefix
        if text in _INFORMS and len(arguments) == 1:
            return ""
        if _takes_code(text, letters):
            return "\n".join(_literal(one) for one in arguments[at:])
        if text == "-m" and letters == "c":
            return ""
        if not text.startswith("-"):
            if at == 0 or not (arguments[at - 1].text or "").startswith("-"):
                return ""  # a script, and its arguments
            script = True  # or the value of the option in front
    if not script:
        raise Unreadable(f"{name} runs what it reads")
    return ""


def _takes_code(text: str, letters: str) -> bool:
    if text.startswith("--"):
        return text.startswith(("--eval", "--print"))
    return text.startswith("-") and any(letter in text[1:] for letter in letters)


def _literal(word: Word) -> str:
    if word.text is None:
        raise Unreadable("code that is not literal")
    return word.text


def check_options(name: str, arguments: Sequence[Word]) -> None:
    """Refuses options by which an ordinary program runs another one.

    Raises:
        Unreadable: there is such an option, or may be.
    """
    check = _CHECKS.get(name)
    if check is not None:
        check(arguments)
    if name in _DOORS and has_option(arguments, *_DOORS[name]):
        raise Unreadable(f"an option of {name} runs a program")
    if name in _EDITORS and any((word.text or "-").startswith(("-", "+")) for word in arguments):
        raise Unreadable(f"{name} runs commands of its own")


def has_option(arguments: Sequence[Word], letters: str, long: str) -> bool:
    """Whether one of these options may be there: in a cluster, or by the start of its long name.

    ``--`` is no end: it may be the value of an option before it.
    """
    for word in arguments:
        text = word.text if word.text is not None else word.prefix
        if text.startswith("--"):
            given = text[2:].partition("=")[0]
            if given and any(name.startswith(given) for name in long.split()):
                return True
        elif text.startswith("-") and any(letter in text[1:] for letter in letters):
            return True
    return False


_GIT_SETTINGS = re.compile(
    r"(?:color|user|advice|log|format|init|i18n|column)\.[\w.]+|core\.(?:quotepath|autocrlf|abbrev|filemode)"
    r"|(?:commit|tag)\.gpgsign|diff\.(?:renames|noprefix|mnemonicprefix|algorithm|context)|safe\.directory"
    r"|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote)|protocol\.version|http\.(?:postbuffer|version)"
)
_GIT_VALUES = names("-C --git-dir --work-tree --namespace")


def git_command(arguments: Sequence[Word]) -> tuple[str, tuple[Word, ...]]:
    """git's subcommand and what follows it, options in front taken off; ``("", ())`` for none.

    Raises:
        Unreadable: an option in front may run something or is not known.
    """
    at = 0
    while at < len(arguments):
        text = _literal(arguments[at])
        if not text.startswith("-"):
            return text, tuple(arguments[at + 1 :])
        if text == "-c" or text in _GIT_VALUES:
            if at + 1 == len(arguments):
                break
            if text == "-c":
                _check_setting(_literal(arguments[at + 1]).partition("=")[0])
            at += 1
        elif text.startswith(("--exec-path=", "--config-env")) or (text.startswith("-c") and text != "-c"):
            raise Unreadable("git runs a program given by a setting")
        at += 1
    return "", ()


def _check_setting(key: str) -> None:
    if not _GIT_SETTINGS.fullmatch(key.lower()):
        raise Unreadable("git runs a program given by a setting")


_GIT_DOORS: dict[str, tuple[str, str]] = {
    "clone": ("uc", "upload-pack config template"),
    "fetch": ("", "upload-pack"),
    "pull": ("", "upload-pack"),
    "ls-remote": ("", "upload-pack exec"),
    "push": ("", "receive-pack exec"),
    "archive": ("", "exec remote"),
    "grep": ("O", "open-files-in-pager"),
    "rebase": ("x", "exec"),
    "difftool": ("x", "extcmd"),
    "send-email": ("", "smtp-server sendmail-cmd to-cmd cc-cmd"),
}


def _check_git(arguments: Sequence[Word]) -> None:
    subcommand, rest = git_command(arguments)
    if subcommand in _GIT_DOORS and has_option(rest, *_GIT_DOORS[subcommand]):
        raise Unreadable(f"an option of git {subcommand} runs a program")
    first = rest[0].text if rest else ""
    if subcommand == "filter-branch" or (subcommand, first) in (("bisect", "run"), ("submodule", "foreach")):
        raise Unreadable(f"git {subcommand} runs commands")
    if any("ext::" in (word.text or "") for word in rest):
        raise Unreadable("git runs a program as a transport")
    if subcommand == "config":
        keys = [_literal(word) for word in rest if not _literal(word).startswith("-")]
        if len(keys) > 1 and keys[0] not in ("get", "list"):
            _check_setting(keys[1] if keys[0] == "set" else keys[0])
        if has_option(rest, "e", "edit rename-section"):
            raise Unreadable("git config does something unusual")


_SED_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\.)*/)"
_SED_COMMAND = (
    rf"\s*+(?:{_SED_ADDRESS}(?:,\+?{_SED_ADDRESS})?)?\s*+!?\s*+"
    r"(?:[pdqDPgGhHnNx=]|s(?P<d>[/|#,:@!])(?:(?!(?P=d))[^\\\n]|\\.)*(?P=d)(?:(?!(?P=d))[^\\\n]|\\.)*(?P=d)[gIip0-9]*)\s*+"
)
_SED_PLAIN = re.compile(_SED_COMMAND)


def _check_sed(arguments: Sequence[Word]) -> None:
    """Scripts of plain commands only: ``e`` and ``s///e`` run programs, ``w`` writes, ``r`` reads."""
    scripts: list[str] = []
    at = 0
    rest: list[Word] = []
    while at < len(arguments):
        word = arguments[at]
        text = word.text if word.text is not None else word.prefix
        if word.text is None and not word.is_argument:
            raise Unreadable("sed with arguments that are not literal")
        if text in ("-e", "--expression") and at + 1 < len(arguments):
            scripts.append(_literal(arguments[at + 1]))
            at += 1
        elif text.startswith("--expression="):
            scripts.append(text.partition("=")[2])
        elif text.startswith("-") and not re.fullmatch(
            r"-[nErsuz]*|-[nErsuz]*i[\w.]*|--quiet|--silent|--regexp-extended|--null-data|--in-place(=\.\w+)?",
            text,
        ):
            raise Unreadable(f"an option that is not known: {text}")
        elif not text.startswith("-"):
            rest.append(word)
        at += 1
    if has_option(arguments, "", "file"):
        raise Unreadable("sed runs a script from a file")
    if not scripts and rest:
        scripts = [_literal(rest[0])]
    if not all(_is_plain_sed(script) for script in scripts):
        raise Unreadable("a sed script that may run or write something")


def _is_plain_sed(script: str) -> bool:
    at = 0
    while at < len(script):
        match = _SED_PLAIN.match(script, at)
        if match is None:
            return False
        at = match.end()
        if at < len(script) and script[at] not in ";\n":
            return False
        at += 1
    return True


def _check_awk(arguments: Sequence[Word]) -> None:
    for word in arguments:
        if word.text is None and not word.is_argument:
            raise Unreadable("awk with arguments that are not literal")
        text = word.text or word.prefix
        program = text.replace("||", "")
        if re.search(r"system|getline|[|>@]", program):
            raise Unreadable("an awk program that may run or write something")
    if has_option(arguments, "EileDop", "exec include load debug dump-variables pretty-print profile source"):
        raise Unreadable("an option of awk that is not known")


def _check_tar(arguments: Sequence[Word]) -> None:
    first = arguments[0] if arguments else Word("", "")
    if first.text is None or (not first.text.startswith("-") and re.search("[IF]", first.text)):
        raise Unreadable("an option of tar runs a program")


_CHECKS: dict[str, Callable[[Sequence[Word]], None]] = {
    "git": _check_git,
    "sed": _check_sed,
    "gsed": _check_sed,
    "tar": _check_tar,
    "bsdtar": _check_tar,
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), _check_awk),
}
