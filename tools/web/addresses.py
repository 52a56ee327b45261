"""Which addresses of the internet may be asked, so that a URL given by a model can't reach what only this host can.

Read with: ``tools/permissions/hosts.py`` (the spelling of hosts, shared with the rules on them).
"""

import ipaddress
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from unspool.kernel.errors import ToolDefinitionError, ToolError
from unspool.tools.permissions.hosts import host_of
from unspool.tools.text import shown

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_PORTS = {"http": 80, "https": 443}
_MAX_URL = 8000
_SHOWN = 200
# Other ports below 1024 speak no HTTP; these above are refused by browsers too (Fetch standard, "bad port"),
# as are the usual ports of databases and caches here.
_BAD_PORTS = frozenset(
    {
        1719,
        1720,
        1723,
        2049,
        3306,
        3659,
        4045,
        4190,
        5060,
        5061,
        5432,
        6000,
        6379,
        6566,
        6665,
        6666,
        6667,
        6668,
    }
    | {6669, 6679, 6697, 10080, 11211, 27017}
)

# IANA special-purpose registries (RFC 6890 and its updates), and what clouds use among public addresses
_REFUSED_V4 = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT; Alibaba's metadata is in it
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's host
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # Oracle's metadata is in it
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_REFUSED_V6 = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "2001::/23",  # Teredo, which holds an IPv4 address, ORCHID, benchmarks
        "2001:db8::/32",
        "2002::/16",  # 6to4, which holds an IPv4 address
        "2620:4f:8000::/48",
        "3fff::/20",
    )
)
_NAT64 = ipaddress.IPv6Network(
    "64:ff9b::/96"
)  # how a network without IPv4 reaches it: the IPv4 address counts


class Target(NamedTuple):
    """Where a request goes: a host in its one spelling, and ``path`` with the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def told(self) -> str:
        """The URL for errors and logs: without the values of its query, which may be secrets."""
        path, query, _ = self.path.partition("?")
        text = f"{self.scheme}://{self.authority}{path}"
        return f"{shown(text[:_SHOWN])}{'…' if len(text) > _SHOWN else ''}{'?…' if query else ''}"


def parse_url(url: str) -> Target:
    """The target of a URL that can be read in one way only.

    Raises:
        ToolError: it is no URL, or one that is not fetched.
    """
    if len(url) > _MAX_URL:
        raise ToolError(f"the URL is too long: {len(url)} characters")
    scheme = url.partition(":")[0].lower()
    if scheme not in _PORTS:
        raise ToolError("only http:// and https:// URLs can be fetched")
    try:
        parts = urlsplit(url)
        port = parts.port
        has_user = "@" in parts.netloc
    except ValueError:
        raise ToolError("this is not a valid URL") from None
    if has_user:
        raise ToolError("a URL with a user name or password is not fetched: leave them out")
    host = host_of(url)
    if host is None:
        raise ToolError(
            "this is not a valid URL: give http(s)://host/path, special characters escaped with %"
        )
    if port is None:
        port = _PORTS[scheme]
    if port not in _PORTS.values() and (port < 1024 or port in _BAD_PORTS):
        raise ToolError(f"port {port} is not fetched from: a web server has another one")
    path = parts.path or "/"
    return Target(scheme, host, port, f"{path}?{parts.query}" if parts.query else path)


class AddressPolicy:
    """Public addresses, and those of ``allowed``: addresses or networks such as ``10.1.0.0/16``.

    Raises:
        ToolDefinitionError: one of them is neither.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        try:
            self._allowed: tuple[Network, ...] = tuple(ipaddress.ip_network(text) for text in allowed)
        except ValueError as error:
            raise ToolDefinitionError(f"fetch_url: no address or network: {error}") from error

    def refuses(self, address: Address) -> bool:
        """Whether an address may not be asked."""
        if any(address.version == network.version and address in network for network in self._allowed):
            return False
        if isinstance(address, ipaddress.IPv4Address):
            return any(address in network for network in _REFUSED_V4)
        if address.ipv4_mapped is not None:
            return self.refuses(address.ipv4_mapped)
        if address in _NAT64:
            return self.refuses(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        return address not in _GLOBAL_V6 or any(address in network for network in _REFUSED_V6)

    def checked(self, target: Target, found: Iterable[str]) -> list[Address]:
        """The addresses of a target, none of which is refused.

        Raises:
            ToolError: one is, or there is none.
        """
        addresses: list[Address] = []
        for text in found:
            address = ipaddress.ip_address(text.partition("%")[0])
            if "%" in text or self.refuses(address):
                raise ToolError(
                    f"{shown(target.host)} is {address}, which is not an address of the public internet: it is not fetched"
                )
            if address not in addresses:
                addresses.append(address)
        if not addresses:
            raise ToolError(f"there is no host {shown(target.host)}")
        return addresses


def literal_addresses(host: str) -> list[str] | None:
    """The addresses of a host that needs no look-up: an address, or a name of this host (RFC 6761)."""
    if host == "localhost" or host.endswith(".localhost"):
        return ["127.0.0.1"]
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        return None
