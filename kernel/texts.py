"""What the kernel says to the model, in one value, so that a host can say it in another language.

Names in braces are filled in. Nothing here is parsed: programs look at outcomes and error kinds.

Read with: ``config.py``, ``docs/recipes.md``.
"""

from msgspec import Struct


class Texts(Struct, frozen=True, kw_only=True, gc=False):
    """The wording of the kernel.

    ``step_limit``, where it is not empty, is committed as the last reply of a run that has no turns
    left, and the run then ends without an error. ``aborted`` and ``aborted_in_tools`` are the markers
    that an abort leaves, unless it gives a reason of its own.
    """

    go_on: str = (
        "Your last message was cut off by the output limit. Continue exactly where it stopped; "
        "do not repeat or summarise what you already wrote."
    )
    step_limit: str = ""
    aborted: str = "aborted by the user"
    aborted_in_tools: str = "aborted by the user"
    cut_off: str = "the call was cut off by the output limit and was not executed"
    unknown_tool: str = "tool {name!r} not found; available tools: {known}"
    not_json: str = "arguments are not a JSON object: {problem}; received: {received}"
    invalid: str = "arguments do not match the schema: {problems}"
    unchecked: str = "arguments could not be checked: {problem}"
    refused: str = "{message}"
    preview_failed: str = "preview of {name!r} failed: {problem}"
    disabled: str = "tool {name!r} is switched off after {failures} failures"
    denied: str = "not executed: denied{reason}"
    undecided: str = "nobody decided on it"
    skipped: str = "not executed: a new message from the user came first"
    not_started: str = "not executed: the run was ended first"
    limit_reached: str = "not executed: the run may make no more tool calls"
    cancelled: str = "cancelled while it was running; whether it had any effect is unknown"
    interrupted: str = (
        "interrupted by a new message while it was running; whether it had any effect is unknown"
    )
    left_waiting: str = "interrupted while it waited for a decision; what it did before that is done"
    output_invalid: str = (
        "The answer does not have the required form: {problems}. Answer again, with JSON only."
    )
    cancelled_itself: str = "the tool cancelled itself"
    no_result: str = "the tool returned something that is not a result: {problem}"
    timed_out: str = "the tool took longer than {seconds:g} s and was stopped"
    unknown_outcome: str = (
        "the process ended while this call was running; whether it had any effect is unknown, "
        "and it was not run again"
    )


DEFAULT_TEXTS = Texts()
