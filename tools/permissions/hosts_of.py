"""The hosts that commands talk to, where their arguments say so."""

import itertools
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from .git_options import git_command
from .options import has_option
from .shell_plan import SimpleCommand, Unreadable, Word, names

_URL_CLIENTS = names("curl wget http https xh aria2c lynx w3m links")
_HOST_CLIENTS = names("ssh sftp telnet ftp nc ncat netcat ping dig nslookup host traceroute mosh")
_COPIERS = names("scp rsync")
_GIT_REMOTE = names("clone fetch pull push ls-remote remote submodule")
_OTHERS = names(
    "npm pnpm yarn pip pip3 uv gem cargo go docker podman kubectl apt apt-get brew gh aws gcloud az"
)
_UNTOLD = "?"  # no name of a host: rules may hold for it
_ELSEWHERE: dict[str, tuple[str, str]] = {  # options that lead to another host than the one that is named
    "curl": (
        "Kx",
        "config proxy preproxy socks connect-to resolve unix-socket abstract-unix-socket doh-url dns",
    ),
    "wget": ("ie", "input-file execute config base use-askpass"),
    "ssh": ("oJFwW", ""),
    "scp": ("oJFS", ""),
    "sftp": ("oJFS", ""),
    "rsync": ("e", "rsh proxy rsync-path files-from"),
}
_TAKES_VALUE = re.compile(r"-[bcDEeFIiJLlmOopQRSWw]")
_REMOTE = re.compile(r"(?:[\w.-]+@)?([A-Za-z0-9][\w.-]*):(?!//)")


def hosts_of(commands: Sequence[SimpleCommand]) -> tuple[tuple[str, ...], bool]:
    """Literal hosts, and whether anything may talk to the network (also to hosts that the line doesn't say)."""
    hosts: dict[str, None] = {}
    network = False
    for command in commands:
        for redirect in command.redirects:
            if redirect.is_network:
                network = True
                hosts.update(dict.fromkeys((redirect.target.text or "").split("/")[3:4]))
        found = _hosts(command.name or "", command.arguments)
        if found is not None:
            network = True
            hosts.update(dict.fromkeys(host.lower() for host in found if host))
    return tuple(hosts), network


def _hosts(name: str, arguments: Sequence[Word]) -> list[str] | None:
    """None where the program doesn't use the network by trade."""
    texts = [word.text for word in arguments if word.text is not None and not word.text.startswith("-")]
    elsewhere = [_UNTOLD] if has_option(arguments, *_ELSEWHERE.get(name, ("", ""))) else []
    if name in _URL_CLIENTS:
        urls = [text if "://" in text else f"http://{text}" for text in texts if _is_address(text)]
        return [_url_host(url) for url in urls] + elsewhere
    if name in _HOST_CLIENTS:
        hosts = [text.rpartition("@")[2] for text in _without_values(arguments) if _is_address(text)]
        return hosts[:1] + elsewhere
    if name in _COPIERS:
        return [match[1] for text in texts if (match := _REMOTE.match(text))] + elsewhere
    if name == "git":
        return _git_hosts(arguments, texts)
    return [] if name in _OTHERS else None


def _without_values(arguments: Sequence[Word]) -> list[str]:
    """Literal arguments that are neither options nor, as in ``-p 22``, behind a single letter that takes a value."""
    texts = ["", *(word.text or "" for word in arguments)]
    pairs = itertools.pairwise(texts)
    return [
        text for before, text in pairs if text[:1] not in ("", "-") and not _TAKES_VALUE.fullmatch(before)
    ]


def _is_address(text: str) -> bool:
    return "://" in text or bool(
        re.fullmatch(r"(?:[\w-]+@)?(?:[\w-]+\.)+[A-Za-z0-9-]+(?::\d+)?(?:/\S*)?|(?:\w+@)?[\w-]+", text)
    )


def _git_hosts(arguments: Sequence[Word], texts: Sequence[str]) -> list[str] | None:
    try:
        subcommand = git_command(arguments)[0]
    except Unreadable:
        return []
    if subcommand not in _GIT_REMOTE or (
        subcommand == "remote" and not {"update", "show", "prune"} & {*texts}
    ):
        return None
    urls = [_url_host(text) for text in texts if "://" in text]
    return urls + [match[1] for text in texts if "://" not in text and (match := _REMOTE.match(text))]


def _url_host(text: str) -> str:
    try:
        return urlsplit(text).hostname or ""
    except ValueError:
        return ""
