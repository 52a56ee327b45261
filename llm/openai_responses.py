"""A chat model that speaks OpenAI's Responses API, the format of OpenAI's newer models and of ever more servers.

Read with: ``http_model.py``, ``openai_responses_request.py`` (what is sent), ``openai_responses_stream.py`` (what
comes back).
"""

import warnings
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Unpack

from unspool.kernel.errors import BadRequestError
from unspool.kernel.ports import ModelRequest, StreamEnd, StreamEvent
from unspool.kernel.reply import ReplyBuilder

from .http_model import HttpModel, ModelOptions, bearer, url_of
from .openai_responses_chain import digest_of, is_lost, link_of, linked, unlinked
from .openai_responses_kept import FORMAT
from .openai_responses_request import ResponsesDialect, cut_of, encode_request
from .openai_responses_stream import ResponsesDecoder
from .origins import ModelWarning

_PATH = "/responses"


class OpenAIResponsesModel(HttpModel):
    """A model of a server that speaks the Responses API; see ``HttpModel``.

    ``base_url`` is the part before ``/responses``. ``dialect`` says where the server differs from OpenAI's.
    """

    format = FORMAT

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        dialect: ResponsesDialect | None = None,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(name, base_url=base_url, **options)
        self._dialect = dialect or ResponsesDialect()

    def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        """As ``HttpModel.stream``. Where answers are chained and the server has lost one, everything is sent, with
        a warning."""
        return self._chained(request) if self._dialect.chained else super().stream(request)

    async def _chained(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        cut, key = cut_of(request, self._name, self._dialect)
        is_linked = link_of(request.messages, self._name, cut, key) is not None
        while True:
            reply = ReplyBuilder()
            try:
                async with aclosing(super().stream(request)) as events:
                    async for event in events:
                        reply.add(event)
                        if type(event) is StreamEnd and event.response_id:
                            event = linked(event, digest_of(request.messages, reply.message(), cut, key))
                        yield event
                return
            except BadRequestError as error:
                if not (is_linked and is_lost(error)) or reply.message().content:
                    raise
                warnings.warn(f"{self._name}: {error}: sent whole instead", ModelWarning, stacklevel=2)
            request, is_linked = unlinked(request), False

    def _url(self) -> str:
        return url_of(self._base_url, _PATH)

    def _auth(self, key: str) -> dict[str, str]:
        return bearer(key)

    def _more_headers(self, request: ModelRequest) -> dict[str, str]:
        session = request.options.session_id
        return dict.fromkeys(self._dialect.session_headers, session) if session else {}

    def _body(self, request: ModelRequest) -> bytes:
        return encode_request(request, self._name, self._dialect, stream=self._streaming)

    def _decoder(self, request: ModelRequest, secret: str) -> ResponsesDecoder:
        return ResponsesDecoder(model=self._name, secret=secret, seed=str(len(request.messages)))
