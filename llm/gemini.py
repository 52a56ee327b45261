"""A chat model that speaks Gemini's generateContent: the Gemini API, Vertex AI, and gateways to them.

Read with: ``http_model.py``, ``gemini_request.py`` (what is sent), ``gemini_stream.py`` (what comes back).
"""

from typing import Final, Unpack
from urllib.parse import quote

from unspool.kernel.ports import ModelRequest

from .gemini_request import GeminiDialect, encode_request
from .gemini_stream import GeminiDecoder
from .gemini_wire import FORMAT
from .http_model import HttpModel, ModelOptions, bearer

_MULTI_REGIONS: Final = frozenset({"us", "eu"})  # with hosts of their own


class GeminiModel(HttpModel):
    """A model of a server that speaks generateContent; see ``HttpModel``.

    ``base_url`` is the part before ``/models/``: ``https://generativelanguage.googleapis.com/v1beta``, or what
    ``vertex_base_url`` gives. A model whose name holds a slash is a path of its own (``tunedModels/…``).
    ``dialect`` says where the server differs; Vertex takes tokens, which ``api_key`` as a function renews.
    """

    format = FORMAT

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        dialect: GeminiDialect | None = None,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(name, base_url=base_url, **options)
        self._dialect = dialect or GeminiDialect()

    def _url(self) -> str:
        path = self._model if "/" in self._model else f"models/{self._model}"
        method = "streamGenerateContent?alt=sse" if self._streaming else "generateContent"
        return f"{self._base_url}/{quote(path, safe='/-._~@')}:{method}"

    def _auth(self, key: str) -> dict[str, str]:
        return bearer(key) if self._dialect.bearer else {"x-goog-api-key": key}

    def _body(self, request: ModelRequest) -> bytes:
        return encode_request(request, self._name, self._dialect)

    def _decoder(self, request: ModelRequest, secret: str) -> GeminiDecoder:
        return GeminiDecoder(model=self._name, secret=secret, seed=str(len(request.messages)))


def vertex_base_url(project: str, location: str = "global", *, version: str = "v1") -> str:
    """The ``base_url`` of Vertex AI's Gemini models, for a dialect with ``bearer``.

    >>> vertex_base_url("p")
    'https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google'
    """
    if location in _MULTI_REGIONS:
        host = f"aiplatform.{location}.rep"
    else:
        host = "aiplatform" if location == "global" else f"{location}-aiplatform"
    where = f"projects/{quote(project)}/locations/{quote(location)}"
    return f"https://{host}.googleapis.com/{version}/{where}/publishers/google"
