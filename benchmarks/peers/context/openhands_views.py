"""What OpenHands' condenser sends, request by request; run in the peers' environment (benchmarks/README.md).

    python openhands_views.py CONDENSER [--window N] < transcripts.jsonl > views.jsonl

As shipped in openhands-sdk 1.58.2. CONDENSER is

- default: ``default_condenser(llm)``, which ``get_default_agent`` of openhands-tools and sub-agents use:
  ``LLMSummarizingCondenser(max_size=80, keep_first=4)``;
- settings: ``LLMSummarizingCondenserSettings().build_condenser(llm)``, which applications get from settings
  that say nothing: ``max_size=240, keep_first=2``.

Both condense when a view has more than ``max_size`` events, or more tokens than ``llm.effective_max_input_tokens``,
which is all of the window: by half the events, or to half the tokens; the first ``keep_first`` events (the system prompt
among them) stay, and one summary stands for what is forgotten. The summariser is shown events as ``str(event)``: of a
result the first 500 characters, of a call its class.

The loop is that of ``Agent.step``: ``prepare_llm_messages`` with the view of the conversation; a ``Condensation``
becomes an event, and the step begins again. The model is ``TestLLM`` with the window as ``max_input_tokens``. The counter
of tokens and the summariser are those of ``context_summary.py``, as for every manager.
"""

import argparse
import itertools
import json
import logging
import os
import re
import sys
from importlib.metadata import version
from pathlib import Path

os.environ["OPENHANDS_SUPPRESS_BANNER"] = "1"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_summary import BYTES_PER_TOKEN, extract, message_tokens, tokens
from openhands.sdk.agent.utils import prepare_llm_messages
from openhands.sdk.context.condenser import default_condenser
from openhands.sdk.context.view import View
from openhands.sdk.event import (
    ActionEvent,
    Condensation,
    MessageEvent,
    ObservationEvent,
    SystemPromptEvent,
)
from openhands.sdk.event.condenser import CondensationSummaryEvent
from openhands.sdk.llm import LLMResponse, Message, MessageToolCall, TextContent
from openhands.sdk.settings.model import LLMSummarizingCondenserSettings
from openhands.sdk.testing import TestLLM
from openhands.sdk.tool import Action, Observation


class ReadFileAction(Action):
    pass


class EditFileAction(Action):
    pass


class WriteFileAction(Action):
    pass


class GrepAction(Action):
    pass


class ListDirAction(Action):
    pass


class BashAction(Action):
    pass


class TextObservation(Observation):
    pass


_ACTIONS = {
    "read_file": ReadFileAction,
    "edit_file": EditFileAction,
    "write_file": WriteFileAction,
    "grep": GrepAction,
    "list_dir": ListDirAction,
    "bash": BashAction,
}


class StubLLM(TestLLM):
    """Counts by the counter of all managers, and answers with the extract of the events it is shown."""

    def get_token_count(self, messages, tools=None, add_security_risk_prediction=False):
        return sum(map(_size, messages))

    def completion(self, messages, **kwargs):
        text = "".join(part.text for part in messages[-1].content)
        events = re.findall(r"<EVENT.*?>(.*?)</EVENT>", text, re.DOTALL)
        if not events:
            raise ValueError("the prompt of the summariser has no events that this script knows")
        # without the line that names the kind of event, which says nothing
        summary = extract([event.strip().partition("\n")[2] or event for event in events])
        CALLS.append([sum(map(_size, messages)), tokens(summary)])
        message = Message(role="assistant", content=[TextContent(text=summary)])
        raw = self._create_model_response(message)
        return LLMResponse(message=message, metrics=self._zero_metrics(), raw_response=raw)


CALLS = []  # of the summariser, since the last request


def _size(message):
    calls = [(call.name, call.arguments) for call in message.tool_calls or []]
    return message_tokens("".join(part.text for part in message.content), calls)


def _events(number, given, waiting):
    """The events of a message; ``waiting`` has the actions whose results are to come."""
    if given["role"] == "user" or (given["role"] == "assistant" and not given["calls"]):
        message = Message(role=given["role"], content=[TextContent(text=given["text"])])
        return [MessageEvent(source="user" if given["role"] == "user" else "agent", llm_message=message)]
    if given["role"] == "tool":
        observation = TextObservation.from_text(given["text"])
        action = waiting.pop(given["call_id"])
        return [
            ObservationEvent(
                observation=observation,
                action_id=action.id,
                tool_name=given["name"],
                tool_call_id=given["call_id"],
            )
        ]
    events = []
    for place, call in enumerate(given["calls"]):
        arguments = json.dumps(call["args"], ensure_ascii=False, separators=(",", ":"))
        event = ActionEvent(
            thought=[TextContent(text=given["text"])] if place == 0 and given["text"] else [],
            action=_ACTIONS[call["name"]](),
            tool_name=call["name"],
            tool_call_id=call["id"],
            tool_call=MessageToolCall(
                id=call["id"], name=call["name"], arguments=arguments, origin="completion"
            ),
            llm_response_id=f"response-{number}",
        )
        waiting[call["id"]] = event
        events.append(event)
    return events


def _filler(fixed):
    """A text as long as the system prompt and the tools together, which here are one."""
    return "." * int((fixed - 4) * BYTES_PER_TOKEN)


def _views(task, which, window):
    llm = StubLLM(model="stub", max_input_tokens=window, usage_id="agent")
    aside = llm.model_copy(update={"usage_id": "condenser"})
    condenser = (
        default_condenser(aside)
        if which == "default"
        else LLMSummarizingCondenserSettings().build_condenser(llm)
    )
    system = SystemPromptEvent(system_prompt=TextContent(text=_filler(task["fixed"])), tools=[])
    view, number_of, waiting, requests, failed = View(), {}, {}, [], ""
    view.append_event(system)
    CALLS.clear()
    for number, given in enumerate(task["messages"]):
        if given["role"] == "assistant":
            try:
                while isinstance(
                    prepared := prepare_llm_messages(view, condenser=condenser, llm=llm), Condensation
                ):
                    view.append_event(prepared)
            except Exception as error:  # noqa: BLE001 (this ends the run in OpenHands)
                failed = f"{type(error).__name__}: {error}"
                break
            items = _items(view.events[1:], number_of, task["messages"])
            # what follows each other of users is sent as one message of two blocks, which costs and caches alike
            roles = [
                task["messages"][item]["role"] if isinstance(item, int) else item["role"] for item in items
            ]
            merged = sum(pair == ("user", "user") for pair in itertools.pairwise(roles))
            if len(items) - merged != len(prepared) - 1:
                raise ValueError(f"{len(items) - merged} messages told, {len(prepared) - 1} sent")
            requests.append({"view": items, "side": list(CALLS)})
            CALLS.clear()
        for event in _events(number, given, waiting):
            number_of[event.id] = number
            view.append_event(event)
    return {"name": task["name"], "requests": requests, "failed": failed, "version": version("openhands-sdk")}


def _items(events, number_of, messages):
    """The number of each message that is sent, or the summary in its place."""
    items = []
    parts = {}
    for event in events:
        if isinstance(event, CondensationSummaryEvent):
            items.append({"role": "user", "text": event.summary})
            continue
        number = number_of[event.id]
        parts[number] = parts.get(number, 0) + 1
        if not items or items[-1] != number:
            items.append(number)
    for number, part in parts.items():
        if messages[number]["role"] == "assistant" and part != max(1, len(messages[number]["calls"])):
            raise ValueError(f"message {number} is sent in part")
    return items


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("condenser", choices=("default", "settings"))
    parser.add_argument("--window", type=int, default=64_000)
    options = parser.parse_args()
    logging.disable(logging.INFO)
    for line in sys.stdin:
        print(json.dumps(_views(json.loads(line), options.condenser, options.window)), flush=True)


if __name__ == "__main__":
    main()
