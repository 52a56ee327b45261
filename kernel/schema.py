"""What is wrong with a call's arguments, in lines a model can act on.

Two sources, one format: ``schema_problems`` (raw JSON Schema, checked by jsonschema_rs) and
``Problem`` values that other checkers make. Nothing is coerced here; ``3.0`` is an integer, as
JSON Schema says. jsonschema_rs is loaded with the first schema, never by an import of unspool.

Read with: ``function_tool.py`` (problems found by pydantic), ``tests/kernel/test_schema.py``.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .errors import ToolDefinitionError
from .json_edge import encode_text, json_type
from .ports import JSON

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

Path: TypeAlias = tuple[str | int, ...]

MISSING, TYPE, VALUE, UNKNOWN = range(4)  # the order in which problems are told

_MAX_LINES = 20
_MAX_OPTIONS = 20
_MAX_CHARS = 300  # of one line: arguments and schemas may hold anything
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ENCODED = {"array": ("[", "]"), "object": ("{", "}")}


class Problem(NamedTuple):
    """One thing wrong at ``path``; ``expected`` are JSON types where ``kind`` is ``TYPE``."""

    kind: int
    path: Path
    text: str = ""
    expected: tuple[str, ...] = ()
    value: Any = None


def compile_schema(schema: JSON, tool: str) -> "Validator":
    """A validator for the arguments of ``tool``; keep it beside the schema, compiling is slow.

    An empty schema stands for any object. References are resolved inside the schema only: none
    is ever fetched.

    Raises:
        ToolDefinitionError: not a valid JSON Schema, or not one of an object.
    """
    import jsonschema_rs  # noqa: PLC0415  # 50 ms that an import of unspool must not cost

    if schema and schema.get("type") != "object":
        raise ToolDefinitionError(
            "tool: the schema of the arguments must have type 'object'", tool=tool, type=schema.get("type")
        )
    try:
        return jsonschema_rs.validator_for(dict(schema), retriever=_fetch_nothing, mask="value")
    except ValueError as error:  # ValidationError and ReferencingError are ValueErrors
        reason = str(error).partition("\n")[0]
        raise ToolDefinitionError("tool: not a valid JSON Schema", tool=tool, reason=reason) from error


def _fetch_nothing(uri: str) -> Any:
    raise ValueError(f"references outside the schema are not followed: {uri}")


def schema_problems(validator: "Validator", args: JSON) -> tuple[str, ...]:
    """What is wrong with ``args``, one line each; empty when they fit.

    ``$.path: missing`` before ``$.x: expected string, got integer`` before ``$.m: not one of
    "a", "b"`` before ``$.z: unknown``, each kind by path.
    """
    instance = args if type(args) is dict else dict(args)
    if validator.is_valid(instance):
        return ()
    return problem_lines(problem for error in validator.iter_errors(instance) for problem in _problems(error))


def problem_lines(problems: Iterable[Problem]) -> tuple[str, ...]:
    """Problems as lines, in their fixed order, without repetitions; at most 20 and a count."""
    merged = _merge_types(problems)
    mistyped = {problem.path for problem in merged if problem.kind == TYPE}
    ranked = {
        (problem.kind, path_text(problem.path), _line(problem))
        for problem in merged
        if problem.kind != VALUE or problem.path not in mistyped
    }
    lines = [line for *_, line in sorted(ranked)]
    if len(lines) > _MAX_LINES:
        lines[_MAX_LINES:] = [f"and {len(lines) - _MAX_LINES} more"]
    return tuple(lines)


def _merge_types(problems: Iterable[Problem]) -> list[Problem]:
    """The problems, with all type problems of one path as one."""
    types: dict[Path, Problem] = {}
    others = []
    for problem in problems:
        if problem.kind != TYPE:
            others.append(problem)
            continue
        first = types.setdefault(problem.path, problem)
        types[problem.path] = first._replace(expected=first.expected + problem.expected)
    return [*types.values(), *others]


def _line(problem: Problem) -> str:
    text = {MISSING: "missing", TYPE: _type_text(problem), UNKNOWN: "unknown"}.get(problem.kind, problem.text)
    line = f"{path_text(problem.path)}: {text}"
    return line if len(line) <= _MAX_CHARS else line[: _MAX_CHARS - 1] + "…"


def _type_text(problem: Problem) -> str:
    expected = sorted(set(problem.expected), key=lambda name: (name == "null", name))
    text = f"expected {' or '.join(expected)}, got {json_type(problem.value)}"
    stripped = problem.value.strip() if isinstance(problem.value, str) else ""
    for name in expected:
        first, last = _ENCODED.get(name, ("\0", ""))
        if stripped.startswith(first) and stripped.endswith(last):
            return f"{text} (it looks like a JSON-encoded {name}: send the {name} itself)"
    return text


def path_text(path: Path) -> str:
    """A path as ``$.name[0]["odd key"]``."""
    return "$" + "".join(_step_text(step) for step in path)


def _step_text(step: str | int) -> str:
    if isinstance(step, str):
        return f".{step}" if _PLAIN_KEY.fullmatch(step) else f"[{encode_text(step)}]"
    return f"[{step}]"


def not_one_of(options: Sequence[Any]) -> str:
    """``not one of "a", "b"``; a long list is cut."""
    shown = ", ".join(encode_text(option) for option in options[:_MAX_OPTIONS])
    return f"not one of {shown}{', …' if len(options) > _MAX_OPTIONS else ''}"


def _problems(error: "ValidationError") -> Iterator[Problem]:
    from jsonschema_rs import ValidationErrorKind as Kind  # noqa: PLC0415  # loaded by compile_schema

    path: Path = tuple(error.instance_path)
    match error.kind:
        case Kind.Required(property=name):
            yield Problem(MISSING, (*path, name))
        case Kind.Type(types=types):
            yield Problem(TYPE, path, expected=tuple(types), value=error.instance)
        case Kind.Enum(options=options):
            yield Problem(VALUE, path, not_one_of(options))
        case Kind.Constant(expected_value=value):
            yield Problem(VALUE, path, not_one_of([value]))
        case Kind.AdditionalProperties(unexpected=names) | Kind.UnevaluatedProperties(unexpected=names):
            yield from (Problem(UNKNOWN, (*path, name)) for name in names)
        case Kind.FalseSchema():
            yield Problem(UNKNOWN, path)
        case Kind.AnyOf(context=branches) | Kind.OneOfNotValid(context=branches):
            yield from _branch_problems(path, branches)
        case _:
            yield Problem(VALUE, path, error.message)


def _branch_problems(path: Path, branches: Sequence[Sequence["ValidationError"]]) -> Iterator[Problem]:
    """Problems of a value that fits no branch of a union.

    The types of all branches where each wants another type; the details of the one branch whose
    type fits; one vague line where several come close, rather than details that contradict.
    """
    found = [[problem for error in branch for problem in _problems(error)] for branch in branches]
    close = [b for b in found if not any(p.kind == TYPE and p.path == path for p in b)]
    if not close:
        yield from (p for branch in found for p in branch if p.kind == TYPE and p.path == path)
    elif len(close) == 1:
        yield from close[0]
    elif all(p.kind == VALUE and p.path == path for branch in close for p in branch):
        yield Problem(VALUE, path, "; or ".join(dict.fromkeys(p.text for branch in close for p in branch)))
    else:
        yield Problem(VALUE, path, "fits none of the allowed forms")
