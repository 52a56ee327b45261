"""Replacing one text by another: what is found, what takes its place, and what is refused."""

import pytest

from unspool.kernel.errors import ToolError
from unspool.tools.files.diffing import diff_texts
from unspool.tools.files.editing import edit_text

Case = tuple[str, str, str, str, str]  # text, old, new, matcher, text afterwards

EXACT: dict[str, Case] = {
    "a word": ("one two", "one", "1", "exact", "1 two"),
    "nothing in its place": ("one two", "one ", "", "exact", "two"),
    "all": ("a", "a", "b", "exact", "b"),
    "the last line, without newline": ("a\nb", "b", "c", "exact", "a\nc"),
    "the last newline": ("a\nb\n", "b\n", "b", "exact", "a\nb"),
    "tabs": ("\ta\n\t\tb\n", "\t\tb", "\tb", "exact", "\ta\n\tb\n"),
    "CRLF, old text of one line": ("a\r\nb\r\n", "b", "c\nd", "exact", "a\r\nc\r\nd\r\n"),
    "CRLF, old text with LF": ("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", "exact", "x\r\ny\r\nz\r\nc\r\n"),
    "CRLF, old and new text with CRLF": ("a\r\nb\r\n", "a\r\nb", "a\r\nc", "exact", "a\r\nc\r\n"),
    "LF, old and new text with CRLF": ("a\nb\n", "a\r\nb", "a\r\nc", "exact", "a\nc\n"),
    "LF stays": ("a\nb\n", "b", "c\nd", "exact", "a\nc\nd\n"),
    "mixed newlines stay": ("a\r\nb\nc\rd\r\n", "b", "B", "exact", "a\r\nB\nc\rd\r\n"),
    "mixed newlines within": ("a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nc", "exact", "a\r\nB\nc\r\n"),
    "mixed newlines, a line more": ("a\nb\r\nc\n", "b\n", "x\ny\n", "exact", "a\nx\r\ny\r\nc\n"),
    "the first newline for a line of its own": ("a\r\nb\nc", "c", "c\nd", "exact", "a\r\nb\nc\r\nd"),
    "a lone CR is a character": ("a\rb\nc\n", "c", "d\ne", "exact", "a\rb\nd\ne\n"),
    "a lone CR is no newline": ("10%\r20%\nok\n", "20%\nok", "20%\nOK", "exact", "10%\r20%\nOK\n"),
    "lone CRs for all newlines": ("a\rb\rc", "a\nb", "x\ny\nz", "exact", "x\ry\rz\rc"),
    "CR before CRLF": ("a\r\r\nb\r\n", "b", "c", "exact", "a\r\r\nc\r\n"),
    "form feed and U+2028 in a line": ("a\fb\u2028c\nd\n", "d", "e", "exact", "a\fb\u2028c\ne\n"),
    "form feed and U+2028 in old text": ("a\fb\u2028c\n", "b\u2028c", "x", "exact", "a\fx\n"),
    "bytes that are not UTF-8": ("caf\udce9\nx\n", "x", "y", "exact", "caf\udce9\ny\n"),
    "U+FEFF in the middle": ("a\n\ufeffb\n", "b", "c", "exact", "a\n\ufeffc\n"),
    "exact before fuzzy": ("x = ‘a’\nx = 'a'\n", "x = 'a'", "x = 'b'", "exact", "x = ‘a’\nx = 'b'\n"),
}
FUZZY: dict[str, Case] = {
    "no-break space at the end": ("line\u00a0\nnext\n", "line\n", "repl\n", "fuzzy", "repl\nnext\n"),  # T125
    "blanks at line ends": ("a  \nb \t\nc  \n", "a\nb\n", "x\n", "fuzzy", "x\nc  \n"),
    "blanks in old text only": ("a\nb\nc\n", "a  \nb", "x", "fuzzy", "x\nc\n"),
    "blanks at the end of old text": ("a = 1\nb\n", "a = 1 ", "a = 2", "fuzzy", "a = 2\nb\n"),
    "blanks at the end that stay": ("a’  \nb\n", "a'", "c", "fuzzy", "c  \nb\n"),
    "fullwidth punctuation": ("你好，世界（一）\n", "你好,世界(一)", "hi", "fuzzy", "hi\n"),
    "compatibility forms": ("ﬁle № 1\n", "file No 1", "x", "fuzzy", "x\n"),
    "single quotes": ("x = ‘it’\n", "x = 'it'", "x = 'at'", "fuzzy", "x = 'at'\n"),
    "double quotes": ("x = “it”\n", 'x = "it"', "y", "fuzzy", "y\n"),
    "seven dashes": ("a‐‑‒–—―−b\n", "a-------b", "c", "fuzzy", "c\n"),
    "no-break space": ("a\u00a0=\u20031\n", "a = 1", "a = 2", "fuzzy", "a = 2\n"),
    "typographic old text": ('x = "it"\n', "x = “it”", "x = “at”", "fuzzy", "x = “at”\n"),
    "decomposed in the file": ("cafe\u0301 = 1\n", "café = 1", "café = 2", "fuzzy", "café = 2\n"),
    "composed in the file": ("café = 1\n", "cafe\u0301 = 1", "x", "fuzzy", "x\n"),
    "only the match": (  # T126
        "s = “a”; target=‘old’; t = ‘b’\n",
        "target='old'",
        "target='new'",
        "fuzzy",
        "s = “a”; target='new'; t = ‘b’\n",
    ),
    "lines that old and new text share": (
        "s = “a”  \nb = 1\nt = ‘c’\n",
        "s = \"a\"\nb = 1\nt = 'c'",
        "s = \"a\"\nb = 2\nt = 'c'",
        "fuzzy",
        "s = “a”  \nb = 2\nt = ‘c’\n",
    ),
    "CRLF": ("a’ \r\nb\r\nc\n", "a'\nb\n", "x\ny\n", "fuzzy", "x\r\ny\r\nc\n"),
    "a newline that the last line lacks": ("a\nb’", "b'\n", "c\n", "fuzzy", "a\nc"),
    "a newline that the only line lacks": ("b", "b\n", "c\nd\n", "fuzzy", "c\nd"),
}
OTHERS: dict[str, Case] = {
    "escaped quotes": ('say("hi")\n', 'say(\\"hi\\")', 'say(\\"ho\\")', "escapes", 'say("ho")\n'),
    "escaped newline": ("a\r\nb\r\n", "a\\nb", "a\\nc", "escapes", "a\r\nc\r\n"),
    "escaped CRLF": ("a\r\nb\r\n", "a\\r\\nb", "a\\r\\nc", "escapes", "a\r\nc\r\n"),
    "other escapes of new text": ('"a"\n', '\\"a\\"', '\\"\\n\\"', "escapes", '"\\n"\n'),
    "indented": (  # T128
        'func f() {\n\tif on {\n\t\tprintln("old")\n\t}\n}\n',
        'if on {\n\tprintln("old")\n}',
        'if on {\n\tprintln("new")\n}',
        "indentation",
        'func f() {\n\tif on {\n\t\tprintln("new")\n\t}\n}\n',
    ),
    "blanks for tabs": (
        "\tif a:\n\t\tb\n",
        "if a:\n    b",
        "if a:\n    if c:\n        b\n    d",
        "indentation",
        "\tif a:\n\t\tif c:\n\t\t\tb\n\t\td\n",
    ),
    "tabs for blanks": (
        "    if a:\n        b\n",
        "if a:\n\tb",
        "if a:\n\tif c:\n\t\tb",
        "indentation",
        "    if a:\n        if c:\n            b\n",
    ),
    "less indented": (
        "a\n  b\n",
        "    a\n      b\n",
        "    a\n      c\n    d\n",
        "indentation",
        "a\n  c\nd\n",
    ),
    "further left than all that is known": (
        "\t\ta\n\t\tb\n",
        "        a\n        b\n",
        "        a\n    c\n",
        "indentation",
        "\t\ta\n\tc\n",
    ),
    "the last line, without newline": (
        "\tfoo\n\tbar",
        "foo\nbar\n",
        "foo\nbaz\n",
        "indentation",
        "\tfoo\n\tbaz",
    ),
    "the last line, with newline": (
        "\tfoo\n\tbar\n",
        "foo\nbar\n",
        "foo\nbaz\n",
        "indentation",
        "\tfoo\n\tbaz\n",
    ),
    "CRLF, indented": ("\ta\r\n\tb\r\n", "a\nb", "a\nc", "indentation", "\ta\r\n\tc\r\n"),
    "anchors": (
        "def f(x):\n    y = compute(x, 1)\n    z = y\n    return z\n",
        "def f(x):\n    y = compute(x,1)\n    z = y\n    return z\n",
        "def f(x):\n    y = compute(x, 2)\n    z = y\n    return z\n",
        "block_anchor",
        "def f(x):\n    y = compute(x, 2)\n    z = y\n    return z\n",
    ),
    "anchors, indented": (
        "  {\n    first = list(one)\n  }\n",
        "{\n  first  = list(one)\n}",
        "{\n  second = list(two)\n}",
        "block_anchor",
        "  {\n    second = list(two)\n  }\n",
    ),
    "an anchored line that does not change keeps its bytes": (
        "start\nlong  line of text one\nlong line of text two\nend",
        "start\nlong line of text one\nlong line of text 2\nend",
        "start\nlong line of text one\nlong line of text three\nend",
        "block_anchor",
        "start\nlong  line of text one\nlong line of text three\nend",
    ),
}


@pytest.mark.parametrize(
    ("text", "old", "new", "matcher", "after"),
    [pytest.param(*case, id=name) for name, case in {**EXACT, **FUZZY, **OTHERS}.items()],
)
def test_edit(text: str, old: str, new: str, matcher: str, after: str) -> None:
    edited = edit_text(text, old, new)
    assert (edited.text, edited.matcher) == (after, matcher)
    assert (edited.note == "") == (matcher == "exact")


ALL: dict[str, Case] = {
    "each": ("a b a\na", "a", "c", "exact", "c b c\nc"),
    "in new text too": ("aba", "a", "aa", "exact", "aabaa"),
    "from the left": ("aaaa", "aa", "b", "exact", "bb"),
    "each with its own newlines": ("a\r\nb\na\nb\r\n", "a\nb\n", "a\nc\n", "exact", "a\r\nc\na\nc\r\n"),
    "fuzzy": ("‘a’ “a”\n'a'  ‘a’", "'a' ", "x ", "exact", "‘a’ “a”\nx  ‘a’"),
    "fuzzy, each": ("‘a’;\nb\n’a’;\n", "'a';", "'c';", "fuzzy", "'c';\nb\n'c';\n"),
    "fuzzy, with blanks at the end": ("– a –\u00a0b – a –\u00a0b", "- a - ", "x", "fuzzy", "xb xb"),
    "indented, each as it is": (
        "\ta\n\tb\n  a\n  b\n",
        "a\nb\n",
        "a\nc\n",
        "indentation",
        "\ta\n\tc\n  a\n  c\n",
    ),
}


@pytest.mark.parametrize(
    ("text", "old", "new", "matcher", "after"), [pytest.param(*case, id=name) for name, case in ALL.items()]
)
def test_edit_everywhere(text: str, old: str, new: str, matcher: str, after: str) -> None:
    edited = edit_text(text, old, new, replace_all=True)
    assert (edited.text, edited.matcher) == (after, matcher)


REFUSED: dict[str, tuple[str, str, str, str]] = {
    "empty old text": ("a", "", "b", "old_string is empty: give the text to replace, or use write_file"),
    "empty old text, empty file": ("", "", "b", "old_string is empty, and so is the file: use write_file"),
    "the same": ("a", "a", "a", "old_string and new_string are the same"),
    "the same but for newlines": ("a\r\nb", "a\nb", "a\r\nb", "old_string and new_string are the same"),
    "no effect": ("x = ‘a’\n", "x = 'a'", "x = ‘a’", "the edit changes nothing"),
    "two": (
        "x = 1\nx = 1\n",
        "x = 1",
        "x = 2",
        "Found 2 occurrences of old_string, in lines 1, 2: add lines",
    ),
    "three": ("foo foo foo", "foo", "bar", "Found 3 occurrences of old_string, in line 1: "),
    "overlapping": ("aaa\n", "aa", "b", "old_string occurs several times, overlapping, from line 1"),
    "two but for newlines": (
        "a\r\nb\r\na\nb\n",
        "a\nb\n",
        "c",
        "Found 2 occurrences of old_string, in lines 1, 3",
    ),
    "two but for blanks": (
        "hello world   \nhello world\t\n",
        "hello world\n",
        "x\n",
        "Found 2 occurrences of old_string (apart from blanks at line ends",
    ),
    "two but for quotes": ("‘a’\n’a’\n", "'a'", "x", "Found 2 occurrences of old_string (apart from "),
    "two but for indentation": (  # T129
        "\ta\n\tb\n\n  a\n  b\n",
        "a\nb",
        "a\nc",
        "Found 2 occurrences of old_string (apart from indentation), in lines 1, 4: ",
    ),
    "two adjacent": ("\ta\n\tb\n\ta\n\tb\n", "a\nb\n", "c\n", "(apart from indentation), in lines 1, 3: "),
    "blanks": ("a\n\nb\n", "   ", "x", "old_string was not found"),
    "blank lines": ("a\n\n\nb\n", "  \n \n", "x", "old_string was not found"),
    "a part of a character": ("é\u0301x ﬁ\n", "e’", "x", "old_string was not found"),
    "a part of a ligature": ("ﬁ’\n", "i'", "x", "old_string was not found"),
    "a base without its accent": ("“e\u0301”\n", '"e', "x", "old_string was not found"),
    "blanks at the end are not a word's": ("a = 10’\n", "a = 1 ", "a = 2", "old_string was not found"),
    "indented differently within": ("a\n  b\n", "  a\n  b", "x", "old_string was not found"),
    "anchors with something else between": (
        "{\n  everything = other\n}\n",
        "{\n  nothing(alike)\n}",
        "x",
        "old_string was not found",
    ),
    "anchors, several alike": (
        "{\n  value = one + 1\n}\n{\n  value = one + 2\n}\n",
        "{\n  value = one + 3\n}",
        "x",
        "Found 2 occurrences",
    ),
    "anchors with a line more": (
        "{\n  value = one\n  other = two\n}\n",
        "{\n  value = one\n}",
        "x",
        "old_string was not found",
    ),
}


@pytest.mark.parametrize(
    ("text", "old", "new", "said"), [pytest.param(*case, id=name) for name, case in REFUSED.items()]
)
def test_refused(text: str, old: str, new: str, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        edit_text(text, old, new)
    assert said in str(caught.value)


def test_anchors_are_not_enough_for_every_place() -> None:
    with pytest.raises(ToolError, match="was not found"):
        edit_text("{\n  value = one + 1\n}\n", "{\n  value = one + 2\n}", "x", replace_all=True)


GO = "package main\nfunc f() {\n\tif enabled {\n\t\trun(1)\n\t}\n}\n"
CHINESE = "标题\n这是一个测试文件的内容\n结尾\n"
NOT_FOUND: dict[str, tuple[str, str, str]] = {
    "a block": (  # T130
        GO,
        "if enable {\n\truns(2)\n}",
        (
            "old_string was not found. Most like it, did you mean one of these candidates?\n"
            "lines 3-5 (71% alike):\n```text\n\tif enabled {\n\t\trun(1)\n\t}\n```"
        ),
    ),
    "Chinese": (  # T131
        CHINESE,
        "这是一个测试文件得内容",
        (
            "old_string was not found. Most like it, did you mean one of these candidates?\n"
            "line 2 (80% alike):\n```text\n这是一个测试文件的内容\n```"
        ),
    ),
    "unrelated Chinese": (  # T132
        CHINESE,
        "完全无关之物",
        "old_string was not found, nor anything like it: read the file again and copy the text exactly",
    ),
    "an invisible character": (
        "x\nab\u200b = 1\n",
        "ab = 1",
        (
            "old_string was not found. Most like it, did you mean one of these candidates?\n"
            "line 2 (73% alike):\n```text\nab\u200b = 1\n```\n"
            "The first one differs only in this: line 2, column 3: the file has U+200B ZERO WIDTH SPACE, "
            "old_string has nothing"
        ),
    ),
    "a Cyrillic letter": (
        "p\u0430th = 1\n",
        "path = 1",
        (
            "old_string was not found. Most like it, did you mean one of these candidates?\n"
            "line 1 (71% alike):\n```text\np\u0430th = 1\n```\n"
            "The first one differs only in this: line 1, column 2: the file has U+0430 CYRILLIC SMALL LETTER A, "
            "old_string has U+0061 LATIN SMALL LETTER A"
        ),
    ),
    "a byte that is not UTF-8": (
        "caf\udce9 = 1\n",
        "caf\ufffd = 1",
        (
            "old_string was not found. Most like it, did you mean one of these candidates?\n"
            "line 1 (71% alike):\n```text\ncaf\ufffd = 1\n```\n"
            "The first one differs only in this: line 1, column 4: the file has the byte 0xE9, which is not UTF-8, "
            "old_string has U+FFFD REPLACEMENT CHARACTER"
        ),
    ),
    "a tab, in a part of a line": (
        "if x:\ty = 1  # and so on\n",
        "if x: y = 1  # and",
        (
            "old_string was not found. Most like it, did you mean one of these candidates?\n"
            "line 1 (75% alike):\n```text\nif x:\ty = 1  # and so on\n```\n"
            "The first one differs only in this: line 1, column 6: the file has U+0009, old_string has U+0020 SPACE"
        ),
    ),
    "a code fence": (
        "````\ncode one\n",
        "````\ncode two",
        (
            "old_string was not found. Most like it, did you mean one of these candidates?\n"
            "lines 1-2 (70% alike):\n`````text\n````\ncode one\n`````"
        ),
    ),
    "at most three": (
        "word 1\nword 2\nword 3\nword 4\n",
        "word 5",
        "old_string was not found. Most like it, did you mean one of these candidates?\n"
        + "\n".join(f"line {n} (80% alike):\n```text\nword {n}\n```" for n in (1, 2, 3)),
    ),
}


@pytest.mark.parametrize(
    ("text", "old", "said"), [pytest.param(*case, id=name) for name, case in NOT_FOUND.items()]
)
def test_not_found(text: str, old: str, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        edit_text(text, old, "x")
    assert str(caught.value) == said


BIG = "".join(f"line {n} of a big file\n" for n in range(400_000))
LARGE: dict[str, tuple[str, str, str]] = {
    "10 MB": (BIG, "line 399999 of a big file", ""),
    "10 MB, nothing like it": (
        BIG,
        "line x of a big file",
        "not found, and only exact matches were looked for: ",
    ),
    "10 MB, 1 MB of old text": (
        BIG,
        BIG[:1_000_000] + "x",
        "not found, and only exact matches were looked for: ",
    ),
    "2 MB, nothing like it": (BIG[:1_900_000], "line x of a big file", "too large to look for text like it"),
    "0.4 MB, nothing like it": (BIG[:400_000], "line x of a big file", "did you mean one of these"),
    "one line of 10 MB": ("a" * 10_000_000, "a" * 1_000_000 + "b", "only exact matches were looked for: "),
    "repeated lines": ("ab\n" * 100_000, "ab\nab\nab \nab", "Found 25000 occurrences"),
    "too many": ("ab\n" * 100_001, "ab", "old_string occurs more than 100000 times"),
    "one line of letters with accents": ("é" * 400_000 + "’b", "é" * 1000 + "'b", ""),
}


@pytest.mark.parametrize(
    ("text", "old", "said"), [pytest.param(*case, id=name) for name, case in LARGE.items()]
)
def test_large(text: str, old: str, said: str) -> None:
    """Bounded time is tested by being done at all: what is not bounded here would take minutes."""
    if not said:
        assert len(edit_text(text, old, "x").text) == len(text) - len(old) + 1
        return
    with pytest.raises(ToolError) as caught:
        edit_text(text, old, "x")
    assert said in str(caught.value)
    assert len(str(caught.value)) < 5000


DIFFS: dict[str, tuple[str, str, str, int]] = {
    "nothing": ("a\n", "a\n", "", 0),
    "four lines around it": (
        "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n",
        "1\n2\n3\n4\n5\nx\n7\n8\n9\n10\n11\n",
        "--- f\n+++ f\n@@ -2,9 +2,9 @@\n 2\n 3\n 4\n 5\n-6\n+x\n 7\n 8\n 9\n 10",
        6,
    ),
    "no newline at the end": (
        "a\nb",
        "a\nc",
        "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file",
        2,
    ),
    "new": ("", "a\n", "--- f\n+++ f\n@@ -0,0 +1 @@\n+a", 1),
    "emptied": ("a\nb\n", "", "--- f\n+++ f\n@@ -1,2 +0,0 @@\n-a\n-b", 1),
    "CRLF": ("a\r\nb\r\n", "a\r\nc\r\n", "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+c", 2),
    "two places": (
        "a\n" + "=\n" * 20 + "b\n",
        "A\n" + "=\n" * 20 + "B\n",
        "--- f\n+++ f\n@@ -1,5 +1,5 @@\n-a\n+A\n =\n =\n =\n =\n@@ -18,5 +18,5 @@\n =\n =\n =\n =\n-b\n+B",
        1,
    ),
}


@pytest.mark.parametrize(
    ("before", "after", "text", "first"), [pytest.param(*case, id=name) for name, case in DIFFS.items()]
)
def test_diff(before: str, after: str, text: str, first: int) -> None:
    assert diff_texts(before, after, "f") == (text, first)


def test_a_long_diff_is_cut() -> None:
    long = diff_texts("", "a\n" * 1000, "f").text
    assert long.endswith("+a\n… (diff cut: 843 lines more)")
    far = diff_texts(BIG, BIG.replace("line 0 ", "x ").replace("line 399999 ", "y "), "f").text
    assert far.endswith("… (too long to be compared further)")
    assert far.count("@@ -") == 1
    assert len(diff_texts("a" * 100_000, "b" * 100_000, "f").text) < 1200
