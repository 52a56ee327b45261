"""POST a request and read the answer's bytes: the one module that imports httpx.

It takes a moment to import, so nothing imports it at module level: ``http_model.py`` does when
the first request is made. Connections are pooled for each event loop and closed when the loop ends.

No timeout here but the one for connecting: how long a model may think is the kernel's business.
Redirects are not followed: a key goes to the server it was meant for. Errors:

- before the first byte of the answer: ``NetworkError``; after it: ``PartialStreamError``;
- a status other than 2xx: what ``faults.py`` makes of status, headers and body.

Read with: ``faults.py``, ``http_model.py`` (the caller), ``tests/llm/test_http.py``.
"""

import contextlib
import functools
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping

import anyio
import httpx
from anyio.lowlevel import RunVar

from unspool.kernel.errors import BadRequestError, ModelError, NetworkError, PartialStreamError

from .faults import error_of, fault_of_response, hide
from .inflate import ASKED_FOR, Inflater

CONNECT_TIMEOUT_S = 30.0
_DRAIN_S = 0.25  # less than a new connection costs
_MAX_ERROR_BYTES = 256 * 1024  # of a body that explains an error status

_LOST = (httpx.HTTPError, OSError)  # the latter is asyncio's own, of a TLS record that is none, say
_LAST_PORT = 65_535
_WHERE = frozenset({301, 302, 303, 307, 308, 404, 405})  # it may be the URL that is wrong

_clients: RunVar[AsyncGenerator[httpx.AsyncClient, None] | None] = RunVar("unspool_http_clients")


async def post(
    url: str, body: bytes, *, headers: Mapping[str, str] | None = None, secret: str = "", model: str = ""
) -> AsyncGenerator[bytes, None]:
    """The answer's body in the chunks that arrive; closing the generator early ends the connection.

    ``secret``, the key in ``headers`` or in the URL, appears in no error. ``model`` names the model in errors.

    Raises:
        ModelError: see the top of the file.
    """
    response = await _send(url, body, secret, headers or {}, model)
    chunks = response.aiter_raw()
    begun = False
    try:
        if response.status_code >= 300:
            raise await _refusal(response, chunks, model, url, secret)
        inflater = Inflater(response.headers.get("content-encoding", ""))
        async for chunk in chunks:
            begun = begun or bool(chunk)
            for piece in inflater.pieces(chunk):
                yield piece
        inflater.close()
    except _LOST as error:
        raise _broken(error, begun, model, url, secret) from None
    finally:
        await _release(response, chunks)


async def drain(chunks: AsyncGenerator[bytes, None]) -> None:
    """Read the end of a body whose contents are known to be over, so that its connection is reused.

    It is there already or a moment away; where it is not, the connection is closed instead.
    """
    with anyio.move_on_after(_DRAIN_S):
        async for _ in chunks:
            pass


async def close_connections() -> None:
    """Close the pooled connections of the running event loop; it happens by itself at its end."""
    if (holder := _clients.get(None)) is not None:
        _clients.set(None)
        await holder.aclose()


async def _send(url: str, body: bytes, secret: str, headers: Mapping[str, str], model: str) -> httpx.Response:
    client = await _client(model)
    sent = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
    sent["accept-encoding"] = ASKED_FOR  # not httpx's own: see ``inflate.py``
    sent |= {
        name.lower(): value for name, value in headers.items()
    }  # httpx would send both ways to write one
    try:
        request = client.build_request("POST", url, content=body, headers=sent)
        request.stream = _Body(body)
        if (request.url.port or 0) > _LAST_PORT:
            raise httpx.InvalidURL("no such port")
        return await client.send(request, stream=True)
    except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL, UnicodeError) as error:
        what = type(error).__name__  # its text may quote a header
        raise BadRequestError(f"provider: the request cannot be sent: {what}", model=model) from None
    except _LOST as error:
        raise _broken(error, False, model, url, secret) from None


class _Body(httpx.AsyncByteStream):
    """The body in one piece. httpx's own gives it from a generator, which a request that is cancelled
    while it is sent leaves to the garbage collector, with a ``ResourceWarning`` under trio."""

    def __init__(self, body: bytes) -> None:
        self._pieces = [body]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._pieces:
            raise StopAsyncIteration
        return self._pieces.pop()


async def _refusal(
    response: httpx.Response, chunks: AsyncIterator[bytes], model: str, url: str, secret: str
) -> ModelError:
    """The error for an answer that is not 2xx; a body that breaks off still leaves the status."""
    body = bytearray()
    with contextlib.suppress(httpx.HTTPError, ModelError):
        inflater = Inflater(response.headers.get("content-encoding", ""))
        async for chunk in chunks:
            for piece in inflater.pieces(chunk):
                body += piece[: _MAX_ERROR_BYTES - len(body)]
            if len(body) == _MAX_ERROR_BYTES:
                break
    fault = fault_of_response(response.status_code, response.headers, bytes(body), time.time())
    error = error_of(fault, model=model, secret=secret)
    if response.status_code in _WHERE:
        error.details["url"] = _shown(url, secret)
    return error


def _broken(error: Exception, begun: bool, model: str, url: str, secret: str) -> ModelError:
    what = hide(str(error) or type(error).__name__, secret)
    if begun:
        return PartialStreamError(f"provider: the connection broke: {what}", model=model)
    return NetworkError(f"provider: no answer: {what}", model=model, url=_shown(url, secret))


def _shown(url: str, secret: str) -> str:
    """A URL without what may hold secrets of their own."""
    return hide(str(httpx.URL(url).copy_with(userinfo=b"", query=None, fragment=None)), secret)


async def _release(response: httpx.Response, chunks: AsyncIterator[bytes]) -> None:
    """Give the connection back, or close it if the answer was not read to its end.

    The rest is read in a cancelled scope: what is there already is taken, and the first wait ends
    the nested generators of httpx in order. Left to the garbage collector they would be closed at
    some later time, with a ``ResourceWarning`` under trio.
    """
    with anyio.CancelScope() as scope:
        scope.cancel()
        with contextlib.suppress(httpx.HTTPError, httpx.StreamError):
            async for _ in chunks:
                pass
    with anyio.CancelScope(shield=True):
        await response.aclose()


async def _client(model: str) -> httpx.AsyncClient:
    """The running event loop's client.

    Raises:
        BadRequestError: the environment names a proxy that cannot be used.
    """
    holder = _clients.get(None)
    if holder is None:
        try:
            holder = _hold_client(_new_client())
        except (ImportError, ValueError, httpx.InvalidURL) as error:  # httpx reads HTTP_PROXY and its kin
            what = f"provider: a proxy of the environment cannot be used: {type(error).__name__}"
            raise BadRequestError(what, model=model) from None
        _clients.set(holder)
    return await anext(holder)


def _new_client() -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=60.0)
    timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT_S)
    return httpx.AsyncClient(timeout=timeout, limits=limits, verify=_ssl_context())


async def _hold_client(client: httpx.AsyncClient) -> AsyncGenerator[httpx.AsyncClient, None]:
    """Hands out one client for ever; event loops close generators at their end, and so this client."""
    try:
        while True:
            yield client
    finally:
        with anyio.CancelScope(shield=True):
            await client.aclose()


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    """One context for all loops: loading the certificates takes tens of milliseconds."""
    return httpx.create_ssl_context()
