"""Four modes by name."""

import pytest

from unspool.kernel.errors import AgentError
from unspool.tools.permissions import MODES, parse_mode


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "spell", [str, str.upper, lambda name: f" {name.replace('-', '_')} ", lambda name: name.replace("-", " ")]
)
def test_a_mode_is_read_whatever_its_spelling(mode: str, spell: type[str]) -> None:
    assert parse_mode(spell(mode)) == mode


def test_words_run_together_are_the_same_mode() -> None:
    assert parse_mode("acceptEdits") == "accept-edits"


@pytest.mark.parametrize("text", ["", "yolo", "plan2", "accept"])
def test_another_word_is_an_error_that_says_which_there_are(text: str) -> None:
    with pytest.raises(AgentError, match=r"no such mode .*accept-edits"):
        parse_mode(text)
