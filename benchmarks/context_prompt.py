"""What the agents of the transcripts are told, and the tools they have."""

from collections.abc import Sequence

from unspool.kernel import ToolSpec

SYSTEM = """\
You are a coding agent. You work in the checkout of a Python project, with tools that read, search and edit its \
files and run commands in it, until what the user asks for is done.

How you work
- Look before you change anything: read the code that you are about to edit, and find out who uses it. Read files in \
windows when they are long. Do not guess what a file says.
- Make small edits. `old` must be the text of the file, character by character, and occur once; give as much of what \
surrounds it as makes it unique.
- After a change see that it compiles and that the tests which touch it pass. When they fail, read the output to the end.
- Ask for several things in one reply when none depends on another.
- Commit each finished piece of work with the ticket in front of the message: `CORE-1234: what was done`.
- Quote exactly: paths with line numbers, commits by the short hash that git shows, tests by their full dotted name.
- Leave alone what was not asked for: no reformatting, no renaming in passing, no new dependencies.

What you must not do
- Do not push, do not rewrite history, do not touch files outside the checkout.
- Do not change tests to make them pass.
- Do not say that something works when you have not run it.

How you answer
- Before calls, say in a sentence what you are after. When you are finished, say what was done and where, in a few \
lines, without praise and without repeating what the user knows.
- When something cannot be done, say what stands in the way.
"""

_PATH = {"type": "string", "description": "Path of the file, relative to the checkout."}


def _tool(name: str, description: str, optional: Sequence[str] = (), **fields: dict[str, str]) -> ToolSpec:
    required = [key for key in fields if key not in optional]
    return ToolSpec(
        name=name,
        description=description,
        schema={"type": "object", "properties": fields, "required": required, "additionalProperties": False},
    )


TOOLS = (
    _tool(
        "read_file",
        "Read a text file, or the lines from start to end of it. Each line comes with its number.",
        optional=("start", "end"),
        path=_PATH,
        start={"type": "integer", "description": "First line, from 1."},
        end={"type": "integer", "description": "Last line; without it, 400 lines are read."},
    ),
    _tool(
        "edit_file",
        "Replace text in a file. `old` must occur exactly once. Shows the place as it is afterwards.",
        path=_PATH,
        old={"type": "string", "description": "The text to replace, exactly as it is in the file."},
        new={"type": "string", "description": "What to put in its place."},
    ),
    _tool(
        "write_file",
        "Write a whole file; one that is there is replaced.",
        path=_PATH,
        content={"type": "string", "description": "All of the new content."},
    ),
    _tool(
        "grep",
        "Search Python and Markdown files for an extended regular expression. Gives path:line:text, sorted.",
        pattern={"type": "string", "description": "The regular expression."},
        path={"type": "string", "description": "The file or folder to search, `.` for everything."},
    ),
    _tool("list_dir", "List a folder; names of folders end with a slash.", path=_PATH),
    _tool(
        "bash",
        "Run a command with bash in the checkout. Standard output and standard error come together.",
        command={"type": "string", "description": "The command."},
    ),
)
