"""Keys of model providers, taken out of everything that comes in.

A key that a user pastes, or that a tool reads from a file, would stay in the transcript, be sent to a model
and be stored in a log. It is replaced at the edge, before anything is made of it, so that model, state and
log see the same. Keys are known by their form; those that a model adapter uses itself are known exactly.
What is opaque or binary is never searched: any run of characters may come up in it.

Whether a text may hold a key is asked of a regular expression in Rust, which reads gigabytes a second;
Python's own search would take as long for a long result as everything else in a turn.

Read with: ``json_edge.py`` (the caller), ``messages.py`` (``clean_block``).
"""

import re
from collections.abc import Callable
from threading import Lock
from typing import Any, Final

import msgspec

MARK: Final = "[redacted key]"
_SHORTEST: Final = 20  # characters: no key has fewer, and most texts of a stream have
_NEEDLES: Final = (
    "sk-", "AIza", "gsk_", "xai-", "hf_", "r8_", "nvapi-", "AKIA", "ASIA", "fw_", "pplx-", "tgp_v1_",
)  # fmt: skip
_DIGIT: Final = r"(?=[A-Za-z_-]*[0-9])"  # somewhere in what follows the prefix
_MIXED: Final = _DIGIT + r"(?=[0-9A-Z_-]*[a-z])(?=[0-9a-z_-]*[A-Z])"
_KEY: Final = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    rf"sk-(?:ant|proj|svcacct|admin)-{_MIXED}[A-Za-z0-9_-]{{16,}}"  # Anthropic, OpenAI
    rf"|sk-or-v1-{_DIGIT}[0-9a-f]{{32,}}"  # OpenRouter
    rf"|c?sk-{_DIGIT}[A-Za-z0-9]{{32,}}"  # OpenAI, DeepSeek, Moonshot, Cerebras
    rf"|AIza(?:(?=Sy)|{_DIGIT})[A-Za-z0-9_-]{{35}}"  # Google
    rf"|gsk_{_MIXED}[A-Za-z0-9]{{32,}}"  # Groq
    rf"|xai-{_MIXED}[A-Za-z0-9]{{40,}}"
    rf"|hf_{_MIXED}[A-Za-z0-9]{{30,}}"  # Hugging Face, whose keys mostly are 34 letters: no words in camel case
    r"|hf_(?=[A-Z]*[a-z])(?=[A-Za-z]*[A-Z]{2})[A-Za-z]{34}(?![A-Za-z0-9_-])"
    rf"|r8_{_MIXED}[A-Za-z0-9]{{30,}}"  # Replicate
    rf"|nvapi-{_MIXED}[A-Za-z0-9_-]{{40,}}"  # NVIDIA
    r"|A[KS]IA(?=[A-Z]*[2-7])[A-Z2-7]{16}(?![A-Za-z0-9])"  # AWS: base32
    rf"|fw_{_MIXED}[A-Za-z0-9]{{20,}}"  # Fireworks
    rf"|pplx-{_DIGIT}[A-Za-z0-9]{{32,}}"  # Perplexity
    rf"|tgp_v1_{_MIXED}[A-Za-z0-9_-]{{30,}}"  # Together
    r")"
)
_changing = Lock()
_LONG: Final = 1000  # characters: from here on loading the fast search is worth its 45 ms, once
_known: dict[str, int] = {}  # and how often it was said; replaced, never changed: threads read it
_lacks_key: Callable[[str], bool] | None = None  # the fast search, once it is loaded


def hide_secret(secret: str) -> None:
    """Take ``secret`` out of every text from now on, whatever its form; for the whole process.

    Model adapters say it of their keys, hosts may of others. A text of fewer than 16 characters is no secret:
    it would be found in too many places, and is ignored.
    """
    global _known
    if len(secret) >= 16:
        with _changing:
            _known = {**_known, secret: _known.get(secret, 0) + 1}


def forget_secret(secret: str) -> None:
    """Take back one ``hide_secret``: for tokens that are used for a while, each of which costs every text a search."""
    global _known
    with _changing:
        left = _known.get(secret, 0) - 1
        rest = {key: count for key, count in _known.items() if key != secret}
        _known = {**rest, secret: left} if left > 0 else rest


def redact(text: str) -> str:
    """``text``, which has no lone surrogates, without keys of model providers and without hidden secrets."""
    if len(text) < 16:
        return text
    for secret in _known:
        if secret in text:
            text = text.replace(secret, MARK)
    return text if len(text) < _SHORTEST or _is_clean(text) else _KEY.sub(MARK, text)


def may_hold_key(data: bytes) -> bool:
    """Whether JSON text that was encoded by msgspec may hold a key: False is certain, and quick to find."""
    text = data.decode()
    lacks = _lacks_key(text) if _lacks_key is not None else not any(needle in text for needle in _NEEDLES)
    return not lacks or any(_escaped(secret) in data for secret in _known)


def holds_key(value: Any) -> bool:
    """Whether a text, or a text anywhere in JSON, keys of objects included, is another without keys.

    For what must stay as it is given, and so is refused or made again as a whole. Lone surrogates do no harm;
    what is nested too deep to be stored is not searched.
    """
    try:
        return _holds_key(value)
    except RecursionError:
        return False


def _holds_key(value: Any) -> bool:
    if isinstance(value, str):
        if len(value) < 16:
            return False
        text = value if value.isascii() else value.encode(errors="replace").decode()
        return redact(text) != text
    if isinstance(value, dict):
        return any(_holds_key(key) or _holds_key(inner) for key, inner in value.items())
    return isinstance(value, list | tuple) and any(_holds_key(inner) for inner in value)


def _escaped(secret: str) -> bytes:
    return msgspec.json.encode(secret)[1:-1]


def _is_clean(text: str) -> bool:
    """Whether no key begins anywhere in ``text``."""
    if _lacks_key is not None:
        return _lacks_key(text)
    if len(text) >= _LONG:
        return _load()(text)
    return not any(needle in text for needle in _NEEDLES)


def _load() -> Callable[[str], bool]:
    global _lacks_key
    import jsonschema_rs  # noqa: PLC0415  # 45 ms that an import of unspool must not cost

    pattern = {"pattern": "|".join(_NEEDLES)}
    _lacks_key = jsonschema_rs.validator_for({"not": pattern}).is_valid
    return _lacks_key
