"""A chat model behind HTTP: what the formats have in common.

A format says where to, with which headers, what is sent and what comes back; everything else is here.

Read with: ``http.py`` (how), ``decoder.py`` (what comes back), ``keys.py``, ``openai_chat.py`` (a format).
"""

import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import ClassVar, Final, TypedDict
from urllib.parse import urlsplit

from msgspec.structs import replace

from unspool.kernel.errors import AuthError, BadRequestError, ModelError, PartialStreamError, QuotaError
from unspool.kernel.ports import ModelRequest, StreamEnd, StreamEvent
from unspool.kernel.redaction import hide_secret, holds_key

from .decoder import AnswerDecoder
from .keys import ApiKey, Keys
from .origins import ModelWarning
from .prices import Price, price_of
from .windows import known_window

# Headers by such names, and what in them may be a secret: a scheme and a token, values of cookies.
_SECRET: Final = re.compile(r"(?:^|[-_])(?:authorization|auth|key|apikey|token|secret|cookie)(?:$|[-_])")
_PARTS: Final = re.compile(r"[^\s;,=]+=*")


class ModelOptions(TypedDict, total=False):
    """What each model behind HTTP can be told; see ``HttpModel``."""

    api_key: ApiKey
    headers: Mapping[str, str] | None
    supports_tools: bool
    streaming: bool
    context_window: int
    price: Price | None


class HttpModel(ABC):
    """One model of one server; cheap, and safe to share between agents and event loops.

    ``name`` is ``provider/model``: the provider is a label, what follows the first slash is sent.
    ``api_key`` is a key, several that take turns, or an async function that gives one. ``headers`` are sent
    with each request and win. ``supports_tools`` says whether tools may be offered. ``streaming`` False asks for the
    answer in one piece. ``context_window`` is how many tokens the model takes, input and output together; 0 where that is to
    be looked up (``windows.py``). ``price`` says what replies cost where the server does not (``kept_prices``).

    Raises:
        AuthError: a key holds characters that no header can carry.
        BadRequestError: ``base_url`` is no URL of a server.
        ValueError: ``name`` holds a key, or ``context_window`` is less than nothing.
    """

    format: ClassVar[str]  # the wire format, as ``Opaque.provider`` and ``Message.origin`` name it

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        api_key: ApiKey = None,
        headers: Mapping[str, str] | None = None,
        supports_tools: bool = True,
        streaming: bool = True,
        context_window: int = 0,
        price: Price | None = None,
    ) -> None:
        self._name = name
        self._model = name.partition("/")[2] or name
        self._base_url = _checked_url(base_url, name)
        self._keys = Keys(api_key, name)
        if holds_key(name):
            raise ValueError("model: its name is recorded and holds no secrets, give the key as api_key")
        if context_window < 0:
            raise ValueError(
                f"model: a context window is tokens, 0 where it is not known (context_window={context_window})"
            )
        self._headers = {key.lower(): value for key, value in (headers or {}).items()}
        for header, value in self._headers.items():
            if not isinstance(value, str):
                raise TypeError(f"model: the header {header} is a {type(value).__name__}, not a text")
            if _SECRET.search(header):
                for part in _PARTS.findall(value):
                    hide_secret(part)
        self._supports_tools = supports_tools
        self._streaming = streaming
        self._window = context_window or None  # None: not looked up yet
        self._price = price

    @property
    def name(self) -> str:
        """``provider/model``."""
        return self._name

    @property
    def supports_tools(self) -> bool:
        """Whether tools may be offered."""
        return self._supports_tools

    @property
    def context_window(self) -> int:
        """How many tokens the model takes, input and output together; 0 where that is not known."""
        if self._window is None:
            self._window = known_window(self._name)
        return self._window

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    @abstractmethod
    def _url(self) -> str:
        """Where a request goes."""

    @abstractmethod
    def _auth(self, key: str) -> dict[str, str]:
        """The headers that carry a key."""

    @abstractmethod
    def _body(self, request: ModelRequest) -> bytes:
        """What is sent."""

    @abstractmethod
    def _decoder(self, request: ModelRequest, secret: str) -> AnswerDecoder:
        """What reads the answer."""

    def _more_headers(self, request: ModelRequest) -> dict[str, str]:
        """Further headers that the format wants."""
        return {}

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        """The reply's events, ending with ``StreamEnd``.

        A key that is refused, or whose quota is used up, gives way to the next one, with a warning. Whether a limit
        is waited for is the caller's business.

        Raises:
            ModelError: the subclass that fits; see ``faults.py`` and ``decoder.py``.
        """
        from .http import drain, post  # noqa: PLC0415  # httpx is loaded by the first request, not by importing unspool

        body, tried = self._body(request), set[str]()
        key = await self._keys.take()
        while True:
            decoder, begun = self._decoder(request, key), False
            headers = self._all_headers(request, key)
            try:
                async with aclosing(
                    post(self._url(), body, headers=headers, secret=key, model=self._name)
                ) as chunks:
                    while not decoder.done:
                        try:
                            chunk = await anext(chunks)
                        except StopAsyncIteration:
                            break
                        except PartialStreamError:
                            if not decoder.finished:
                                raise
                            break
                        for event in decoder.feed(chunk):
                            begun = True
                            yield event
                    if decoder.done:
                        with suppress(PartialStreamError):  # what is lost after its end is nothing
                            await drain(chunks)
                for event in decoder.close():
                    begun = True
                    yield self._with_cost(event, request) if type(event) is StreamEnd else event
                return
            except ModelError as error:
                if isinstance(error, PartialStreamError):
                    error.text = error.text or decoder.text
                tried.add(key)
                another = self._keys.failed(key, error, tried)
                if begun or not (another and isinstance(error, AuthError | QuotaError)):
                    raise
                warnings.warn(
                    f"{self._name}: {self._keys.told(key)} was refused ({error.error_kind}), another is taken",
                    ModelWarning,
                    stacklevel=2,
                )
                key = self._keys.another(tried)

    def _all_headers(self, request: ModelRequest, key: str) -> dict[str, str]:
        made = {**(self._auth(key) if key else {}), **self._more_headers(request)}
        return {name.lower(): value for name, value in made.items()} | self._headers

    def _with_cost(self, end: StreamEnd, request: ModelRequest) -> StreamEnd:
        if self._price is None:
            return end
        cost = price_of(self._price, self._name, end.model, end.usage, request)
        return replace(end, usage=replace(end.usage, cost=cost))


def _checked_url(url: str, name: str) -> str:
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.netloc)
    except ValueError:
        is_one = False
    if not is_one:
        shown = url.partition("?")[0].rpartition("@")[2]  # without what may be secret
        raise BadRequestError(
            "provider: a base URL begins with http:// or https:// and a host", model=name, base_url=shown
        )
    return url.rstrip("/")


def bearer(key: str) -> dict[str, str]:
    """A key as most servers want it."""
    return {"authorization": f"Bearer {key}"}


def url_of(base_url: str, path: str) -> str:
    """Where ``path`` is below a base URL, which may end with it already, and may have a query.

    >>> url_of("http://h/v1/", "/chat"), url_of("http://h/v1/chat?version=2", "/chat")
    ('http://h/v1/chat', 'http://h/v1/chat?version=2')
    """
    base, query, parameters = base_url.partition("?")
    return base.rstrip("/").removesuffix(path) + path + query + parameters
