"""What a template may do: a small, total part of Jinja2, so that no source can take the renderer's time or memory.

Two fences. Before anything runs, the syntax tree may hold only what `_ALLOWED` lists: no calls, macros, imports,
string building by `~` or block assignment. While it runs, operators that grow values are bounded and all loops of one
rendering share one budget. So J4's `"x" * 10**9`, nested ranges, `format` widths and doubling strings all end in a
clear error, and J1's `|attr("format")` escape (CVE-2025-27516) does not parse.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from jinja2 import Environment, StrictUndefined, nodes, pass_context
from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_SOURCE_CHARS: Final = 262_144
MAX_OUTPUT_CHARS: Final = 262_144
"""Per part. Gmail clips mails at 102 KB, so a quarter of a million characters is already past any use."""
MAX_ITERATIONS: Final = 10_000
"""Of all loops of one rendering together: a long order has hundreds of lines."""
MAX_NUMBER: Final = 10**18

BUDGET: Final = "_budget"
_BOUNDED: Final = "_bounded"

_ALLOWED: Final = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.Name,
    nodes.Const,
    nodes.Tuple,
    nodes.List,
    nodes.Dict,
    nodes.Pair,
    nodes.Keyword,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Slice,
    nodes.If,
    nodes.For,
    nodes.Assign,
    nodes.CondExpr,
    nodes.Filter,
    nodes.Test,
    nodes.Compare,
    nodes.Operand,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.Neg,
    nodes.Pos,
    nodes.Add,
    nodes.Sub,
    nodes.Mul,
    nodes.Div,
    nodes.FloorDiv,
    nodes.Mod,
)

_REMEDIES: Final[Mapping[type[nodes.Node], str]] = {
    nodes.Call: "functions and methods cannot be called: use a filter, or prepare the value in params",
    nodes.Concat: "`~` is not available: write the values one after the other, {{ a }}{{ b }}",
    nodes.Pow: "`**` is not available: prepare the value in params",
    nodes.AssignBlock: "block assignment is not available: use {% set name = value %}",
    nodes.Include: "includes are not available: each part stands for itself",
    nodes.Extends: "inheritance is not available: each part stands for itself",
    nodes.Macro: "macros are not available",
}

_FILTERS: Final = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "int", "items"),
    *("last", "length", "list", "lower", "max", "min", "reverse", "round", "sort", "string", "striptags"),
    *("title", "trim", "truncate", "unique", "upper", "urlencode", "wordcount"),
)
"""Left out on purpose: `safe` (J1: escaping is not the author's to switch off), `attr`, `map` and `select` (reach
attributes by name), `format`, `center`, `indent`, `batch`, `slice`, `wordwrap`, `tojson` (size by a number)."""

_TESTS: Final = frozenset(
    {
        *("defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string"),
        *("mapping", "iterable", "sequence", "even", "odd", "divisibleby", "in"),
        *("eq", "ne", "lt", "le", "gt", "ge", "equalto", "sameas"),
    }
)


class BoundExceededError(Exception):
    """A rendering wanted more than its share; the message names the bound."""


class Budget:
    """Iterations that one rendering has left."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_ITERATIONS

    def spend(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self.left -= 1
            if self.left < 0:
                raise BoundExceededError(f"loops of more than {MAX_ITERATIONS} rounds in all")
            yield item


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """The environment of one escaping mode; `html` decides it, never a file name (J2)."""

    intercepted_binops = frozenset({"+", "*", "%"})

    def __init__(self, *, html: bool) -> None:
        super().__init__(autoescape=html, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, cache_size=0)
        self.globals.clear()
        self.filters = {name: FILTERS[name] for name in _FILTERS}
        self.filters |= {"join": _join, "replace": _replace, _BOUNDED: _bounded}
        self.tests = {name: test for name, test in self.tests.items() if name in _TESTS or not name.isidentifier()}

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """`+`, `*` and `%` on numbers as usual, `+` on texts and lists up to the size of an output, else refused."""
        if _is_number(left) and _is_number(right):
            result = super().call_binop(context, operator, left, right)
            if abs(result) > MAX_NUMBER:
                raise BoundExceededError(f"a number beyond {MAX_NUMBER}")
            return result
        if operator == "+":
            if _size(left) + _size(right) > MAX_OUTPUT_CHARS:
                raise BoundExceededError(f"a value longer than {MAX_OUTPUT_CHARS}")
            return super().call_binop(context, operator, left, right)
        raise BoundExceededError(f"`{operator}` is for numbers only")


def forbidden_nodes(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    """What the tree holds beyond the allowed part: line and remedy, in source order."""
    for node in _walk(tree):
        if not isinstance(node, _ALLOWED):
            kind = type(node)
            yield node.lineno, _REMEDIES.get(kind, f"`{kind.__name__.lower()}` is not available in templates")
        elif isinstance(node, nodes.For) and node.recursive:
            yield node.lineno, "recursive loops are not available"
        elif isinstance(node, nodes.Name) and node.name.startswith("_"):
            yield node.lineno, f"{node.name!r}: names that begin with an underscore are not available"
        elif isinstance(node, nodes.Getattr) and node.attr.startswith("_"):
            yield node.lineno, f"{node.attr!r}: attributes that begin with an underscore are not available"


def bound_loops(tree: nodes.Template, environment: Environment) -> None:
    """Make every loop of the tree draw on the rendering's budget, in place."""
    for loop in list(tree.find_all(nodes.For)):
        loop.iter = nodes.Filter(loop.iter, _BOUNDED, [], [], None, None, lineno=loop.lineno, environment=environment)


def _walk(node: nodes.Node) -> Iterator[nodes.Node]:
    yield node
    for child in node.iter_child_nodes():
        yield from _walk(child)


@pass_context
def _bounded(context: Context, items: Iterable[Any]) -> Iterator[Any]:
    budget: Budget = context[BUDGET]
    return budget.spend(items)


def _join(items: Iterable[Any], separator: str = "") -> str:
    texts = [str(item) for item in items]
    if sum(map(len, texts)) + len(separator) * len(texts) > MAX_OUTPUT_CHARS:
        raise BoundExceededError(f"a value longer than {MAX_OUTPUT_CHARS}")
    return separator.join(texts)


def _replace(text: str, old: str, new: str) -> str:
    text, old, new = str(text), str(old), str(new)
    if len(text) + text.count(old) * len(new) > MAX_OUTPUT_CHARS:
        raise BoundExceededError(f"a value longer than {MAX_OUTPUT_CHARS}")
    return text.replace(old, new)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str | list | tuple) else 0
