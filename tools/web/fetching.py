"""One GET of a URL: the address is looked up once, checked, and is the one that is connected to.

1. A name is resolved once for each request. All its addresses must be allowed, and the connection is made to
   those very addresses: a name server that answers otherwise a moment later changes nothing.
2. TLS is checked for the name. Proxies and certificates of the environment are not used.
3. A redirect is a new request with new checks. One to another host is not followed but told: whoever allowed
   this host has not allowed that one.
4. Sizes are bounded as received and as unpacked, and the whole is bounded in time by the caller.
5. httpx logs the URL of each request, whose query may hold a secret: not of these.

httpx takes a moment to import, so ``fetch_url.py`` imports this module with its first call.
"""

import logging
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import NamedTuple
from urllib.parse import urljoin

import anyio
import httpx

from unspool.kernel.errors import ToolError, describe
from unspool.kernel.version import __version__

from .addresses import Address, AddressPolicy, Target, literal_addresses, parse_url
from .bodies import Unpacker
from .resolving import Resolve, resolve

MAX_REDIRECTS = 5
_MAX_ADDRESSES = 4  # tried one after the other
_CONNECT_S = 10.0
_MAX_HEADER = 200  # characters of a content type
_REDIRECTS = (301, 302, 303, 307, 308)
_HEADERS = {
    "User-Agent": f"unspool/{__version__}",
    "Accept": "text/markdown, text/html, text/plain, application/json, */*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
}
_is_fetching: ContextVar[bool] = ContextVar("unspool_is_fetching", default=False)


class _NotFetching(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not _is_fetching.get()


logging.getLogger("httpx").addFilter(_NotFetching())


class Response(NamedTuple):
    """What a server answered. ``elsewhere`` is where it redirects to, when that is another host."""

    target: Target
    status: int
    content_type: str
    charset: str
    body: bytes = b""
    is_cut: bool = False
    elsewhere: Target | None = None


class Fetcher:
    """Fetches URLs under an address policy; ``max_bytes`` of a body, unpacked, are kept."""

    def __init__(
        self,
        policy: AddressPolicy,
        max_bytes: int,
        *,
        resolve: Resolve = resolve,
        verify: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._max_bytes = max_bytes
        self._resolve = resolve
        self._verify = verify

    async def get(self, url: str) -> Response:
        """The answer to a GET, redirects followed on the same host.

        Raises:
            ToolError: the URL, an address or a redirect is refused, or there is no answer.
        """
        target = parse_url(url)
        token = _is_fetching.set(True)
        try:
            return await self._followed(target)
        finally:
            with suppress(ValueError):  # it is closed from elsewhere, with its event loop
                _is_fetching.reset(token)

    async def _followed(self, target: Target) -> Response:
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._request(target)
            if isinstance(answer, Response):
                return answer
            if answer.scheme == "http" and target.scheme == "https":
                raise ToolError(f"{target.told} redirects from https to http, which is not followed")
            if _bare(answer.host) != _bare(target.host):
                return Response(target, 302, "", "", elsewhere=answer)
            target = answer
        raise ToolError(f"{target.told} redirects more than {MAX_REDIRECTS} times")

    async def _request(self, target: Target) -> Response | Target:
        """The answer, or where it redirects to."""
        addresses = await self._addresses(target)
        failed: httpx.HTTPError | None = None
        for address in addresses[:_MAX_ADDRESSES]:
            try:
                return await self._ask(target, address)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failed = error
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise ToolError(f"{target.told} can't be fetched: {describe(error)}") from error
        raise ToolError(f"there is no connection to {target.told}: {_reason(failed)}") from failed

    async def _addresses(self, target: Target) -> list[Address]:
        found: Sequence[str] | None = literal_addresses(target.host)
        if found is None:
            try:
                found = await self._resolve(target.host, target.port)
            except (OSError, UnicodeError) as error:
                raise ToolError(f"the host {target.host} can't be found: {describe(error)}") from error
        return self._policy.checked(target, found)

    async def _ask(self, target: Target, address: Address) -> Response | Target:
        async with self._answer(target, address) as answer:
            location = answer.headers.get("location")
            if answer.status_code in _REDIRECTS and location:
                return _redirect(target, location)
            unpacker = Unpacker(answer.headers.get("content-encoding", ""), self._max_bytes)
            is_cut = await _read(answer, unpacker, self._max_bytes)
            if not is_cut:
                unpacker.finish()
            content_type, charset = _content_type(answer.headers.get("content-type", ""))
            body = bytes(unpacker.data)
            return Response(target, answer.status_code, content_type, charset, body, is_cut)

    @asynccontextmanager
    async def _answer(self, target: Target, address: Address) -> AsyncIterator[httpx.Response]:
        """The answer of a target at one of its addresses, its body not yet read."""
        if self._verify is None:
            self._verify = httpx.create_ssl_context(trust_env=False)
        # the request goes to the address; its name is in the Host header and checked in the certificate
        url = httpx.URL(target.url).copy_with(host=str(address))
        headers = {**_HEADERS, "Host": target.authority}
        names = {"sni_hostname": target.host}
        timeout = httpx.Timeout(None, connect=_CONNECT_S)
        async with (
            httpx.AsyncClient(trust_env=False, verify=self._verify, timeout=timeout) as client,
            client.stream("GET", url, headers=headers, extensions=names) as answer,
        ):
            yield answer


async def _read(answer: httpx.Response, unpacker: Unpacker, max_bytes: int) -> bool:
    """Read a body as far as it is wanted; whether there is more of it."""
    received = 0
    chunks = answer.aiter_raw(1 << 16)
    try:
        async for chunk in chunks:
            received += len(chunk)
            if not unpacker.feed(chunk) or received > max_bytes:
                return True
        return False
    finally:
        # the first wait in a cancelled scope ends the nested generators of httpx in order, which the garbage
        # collector would do at some later time, with a warning under trio
        with anyio.CancelScope() as scope, suppress(httpx.HTTPError, httpx.StreamError):
            scope.cancel()
            async for _ in chunks:
                pass


def _redirect(target: Target, location: str) -> Target:
    try:
        return parse_url(urljoin(target.url, location))
    except (ToolError, ValueError) as error:
        raise ToolError(f"{target.told} redirects to where nothing is fetched: {error}") from error


def _content_type(header: str) -> tuple[str, str]:
    """The media type, ``""`` where it is not said, and the charset."""
    kind, *parameters = header[:_MAX_HEADER].split(";")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return kind.strip().lower(), value.strip()
    return kind.strip().lower(), ""


def _bare(host: str) -> str:
    return host.removeprefix("www.")


def _reason(error: BaseException | None) -> str:
    """What went wrong in words: httpx keeps them in a cause, on some event loops."""
    if isinstance(error, httpx.ConnectTimeout):
        return "the time was over"
    while error is not None and not str(error):
        error = error.__cause__ or error.__context__
    return describe(error) if error is not None else "no reason is known"
