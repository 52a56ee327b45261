"""The environment that commands get: the host's, without its secrets, and set so that nothing asks or pages; and what
of it a command may leave to the next one.

Read with: ``bash.py`` (the caller), ``unspool.kernel.redaction`` (keys by their form).
"""

import os
import re
from collections.abc import Mapping
from typing import Final

from unspool.kernel.redaction import holds_key

_SECRET_NAME = re.compile(
    r"^(?:AWS|AZURE|GCP|VAULT|OP_SESSION)_|^BW_SESSION$|PASSWORD|PASSWD|PASSPHRASE|CONNECTION_?STRING|WEBHOOK"
    r"|(?:TOKEN|SECRET|APIKEY)$"
    r"|(?:^|_)(?:(?:API|APP|ACCESS|AUTH|PRIVATE|SECRET)?KEYS?|TOKENS?|SECRETS?|CREDENTIALS?|PASS|PWD|AUTH|COOKIES?|PAT|JWT|DSN)(?:$|_)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(r"://[^/\s:@]*:[^/\s@]+@")  # a password in a URL
_KNOWN_GOOD: Final = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY"})
_DROPPED: Final = frozenset(
    {"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "SSH_ASKPASS", "GIT_ASKPASS", "PROMPT_COMMAND"}
)
_QUIET: Final = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "PIP_NO_INPUT": "1",
    "DEBIAN_FRONTEND": "noninteractive",
}
# What makes bash, the loader, git and what only reads do something else than a later command says, which those who judge
# that command do not see. PATH is kept all the same: ``BashTool.path_of`` tells it.
_STEERING: Final = frozenset(
    {
        *("BASH_ENV", "BASH_LOADABLES_PATH", "BASHOPTS", "SHELLOPTS", "ENV", "PS4", "PROMPT_COMMAND", "IFS"),
        *("CDPATH", "EXECIGNORE", "GLOBIGNORE", "POSIXLY_CORRECT", "HOME", "XDG_CONFIG_HOME"),
        *("EDITOR", "VISUAL", "PAGER", "MANPAGER", "SYSTEMD_PAGER", "LESSOPEN", "LESSCLOSE", "SSH_ASKPASS"),
        *("GREP_OPTIONS", "RIPGREP_CONFIG_PATH", "TAR_OPTIONS", "GCONV_PATH", "LOCPATH", "NLSPATH"),
        *("LANG", "LC_ALL", "LC_CTYPE"),  # which bytes end a word or a quote
    }
)
_FUNCTION = "BASH_FUNC_"
_STEERING_PREFIXES = (_FUNCTION, "LD_", "DYLD_", "GIT_")
_HARMLESS_PREFIXES = ("GIT_AUTHOR_", "GIT_COMMITTER_")


def kept_env(
    left: Mapping[str, str], base: Mapping[str, str], command: str = ""
) -> tuple[dict[str, str], list[str]]:
    """What the next shell gets of the environment that one left, and what it changed in vain, by name.

    Variables that decide what other commands run stay as in ``base``, and no function is passed on. With the
    ``command``, only what it sets itself is told: for a shell whose wrapper had set more than is in ``base``.
    """
    kept = {name: value for name, value in left.items() if not _steers(name)}
    fixed = {name: value for name, value in base.items() if _steers(name)}
    changed = [name for name in {**left, **fixed} if _steers(name) and left.get(name) != fixed.get(name)]
    told = [name for name in changed if not command or f"{name}=" in command or name.startswith(_FUNCTION)]
    return {**kept, **fixed}, sorted(map(_shown_name, told))


def _steers(name: str) -> bool:
    if name.startswith(_HARMLESS_PREFIXES):
        return False
    return name in _STEERING or name.startswith(_STEERING_PREFIXES)


def _shown_name(name: str) -> str:
    return f"{name.removeprefix(_FUNCTION).removesuffix('%%')}()" if name.startswith(_FUNCTION) else name


def command_env(extra: Mapping[str, str], host: Mapping[str, str] = os.environ) -> dict[str, str]:
    """``host`` without what looks like a secret, what makes programs ask or page set to silence, then ``extra``.

    A secret is told by its name (``…_API_KEY``, ``…_TOKEN``, ``…_SECRET``, ``AWS_…``) or its value (a key of a model
    provider, a URL with a password). ``extra`` is passed as it is: what a command needs for all that is named there.
    """
    kept = {
        name: value for name, value in host.items() if not _is_secret(name, value) and name not in _DROPPED
    }
    return {**kept, **quiet_env(extra)}


def quiet_env(extra: Mapping[str, str]) -> dict[str, str]:
    """What keeps programs from asking and paging, then ``extra``."""
    return {**_QUIET, **extra}


def _is_secret(name: str, value: str) -> bool:
    if name in _KNOWN_GOOD:
        return False
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value)) or holds_key(value)
