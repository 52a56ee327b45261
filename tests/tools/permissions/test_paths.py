"""Where paths lead, how that stands to the roots, and which patterns mean it."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unspool.kernel.errors import ToolError
from unspool.tools.files.root import Roots as FileRoots
from unspool.tools.permissions import Directories, Request
from unspool.tools.permissions.accesses import accesses_of
from unspool.tools.permissions.path_patterns import path_pattern
from unspool.tools.permissions.paths import locate


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A workspace ``w`` with links in and out, beside directories to read and of the host."""
    for name in ("w/src/deep", "w/..dots", "out", "lib", "state/w", "w-longer"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("w/src/a.py", "w/.env", "w/..dots/x", "out/secret", "lib/x.py", "w-longer/x"):
        (tmp_path / name).write_text("x")
    links = {
        "w/link_in": "src",
        "w/link_out": "../out",
        "w/link_abs": str(tmp_path / "out"),
        "w/link_file": "../out/secret",
        "w/link_new": "../out/new",
        "w/loop": "loop",
        "w/chain": "link_out",
        "alias": "w",
    }
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    return tmp_path


@pytest.fixture
def roots(base: Path) -> Directories:
    return Directories(
        base / "w",
        read=[base / "lib"],
        internal_write=[base / "state", base / "w" / ".agent"],
        internal_read=[base / "docs"],
        protected=[base / "state" / "log"],
    )


STANDINGS = {
    # path: reading, writing
    "src/a.py": ("inside", "inside"),
    "new/dir/file": ("inside", "inside"),
    ".": ("inside", "inside"),
    "": ("inside", "inside"),
    "..dots/x": ("inside", "inside"),
    "link_in/a.py": ("inside", "inside"),
    "src/../src/a.py": ("inside", "inside"),
    "../w/src/a.py": ("inside", "inside"),
    "{base}/w/src": ("inside", "inside"),
    "{base}/alias/src": ("inside", "inside"),
    "{base}//w/./src": ("inside", "inside"),
    ".agent/plan.md": ("inside", "inside"),  # the user's and the host's: a person is asked
    "..": ("outside", "outside"),
    "../out/secret": ("outside", "outside"),
    "../w-longer/x": ("outside", "outside"),
    "{base}/w-longer/x": ("outside", "outside"),
    "link_out/secret": ("outside", "outside"),
    "link_out/new": ("outside", "outside"),
    "link_abs/new": ("outside", "outside"),
    "link_file": ("outside", "outside"),
    "link_new": ("outside", "outside"),
    "chain/secret": ("outside", "outside"),
    "link_in/../../out/secret": ("outside", "outside"),
    "link_out/../w/src/a.py": ("inside", "inside"),  # the parent of where the link leads
    "/etc/passwd": ("outside", "outside"),
    "~/x": ("outside", "outside"),
    "~": ("outside", "outside"),
    "~x": ("inside", "inside"),  # a name like others
    "{base}/lib/x.py": ("inside", "read-only"),
    "../lib/new": ("inside", "read-only"),
    "{base}/state/plan.md": ("internal", "internal"),
    "{base}/docs/x": ("internal", "read-only"),
    "link_o\u200but/secret": ("outside", "outside"),  # a name that looks like the link is the link
    "link_o\u200but/../out/secret": ("outside", "outside"),
    "nosuch/../../out/secret": ("outside", "outside"),
}


@pytest.mark.parametrize("path", STANDINGS)
def test_how_a_path_stands_to_the_roots(path: str, base: Path, roots: Directories) -> None:
    place = locate(path.replace("{base}", str(base)), str(base / "w"))
    assert (roots.for_reading(place), roots.for_writing(place)) == STANDINGS[path]


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "loop", "loop/x", "a/" * 2049])
def test_what_is_no_path_is_an_error(path: str, base: Path) -> None:
    with pytest.raises(ValueError, match=r"NUL|surrogates|links|characters"):
        locate(path, str(base / "w"))


def test_protected_files_are_known_under_every_name(base: Path, roots: Directories) -> None:
    log = base / "state" / "log"
    assert roots.is_protected(locate(str(log), "/"))  # before it exists
    log.write_text("x")
    os.link(log, base / "w" / "innocent")
    (base / "w" / "by_link").symlink_to(log)
    for name in ("innocent", "by_link", "../state/log", "../state/./log"):
        assert roots.is_protected(locate(name, str(base / "w"))), name
    assert not roots.is_protected(locate("../state/log2", str(base / "w")))


PATTERNS = [
    # pattern, path, allows, restricts
    ("src/**", "src/a.py", True, True),
    ("src/**", "src/deep/x/y.py", True, True),
    ("src/**", "src", True, True),
    ("src/", "src/deep/x", True, True),
    ("./src/**", "src/a.py", True, True),
    ("src/*", "src/a.py", True, True),
    ("src/*", "src/deep/x", False, True),  # what restricts a directory holds for what is in it
    ("src", "src/a.py", False, True),
    ("src/**/*.py", "src/a.py", True, True),
    ("src/**/deep/**/*.py", "src/x/deep/y/z.py", True, True),
    ("src/**/deep/**/*.py", "src/x/y/z.py", False, False),
    ("**/deep/**", "src/deep/x", True, True),
    ("src/**", "other/src/a.py", False, False),
    ("src/*.py", "other/a.py", False, False),  # no base name anywhere
    ("*.py", "a.py", True, True),
    ("*.py", "src/deep/a.py", True, True),  # without a slash: a name at any depth
    (".env", ".env", True, True),
    (".env", "src/.env", True, True),
    (".env", ".ENV", False, True),
    (".env", ".e\u200bnv", True, True),  # as the file tools find it
    ("SRC/**", "src/a.py", False, True),
    ("{src,lib}/**", "src/a.py", True, True),
    ("[st]rc/?.py", "src/a.py", True, True),
    ("link_in/**", "src/a.py", False, True),  # the pattern's own links count
    ("src/**", "link_in/a.py", True, True),
    ("link_in/**", "link_in/a.py", False, True),
    ("link_in/*.py", "src/a.py", False, True),
    ("link_in/*.txt", "src/a.py", False, False),
    ("{base}/w/src/**", "src/a.py", True, True),
    ("{base}/alias/src/**", "src/a.py", False, True),
    ("/**", "src/a.py", True, True),
    ("/etc/**", "/etc/passwd", True, True),
    ("/etc", "/etc/passwd", False, True),
    ("~/.ssh/**", "~/.ssh/id", True, True),
    ("etc/**", "/etc/passwd", False, False),
    ("passwd", "/etc/passwd", False, True),
    ("../out/**", None, None, None),
    ("", None, None, None),
    ("src/" + "{a,b}" * 10, None, None, None),
]


@pytest.mark.parametrize(("pattern", "path", "allows", "restricts"), PATTERNS)
def test_what_a_pattern_means(
    pattern: str,
    path: str | None,
    allows: bool | None,
    restricts: bool | None,
    base: Path,
    roots: Directories,
) -> None:
    pattern = pattern.replace("{base}", str(base))
    if path is None:
        with pytest.raises(ToolError):
            path_pattern(pattern)
        return
    place = locate(path, str(base / "w"))
    compiled = path_pattern(pattern)
    assert (compiled.allows(place, roots), compiled.restricts(place, roots)) == (allows, restricts)


STEPS = st.sampled_from(
    [".", "", "src/..", "link_in/..", "sr\u200bc/..", "li\u200bnk_in/..", "link_in/deep/..", "..dots/../..", "../w", "..",
     "link_out/..", "src", "link_in", "nosuch/..", "alias", "w"]
)  # fmt: skip
ENDS = st.sampled_from(
    [
        "src/a.py",
        "a.py",
        ".env",
        ".e\u200bnv",
        " .env",
        "link_in/a.py",
        "sr\u200bc/a.py",
        "link_file",
        "..dots/x",
        "x",
        "x.py",
    ]
)
PATHS = st.builds(
    lambda start, steps, end: start + "/".join([*steps, end]),
    st.sampled_from(["", "@", "@./", "{base}/w/", "@{base}/w/"]),
    st.lists(STEPS, max_size=3),
    ENDS,
)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=PATHS)
def test_what_the_file_tools_open_is_what_was_judged(path: str, base: Path) -> None:
    path = path.replace("{base}", str(base))
    try:
        with FileRoots(base / "w", base / "lib").open_file(path) as file:
            opened = os.fstat(file.fileno())
    except ToolError:
        return
    request = Request(tool="read_file", capability="read", reads=(path,))
    places = [
        access.place.real for access in accesses_of(request, str(base / "w")) if access.place is not None
    ]
    assert any(os.path.samestat(os.stat(place), opened) for place in places if os.path.exists(place))
