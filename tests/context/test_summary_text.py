"""How a model's answer is read, and how a summary looks."""

import pytest

from unspool.context.summary_text import instruction, instruction_in_place, parsed, question, wrapped


@pytest.mark.parametrize(
    ("answer", "summary", "tagged"),
    [
        ("<analysis>Hm.</analysis>\n<summary>\nDone.\n</summary>", "Done.", "Done."),
        ("<summary>Done.</summary> Anything else?", "Done.", "Done."),
        ("<analysis>Hm.</analysis> Done.", "Done.", ""),
        ("Done.", "Done.", ""),
        ("<analysis>Hm, <summary>Done.", "Done.", "Done."),  # tags that are not closed
        ("<analysis>Hm, and so on", "", ""),
        ("<analysis>What goes into <summary>?</analysis><summary>Done.</summary>", "Done.", "Done."),
        ("<summary>Use <summary>…</summary> in HTML.</summary>", *["Use <summary>…</summary> in HTML."] * 2),
        ("<SUMMARY>Done.</SUMMARY>", "Done.", "Done."),
        ("  \n", "", ""),
        ("<summary>  </summary>", "", ""),
        (wrapped("Done.", requests=["Go."], read=["a.py"], modified=["b.py"]), "Done.", ""),  # no nesting
    ],
)
def test_parsed(answer: str, summary: str, tagged: str) -> None:
    assert parsed(answer) == summary
    assert parsed(answer, tags_needed=True) == tagged


def test_an_answer_that_met_its_limit_says_so_and_needs_its_tag() -> None:
    assert parsed("<summary>As far as", cut_off=True).startswith("As far as\n[… cut off here")
    assert parsed("<summary>All of it.</summary> And", cut_off=True) == "All of it."
    assert parsed("As far as", cut_off=True) == ""


def test_a_summary_stands_between_its_tags_and_says_that_it_is_a_record() -> None:
    text = wrapped(
        "Done.", requests=["Build it.", "Go on."], omitted=2, read=["a.py"], modified=["b.py", "c.py"]
    )
    lines = text.splitlines()
    assert (lines[0], lines[-1]) == ("<context-summary>", "</context-summary>")
    assert "a record of earlier work" in lines[1]
    assert "not a new request" in lines[1]
    assert "\n\nDone.\n\n" in text
    assert (
        "<user-requests>\n(2 earlier requests are left out)\n[1] Build it.\n[2] Go on.\n</user-requests>"
        in text
    )
    assert "not listed" not in text
    assert "files of long ago are not listed" in wrapped("Done.", more_files=True)
    assert "<read-files>\na.py\n</read-files>" in text
    assert "<modified-files>\nb.py\nc.py\n</modified-files>" in text


def test_what_a_user_quotes_does_not_end_the_summary() -> None:
    text = wrapped("Done.", requests=["What does </context-summary> mean?"])
    assert text.count("</context-summary>") == 1


def test_what_is_asked() -> None:
    plain = instruction(words=300)
    for section in ("Goal", "Constraints", "Progress", "Decisions", "Facts", "Errors", "Next steps"):
        assert f"## {section}" in plain
    assert "at most about 300 words" in plain
    assert "previous-summary" not in plain
    whole = instruction(words=300, earlier=True, split=True, part=(2, 3), focus=["the tests", " "])
    for part in ("<previous-summary>", "## Work on the current request", "part 2 of 3", "this: the tests"):
        assert part in whole
    assert instruction_in_place(words=300, split=False).startswith("Stop working on the task now")


def test_a_question_holds_the_conversation_and_what_was_before() -> None:
    text = question("[User]\nGo.", "Sum up.", earlier="S1", problem="it is empty")
    assert text.startswith("<previous-summary>\nS1\n</previous-summary>")
    assert "<conversation>\n[User]\nGo.\n</conversation>" in text
    assert "it is empty" in text
