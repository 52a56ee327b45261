"""The environment that commands get: the host's, without its secrets, and set so that nothing asks or pages.

Read with: ``bash.py`` (the caller), ``unspool.kernel.redaction`` (keys by their form).
"""

import os
import re
from collections.abc import Mapping
from typing import Final

from unspool.kernel.redaction import holds_key

_SECRET_NAME = re.compile(
    r"^(?:AWS|AZURE|GCP|VAULT)_|PASSWORD|PASSWD|PASSPHRASE"
    r"|(?:^|_)(?:(?:API|APP|ACCESS|AUTH|PRIVATE|SECRET)?KEYS?|TOKENS?|SECRETS?|CREDENTIALS?|PASS|PWD|AUTH|COOKIES?)(?:$|_)",
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
