"""A chat model that speaks Anthropic Messages.

Read with: ``http_model.py``, ``anthropic_request.py`` (what is sent), ``anthropic_stream.py`` (what comes back).
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, Unpack
from urllib.parse import urlsplit

from msgspec.structs import replace

from unspool.kernel.errors import PartialStreamError
from unspool.kernel.messages import Usage
from unspool.kernel.ports import ModelRequest, StreamEnd, StreamEvent

from .anthropic_dialect import AnthropicDialect
from .anthropic_pauses import PAUSE, PausedAnswer
from .anthropic_request import betas_of, encode_request
from .anthropic_stream import AnthropicDecoder
from .anthropic_usage import compactions
from .anthropic_wire import FORMAT
from .http_model import HttpModel, ModelOptions, bearer
from .prices import price_of

ANTHROPIC_URL: Final = "https://api.anthropic.com"
_VERSION, _PATH = "/v1", "/messages"


class AnthropicModel(HttpModel):
    """A model of a server that speaks Anthropic Messages; see ``HttpModel``.

    ``base_url`` is the part before ``/v1/messages``, with or without ``/v1``. ``dialect`` says how the server takes
    the format; without one, a server that is not Anthropic's is not asked for a cache's time to live.
    ``max_pauses`` is how often one answer may pause and is asked on; after that its stop reason is ``pause``.
    """

    format = FORMAT

    def __init__(
        self,
        name: str,
        *,
        base_url: str = ANTHROPIC_URL,
        dialect: AnthropicDialect | None = None,
        max_pauses: int = 8,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(name, base_url=base_url, **options)
        official = urlsplit(base_url).hostname == urlsplit(ANTHROPIC_URL).hostname
        self._dialect = dialect or AnthropicDialect(cache_ttl=official)
        self._max_pauses = max_pauses

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        """As ``HttpModel.stream``. An answer that the server pauses is asked on and is one answer: its usage is that
        of all its requests, which are one call of the model to timeouts, retries and limits."""
        answer, asked = PausedAnswer(request), request
        while True:
            end: StreamEnd | None = None
            try:
                async with aclosing(super().stream(asked)) as events:
                    async for event in events:
                        heard = answer.heard(event)
                        if type(heard) is StreamEnd:
                            end = heard
                        else:
                            yield heard
            except PartialStreamError as error:
                error.text = answer.text_before + error.text
                raise
            if end is None:
                return
            if end.stop_reason != PAUSE or answer.pauses >= self._max_pauses:
                yield end
                return
            asked = answer.next_request()

    def _url(self) -> str:
        base, query, parameters = self._base_url.partition("?")
        base = base.rstrip("/").removesuffix(_PATH).removesuffix(_VERSION)
        return f"{base}{_VERSION}{_PATH}{query}{parameters}"

    def _auth(self, key: str) -> dict[str, str]:
        return bearer(key) if self._dialect.auth == "bearer" else {"x-api-key": key}

    def _more_headers(self, request: ModelRequest) -> dict[str, str]:
        headers = {"anthropic-version": self._dialect.version} if self._dialect.version else {}
        if betas := betas_of(request, self._model, self._dialect):
            headers["anthropic-beta"] = ",".join(betas)
        return headers

    def _body(self, request: ModelRequest) -> bytes:
        return encode_request(request, self._name, self._dialect, stream=self._streaming)

    def _with_cost(self, end: StreamEnd, request: ModelRequest) -> StreamEnd:
        """With what a compaction cost: it is a call of its own, billed beside the usage of the answer."""
        priced = super()._with_cost(end, request)
        if self._price is None or priced.usage.cost is None or end.usage.cost is not None:
            return priced
        spent = priced.usage
        for usage in compactions(end.metadata):
            cost = price_of(self._price, self._name, end.model, usage, request)
            spent = replace(spent, cost=(Usage(cost=spent.cost) + Usage(cost=cost)).cost)
        return replace(priced, usage=spent)

    def _decoder(self, request: ModelRequest, secret: str) -> AnthropicDecoder:
        return AnthropicDecoder(model=self._name, secret=secret, seed=str(len(request.messages)))
