"""Scripts of sed and awk: only those that surely just rewrite what they read."""

import re
from collections.abc import Sequence

from .options import has_option, literal
from .shell_plan import Unreadable, Word

_SED_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\.)*/)"
_SED_COMMAND = (
    rf"\s*+(?:{_SED_ADDRESS}(?:,\+?{_SED_ADDRESS})?)?\s*+!?\s*+"
    r"(?:[pdqDPgGhHnNx=]|s(?P<d>[/|#,:@!])(?:(?!(?P=d))[^\\\n]|\\.)*(?P=d)(?:(?!(?P=d))[^\\\n]|\\.)*(?P=d)[gIip0-9]*)\s*+"
)
_SED_PLAIN = re.compile(_SED_COMMAND)


def check_sed(arguments: Sequence[Word]) -> None:
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
            scripts.append(literal(arguments[at + 1]))
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
        scripts = [literal(rest[0])]
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


_AWK_REACHES = re.compile(r"system|getline|[|>@]|ARG[CV]|ENVIRON|PROCINFO|SYMTAB|FUNCTAB")
_AWK_OPTION = re.compile(r"-[Fvf].*|--?", re.DOTALL)


def check_awk(arguments: Sequence[Word]) -> None:
    """Programs that use nothing but their input: no command, no file of their choice, not the environment."""
    for word in arguments:
        if word.text is None and not word.is_argument:
            raise Unreadable("awk with arguments that are not literal")
        text = word.text or word.prefix
        if _AWK_REACHES.search(text.replace("||", "").replace("\\\n", "")):
            raise Unreadable("an awk program that may run, read or write something")
        if text.startswith("-") and not _AWK_OPTION.fullmatch(text):
            raise Unreadable(f"an option that is not known: {text}")
