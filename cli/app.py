"""What can be said on the command line, and how it is checked before anything begins.

Read with: ``beginning.py`` and ``run.py`` (runs), ``places.py`` (which session is meant), ``reporting.py``.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, NoReturn

import typer

from unspool import __version__
from unspool.kernel.errors import AgentError, LogError
from unspool.kernel.hooks import Verdict
from unspool.kernel.json_edge import clean_text
from unspool.kernel.state import AgentState
from unspool.tools import Root, file_tools

from .approving import person
from .beginning import (
    Begun,
    ModelChoice,
    at_server,
    begun,
    continued,
    limits_of,
    make_model,
    missing_tools,
    with_tools,
)
from .context_replay import Wanted, check_wanted
from .context_replay import context_replay as replay_context
from .context_table import Prices
from .delete import delete as delete_session
from .demo import NOTICE, PROMPT, find_text, scripted_model
from .fork import fork as fork_session
from .ls import ls as list_sessions
from .output import complain, console, raw_stdout
from .places import Place, StoredSession, find, find_stored, has_session, open_store
from .replay import replay as replay_session
from .reporting import status_of, tell_warnings
from .resume import Wish
from .resume import resume as resume_session
from .run import CODING_SYSTEM, DEFAULT_SYSTEM, Job, perform
from .show import show as show_session
from .tail import tail as tail_session
from .toolset import NO_STORE, Toolset, ToolWish, check_wish, make_tools
from .tree import refuse_nested, show_tree
from .tree_checks import delete_tree, nested_below, replay_tree, verify_tree
from .verify import verify as verify_session
from .verify import verify_all
from .view import JsonView, TextView, View
from .written import show_written

app = typer.Typer(
    help="Run agents, and keep everything that happens as one stream of events.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

context_app = typer.Typer(
    help="What context managers show a model of a session.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(context_app, name="context")

RootOption = Annotated[str, typer.Option("--root", metavar="DIR", help="The folder the tools work in.")]
ToolsOption = Annotated[
    str,
    typer.Option(
        "--tools",
        metavar="SET",
        help="files: to look at files; coding: to change them and run commands, too; files if nothing is recorded.",
    ),
]
PermissionsOption = Annotated[
    str,
    typer.Option(
        "--permissions",
        metavar="MODE",
        help="What runs without a question: plan, default, accept-edits or bypass; default if nothing is recorded.",
    ),
]
AgentsOption = Annotated[
    str,
    typer.Option(
        "--agents", metavar="FOLDER", help="Agents to call, defined in the Markdown files of a folder."
    ),
]
SandboxOption = Annotated[
    bool, typer.Option("--sandbox", help="Run commands without network, and able to change the folder only.")
]
RuleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rule",
        metavar="RULE",
        help="allow, ask or deny and what, as 'allow Bash(git *)' or 'deny Edit(docs/**)'; more than once for more.",
    ),
]
LogOption = Annotated[
    str, typer.Option("--log", metavar="FILE", help="A new JSONL file for the run, in place of the store.")
]
StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="PATH",
        envvar="UNSPOOL_STORE",
        help="Where sessions are: a .db file, or a folder of JSONL files; .unspool/sessions.db if not given.",
    ),
]
ModelOption = Annotated[
    str,
    typer.Option(
        "-m",
        "--model",
        metavar="PROVIDER/MODEL",
        envvar="UNSPOOL_MODEL",
        help="Which model: anthropic/claude-sonnet-4-5, openai/gpt-5, …; local/NAME is a server on this machine.",
    ),
]
UrlOption = Annotated[
    str, typer.Option("--base-url", metavar="URL", help="Another server that speaks the provider's format.")
]
WindowOption = Annotated[
    int,
    typer.Option("--window", metavar="N", min=0, help="Tokens that the model takes; 0 if it is to be known."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object a line and nothing else.")]
TurnsOption = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Model calls at most; 100 if nothing else is recorded.")
]
PriceOption = Annotated[
    float | None,
    typer.Option(
        metavar="PRICE", min=0.0, help="Of a million tokens; --price-input if not given.", show_default=False
    ),
]
NestedOption = Annotated[
    bool,
    typer.Option("--nested", help="Go on with a nested session alone, without the one that it belongs to."),
]
SessionArgument = Annotated[
    str, typer.Argument(metavar="SESSION", help="Its id, the beginning of it, or a JSONL file.")
]
NewestArgument = Annotated[
    str,
    typer.Argument(
        metavar="LOG|SESSION", help="A JSONL file, an id or its beginning; the newest if not given."
    ),
]


def _refuse(text: str) -> NoReturn:
    complain(text)
    raise typer.Exit(2)


@contextmanager
def _refusing() -> Iterator[None]:
    """What keeps a run from beginning is told, and the command ends."""
    try:
        yield
    except AgentError as error:
        _refuse(str(error))


def _leave(act: Callable[[], int]) -> NoReturn:
    """End the command with what ``act`` comes to."""
    raise typer.Exit(status_of(act))


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
    tell_warnings()


# --- running -----------------------------------------------------------------------------------


@app.command()
def demo(
    root: RootOption = ".",
    log: LogOption = "",
    store: StoreOption = "",
    delay: Annotated[float, typer.Option(hidden=True, min=0.0)] = 0.0,
) -> None:
    """Watch a run that needs no key: a scripted model on real files."""
    with ExitStack() as stack:
        with _refusing():
            confined = Root(root)
            model = scripted_model(find_text(confined), delay)
            session = stack.enter_context(begun(file=log, store=store))
        job = Job(
            prompt=PROMPT,
            model=model,
            tools=Toolset(file_tools(confined)),
            log=session.log,
            view=TextView(console(), live=True),
            notice=NOTICE,
            ending=session.ending,
        )
        raise typer.Exit(perform(job))


@app.command()
def run(
    ctx: typer.Context,
    prompt: Annotated[str, typer.Argument(help="What to do; - reads it from standard input.")],
    model: ModelOption = "",
    base_url: UrlOption = "",
    window: WindowOption = 0,
    root: RootOption = ".",
    session: Annotated[
        str, typer.Option("--session", metavar="NAME", help="Go on with this session, or begin it.")
    ] = "",
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="A title for the session.")] = "",
    tools: ToolsOption = "",
    permissions: PermissionsOption = "",
    rule: RuleOption = None,
    sandbox: SandboxOption = False,
    agents: AgentsOption = "",
    store: StoreOption = "",
    log: LogOption = "",
    json: Annotated[bool, typer.Option("--json", help="Print one event a line and nothing else.")] = False,
    max_turns: TurnsOption = None,
    nested: NestedOption = False,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The system prompt.", show_default=False)
    ] = None,
) -> None:
    """Run an agent with a real model on the files of a folder."""
    text = _prompt(prompt)
    if session and log:
        _refuse("a run is stored by --log or in a --session, not both")
    if agents and log:
        _refuse(NO_STORE)
    with ExitStack() as stack:
        with _refusing():
            there = _existing(session, store) if session else None
            opened = stack.enter_context(continued(there, title)) if there else None
            if opened and not nested:
                refuse_nested(opened)
            choice = _choice(ctx, model, base_url, window)
            chat_model = make_model(choice, opened)
            wish = ToolWish(root, tools, permissions, tuple(rule or ()), sandbox, (store, log), agents)
            check_wish(wish)
            toolset = make_tools(wish, opened.state if opened else AgentState())
            opened = opened or stack.enter_context(begun(file=log, store=store, session=session, title=title))
            opened = with_tools(at_server(opened, choice), wish, toolset)
        settings = opened.settings
        beginning = DEFAULT_SYSTEM if toolset.coding is None else CODING_SYSTEM
        kept = settings.system if opened.state.runs else beginning
        job = Job(
            prompt=text,
            model=chat_model,
            tools=toolset,
            log=opened.log,
            view=_view(json),
            about=opened.about,
            notice=_notice(opened, missing_tools(settings, toolset)),
            ending=opened.ending,
            system=kept if system is None else clean_text(system),
            options=settings.options,
            limits=limits_of(settings, max_turns),
            state=opened.state,
        )
        raise typer.Exit(perform(job))


@app.command()
def resume(
    ctx: typer.Context,
    session: SessionArgument,
    calls: Annotated[
        list[str] | None,
        typer.Argument(metavar="CALL_ID", help="What --allow or --deny is for; all calls if not given."),
    ] = None,
    allow: Annotated[bool, typer.Option("--allow", help="Let calls run that wait for approval.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Do not let them run.")] = False,
    model: ModelOption = "",
    base_url: UrlOption = "",
    window: WindowOption = 0,
    root: RootOption = ".",
    tools: ToolsOption = "",
    permissions: PermissionsOption = "",
    rule: RuleOption = None,
    sandbox: SandboxOption = False,
    agents: AgentsOption = "",
    answer: Annotated[
        str,
        typer.Option("--answer", metavar="TEXT", help="The answer to a question of the model (ask_user)."),
    ] = "",
    store: StoreOption = "",
    json: Annotated[bool, typer.Option("--json", help="Print one event a line and nothing else.")] = False,
    max_turns: TurnsOption = None,
    nested: NestedOption = False,
) -> None:
    """Go on with a session that was interrupted or waits for approval."""
    if allow and deny:
        _refuse("resume: give --allow or --deny, not both")
    if answer and (allow or deny):
        _refuse("resume: give --answer, --allow or --deny, not two of them")
    if calls and not (allow or deny or answer):
        _refuse("resume: what of these calls? give --allow, --deny or --answer")
    with _refusing():
        wished = ToolWish(root, tools, permissions, tuple(rule or ()), sandbox, (store, session), agents)
        check_wish(wished)
        wish = Wish(
            model=_choice(ctx, model, base_url, window),
            tools=wished,
            verdict=Verdict.allow(by=person()) if allow else Verdict.deny(by=person()) if deny else None,
            answer=clean_text(answer),
            calls=calls or (),
            max_turns=max_turns,
            as_json=json,
            nested=nested,
        )
        raise typer.Exit(resume_session(find(session, store), wish))


# --- looking -----------------------------------------------------------------------------------


@app.command()
def ls(
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="NAME", help="Those of a namespace, and below it.")
    ] = None,
    sender: Annotated[str | None, typer.Option("--sender", metavar="NAME", help="Those of a sender.")] = None,
    limit: Annotated[int | None, typer.Option("-n", metavar="N", min=1, help="That many.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Nested sessions, too.")] = False,
    store: StoreOption = "",
    json: JsonOption = False,
) -> None:
    """List the sessions, the newest first; nested ones are in the tree of theirs (show --tree)."""

    def act() -> int:
        try:
            sessions = open_store(store)
        except LogError as error:
            if store or error.details.get("kind") != "no_store":
                raise
            return 0  # nothing was ever kept here
        with sessions:
            return list_sessions(
                sessions,
                namespace=namespace,
                sender=sender,
                limit=limit,
                everything=everything,
                as_json=json,
            )

    _leave(act)


@app.command()
def show(
    log: NewestArgument = "",
    as_written: Annotated[
        bool, typer.Option("--as-written", help="The messages, also those that were replaced since.")
    ] = False,
    tree: Annotated[bool, typer.Option("--tree", help="The session and those below it, one a line.")] = False,
    store: StoreOption = "",
    json: Annotated[bool, typer.Option("--json", help="Print one fact a line, as stored.")] = False,
) -> None:
    """Print a session as its runs were; a damaged one up to the damage."""
    if tree and as_written:
        _refuse("show: give --tree or --as-written, not both")
    act = show_tree if tree else show_written if as_written else show_session
    _leave(lambda: _at(find(log, store), lambda place: act(place, as_json=json)))


@app.command()
def tail(
    log: NewestArgument = "",
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    count: Annotated[int, typer.Option("-n", metavar="N", min=0, help="How many.")] = 10,
    store: StoreOption = "",
    json: Annotated[bool, typer.Option("--json", help="Print one fact a line, as stored.")] = False,
) -> None:
    """Print the last facts of a session, one a line."""
    _leave(
        lambda: _at(find(log, store), lambda place: tail_session(place, count, follow=follow, as_json=json))
    )


# --- keeping -----------------------------------------------------------------------------------


@app.command()
def fork(
    session: SessionArgument,
    at: Annotated[
        int | None,
        typer.Option("--at", metavar="SEQ", min=0, help="The last fact to share; all if not given."),
    ] = None,
    before: Annotated[
        str, typer.Option("--before", metavar="RUN_ID|MESSAGE_ID", help="Share what came before it.")
    ] = "",
    to: Annotated[
        str, typer.Option("--to", metavar="NAME", help="The new session's id; random if not given.")
    ] = "",
    store: StoreOption = "",
    json: JsonOption = False,
) -> None:
    """Begin a session that shares the facts of another one."""
    if at is not None and before:
        _refuse("fork: give --at or --before, not both")
    _leave(
        lambda: _at(
            find(session, store),
            lambda place: fork_session(place, at=at, before=before, to=to, as_json=json),
        )
    )


@app.command()
def verify(
    log: Annotated[
        str,
        typer.Argument(metavar="LOG|SESSION", help="A JSONL file, an id or its beginning; all if not given."),
    ] = "",
    head: Annotated[
        str, typer.Option("--head", metavar="SEQ:HASH", help="What verify once said, kept elsewhere.")
    ] = "",
    repair: Annotated[bool, typer.Option("--repair", help="Cut off a torn last line; nothing else.")] = False,
    tree: Annotated[bool, typer.Option("--tree", help="Those below it, too, and how they fit.")] = False,
    store: StoreOption = "",
    json: JsonOption = False,
) -> None:
    """Say whether sessions are what was written, or what is damaged."""
    if head and not log:
        _refuse("verify: --head is for one session, name it")
    if tree and (head or not log):
        _refuse("verify: --tree is for a session that is named, without --head")

    def act() -> int:
        if tree:
            return _at(find(log, store), lambda place: verify_tree(place, repair=repair, as_json=json))
        if log:
            return _at(
                find(log, store),
                lambda place: verify_session(place, head or None, repair=repair, as_json=json),
            )
        with open_store(store) as sessions:
            return verify_all(sessions, repair=repair, as_json=json)

    _leave(act)


@app.command()
def replay(
    log: NewestArgument = "",
    live_tools: Annotated[
        bool, typer.Option("--live-tools", help="Really run the tools, on the folder of --root.")
    ] = False,
    model: Annotated[
        str,
        typer.Option(
            "-m", "--model", metavar="PROVIDER/MODEL", help="A model to ask in place of the recorded."
        ),
    ] = "",
    base_url: UrlOption = "",
    root: RootOption = ".",
    tree: Annotated[bool, typer.Option("--tree", help="Those below it, too, each by itself.")] = False,
    store: StoreOption = "",
    json: JsonOption = False,
) -> None:
    """Run a session again and say where it first comes out otherwise."""
    if base_url and not model:
        _refuse("replay: --base-url is for another model: give it with -m")
    if tree and (live_tools or model):
        _refuse("replay: --tree is for what is recorded, without --live-tools and -m")
    with _refusing():
        wish = ToolWish(root) if live_tools else None
        if wish is not None:
            check_wish(wish)
        asked = make_model(ModelChoice(name=model, base_url=base_url), None) if model else None

    def act(place: Place) -> int:
        if tree:
            return replay_tree(place, as_json=json)
        return replay_session(place, tools=wish, model=asked, as_json=json)

    _leave(lambda: _at(find(log, store), act))


@context_app.command("replay")
def context_replay(
    log: NewestArgument = "",
    with_: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="MANAGER",
            help="none, default, keep_turns:N, keep_tokens:N, clear:N or MODULE:FACTORY; more than once for more.",
        ),
    ] = None,
    window: Annotated[
        int, typer.Option(metavar="TOKENS", min=0, help="Their window; the recorded one if not given.")
    ] = 0,
    price_input: PriceOption = None,
    price_cached: PriceOption = None,
    price_write: PriceOption = None,
    price_output: PriceOption = None,
    svg: Annotated[str, typer.Option(metavar="FILE", help="Plot the tokens over the calls.")] = "",
    png: Annotated[str, typer.Option(metavar="FILE", help="The same as PNG.")] = "",
    store: StoreOption = "",
    json: JsonOption = False,
) -> None:
    """Project a session again under other context managers, without a model."""
    others = (price_cached, price_write, price_output)
    if price_input is None and others != (None, None, None):
        _refuse("context: the other prices need --price-input")
    prices = None if price_input is None else Prices.given(price_input, *others)
    wanted = Wanted(with_ or (), window, prices, svg, png, json)
    with _refusing():
        check_wanted(wanted)
    _leave(lambda: _at(find(log, store), lambda place: replay_context(place, wanted)))


@app.command()
def delete(
    session: Annotated[
        str, typer.Argument(metavar="SESSION", help="Its id; of a random one, 8 characters or more.")
    ],
    forks: Annotated[bool, typer.Option("--forks", help="And what was forked from it.")] = False,
    tree: Annotated[bool, typer.Option("--tree", help="And those below it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    store: StoreOption = "",
    json: JsonOption = False,
) -> None:
    """Delete a session."""

    def act() -> int:
        with find_stored(session, store) as place:
            if tree:
                return delete_tree(place, forks=forks, sure=yes, as_json=json)
            if below := nested_below(place):
                _refuse(f"delete: {place.name} has nested sessions, {below} in all: give --tree")
            return delete_session(place, forks=forks, sure=yes, as_json=json)

    _leave(act)


def _prompt(given: str) -> str:
    text = given
    if given == "-":
        text = sys.stdin.buffer.read().decode("utf-8", errors="replace") if sys.stdin else ""
    if not text.strip():
        _refuse("the prompt is empty")
    return clean_text(text)


def _view(as_json: bool) -> View:
    return JsonView(raw_stdout()) if as_json else TextView(console(), live=True)


def _choice(ctx: typer.Context, name: str, base_url: str, window: int) -> ModelChoice:
    source = ctx.get_parameter_source("model")
    preset = source is not None and source.name == "ENVIRONMENT"
    return ModelChoice(name, preset=preset, base_url=base_url, window=window)


def _existing(session: str, store: str) -> Place | None:
    """The session of that very name; None where it is to be begun."""
    try:
        sessions = open_store(store)
    except LogError as error:
        if error.details.get("kind") == "no_store":
            return None
        raise
    if has_session(sessions, session):
        return StoredSession(sessions, session)
    sessions.close()
    return None


def _notice(opened: Begun, missing: str) -> str:
    interrupted = (
        "the last run was interrupted: what it left open is closed first" if opened.state.active else ""
    )
    return "\n".join([text for text in (interrupted, missing) if text])


def _at(place: Place, act: Callable[[Place], int]) -> int:
    with place:
        return act(place)
