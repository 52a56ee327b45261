"""Programs that run code or other programs by a side door: ``git -c core.pager=…``, ``tar -I``, ``sed e``."""

import re
from collections.abc import Callable, Sequence

from .git_options import check_git
from .options import has_option, literal
from .script_options import check_awk, check_sed
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
            return "\n".join(literal(one) for one in arguments[at:])
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


def _check_tar(arguments: Sequence[Word]) -> None:
    first = arguments[0] if arguments else Word("", "")
    if first.text is None or (not first.text.startswith("-") and re.search("[IF]", first.text)):
        raise Unreadable("an option of tar runs a program")


_CHECKS: dict[str, Callable[[Sequence[Word]], None]] = {
    "git": check_git,
    "sed": check_sed,
    "gsed": check_sed,
    "tar": _check_tar,
    "bsdtar": _check_tar,
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), check_awk),
}
