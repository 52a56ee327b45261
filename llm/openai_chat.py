"""A chat model that speaks OpenAI's chat/completions, the format most servers offer.

Read with: ``openai_chat_request.py`` (what is sent), ``openai_chat_stream.py`` (what comes back),
``http.py`` (how), ``presets.py`` (where to).
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from unspool.kernel.errors import AuthError, PartialStreamError
from unspool.kernel.ports import ModelRequest, StreamEvent
from unspool.kernel.redaction import hide_secret, holds_key

from .openai_chat_request import Dialect, encode_request
from .openai_chat_stream import ChatDecoder

_PATH = "/chat/completions"


class OpenAIChatModel:
    """One model of one server; cheap, and safe to share between agents and event loops.

    ``name`` is ``provider/model``: the provider is a label, what follows the first slash is sent.
    ``base_url`` is the part before ``/chat/completions``. ``headers`` are sent with each request.

    Raises:
        AuthError: ``api_key`` holds characters that no header can carry.
        ValueError: ``name`` holds a key.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        api_key: str | None = None,
        dialect: Dialect | None = None,
        headers: Mapping[str, str] | None = None,
        supports_tools: bool = True,
    ) -> None:
        self._name = name
        self._model = name.partition("/")[2] or name
        base_url = base_url.rstrip("/")
        self._url = base_url if base_url.endswith(_PATH) else base_url + _PATH
        self._key = _header_safe((api_key or "").strip(), name)
        hide_secret(self._key)
        if holds_key(name):
            raise ValueError("model: its name is recorded and holds no secrets, give the key as api_key")
        self._dialect = dialect or Dialect()
        self._headers = dict(headers or {})
        self._supports_tools = supports_tools

    @property
    def name(self) -> str:
        """``provider/model``."""
        return self._name

    @property
    def supports_tools(self) -> bool:
        """Whether tools may be offered."""
        return self._supports_tools

    def __repr__(self) -> str:
        return f"OpenAIChatModel({self._name!r})"

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        """The reply's events, ending with ``StreamEnd``.

        Raises:
            ModelError: the subclass that fits; see ``faults.py`` and ``openai_chat_stream.py``.
        """
        from .http import drain, post  # noqa: PLC0415  # httpx is loaded by the first request, not by importing unspool

        decoder = ChatDecoder(model=self._name, secret=self._key, seed=str(len(request.messages)))
        body = encode_request(request, self._model, self._dialect)
        try:
            async with aclosing(
                post(self._url, body, key=self._key, headers=self._headers, model=self._name)
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


def _header_safe(key: str, name: str) -> str:
    if key.isascii() and key.isprintable() and " " not in key:
        return key
    raise AuthError("provider: the API key holds characters that a header cannot carry", model=name)
