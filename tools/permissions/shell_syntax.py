"""The simple commands of a bash command line, where two readings of it agree.

tree-sitter-bash is made for editors: it goes on after errors, and its grammar has holes. So a tree
counts only when it holds no error and no kind of node but those below, and when the strict scanner
sees the same words, operators and simple commands. Whatever differs is unreadable.
"""

import importlib
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from unspool.kernel.errors import ToolDefinitionError

from .shell_plan import Unreadable, names
from .shell_words import Scan, Token, scan

_CONTAINERS = names(
    "program list pipeline redirected_statement subshell compound_statement negated_command "
    "if_statement elif_clause else_clause while_statement for_statement do_group file_redirect "
    "heredoc_redirect herestring_redirect command_name variable_assignments unary_expression "
    "binary_expression parenthesized_expression negation_expression"
)
_COMMANDS = names("command declaration_command unset_command test_command")
_WORDS = names(
    "word number string raw_string ansi_c_string concatenation simple_expansion expansion "
    "command_substitution process_substitution arithmetic_expansion variable_name special_variable_name "
    "variable_assignment brace_expression test_operator file_descriptor heredoc_start extglob_pattern "
    "regex"
)
_REDIRECTS = names("file_redirect heredoc_redirect herestring_redirect")
_INTRODUCERS = names("if then elif else fi while until do done { } !")
_REFUSED = names("case esac select function coproc in [[ ]]")
RESERVED = _INTRODUCERS | _REFUSED | {"for", "time"}
_ASSIGNS = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_ASSIGNS_ELEMENT = re.compile(r"[A-Za-z_]\w*\[", re.ASCII)

Span = tuple[int, int]


class Statement(NamedTuple):
    """A simple command as written: its words, assignments in front, (operator, target) pairs."""

    words: tuple[Token, ...]
    assignments: tuple[Token, ...]
    redirects: tuple[tuple[Token, Token], ...]


class Syntax(NamedTuple):
    """``other_words`` are expanded, but no part of a command (``for x in …``)."""

    statements: list[Statement]
    operators: set[str]
    other_words: list[Token]


def read(text: str) -> Syntax:
    """The statements of a command line, those inside substitutions not included.

    Raises:
        Unreadable: the line can't be known for sure.
        ToolDefinitionError: the extra ``permissions`` is not installed.
    """
    scanned = scan(text)
    syntax = _Statements(scanned).read()
    if not any(token.kind != "newline" for token in scanned.tokens):
        return syntax
    _compare(text, scanned, syntax)
    return syntax


class _Statements:
    """Walks the tokens; ``at`` is where the next command may begin."""

    def __init__(self, scanned: Scan) -> None:
        self.tokens = scanned.tokens
        self.at = 0
        self.syntax = Syntax([], set(), [])

    def read(self) -> Syntax:
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.kind in ("op", "newline"):
                self._operator(token)
            elif token.kind == "word" and token.word.raw in RESERVED and token.word.raw != "time":
                self._reserved(token.word.raw)
            else:
                self._statement()
        return self.syntax

    def _operator(self, token: Token) -> None:
        if token.text in (";;", ";&", ";;&"):
            raise Unreadable("a case statement")
        self.syntax.operators.add(token.text or "newline")
        self.at += 1

    def _reserved(self, word: str) -> None:
        if word in _REFUSED:
            raise Unreadable(f"uses {word}")
        self.syntax.operators.add(word)
        self.at += 1
        if word != "for":
            return
        head = self.tokens[self.at : self.at + 2]
        if [token.kind for token in head] != ["word", "word"] or head[1].word.raw != "in":
            raise Unreadable("an unusual for loop")
        if not re.fullmatch(r"[a-z_]\w*", head[0].word.raw, re.ASCII):
            raise Unreadable("a loop over a variable that programs may read")
        self.at += 2
        while self.at < len(self.tokens) and self.tokens[self.at].kind == "word":
            self.syntax.other_words.append(self.tokens[self.at])
            self.at += 1

    def _statement(self) -> None:
        words: list[Token] = []
        assignments: list[Token] = []
        redirects: list[tuple[Token, Token]] = []
        while self.at < len(self.tokens) and self.tokens[self.at].kind in ("word", "redirect"):
            token = self.tokens[self.at]
            self.at += 1
            if token.kind == "redirect":
                redirects.append((token, self._target()))
            elif not words and _ASSIGNS_ELEMENT.match(token.word.raw) and "=" in token.word.raw:
                raise Unreadable("assigns an element of an array")
            elif not words and _ASSIGNS.match(token.word.raw):
                assignments.append(token)
            else:
                words.append(token)
        if self.at < len(self.tokens) and self.tokens[self.at].text == "(":
            raise Unreadable("a function or an unexpected parenthesis")
        self.syntax.statements.append(Statement(tuple(words), tuple(assignments), tuple(redirects)))

    def _target(self) -> Token:
        if self.at == len(self.tokens) or self.tokens[self.at].kind != "word":
            raise Unreadable("a redirection without a target")
        self.at += 1
        return self.tokens[self.at - 1]


def _compare(text: str, scanned: Scan, syntax: Syntax) -> None:
    tree = _Tree(text)
    ours = [(token.start + len(token.fd), token.end) for token in scanned.tokens if token.kind != "newline"]
    ours += [(token.start, token.start + len(token.fd)) for token in scanned.tokens if token.fd]
    commands = [
        tuple((word.start, word.end) for word in statement.words)
        for statement in syntax.statements
        if statement.words
    ]
    if sorted(ours) != sorted(tree.atoms) or commands != sorted(tree.commands):
        raise Unreadable("bash may read it in more than one way")
    if sorted(scanned.ends) != sorted(tree.document_ends):
        raise Unreadable("a here-document may end elsewhere")


class _Tree:
    """What the grammar sees: spans of words and operators, of each command's words, in characters."""

    def __init__(self, text: str) -> None:
        source = text.encode()
        self._index = _character_index(text) if len(source) != len(text) else None
        self.atoms: list[Span] = []
        self.commands: list[tuple[Span, ...]] = []
        self.document_ends: list[Span] = []
        root = _parser().parse(source).root_node
        if root.has_error:
            raise Unreadable("not complete or not valid bash")
        self._walk(root, self.atoms)

    def _walk(self, root: Any, atoms: list[Span]) -> None:
        """Without recursion: deep trees are an attacker's."""
        todo: list[tuple[Any, list[Span]]] = [(root, atoms)]
        commands: list[list[Span]] = []
        while todo:
            node, words = todo.pop()
            kind = node.type
            if kind == "comment" or kind == "heredoc_body":
                continue
            if kind == "heredoc_end":
                self.document_ends.append(self._span(node))
            elif kind in _WORDS or (not node.is_named and not node.child_count):
                self._add(node, words)
            elif kind in _COMMANDS:
                commands.append([])
                todo += ((child, commands[-1]) for child in node.children)
            elif kind in _CONTAINERS:
                inside = self.atoms if kind in _REDIRECTS else words
                todo += ((child, inside) for child in node.children)
            else:
                raise Unreadable(f"uses {kind.replace('_', ' ')}")
        self.commands = [tuple(sorted(words)) for words in commands if words]

    def _add(self, node: Any, words: list[Span]) -> None:
        span = self._span(node)
        if span[0] == span[1] or (not node.is_named and node.type == "\n"):
            return
        self.atoms.append(span)
        if words is not self.atoms and not (node.type == "variable_assignment" and _leads(node)):
            words.append(span)

    def _span(self, node: Any) -> Span:
        start, end = node.start_byte, node.end_byte
        return (start, end) if self._index is None else (self._index[start], self._index[end])


def _leads(node: Any) -> bool:
    """Whether an assignment stands in front of a command (and isn't a word of ``export``)."""
    return bool(node.parent is not None and node.parent.type == "command")


def _character_index(text: str) -> dict[int, int]:
    """Byte offset → character offset."""
    index, at = {}, 0
    for position, char in enumerate(text):
        index[at] = position
        at += len(char.encode())
    index[at] = len(text)
    return index


@cache
def _language() -> tuple[Any, Any]:
    try:
        binding = importlib.import_module("tree_sitter")
        grammar = importlib.import_module("tree_sitter_bash")
    except ImportError as error:
        raise ToolDefinitionError(
            "permissions: shell commands can't be judged without a parser: pip install 'unspool[permissions]'"
        ) from error
    return binding, binding.Language(grammar.language())


def _parser() -> Any:
    """A new one each time, which is cheap: one parser must not serve two threads."""
    binding, language = _language()
    return binding.Parser(language)


def expanded_words(syntax: Syntax) -> Iterator[Token]:
    """Every word that is expanded."""
    for statement in syntax.statements:
        yield from statement.words
        yield from statement.assignments
        yield from (target for _, target in statement.redirects)
    yield from syntax.other_words
