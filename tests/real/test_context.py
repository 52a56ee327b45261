"""The default context manager with a real model: its count of tokens, its summaries."""

import anyio

from unspool import Agent, CallOptions, Limits
from unspool.context import SummaryCheckpoint, default
from unspool.kernel import ContextCompacted, ModelResponse
from unspool.trajectory import replay, requests
from unspool.trajectory.memory import MemoryLog

from .conftest import LlamaServer
from .formats import model_of

ONCE = Limits(length_recoveries=0)
SHORT = CallOptions(temperature=0.0, max_tokens=12)
STORY = "Then the fox went over the hill, saw a river, a mill and a white house, and went on. " * 6
WINDOW = 1_500  # of the 4,096 that the server takes, so that it is quick


def test_a_conversation_that_is_longer_than_the_window(llama_server: LlamaServer) -> None:
    log = MemoryLog()
    model = model_of("openai-chat", "local/smollm2", llama_server.base_url)
    manager = default(window=WINDOW, counter="estimate", summary=SummaryCheckpoint(max_tokens=80))

    async def main() -> None:
        agent = Agent(model, context=manager, options=SHORT, limits=ONCE, log=log)
        for number in range(8):
            result = await agent.run(f"Part {number}. {STORY} Say yes.")
            assert (result.error, bool(result.text)) == ("", True)
        usage = agent.context_usage
        assert usage is not None and 0 < usage.tokens < WINDOW
        again = await replay(log.facts)
        assert again.difference is None

    anyio.run(main)
    rewrites = [fact for fact in log.facts if isinstance(fact, ContextCompacted)]
    assert len(rewrites) >= 2
    assert all((rewrite.tokens_after or 0) < (rewrite.tokens_before or 0) for rewrite in rewrites)
    assert all(request.exact for request in requests(log.facts))
    responses = [fact for fact in log.facts if isinstance(fact, ModelResponse)]
    assert any(response.purpose == "compaction" and response.usage.input_tokens for response in responses)
    assert max([response.usage.context_tokens for response in responses]) < WINDOW
