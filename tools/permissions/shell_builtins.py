"""Builtins that change the shell, so that what follows isn't what it looks like; and variables that do.

bash evaluates more than it seems: a name like ``a[$(cmd)]`` runs its subscript in ``printf -v``,
``test -v``, ``read``, ``unset``, ``declare -i``, … These are known only with plain arguments.
"""

import re
from collections.abc import Callable, Sequence

from .shell_plan import Assignment, SimpleCommand, Unreadable, Word, names

_CHANGES = names(
    ". source alias unalias shopt enable hash bind complete compgen compopt mapfile readarray let fc "
    "history getopts coproc"
)
_OWN_NAME = re.compile(r"[a-z_][a-z0-9_]*")  # of the line itself: programs don't look at such variables
_HARMLESS = names(
    "CI TZ LANG LANGUAGE TERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR DEBUG VERBOSE NODE_ENV "
    "RUST_BACKTRACE RUST_LOG PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING "
    "PYTHONUTF8 GIT_TERMINAL_PROMPT DEBIAN_FRONTEND OMP_NUM_THREADS CUDA_VISIBLE_DEVICES"
)
_DECLARES = names("export declare typeset local readonly")


def is_harmless_variable(name: str, *, exported: bool = True) -> bool:
    """Whether no program runs something else because of it.

    A list of the harmless ones: PATH, LD_PRELOAD, IFS, BASH_ENV, GIT_SSH_COMMAND, NODE_OPTIONS and
    their like have no end. One that isn't ``exported`` is the line's own if its name is in lower
    case, save for those that programs look at.
    """
    if not exported and _OWN_NAME.fullmatch(name):
        return not name.endswith("_proxy") and not name.startswith("npm_") and name != "histchars"
    return name in _HARMLESS or name.startswith("LC_")


def has_harmless_variables(command: SimpleCommand) -> bool:
    """Whether this holds for each one that a command sets; those without a command aren't exported."""
    exported = bool(command.words)
    return all(
        is_harmless_variable(one.name, exported=exported) and _is_harmless_value(one)
        for one in command.assignments
    )


def _is_harmless_value(assignment: Assignment) -> bool:
    """Whether the C library surely looks for no file of the line's choice: a catalogue of messages holds formats."""
    if not re.fullmatch(r"LANG|LANGUAGE|TERM|LC_\w+", assignment.name):
        return True
    return assignment.value.text is not None and "/" not in assignment.value.text


_DANGEROUS = re.compile(
    r"PATH|CDPATH|IFS|ENV|BASH.*|PS[0-4]|PROMPT_COMMAND|SHELL\w*|HOME|LD_\w+|DYLD_\w+|GIT_\w+|PYTHON(?!UNBUF|DONT|HASH|IO|UTF8)\w+"
    r"|PERL\w+|RUBY\w+|NODE_(?:OPTIONS|PATH)|JAVA_\w+|_JAVA_OPTIONS|LESS\w+|\w*PAGER|\w*EDITOR|VISUAL|BROWSER|MAKEFLAGS"
    r"|GCONV_PATH|TAR_OPTIONS|RSYNC_RSH|CC|CXX|AWKPATH|INPUTRC|TERMINFO|FPATH|SECONDS|RANDOM|LINENO|OPTIND|EUID|UID"
)


def is_dangerous_variable(name: str) -> bool:
    """Whether it is known to change which code programs run."""
    return _DANGEROUS.fullmatch(name) is not None and not is_harmless_variable(name)


def check_builtin(name: str, arguments: Sequence[Word]) -> None:
    """Refuses a builtin that may change what later commands mean, or run code by a variable's name.

    Raises:
        Unreadable: it may.
    """
    if name in _CHANGES:
        raise Unreadable(f"{name} changes what later commands mean")
    check = _CHECKS.get(name)
    if check is not None:
        check(arguments)


def is_declaration(name: str) -> bool:
    """Whether words like ``A=1`` behind it are assignments."""
    return name in _DECLARES


def _literal(arguments: Sequence[Word]) -> list[str]:
    if any(word.text is None for word in arguments):
        raise Unreadable("a builtin with arguments that are not literal")
    return [word.text for word in arguments if word.text is not None]


def _check_set(arguments: Sequence[Word]) -> None:
    allowed = {"-o", "+o", "pipefail", "errexit", "nounset", "xtrace"}
    for text in _literal(arguments):
        if text not in allowed and not re.fullmatch(r"[-+][euxv]*o?", text):
            raise Unreadable("set changes the shell")


def _check_names(arguments: Sequence[Word]) -> None:
    """``read``, ``unset``, ``wait``: plain lower-case names and options."""
    for text in _literal(arguments):
        if "[" in text or (text[:1] not in ("", "-") and not is_harmless_variable(text, exported=False)):
            raise Unreadable("a variable that means something to programs, or an element of an array")


def _check_declare(arguments: Sequence[Word]) -> None:
    for word in arguments:
        if word.text in ("-x", "-r", "-g", "-p", "--"):
            continue
        if not re.match(r"[A-Za-z_]\w*(\+?=|$)", word.raw, re.ASCII):
            raise Unreadable("declares something unusual")
        if word.text is not None and "=" not in word.text and not is_harmless_variable(word.text):
            raise Unreadable("declares a variable that means something to programs")


_COUNTS = re.compile(r"%[-+ #0'*.\d]*[hlqLjzt]*n")  # ``%n`` puts a number into the variable that it is given


def _check_printf(arguments: Sequence[Word]) -> None:
    options = [word for word in arguments[:1] if (word.text or "") == "--"]
    first, *values = [*arguments[len(options) :], Word("", "")]
    if first.text is None and (not first.is_argument or len(values) > 1):
        raise Unreadable("printf may assign a variable")
    if (first.text or "").startswith("-v") or _COUNTS.search((first.text or "").replace("%%", "")):
        raise Unreadable("printf assigns a variable")


def _check_test(arguments: Sequence[Word]) -> None:
    """An operator that isn't literal may be ``-v``, which runs the subscript of its operand."""
    words = [*arguments[:-1]] if arguments and arguments[-1].text == "]" else [*arguments]
    if any(word.text in ("-v", "-R") for word in words) and not all(
        re.fullmatch(r"[\w-]+", word.text or "$", re.ASCII) for word in words
    ):
        raise Unreadable("test looks at a variable by an unusual name")
    if all(word.text is not None for word in words):
        return
    if words[0].text == "!":
        words = words[1:]
    operator = {2: 0, 3: 1}.get(len(words))
    if len(words) > 3 or not all(word.text is not None or _is_one_word(word) for word in words):
        raise Unreadable("test with arguments that are not literal")
    if operator is not None and words[operator].text is None:
        raise Unreadable("test with an operator that is not literal")


def _is_one_word(word: Word) -> bool:
    return (
        not word.splits and word.raw.startswith('"') and word.raw.endswith('"') and word.raw.count('"') == 2
    )


_CHECKS: dict[str, Callable[[Sequence[Word]], None]] = {
    "set": _check_set,
    "printf": _check_printf,
    "test": _check_test,
    "[": _check_test,
    **dict.fromkeys(("read", "unset", "wait"), _check_names),
    **dict.fromkeys(_DECLARES, _check_declare),
}
