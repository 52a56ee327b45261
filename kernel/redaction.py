"""Keys of model providers, taken out of everything that comes in.

A key that a user pastes, or that a tool reads from a file, would stay in the transcript, be sent to a model
and be stored in a log. It is replaced at the edge, before anything is made of it, so that model, state and
log see the same. Keys are known by their form; those that a model adapter uses itself are known exactly.

Whether a text may hold a key is asked of a regular expression in Rust, which reads gigabytes a second;
Python's own search would take as long for a long result as everything else in a turn.

Read with: ``json_edge.py`` (the caller).
"""

import re
from collections.abc import Callable
from typing import Final

MARK: Final = "[redacted key]"
_SHORTEST: Final = 20  # characters: no key has fewer, and most texts of a stream have
_NEEDLES: Final = (
    "sk-", "AIza", "gsk_", "xai-", "hf_", "r8_", "nvapi-", "AKIA", "ASIA", "fw_", "pplx-", "tgp_v1_",
)  # fmt: skip
_KEY: Final = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"sk-(?:ant|proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{16,}"  # Anthropic, OpenAI, OpenRouter
    r"|c?sk-[A-Za-z0-9]{32,}"  # OpenAI, DeepSeek, Moonshot, Cerebras
    r"|AIza[A-Za-z0-9_-]{35}"  # Google
    r"|gsk_[A-Za-z0-9]{32,}"  # Groq
    r"|xai-[A-Za-z0-9]{40,}"
    r"|hf_[A-Za-z0-9]{30,}"  # Hugging Face
    r"|r8_[A-Za-z0-9]{30,}"  # Replicate
    r"|nvapi-[A-Za-z0-9_-]{40,}"  # NVIDIA
    r"|A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"  # AWS
    r"|fw_[A-Za-z0-9]{20,}"  # Fireworks
    r"|pplx-[A-Za-z0-9]{32,}"  # Perplexity
    r"|tgp_v1_[A-Za-z0-9_-]{30,}"  # Together
    r")"
)
_LONG: Final = 1000  # characters: from here on loading the fast search is worth its 45 ms, once
_known: tuple[str, ...] = ()
_lacks_key: Callable[[str], bool] | None = None  # the fast search, once it is loaded


def hide_secret(secret: str) -> None:
    """Take ``secret`` out of every text from now on, whatever its form; for the whole process.

    Model adapters say it of their keys, hosts may of others. A text of fewer than 16 characters is no secret:
    it would be found in too many places, and is ignored.
    """
    global _known
    if len(secret) >= 16 and secret not in _known:
        _known = (*_known, secret)


def redact(text: str) -> str:
    """``text``, which has no lone surrogates, without keys of model providers and without hidden secrets."""
    if len(text) < 16:
        return text
    for secret in _known:
        if secret in text:
            text = text.replace(secret, MARK)
    return text if len(text) < _SHORTEST or _is_clean(text) else _KEY.sub(MARK, text)


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
