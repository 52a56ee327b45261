"""Which key a request gets, as tables over a clock of the test's own, and through a server."""

import threading
from collections.abc import Awaitable, Callable

import anyio
import pytest

from unspool.kernel.errors import (
    AuthError,
    BadRequestError,
    ModelError,
    NetworkError,
    OverloadedError,
    QuotaError,
    RateLimitError,
)
from unspool.kernel.messages import user_message
from unspool.kernel.ports import ModelRequest
from unspool.kernel.redaction import redact
from unspool.kernel.reply import generate
from unspool.llm import ModelWarning, OpenAIChatModel
from unspool.llm.keys import ApiKey, Keys

from .loopback import Loopback, answer  # tests/llm/, which ruff takes for llm/

Step = (
    str | float | tuple[str, ModelError]
)  # a key that is expected, seconds that pass, a key that is refused


def limited(retry_after_s: float | None = None) -> RateLimitError:
    return RateLimitError("slow down", retry_after_s=retry_after_s)


TURNS: dict[str, tuple[ApiKey, list[Step]]] = {
    "none": (None, [""]),
    "none that is empty": ("  ", [""]),
    "several that are empty": (["", " "], [""]),
    "one": ("a", ["a", "a"]),
    "one that is refused, for want of another": ("a", [("a", limited(60)), "a"]),
    "white space around": (" a\n", ["a"]),
    "several in turn": (["a", "b", "c"], ["a", "b", "c", "a", "b"]),
    "one given twice has one turn": (["a", "a", "b"], ["a", "b", "a", "b"]),
    "a limited one rests as long as the provider asks": (
        ["a", "b"],
        ["a", ("a", limited(5)), "b", "b", 4.9, "b", 0.2, "a", "b"],
    ),
    "a limited one rests half a minute": (["a", "b"], ["a", ("a", limited()), 29, "b", "b", 2, "a"]),
    "may come again at once": (["a", "b"], [("a", limited(0)), "a", "b"]),
    "an exhausted one rests an hour": (["a", "b"], [("a", QuotaError("no")), 3599, "b", "b", 2, "a"]),
    "a refused one rests an hour": (["a", "b"], [("a", AuthError("no")), 3599, "b", "b", 2, "a"]),
    "other errors are no matter of the key": (
        ["a", "b"],
        [("a", OverloadedError("busy", retry_after_s=60)), ("a", BadRequestError("no")), "a", "b"],
    ),
    "those that are left take turns": (["a", "b", "c"], [("b", limited(60)), "a", "c", "a", "c"]),
    "where all rest, the one that is free soonest": (
        ["a", "b", "c"],
        [("a", limited(30)), ("b", limited(10)), ("c", limited(20)), "b", "b", ("b", limited(60)), "c"],
    ),
    "a shorter rest does not end a longer one": (
        ["a", "b"],
        [("a", QuotaError("no")), ("a", limited(1)), 2, "b", "b"],
    ),
}


@pytest.mark.parametrize("name", TURNS)
def test_turns(name: str) -> None:
    given, steps = TURNS[name]
    now = 1000.0
    keys = Keys(given, "p/m", lambda: now)
    for step in steps:
        match step:
            case str():
                assert anyio.run(keys.take) == step
            case float() | int():
                now += step
            case (key, error):
                keys.failed(key, error)


DELAYS: dict[str, tuple[list[str], list[str], float | None]] = {
    "another key is free": (["a", "b"], ["a"], None),
    "none is": (["a", "b"], ["a", "b"], 60.0),
    "there is one only": (["a"], ["a"], 60.0),
}


@pytest.mark.parametrize("name", DELAYS)
def test_a_delay_is_passed_on_unless_another_key_is_free(name: str) -> None:
    given, refused, delay = DELAYS[name]
    keys = Keys(given, "p/m", lambda: 0.0)
    error = limited(60.0)
    for key in refused:
        error = limited(60.0)
        keys.failed(key, error)
    assert error.retry_after_s == delay


def giving(*keys: str | Exception) -> Callable[[], Awaitable[str]]:
    left = list(keys)

    async def give() -> str:
        key = left.pop(0)
        if isinstance(key, Exception):
            raise key
        return key

    return give


def test_where_none_is_free_the_delay_is_the_shortest() -> None:
    keys, error = Keys(["a", "b"], "p/m", lambda: 0.0), limited(120.0)
    keys.failed("a", limited(2.0))
    keys.failed("b", error)
    assert error.retry_after_s == 2.0


def test_a_function_is_asked_for_each_request() -> None:
    keys = Keys(giving("a", " b ", ""), "p/m")
    assert anyio.run(keys.take) == "a"
    keys.failed("a", AuthError("no"))
    assert [anyio.run(keys.take), anyio.run(keys.take)] == ["b", ""]
    assert not keys._rests  # tokens come and go: nothing is kept of them


FUNCTIONS: dict[str, tuple[str | Exception, type[ModelError]]] = {
    "an error of a model's kind": (QuotaError("no"), QuotaError),
    "cannot reach": (ConnectionRefusedError("token sk-secret"), NetworkError),
    "too slow": (TimeoutError(), NetworkError),
    "anything else": (KeyError("sk-secret"), AuthError),
    "a key no header can carry": ("sk-secret\nx: y", AuthError),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_fails(name: str) -> None:
    gives, kind = FUNCTIONS[name]
    with pytest.raises(kind) as caught:
        anyio.run(Keys(giving(gives), "p/m").take)
    assert type(caught.value) is kind
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["a b", "a\nb", "schlüssel", "a\x7f"])
def test_a_key_no_header_can_carry_is_refused_without_quoting_it(key: str) -> None:
    with pytest.raises(AuthError) as caught:
        Keys(["good", key], "p/m")
    assert key not in str(caught.value)


def test_no_key_in_a_repr() -> None:
    assert "sk-secret" not in repr(Keys(["sk-secret-1", "sk-secret-2"], "p/m"))


def test_threads_share_the_turns() -> None:
    names = [f"k{number}" for number in range(5)]
    keys, taken = Keys(names, "p/m"), []

    def take() -> None:
        for _ in range(200):
            taken.append(anyio.run(keys.take))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: taken.count(name) for name in names} == dict.fromkeys(names, 160)


# --- through a server ------------------------------------------------------------------------------

REQUEST = ModelRequest(messages=(user_message("hi"),))
GOOD = answer(200, b'{"choices":[{"index":0,"message":{"content":"ok"},"finish_reason":"stop"}]}')
LIMITED = answer(429, b'{"error":{"message":"slow down"}}', Retry_After="20")


def sent_keys(server: Loopback) -> list[str]:
    heads = [exchange.head.lower() for exchange in server.exchanges]
    return [head.partition("authorization: bearer ")[2].partition("\r\n")[0] for head in heads]


def test_after_a_limit_the_other_keys_are_used(server: Loopback) -> None:
    async def main() -> None:
        model = OpenAIChatModel("p/m", base_url=server.url, api_key=["key-1", "key-2", "key-3"])
        with pytest.raises(RateLimitError) as caught:
            await generate(model, REQUEST)
        assert caught.value.retry_after_s is None  # nothing to wait for
        for _ in range(3):
            assert (await generate(model, REQUEST)).text == "ok"

    for script in (LIMITED, GOOD, GOOD, GOOD):
        server.script(script)
    anyio.run(main)
    assert sent_keys(server) == ["key-1", "key-2", "key-3", "key-2"]


@pytest.mark.parametrize(
    ("status", "code", "kind"), [(401, "invalid_api_key", "auth"), (429, "insufficient_quota", "quota")]
)
def test_a_refused_key_gives_way_to_the_next(server: Loopback, status: int, code: str, kind: str) -> None:
    refused = answer(status, b'{"error":{"code":"%s"}}' % code.encode())

    async def main() -> None:
        model = OpenAIChatModel("p/m", base_url=server.url, api_key=["key-1", "key-2", "key-3"])
        with pytest.warns(ModelWarning, match=rf"key \d of 3 was refused \({kind}\), another is taken"):
            assert (await generate(model, REQUEST)).text == "ok"
        assert (await generate(model, REQUEST)).text == "ok"

    for script in (refused, refused, GOOD, GOOD):
        server.script(script)
    anyio.run(main)
    assert sent_keys(server) == ["key-1", "key-2", "key-3", "key-3"]


def test_no_key_is_tried_twice_for_a_request_however_short_its_rest(server: Loopback) -> None:
    refused = answer(401, b"{}", Retry_After="0")

    async def main() -> None:
        model = OpenAIChatModel("p/m", base_url=server.url, api_key=["key-1", "key-2"])
        with pytest.warns(ModelWarning), pytest.raises(AuthError):
            await generate(model, REQUEST)

    for _ in range(2):
        server.script(refused)
    anyio.run(main)
    assert sent_keys(server) == ["key-1", "key-2"]


def test_a_refusal_inside_a_200_gives_way_too(server: Loopback) -> None:
    async def main() -> None:
        model = OpenAIChatModel("p/m", base_url=server.url, api_key=["key-1", "key-2"])
        with pytest.warns(ModelWarning, match="quota"):
            assert (await generate(model, REQUEST)).text == "ok"

    server.script(answer(200, b'{"error":{"code":"insufficient_quota"}}'))
    server.script(GOOD)
    anyio.run(main)


def test_only_the_last_tokens_of_a_function_stay_hidden() -> None:
    """Each costs every text a search."""
    tokens = [f"token-{number:03}-0123456789" for number in range(30)]
    keys = Keys(giving(*tokens), "p/m")
    for _ in tokens:
        anyio.run(keys.take)
    assert [redact(token) != token for token in tokens].count(True) == 8
    assert redact(tokens[-1]) != tokens[-1]


def test_where_all_keys_are_refused_the_last_error_is_raised_and_names_none(server: Loopback) -> None:
    async def main() -> None:
        model = OpenAIChatModel("p/m", base_url=server.url, api_key=["key-1", "key-2"])
        with pytest.warns(UserWarning) as warned, pytest.raises(AuthError) as caught:
            await generate(model, REQUEST)
        told = [
            str(caught.value),
            repr(caught.value.details),
            repr(model),
            *[str(each.message) for each in warned],
        ]
        assert "key-1" not in str(told) and "key-2" not in str(told)

    for key in (b"key-1", b"key-2"):
        server.script(answer(401, b'{"error":{"message":"Incorrect API key provided: %s"}}' % key))
    anyio.run(main)
    assert sent_keys(server) == ["key-1", "key-2"]


def test_a_token_that_was_refused_is_asked_for_anew(server: Loopback) -> None:
    async def main() -> None:
        model = OpenAIChatModel("p/m", base_url=server.url, api_key=giving("old", "new"))
        with pytest.raises(AuthError):
            await generate(model, REQUEST)
        assert (await generate(model, REQUEST)).text == "ok"

    server.script(answer(401, b"{}"))
    server.script(GOOD)
    anyio.run(main)
    assert sent_keys(server) == ["old", "new"]
