"""The table of call states: what changes, what stays, what is known of its beginning."""

from hypothesis import given
from hypothesis import strategies as st

from unspool.kernel.call_states import CallState, CallStates, call_states
from unspool.kernel.messages import ToolCall


def table(count: int) -> CallStates:
    return call_states([CallState(ToolCall(id=f"c{n}", name="t")) for n in range(count)])


def stages(states: CallStates) -> list[str]:
    return [state.stage for state in states.states]


def test_a_change_leaves_the_earlier_table_as_it_was() -> None:
    before = table(3)
    after = before.change("c1", stage="ended", outcome="ok")
    assert stages(after) == ["requested", "ended", "requested"]
    assert stages(before) == ["requested"] * 3


def test_a_call_it_does_not_have_changes_nothing() -> None:
    before = table(3)
    assert before.change("other", stage="ended") is before
    assert before.get("other") is None


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 10))
def test_it_knows_how_far_results_are_committed(order: list[int], count: int) -> None:
    states, committed = table(count), set[int]()
    for number in order:
        states = states.change(f"c{number}", stage="committed")
        committed.add(number)
        first_open = next((n for n in range(count) if n not in committed), count)
        assert states.committed == first_open
        assert [state.call.id for state in states.uncommitted] == [f"c{n}" for n in range(first_open, count)]
    assert states == call_states(states.states)
