"""How likely the tokens of a chat/completions answer were, which come with the tokens they are of.

Read with: ``openai_chat_stream.py`` (the caller).
"""

from typing import Any


class Logprobs:
    """What the chunks said so far, as one answer in one piece has it; ``value`` is None where none did."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = None

    def add(self, said: Any) -> None:
        """Lists go on; of anything else the last value holds. Some servers send empty ones that none asked for."""
        if isinstance(said, dict) and not any(said.values()):
            return
        if isinstance(said, dict) and isinstance(self.value, dict):
            for key, value in said.items():
                if isinstance(value, list) and isinstance(known := self.value.get(key), list):
                    known += value
                elif value is not None:
                    self.value[key] = value
        elif isinstance(said, list) and isinstance(self.value, list):
            self.value += said
        else:
            self.value = dict(said) if isinstance(said, dict) else said
