"""A chat model behind HTTP: what the formats have in common.

A format says where to, with which headers, what is sent and what comes back; everything else is here.

Read with: ``http.py`` (how), ``decoder.py`` (what comes back), ``keys.py``, ``openai_chat.py`` (a format).
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import ClassVar

from unspool.kernel.errors import ModelError, PartialStreamError
from unspool.kernel.ports import ModelRequest, StreamEvent
from unspool.kernel.redaction import holds_key

from .decoder import AnswerDecoder
from .keys import ApiKey, Keys


class HttpModel(ABC):
    """One model of one server; cheap, and safe to share between agents and event loops.

    ``name`` is ``provider/model``: the provider is a label, what follows the first slash is sent.
    ``api_key`` is a key, several that take turns, or an async function that gives one. ``headers`` are sent
    with each request and win. ``streaming`` False asks for the answer in one piece.

    Raises:
        AuthError: a key holds characters that no header can carry.
        ValueError: ``name`` holds a key.
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
    ) -> None:
        self._name = name
        self._model = name.partition("/")[2] or name
        self._base_url = base_url.rstrip("/")
        self._keys = Keys(api_key, name)
        if holds_key(name):
            raise ValueError("model: its name is recorded and holds no secrets, give the key as api_key")
        self._headers = dict(headers or {})
        self._supports_tools = supports_tools
        self._streaming = streaming

    @property
    def name(self) -> str:
        """``provider/model``."""
        return self._name

    @property
    def supports_tools(self) -> bool:
        """Whether tools may be offered."""
        return self._supports_tools

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

        Raises:
            ModelError: the subclass that fits; see ``faults.py`` and ``decoder.py``.
        """
        from .http import drain, post  # noqa: PLC0415  # httpx is loaded by the first request, not by importing unspool

        body = self._body(request)
        key = await self._keys.take()
        decoder = self._decoder(request, key)
        headers = {**(self._auth(key) if key else {}), **self._more_headers(request), **self._headers}
        try:
            try:
                async with aclosing(
                    post(self._url(), body, headers=headers, secret=key, model=self._name)
                ) as chunks:
                    async for chunk in chunks:
                        for event in decoder.feed(chunk):
                            yield event
                        if decoder.done:
                            await drain(chunks)
                            break
            except PartialStreamError as error:
                error.text = error.text or decoder.text
                if not decoder.finished:
                    raise
            for event in decoder.close():
                yield event
        except ModelError as error:
            self._keys.failed(key, error)
            raise


def bearer(key: str) -> dict[str, str]:
    """A key as most servers want it."""
    return {"authorization": f"Bearer {key}"}
