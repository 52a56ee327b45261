"""``python``: what a call shows, and what stays for the next one."""

import base64
import os
from pathlib import Path

import pytest

from unspool.kernel.messages import Image

from .conftest import Call, text_of

pytestmark = pytest.mark.anyio

SHOWN = {  # calls in order: what the last one shows
    "the last value": (["1 + 1"], "2"),
    "no value": (["x = 1"], "[no output]"),
    "none": (["None"], "[no output]"),
    "empty": ([""], "[no output]"),
    "only a comment": (["# nothing"], "[no output]"),
    "variables stay": (["x = 20\ndef f(): return x + 1", "f()"], "21"),
    "imports stay": (["import math", "math.floor(2.5)"], "2"),
    "the last value has a name": (["'abc'", "_.upper()"], "'ABC'"),
    "printed and value": (["print('a')\n'b'"], "a\n'b'"),
    "only the last value": (["1\n2\n3"], "3"),
    "unicode": (["print('grüße 日本')\n'ü'"], "grüße 日本\n'ü'"),
    "a lone surrogate": (["print('\\ud800')"], "\\ud800"),
    "no newline": (["print('a', end='')"], "a"),
    "both streams in order": (
        [
            "import sys\nfor n in range(3):\n print(n, end='')\n print('e', n, file=sys.stderr)",
            "_ = sys.stderr.write('x')\nprint('y')",
        ],
        "xy",
    ),
    "both streams": (
        ["import sys\nfor n in 'ab':\n print(n, end='')\n print('e', file=sys.stderr)"],
        "ae\nbe",
    ),
    "other processes too": (
        ["import subprocess\nprint('a')\n_ = subprocess.run('echo b; echo c >&2', shell=True)\nprint('d')"],
        "a\nb\nc\nd",
    ),
    "await": (["import asyncio\nawait asyncio.sleep(0)\nawait asyncio.sleep(0, 'slept')"], "'slept'"),
    "nothing to type in": (["try:\n  input()\nexcept EOFError:\n  print('end')"], "end"),
    "where": (["import os\nos.path.basename(os.getcwd())"], "'a röot'"),
    "modules of the root": (["open('mod.py', 'w').write('y = 5')", "import mod\nmod.y"], "5"),
    "pickle": (
        ["class A: pass", "import pickle\ntype(pickle.loads(pickle.dumps(A()))).__name__"],
        "'A'",
    ),
    "threads": (
        ["import threading\nt = threading.Thread(target=print, args=('t',))\nt.start()\nt.join()"],
        "t",
    ),
    "a fork that comes back": (["import os\nif os.fork():\n  os.wait()", "1"], "1"),
    "after a bad call": (["x = 1", "1 / 0", "x"], "1"),
    "after a lost stream": (["import sys\nsys.stdout = None", "5"], "5"),
    "a closed stream": (["import sys\nsys.stdout.close()"], "the output was closed, and is open again"),
    "after a closed stream": (["x = 1\nimport sys\nsys.stdout.close()", "print(x)"], "1"),
    "after closed descriptors": (["x = 1\nimport os\nos.close(1)\nos.close(2)", "print(x)"], "1"),
    "after forks that go on": (["x = 1\nimport os\n_ = os.fork() and os.wait()", "x"], "1"),
}


@pytest.mark.parametrize("case", SHOWN)
async def test_what_is_shown(call: Call, case: str) -> None:
    codes, shown = SHOWN[case]
    *before, last = codes
    for code in before:
        await call(code)
    result = await call(last)
    assert shown is None or text_of(result).partition("\n[files written")[0] == shown


ERRORS = {  # code: the class of the error, and all of what is shown
    "1 / 0": (
        "ZeroDivisionError",
        'Traceback (most recent call last):\n  File "<call 1>", line 1, in <module>\n',
    ),
    "def f():\n  g()\ndef g():\n  raise ValueError('no')\nf()": ("ValueError", "ValueError: no"),
    "x = (": ("SyntaxError", '  File "<call 1>", line 1\n    x = (\n        ^\nSyntaxError: '),
    "exit(3)": ("SystemExit", "SystemExit: 3"),
    "raise KeyboardInterrupt": ("KeyboardInterrupt", "KeyboardInterrupt"),
    "def f(): f()\nf()": ("RecursionError", "maximum recursion depth exceeded"),
    "class E(Exception):\n  def __str__(self): 1/0\nraise E": ("E", "E: <exception str() failed>"),
    "try:\n  1/0\nexcept Exception as e:\n  raise KeyError('k') from e": ("KeyError", "was the direct cause"),
}


@pytest.mark.parametrize("code", ERRORS)
async def test_errors(call: Call, code: str) -> None:
    kind, shown = ERRORS[code]
    result = await call(code)
    assert (result.is_error, result.details["error"]) == (True, kind)
    text = text_of(result)
    assert shown in text
    assert "<string>" not in text, "frames of the worker are not shown"
    assert len(text) < 5000
    assert text_of(await call("6 * 7")) == "42"


async def test_files_are_told(call: Call, root: Path) -> None:
    (root / "old").write_text("x")
    os.utime(root / "old", (1, 1))
    result = await call(
        "import os\nos.mkdir('d')\nfor n in 'ab': open(f'd/{n}', 'w').write('12')\nx = open('old').read()"
    )
    assert text_of(result) == "[files written: d/a (2 B), d/b (2 B)]"
    assert result.details["files"] == [{"path": "d/a", "size": 2}, {"path": "d/b", "size": 2}]
    assert text_of(await call("for n in range(30): open(f'f{n:02}', 'w').close()")).endswith(
        "f19 (0 B)]\n[there may be more files written: not all were looked at]"
    )


async def test_much_output_is_cut_in_the_middle(call: Call) -> None:
    result = await call("for n in range(100_000): print(n, 'x' * 90)")
    text = text_of(result)
    assert text.startswith("0 xxx")
    assert text.endswith(f"99999 {'x' * 90}")
    assert "MB of output left out here]" in text
    assert len(text) < 45_000
    assert result.details["output_bytes"] > 9_000_000
    assert len(text_of(await call("'y' * 10_000_000"))) < 45_000


async def test_output_of_the_background_comes_with_the_next_call(call: Call) -> None:
    await call("import os, subprocess\nr, w = os.pipe()")
    await call("p = subprocess.Popen(f'cat <&{r}; echo later', shell=True, pass_fds=[r])")
    assert text_of(await call("os.close(w)\np.wait()")) == "later\n0"


async def test_figures_are_images(call: Call) -> None:
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    result = await call(
        "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])\nplt.show()\nprint('drawn')", timeout=120
    )
    assert isinstance(result.content, list)
    image = result.content[1]
    assert isinstance(image, Image)
    assert base64.b64decode(image.data or "").startswith(b"\x89PNG")
    assert text_of(await call("len(plt.get_fignums())")) == "0"
