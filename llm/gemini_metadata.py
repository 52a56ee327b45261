"""What candidates of a generateContent answer say besides their content: sources, ratings, probabilities of tokens.

Each chunk of a stream may say some of it. The last value of a field holds, but lists go on: most servers send what
is new, some all there is so far. What is there already is not added again, except for the probabilities, which
tokens may share.

Read with: ``gemini_stream.py`` (the caller), ``gemini_wire.py``.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Final

import msgspec

_NAMES: Final = (
    "grounding_metadata",
    "url_context_metadata",
    "citation_metadata",
    "safety_ratings",
    "avg_logprobs",
    "logprobs_result",
)
metadata_of: Final = attrgetter(*_NAMES)  # of a candidate
NO_METADATA: Final = (None,) * len(_NAMES)
_encode: Final = msgspec.json.Encoder().encode


class CandidateMetadata:
    """Adds to ``values`` what candidates say, as ``metadata_of`` gives it."""

    __slots__ = ("_known", "values")

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self._known: dict[tuple[str, str], set[bytes]] = {}  # what is in a list

    def add(self, said: Iterable[Any]) -> None:
        for name, value in zip(_NAMES, said, strict=True):
            if isinstance(value, dict) and isinstance(self.values.setdefault(name, {}), dict):
                self._add_fields(name, value)
            elif value not in (None, []):
                self.values[name] = value

    def _add_fields(self, name: str, fields: dict[str, Any]) -> None:
        values = self.values[name]
        for key, value in fields.items():
            if isinstance(value, list) and isinstance(values.setdefault(key, []), list):
                self._add_items(name, key, value)
            elif value is not None:
                values[key] = value

    def _add_items(self, name: str, key: str, items: list[Any]) -> None:
        if name == "logprobs_result":
            self.values[name][key] += items
            return
        known = self._known.setdefault((name, key), set())
        new = {_encode(item): item for item in items}
        if known <= new.keys():  # all so far, in its own order: others refer to places in it
            self.values[name][key] = items
        else:
            self.values[name][key] += [item for code, item in new.items() if code not in known]
        known.update(new)
