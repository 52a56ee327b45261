"""What Inspect's compaction sends, request by request; run in the peers' environment (benchmarks/README.md).

    python inspect_views.py STRATEGY [--window N] < transcripts.jsonl > views.jsonl

As shipped in inspect_ai 0.3.285: ``react(compaction=None)`` compacts nothing, so there is no default to measure but
the one its documentation recommends, ``CompactionAuto()``: the provider's own compaction, and where a provider has none
(mockllm here) ``CompactionSummary``. STRATEGY is auto, summary, edit, trim or native, each with the arguments it has by default:
all start above 0.9 of the model's window; edit keeps the newest 3 tool results and clears the others, trim keeps the
newest 80 % of the messages, summary keeps the system prompt and the first input and summarises all else. What is left must
be below the threshold after at most four passes, else compaction raises and the sample fails; then no more requests follow.

The loop is that of ``react()``: ``compact_input`` before each call, the message that it gives appended to the history,
``record_output`` after it. The model's window is ``set_model_info``'s. Reported usage, the counter of new messages and
the summariser are those of ``context_summary.py``, as for every manager.
"""

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_summary import BYTES_PER_TOKEN, extract, message_tokens, tokens
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    CompactionAuto,
    CompactionEdit,
    CompactionNative,
    CompactionSummary,
    CompactionTrim,
    ModelInfo,
    ModelOutput,
    ModelUsage,
    compaction,
    get_model,
    set_model_info,
)
from inspect_ai.model._trim import partition_messages
from inspect_ai.tool import ToolCall

_STRATEGIES = {
    "auto": CompactionAuto,
    "summary": CompactionSummary,
    "edit": CompactionEdit,
    "trim": CompactionTrim,
    "native": CompactionNative,
}


def _message(number, given):
    """A message of the transcript as Inspect has it; its id tells it from what compaction makes."""
    name, text = f"m{number}", given["text"]
    if given["role"] == "user":
        return ChatMessageUser(id=name, content=text, source="input" if number == 0 else None)
    if given["role"] == "assistant":
        calls = [
            ToolCall(id=call["id"], function=call["name"], arguments=call["args"]) for call in given["calls"]
        ]
        return ChatMessageAssistant(id=name, content=text, tool_calls=calls or None, source="generate")
    return ChatMessageTool(id=name, content=text, tool_call_id=given["call_id"], function=given["name"])


def _size(message):
    """Tokens of a message, by the counter of all managers."""
    calls = getattr(message, "tool_calls", None) or []
    return message_tokens(message.text, [(call.function, _json(call.arguments)) for call in calls])


def _json(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class _Stub:
    """The model that summarises; what that took is in ``calls``."""

    def __init__(self):
        self.calls = []

    def __call__(self, input, tools, tool_choice, config):
        summary = extract(
            [message.text for message in input[:-1] if message.role != "system"]
        )  # the last one asks
        self.calls.append([sum(map(_size, input)), tokens(summary)])
        return ModelOutput.from_content("mockllm/model", summary)


async def _views(task, strategy, window):
    stub = _Stub()
    model = get_model("mockllm/model", custom_outputs=stub, memoize=False)
    set_model_info("mockllm/model", ModelInfo(context_length=window, input_tokens=window))

    async def counted(input, config=None):
        return tokens(input) if isinstance(input, str) else sum(map(_size, input))

    model.api.count_tokens = counted
    # as long as the system prompt and the tools together, which here are one
    system = ChatMessageSystem(id="system", content="." * int((task["fixed"] - 4) * BYTES_PER_TOKEN))
    history = [system]
    given = task["messages"]
    originals = {f"m{number}": _message(number, message) for number, message in enumerate(given)}
    partitioned = partition_messages([system, originals["m0"]])
    compact = compaction(_STRATEGIES[strategy](), prefix=partitioned.system + partitioned.input, model=model)
    requests, failed, added = [], "", 0
    for number, message in enumerate(given):
        if message["role"] != "assistant":
            continue
        history += [originals[f"m{at}"] for at in range(added, number)]
        try:
            view, supplement = await compact.compact_input(history)
        except Exception as error:  # noqa: BLE001 (this ends the sample in Inspect)
            failed = f"{type(error).__name__}: {error}"
            break
        if supplement is not None:
            history.append(supplement)
        requests.append({"view": [_item(m, originals) for m in view if m is not system], "side": stub.calls})
        stub.calls = []
        usage = ModelUsage(input_tokens=sum(map(_size, view)))
        reply = originals[f"m{number}"]
        history.append(reply)
        added = number + 1
        output = ModelOutput.from_content("mockllm/model", reply.text)
        output.usage = usage
        await compact.record_output(view, output)
    return {"name": task["name"], "requests": requests, "failed": failed, "version": version("inspect_ai")}


def _item(message, originals):
    """The number of an original, or what stands in its place."""
    original = originals.get(message.id)
    if original is message or original == message:
        return int(message.id[1:])
    calls = [
        {"id": call.id, "name": call.function, "args": call.arguments}
        for call in getattr(message, "tool_calls", None) or []
    ]
    made = {"role": message.role, "text": message.text}
    if message.role == "tool":
        made |= {"call_id": message.tool_call_id, "name": message.function}
    return made | ({"calls": calls} if calls else {})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("strategy", choices=_STRATEGIES)
    parser.add_argument("--window", type=int, default=64_000)
    options = parser.parse_args()
    for line in sys.stdin:
        print(json.dumps(anyio.run(_views, json.loads(line), options.strategy, options.window)), flush=True)


if __name__ == "__main__":
    main()
