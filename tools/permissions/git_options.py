"""git: which of its subcommands a line uses, and by which options that runs other programs."""

import re
from collections.abc import Sequence

from .options import has_option, literal
from .shell_plan import Unreadable, Word, names

_GIT_SETTINGS = re.compile(
    r"(?:color|user|advice|log|format|init|i18n|column)\.[\w.]+|core\.(?:quotepath|autocrlf|abbrev|filemode)"
    r"|(?:commit|tag)\.gpgsign|diff\.(?:renames|noprefix|mnemonicprefix|algorithm|context)|safe\.directory"
    r"|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote)|protocol\.version|http\.(?:postbuffer|version)"
)
_GIT_VALUES = names("-C --work-tree --namespace")


def git_command(arguments: Sequence[Word]) -> tuple[str, tuple[Word, ...]]:
    """git's subcommand and what follows it, options in front taken off; ``("", ())`` for none.

    Raises:
        Unreadable: an option in front may run something or is not known.
    """
    at = 0
    while at < len(arguments):
        text = literal(arguments[at])
        if not text.startswith("-"):
            return text, tuple(arguments[at + 1 :])
        if text == "-c" or text in _GIT_VALUES:
            if at + 1 == len(arguments):
                break
            if text == "-c":
                _check_setting(literal(arguments[at + 1]).partition("=")[0])
            at += 1
        elif text.partition("=")[0] == "--git-dir":
            raise Unreadable("git uses the settings of another repository")
        elif text.startswith(("--exec-path=", "--config-env")) or (text.startswith("-c") and text != "-c"):
            raise Unreadable("git runs a program given by a setting")
        at += 1
    return "", ()


def _check_setting(key: str) -> None:
    if not _GIT_SETTINGS.fullmatch(key.lower()):
        raise Unreadable("git runs a program given by a setting")


_GIT_DOORS: dict[str, tuple[str, str]] = {
    "init": ("", "template"),
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


_RUNS = {"bisect": "run", "submodule": "foreach", "hook": "run"}  # whatever stands in front of the word


def check_git(arguments: Sequence[Word]) -> None:
    subcommand, rest = git_command(arguments)
    if subcommand in _GIT_DOORS and has_option(rest, *_GIT_DOORS[subcommand]):
        raise Unreadable(f"an option of git {subcommand} runs a program")
    texts = {word.text for word in rest}
    if subcommand == "filter-branch" or _RUNS.get(subcommand, "-") in texts:
        raise Unreadable(f"git {subcommand} runs commands")
    if any("ext::" in (word.text or "") for word in rest):
        raise Unreadable("git runs a program as a transport")
    if subcommand == "config":
        keys = [literal(word) for word in rest if not literal(word).startswith("-")]
        if len(keys) > 1 and keys[0] not in ("get", "list"):
            _check_setting(keys[1] if keys[0] == "set" else keys[0])
        if has_option(rest, "e", "edit rename-section"):
            raise Unreadable("git config does something unusual")
