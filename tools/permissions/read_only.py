"""Commands that surely only read: a small table of programs, and of the options that spoil it.

git is taken to be configured by its user: ``git diff`` runs the external diff of a setting. What is committed is not
hidden by rules about paths: ``git log -p`` shows all of it.
"""

import re
from collections.abc import Callable, Sequence

from .git_options import git_command
from .options import has_option
from .shell_builtins import has_harmless_variables, is_harmless_variable
from .shell_plan import ShellPlan, SimpleCommand, Word, names

# Whatever their arguments are, they change nothing and run nothing.
ONLY_READ = names(
    "cat head tail wc stat ls dir vdir du df cut tr nl tac rev paste comm cmp diff md5sum "
    "sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum od hexdump grep egrep fgrep fold "
    "expand unexpand realpath readlink basename dirname echo printf pwd true false : test [ seq sleep "
    "id whoami uname which type cd nproc arch groups tty free uptime exit wait join look"
)
# Program: letters and long names of options by which it writes or runs something, or reads files that it is not given.
MOSTLY_READ: dict[str, tuple[str, str]] = {
    "strings": ("", ""),
    "jq": ("fL", "from-file library-path"),
    "ps": ("", ""),
    "printenv": ("", ""),
    "find": ("", ""),
    "rg": ("z", "pre hostname-bin search-zip"),
    "sort": ("oT", "output compress-program temporary-directory files0-from"),
    "date": ("s", "set"),
    "tree": ("oR", "output"),
    "file": ("CzZ", "compile uncompress uncompress-noreport"),
    "column": ("", ""),
    "sed": ("iws", "in-place separate"),
    "awk": ("f", "file"),
    "uniq": ("", ""),
    "set": ("", ""),
}
_READ_FROM_LIST = {"wc": ("", "files0-from"), "du": ("", "files0-from")}  # files that a file names
_JQ_REACHES = re.compile(r"\b(?:import|include|env|ENV|modulemeta)\b")
_PS_COLUMN = r"(?:[a-df-z]\w*|euid|euser|etimes?)"  # and not ``environ``
_PS_WORD = rf"(?:(?:aux|axu|au|ax|a|x)w*|-[AefFlTH]+|-[pCuU] [\w,]+|-o {_PS_COLUMN}(?:,{_PS_COLUMN})*)"
_PS_SHOWS = re.compile(rf"(?:{_PS_WORD}(?: {_PS_WORD})*)?")
_PLAIN_VARIABLES = names("HOME PATH PWD USER LOGNAME SHELL HOSTNAME VIRTUAL_ENV EDITOR PAGER")
_GIT_READS = names(
    "status log diff show blame shortlog describe rev-parse rev-list ls-files ls-tree cat-file grep "
    "name-rev merge-base count-objects version whatchanged diff-tree diff-index show-ref for-each-ref"
)
_GIT_SPOILS = (
    "output ext-diff textconv filters open-files-in-pager help show-signature no-index"  # the last: any file
)
_GIT_LISTS: dict[str, re.Pattern[str]] = {  # the arguments with which a subcommand only lists
    "branch": re.compile(r"((--list|-l)( [^-]\S*)*|-[arv]+|--all|--remotes|--show-current|--contains \S+)?"),
    "tag": re.compile(r"((--list|-l)( [^-]\S*)*|-n)?"),
    "remote": re.compile(r"(-v|--verbose|get-url [\w-]+)?"),
    "stash": re.compile(r"list|show( -p)?( stash@\{\d+\})?"),
    "worktree": re.compile(r"list"),
    "config": re.compile(r"((--)?get )?(user|core|init|branch|remote|pull|push|merge|diff|color)\.[\w./-]+"),
    "reflog": re.compile(r"(show)?"),
}


def can_only_read(name: str) -> bool:
    """Whether a program changes nothing and runs nothing, whatever its arguments are."""
    return name in ONLY_READ


def is_read_only(plan: ShellPlan) -> bool:
    """Whether a line surely changes nothing, runs nothing else and talks to nobody."""
    if plan.unknown or plan.writes or plan.network or "&" in plan.operators or not plan.commands:
        return False
    return all(is_read_only_command(command) for command in plan.commands)


def is_read_only_command(command: SimpleCommand) -> bool:
    """The same for one command; what a wrapper runs is a command of its own."""
    if not has_harmless_variables(command) or command.unknown:
        return False
    if any(redirect.writes or redirect.is_network for redirect in command.redirects):
        return False
    if not command.words or command.transparent:
        return True
    name = command.words[0].text or ""
    if name in ONLY_READ:
        return not has_option(command.arguments, *_READ_FROM_LIST.get(name, ("", "")))
    if command.more_words or not all(word.text is not None or word.is_argument for word in command.arguments):
        return False
    if name == "git":
        return _git_only_reads(command.arguments)
    if name not in MOSTLY_READ or has_option(command.arguments, *MOSTLY_READ[name]):
        return False
    return _CHECKS[name](command.arguments) if name in _CHECKS else True


def _find_only_reads(arguments: Sequence[Word]) -> bool:
    """What ``-exec`` and ``-delete`` run is a command of its own."""
    return not any((word.text or "").startswith(("-fprint", "-fls")) for word in arguments)


def _one_file(arguments: Sequence[Word]) -> bool:
    """A second one is written; a wildcard may be two."""
    return all(word.text is not None for word in arguments) and (
        sum(not (word.text or "").startswith("-") for word in arguments) < 2
    )


def _names_files(arguments: Sequence[Word]) -> bool:
    """``@file`` is one that holds arguments."""
    return not any((word.text or word.prefix).startswith("@") for word in arguments)


def _jq_reads_input(arguments: Sequence[Word]) -> bool:
    """Without modules, which are other files, and without the environment."""
    return not any(_JQ_REACHES.search(word.text or word.prefix) for word in arguments)


def _shows_processes(arguments: Sequence[Word]) -> bool:
    """Without their environment: ``e``, which an option may also be taken for."""
    return _PS_SHOWS.fullmatch(" ".join(word.text or "$" for word in arguments)) is not None


def _shows_harmless(arguments: Sequence[Word]) -> bool:
    return bool(arguments) and all(
        is_harmless_variable(word.text or "$") or word.text in _PLAIN_VARIABLES for word in arguments
    )


def _shows_date(arguments: Sequence[Word]) -> bool:
    return all((word.text or "").startswith(("+", "-u", "-I", "-R", "--utc", "--iso")) for word in arguments)


_CHECKS: dict[str, Callable[[Sequence[Word]], bool]] = {
    "find": _find_only_reads,
    "uniq": _one_file,
    "date": _shows_date,
    "strings": _names_files,
    "jq": _jq_reads_input,
    "ps": _shows_processes,
    "printenv": _shows_harmless,
    "set": bool,  # alone it shows all variables
}


def _git_only_reads(arguments: Sequence[Word]) -> bool:
    subcommand, rest = git_command(arguments)
    in_front = arguments[: len(arguments) - len(rest) - 1]
    if any(word.text in ("-c", "-p", "--paginate") for word in in_front):
        return False
    if subcommand in _GIT_READS:
        signs = any("%G" in (word.text or word.prefix) for word in rest)  # gpg is run
        untracked = subcommand == "grep" and has_option(rest, "", "untracked")
        return not signs and not untracked and not has_option(rest, "O", _GIT_SPOILS)
    if subcommand not in _GIT_LISTS or any(word.text is None for word in rest):
        return False
    return _GIT_LISTS[subcommand].fullmatch(" ".join(word.text or "" for word in rest)) is not None
