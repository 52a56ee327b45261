"""What can be said on the command line, and how it is checked before anything begins.

Read with: ``run.py``, ``demo.py``, ``show.py``.
"""

import sys
from typing import Annotated, NoReturn

import typer

from unspool import __version__
from unspool.kernel.errors import AgentError, LogError
from unspool.kernel.json_edge import clean_text
from unspool.kernel.limits import Limits
from unspool.llm import resolve_model
from unspool.tools import Root, file_tools
from unspool.trajectory import JsonlLog

from .demo import NOTICE, PROMPT, find_text, scripted_model
from .output import complain, console, raw_stdout
from .run import DEFAULT_SYSTEM, Job, default_log_path, open_log, perform
from .show import show_log
from .view import JsonView, TextView

app = typer.Typer(
    help="Run agents, and keep everything that happens as one stream of events.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

RootOption = Annotated[str, typer.Option("--root", metavar="DIR", help="The folder the tools look at.")]
LogOption = Annotated[
    str,
    typer.Option(
        "--log", metavar="FILE", help="A new file for the trajectory; if not given, one in .unspool/runs."
    ),
]


def _refuse(text: str) -> NoReturn:
    complain(text)
    raise typer.Exit(2)


def _open_root(path: str) -> Root:
    try:
        return Root(path)
    except AgentError as error:
        _refuse(str(error))


def _open_log(path: str, kind: str) -> JsonlLog:
    try:
        return open_log(path or default_log_path(kind))
    except LogError as error:
        _refuse(str(error))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unspool {__version__}")
        raise typer.Exit


@app.callback()
def _app(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run agents, and keep everything that happens as one stream of events."""


@app.command()
def demo(
    root: RootOption = ".",
    log: LogOption = "",
    delay: Annotated[float, typer.Option(hidden=True, min=0.0)] = 0.0,
) -> None:
    """Watch a run that needs no key and no network: a scripted model, real tools, real files."""
    confined = _open_root(root)
    model = scripted_model(find_text(confined), delay)
    trajectory = _open_log(log, "demo")
    view = TextView(console(), live=True)
    tools = file_tools(confined)
    raise typer.Exit(
        perform(Job(prompt=PROMPT, model=model, tools=tools, log=trajectory, view=view, notice=NOTICE))
    )


@app.command()
def run(
    prompt: Annotated[str, typer.Argument(help="What to do; - reads it from standard input.")],
    model: Annotated[
        str,
        typer.Option("-m", "--model", metavar="PROVIDER/MODEL", envvar="UNSPOOL_MODEL", help="Which model."),
    ] = "",
    base_url: Annotated[
        str, typer.Option(metavar="URL", help="Another server that speaks the OpenAI format.")
    ] = "",
    root: RootOption = ".",
    log: LogOption = "",
    json: Annotated[bool, typer.Option("--json", help="Print one event a line and nothing else.")] = False,
    max_turns: Annotated[int, typer.Option(metavar="N", min=1, help="Model calls at most.")] = 100,
    system: Annotated[
        str, typer.Option(metavar="TEXT", help="The system prompt.", show_default=False)
    ] = DEFAULT_SYSTEM,
) -> None:
    """Run an agent with a real model on the files of a folder."""
    text = _prompt(prompt)
    if not model:
        _refuse("no model: give -m provider/model or set UNSPOOL_MODEL")
    try:
        chat_model = resolve_model(model, base_url=base_url or None)
    except AgentError as error:
        _refuse(str(error))
    tools = file_tools(_open_root(root))
    trajectory = _open_log(log, "run")
    job = Job(
        prompt=text,
        model=chat_model,
        tools=tools,
        log=trajectory,
        view=JsonView(raw_stdout()) if json else TextView(console(), live=True),
        system=clean_text(system),
        limits=Limits(turns=max_turns),
    )
    raise typer.Exit(perform(job))


@app.command()
def show(
    log: Annotated[str, typer.Argument(metavar="LOG", help="A trajectory.")],
    json: Annotated[bool, typer.Option("--json", help="Print one fact a line, as stored.")] = False,
) -> None:
    """Print a trajectory; a damaged one up to the damage."""
    raise typer.Exit(show_log(log, as_json=json))


def _prompt(given: str) -> str:
    text = given
    if given == "-":
        text = sys.stdin.buffer.read().decode("utf-8", errors="replace") if sys.stdin else ""
    if not text.strip():
        _refuse("the prompt is empty")
    return clean_text(text)
