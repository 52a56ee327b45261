"""What is wrong with a call's arguments, in words a model can act on.

Two sources, one format: ``schema_issues`` (raw JSON Schema, checked by jsonschema_rs) and
``pydantic_issues``. Nothing is coerced; ``3.0`` is an integer, as JSON Schema says.
jsonschema_rs is loaded with the first schema, never by an import of unspool.

Read with: ``ports.py`` (``ValidationIssue``), ``function_tool.py`` (who asks pydantic),
``tests/kernel/test_schema.py``.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from .errors import ToolDefinitionError
from .json_edge import encode_text, json_type
from .ports import JSON, ValidationIssue

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator
    from pydantic import ValidationError as PydanticError

Path: TypeAlias = tuple[str | int, ...]

MISSING, TYPE, VALUE, UNKNOWN = range(4)  # the order in which problems are told

_KINDS: tuple[Literal["missing", "type", "value", "unknown"], ...] = ("missing", "type", "value", "unknown")

_MAX_ISSUES = 20
_MAX_OPTIONS = 20
_MAX_CHARS = 300  # of one line: arguments and schemas may hold anything
_MIN_PATH = 100  # characters of a path that stay, however long the message
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ENCODED = {"array": ("[", "]"), "object": ("{", "}")}


class Problem(NamedTuple):
    """One thing wrong at ``path``.

    ``expected`` are the JSON types or the values that were possible, ``value`` is what came
    instead of a type, ``text`` says in words what no list can.
    """

    kind: int
    path: Path
    text: str = ""
    expected: tuple[Any, ...] = ()
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
        place = path_text(tuple(getattr(error, "instance_path", ())))
        raise ToolDefinitionError(
            "tool: not a valid JSON Schema", tool=tool, place=place, reason=reason
        ) from error


def _fetch_nothing(uri: str) -> Any:
    raise ValueError(f"references outside the schema are not followed: {uri}")


def schema_issues(validator: "Validator", args: JSON) -> tuple[ValidationIssue, ...]:
    """What is wrong with ``args``; empty when they fit.

    ``$.path: missing`` before ``$.x: expected string, got integer`` before ``$.m: not one of
    "a", "b"`` before ``$.z: unknown``, each kind by path.
    """
    instance = args if type(args) is dict else dict(args)
    if validator.is_valid(instance):
        return ()
    return _issues(problem for error in validator.iter_errors(instance) for problem in _problems(error))


def _issues(problems: Iterable[Problem]) -> tuple[ValidationIssue, ...]:
    """Problems as they are told, in their fixed order, without repetitions; at most 20 and a count."""
    merged = _merge(problems)
    mistyped = {problem.path for problem in merged if problem.kind == TYPE}
    ranked: dict[tuple[int, str, str], ValidationIssue] = {}
    for problem in merged:
        if problem.kind != VALUE or problem.path not in mistyped:
            issue = _issue(problem)
            ranked[problem.kind, path_text(problem.path), issue.message] = issue
    issues = [ranked[rank] for rank in sorted(ranked)]
    if len(issues) > _MAX_ISSUES:
        more = f"and {len(issues) - _MAX_ISSUES} more"
        issues[_MAX_ISSUES:] = [ValidationIssue(kind="value", path="$", message=more)]
    return tuple(issues)


def _merge(problems: Iterable[Problem]) -> list[Problem]:
    """The problems, with what was expected at one path brought together: types, and values."""
    lists: dict[tuple[int, Path], Problem] = {}
    others = []
    for problem in problems:
        key = (problem.kind, problem.path)
        if not problem.expected:
            others.append(problem)
        elif key in lists:
            lists[key] = lists[key]._replace(expected=lists[key].expected + problem.expected)
        else:
            lists[key] = problem
    return [*lists.values(), *others]


def _issue(problem: Problem) -> ValidationIssue:
    if problem.kind == TYPE:
        return _type_issue(problem)
    if problem.kind == VALUE and problem.expected:
        options = _options_json(problem.expected)
        more = ", …" if len(problem.expected) > _MAX_OPTIONS else ""
        return _bounded(problem, f"not one of {', '.join(options)}{more}", options)
    return _bounded(problem, problem.text if problem.kind == VALUE else _KINDS[problem.kind])


def _type_issue(problem: Problem) -> ValidationIssue:
    expected = sorted(set(problem.expected), key=lambda name: (name == "null", name))
    received = json_type(problem.value)
    message = f"expected {' or '.join(expected)}, got {received}"
    return _bounded(problem, message, tuple(expected), received, _hint(expected, problem.value))


def _hint(expected: Sequence[str], value: Any) -> str:
    """What to do about a value of another type; empty when nothing is known."""
    stripped = value.strip() if isinstance(value, str) else ""
    for name in expected:
        first, last = _ENCODED.get(name, ("\0", ""))
        if stripped.startswith(first) and stripped.endswith(last):
            return f"it looks like a JSON-encoded {name}: send the {name} itself"
    return ""


def _bounded(
    problem: Problem, message: str, expected: tuple[str, ...] = (), received: str = "", hint: str = ""
) -> ValidationIssue:
    """The issue, with its path and its message cut where its line would be too long."""
    fixed = len(": ") + (len(f" ({hint})") if hint else 0)
    path = _cut(path_text(problem.path), max(_MAX_CHARS - fixed - len(message), _MIN_PATH))
    return ValidationIssue(
        kind=_KINDS[problem.kind],
        path=path,
        message=_cut(message, _MAX_CHARS - fixed - len(path)),
        expected=expected,
        received=received,
        hint=hint,
    )


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1] + "…"


def path_text(path: Path) -> str:
    """A path as ``$.name[0]["odd key"]``."""
    return "$" + "".join(_step_text(step) for step in path)


def _step_text(step: str | int) -> str:
    if isinstance(step, str):
        return f".{step}" if _PLAIN_KEY.fullmatch(step) else f"[{encode_text(step)}]"
    return f"[{step}]"


def _options_json(options: Sequence[Any]) -> tuple[str, ...]:
    """The first options as JSON, each once and none endless."""
    texts = dict.fromkeys(encode_text(option) for option in options[:_MAX_OPTIONS])
    return tuple(_cut(text, _MAX_CHARS) for text in texts)


def _problems(error: "ValidationError") -> Iterator[Problem]:
    from jsonschema_rs import ValidationErrorKind as Kind  # noqa: PLC0415  # loaded by compile_schema

    path: Path = tuple(error.instance_path)
    match error.kind:
        case Kind.Required(property=name):
            yield Problem(MISSING, (*path, name))
        case Kind.Type(types=types):
            yield Problem(TYPE, path, expected=tuple(types), value=error.instance)
        case Kind.Enum(options=options):
            yield Problem(VALUE, path, expected=tuple(options))
        case Kind.Constant(expected_value=value):
            yield Problem(VALUE, path, expected=(value,))
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
    type, or whose tag, fits; one vague line where several come close, rather than details that
    contradict each other.
    """
    found = [[problem for error in branch for problem in _problems(error)] for branch in branches]
    close = [b for b in found if not any(p.kind == TYPE and p.path == path for p in b)]
    tagged = [b for b in close if not any(p.kind == VALUE and p.path[:-1] == path for p in b)]
    if not close:
        yield from (p for branch in found for p in branch if p.kind == TYPE and p.path == path)
    elif len(close) == 1 or len(tagged) == 1:
        yield from (close if len(close) == 1 else tagged)[0]
    elif len({(p.kind, p.path) for branch in close for p in branch}) == 1:
        yield from (p for branch in close for p in branch)
    else:
        yield Problem(VALUE, path, "fits none of the allowed forms")


# --- what pydantic found -----------------------------------------------------------------------

_PYDANTIC_TYPES = {
    "integer": "int_type int_parsing int_from_float",
    "number": "float_type float_parsing decimal_type",
    "string": "string_type bytes_type date_type datetime_type time_type time_delta_type uuid_type url_type",
    "boolean": "bool_type bool_parsing",
    "null": "none_required",
    "array": "list_type tuple_type set_type frozen_set_type iterable_type",
    "object": "dict_type mapping_type model_type model_attributes_type dataclass_type",
}
_EXPECTED = {kind: name for name, kinds in _PYDANTIC_TYPES.items() for kind in kinds.split()}
_MISSING = {"missing", "missing_argument", "missing_keyword_only_argument"}
_UNKNOWN = {"extra_forbidden", "unexpected_keyword_argument"}
_REPR = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,]+""")


def pydantic_issues(error: "PydanticError", args: JSON) -> tuple[ValidationIssue, ...]:
    """What pydantic found wrong with ``args``, in the words of ``schema_issues``."""
    entries = error.errors(include_url=False)
    return _issues(_pydantic_problem(dict(entry), args) for entry in entries)


def _pydantic_problem(entry: dict[str, Any], args: JSON) -> Problem:
    kind = entry["type"]
    path = _json_path(entry["loc"], args, keep_last=kind in _MISSING)
    if kind in _MISSING:
        return Problem(MISSING, path)
    if kind in _UNKNOWN:
        return Problem(UNKNOWN, path)
    if kind in _EXPECTED:
        return Problem(TYPE, path, expected=(_EXPECTED[kind],), value=entry["input"])
    if kind in ("literal_error", "enum"):
        return Problem(VALUE, path, expected=_options(entry["ctx"]["expected"]))
    message = entry["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return Problem(VALUE, path, re.sub(r"^(Input|String|List|Dictionary)\b", "value", message))


def _json_path(loc: tuple[int | str, ...], args: JSON, *, keep_last: bool) -> Path:
    """``loc`` without the labels of union branches, which lead to no place in the arguments."""
    value: Any = args
    path: list[int | str] = []
    for step in loc:
        match value:
            case Mapping() if step in value:
                value = value[step]
            case list() if isinstance(step, int) and step < len(value):
                value = value[step]
            case _:
                continue
        path.append(step)
    if keep_last and path != list(loc):
        path.append(loc[-1])
    return tuple(path)


def _options(expected: str) -> tuple[Any, ...]:
    """Values from pydantic's list of their reprs: ``'a', 2 or None``."""
    return tuple(_literal(text) for text in _REPR.findall(expected) if text != "or")


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
