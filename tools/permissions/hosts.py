"""Names of hosts in one spelling, and patterns over them.

``EXAMPLE.com.``, ``example.com`` and ``http://example.com:8080/x`` are one host; so are ``127.0.0.1``, ``127.1``,
``0x7f.1``, ``2130706433`` and ``[::ffff:127.0.0.1]``, and a name in Unicode and in Punycode. A URL that two
parsers may read in two ways (a backslash, a user name, an escape in the host) has no host here: whoever decides
on it must not guess.
"""

import ipaddress
import re

import idna

_URL = re.compile(
    r"(?:https?|wss?)://(\[[0-9A-Fa-f:.]+\]|[^\s/?#\\@:\[\]%]+)(?::\d{0,5})?(?:[/?#]|$)", re.IGNORECASE
)
_LABELS = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.(?!-)[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


def host_of(url: str) -> str | None:
    """The host that a URL plainly names, in its one spelling; None where it does not plainly name one."""
    found = _URL.match(url)
    if found is None or any(char.isspace() or not char.isprintable() or char == "\\" for char in url):
        return None
    return canonical_host(found[1])


def canonical_host(name: str) -> str | None:
    """The one spelling of a host: lower case, Punycode, no trailing dot, addresses in full; None for what is no host."""
    if name.startswith("[") and name.endswith("]"):
        return _ipv6(name[1:-1])
    if ":" in name:
        return _ipv6(name)
    if not name.isascii():
        try:
            name = idna.encode(name, uts46=True, transitional=False).decode()
        except (idna.IDNAError, UnicodeError):
            return None
    name = name.lower().removesuffix(".")
    if len(name) > 253 or not _LABELS.fullmatch(name):
        return None
    return _ipv4(name) if _NUMBER.fullmatch(name.rpartition(".")[2]) else name


def _ipv6(text: str) -> str | None:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    if address.scope_id is not None:
        return None
    return str(address.ipv4_mapped or address)


def _ipv4(name: str) -> str | None:
    """The address that a name ending in a number means to browsers and to ``inet_aton``."""
    parts = name.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    try:
        numbers = [_number(part) for part in parts]
    except ValueError:
        return None
    *heads, last = numbers
    if any(number > 255 for number in heads) or last >= 256 ** (4 - len(heads)):
        return None
    value = sum(number << (24 - 8 * place) for place, number in enumerate(heads)) + last
    return str(ipaddress.IPv4Address(value))


def _number(part: str) -> int:
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8) if part.startswith("0") and len(part) > 1 else int(part)


class HostPattern:
    """``*``, a host, or ``*.suffix``, which is the suffix itself too.

    Raises:
        ValueError: anything else; a host is named without scheme and port.
    """

    def __init__(self, pattern: str) -> None:
        self._any = pattern == "*"
        self._below = pattern.startswith("*.")
        name = "" if self._any else canonical_host(pattern[2:] if self._below else pattern)
        if name is None:
            raise ValueError("no host: give *, example.com or *.example.com, without scheme, port and path")
        if self._below and name[-1:].isdigit():
            raise ValueError("an address has no names below it")
        self._name = name

    def matches(self, host: str) -> bool:
        """Whether it is ``host``, in its one spelling."""
        if self._any or host == self._name:
            return True
        return self._below and host.endswith(f".{self._name}")
