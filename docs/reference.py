"""Where each public name is documented: its one home, found in the source.

Read with: ``generate.py`` (which writes ``docs/api/`` with it), ``tests/test_docs.py``.
"""

import ast
import importlib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGES = {  # import name: title of its page
    "kernel": "The kernel",
    "context": "Context managers",
    "llm": "Chat models",
    "tools": "Built-in tools",
    "trajectory": "Logs",
    "subagent": "Sub-agents and handoffs",
    "team": "Teams",
}


class Home(NamedTuple):
    """Where a public name is defined, and the first sentence of what it says there."""

    name: str
    module: str
    summary: str


def homes(package: str) -> list[Home]:
    """The public names of a package, by module and in the order of its source.

    Raises:
        ValueError: a name that is defined nowhere, twice, or says nothing of itself.
    """
    public = set(importlib.import_module(f"unspool.{package}").__all__)
    found = [home for path in sorted((ROOT / package).rglob("*.py")) for home in _defined(package, path)]
    listed = [home for home in found if home.name in public]
    names = [home.name for home in listed]
    for name in sorted(public):
        if names.count(name) != 1:
            raise ValueError(f"unspool.{package}.{name}: defined {names.count(name)} times")
    for home in listed:
        if not home.summary:
            raise ValueError(f"{home.module}.{home.name}: says nothing of itself")
    return listed


def _defined(package: str, path: Path) -> list[Home]:
    if path.stem == "__init__":
        return []
    module = ".".join(("unspool", *path.relative_to(ROOT).with_suffix("").parts))
    body = ast.parse(path.read_text(encoding="utf-8")).body
    homes: dict[str, Home] = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            doc = ast.get_docstring(node) or ""
            if node.name not in homes or doc:  # an overloaded function says it in its last form
                homes[node.name] = Home(node.name, module, _summary(doc))
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name):
                homes[target.id] = Home(target.id, module, _summary(_text(after)))
    return list(homes.values())


def _text(node: ast.stmt | None) -> str:
    """The docstring that stands below an assignment."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return str(node.value.value)
    return ""


def _summary(doc: str) -> str:
    return " ".join(doc.strip().split("\n\n")[0].split()).replace("|", "\\|")


def page(package: str) -> str:
    """The reference of a package: an index of its names, then each with all it says."""
    listed = homes(package)
    lines = [f"# {PACKAGES[package]}: `unspool.{package}`", "", "| name | is |", "|---|---|"]
    lines += [f"| [`{home.name}`][{home.module}.{home.name}] | {home.summary} |" for home in listed]
    module = ""
    for home in listed:
        if home.module != module:
            module = home.module
            lines += ["", f"## `{module}`"]
        lines += ["", f"::: {home.module}.{home.name}"]
    return "\n".join(lines) + "\n"
