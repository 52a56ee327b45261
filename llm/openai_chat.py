"""A chat model that speaks OpenAI's chat/completions, the format most servers offer.

Read with: ``http_model.py``, ``openai_chat_request.py`` (what is sent), ``openai_chat_stream.py`` (what comes
back), ``presets.py`` (where to).
"""

from collections.abc import Mapping

from unspool.kernel.ports import ModelRequest

from .http_model import HttpModel, bearer
from .keys import ApiKey
from .openai_chat_request import Dialect, encode_request
from .openai_chat_stream import ChatDecoder

_PATH = "/chat/completions"


class OpenAIChatModel(HttpModel):
    """A model of a server that speaks chat/completions; see ``HttpModel``.

    ``base_url`` is the part before ``/chat/completions``. ``dialect`` says where the server differs.
    """

    format = "openai-chat"

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        api_key: ApiKey = None,
        dialect: Dialect | None = None,
        headers: Mapping[str, str] | None = None,
        supports_tools: bool = True,
        streaming: bool = True,
    ) -> None:
        super().__init__(
            name,
            base_url=base_url,
            api_key=api_key,
            headers=headers,
            supports_tools=supports_tools,
            streaming=streaming,
        )
        self._dialect = dialect or Dialect()

    def _url(self) -> str:
        return self._base_url if self._base_url.endswith(_PATH) else self._base_url + _PATH

    def _auth(self, key: str) -> dict[str, str]:
        return bearer(key)

    def _body(self, request: ModelRequest) -> bytes:
        return encode_request(request, self._model, self._dialect, stream=self._streaming)

    def _decoder(self, request: ModelRequest, secret: str) -> ChatDecoder:
        return ChatDecoder(model=self._name, secret=secret, seed=str(len(request.messages)))
