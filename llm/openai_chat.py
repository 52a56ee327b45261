"""A chat model that speaks OpenAI's chat/completions, the format most servers offer.

Read with: ``http_model.py``, ``openai_chat_request.py`` (what is sent), ``openai_chat_stream.py`` (what comes
back), ``presets.py`` (where to).
"""

from typing import Unpack

from unspool.kernel.ports import ModelRequest

from .http_model import HttpModel, ModelOptions, bearer, url_of
from .openai_chat_dialect import ChatDialect
from .openai_chat_kept import FORMAT
from .openai_chat_request import encode_request
from .openai_chat_stream import ChatDecoder

_PATH = "/chat/completions"


class OpenAIChatModel(HttpModel):
    """A model of a server that speaks chat/completions; see ``HttpModel``.

    ``base_url`` is the part before ``/chat/completions``, a query after it (``?api-version=…``) is kept. ``dialect`` says where the server differs.
    """

    format = FORMAT

    def __init__(
        self, name: str, *, base_url: str, dialect: ChatDialect | None = None, **options: Unpack[ModelOptions]
    ) -> None:
        super().__init__(name, base_url=base_url, **options)
        self._dialect = dialect or ChatDialect()

    def _url(self) -> str:
        return url_of(self._base_url, _PATH)

    def _auth(self, key: str) -> dict[str, str]:
        header = self._dialect.key_header
        return bearer(key) if header is None else {header: key}

    def _body(self, request: ModelRequest) -> bytes:
        return encode_request(request, self._name, self._dialect, stream=self._streaming)

    def _decoder(self, request: ModelRequest, secret: str) -> ChatDecoder:
        return ChatDecoder(model=self._name, secret=secret, seed=str(len(request.messages)))
