"""What a template may do: a small, total part of Jinja2, so that no source can take the renderer's time or memory.

Two fences. Before anything runs, the syntax tree may hold only what `_ALLOWED` lists: no calls, macros, imports,
string building by `~` or block assignment, lists of lists. While it runs, operators that grow values are bounded, and
all loops, filters and comparisons of one rendering share one budget (shared/content/budget.py). So J4's
`"x" * 10**9`, nested ranges, `format` widths, doubling strings and lists all end in a clear error, and J1's
`|attr("format")` escape (CVE-2025-27516) does not parse.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, Final

from jinja2 import StrictUndefined, Undefined, nodes
from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

from shared.content.budget import BOUNDED, WEIGHED, BoundExceededError, bounded, weighed
from shared.content.filters import FILTERS as LANGUAGE_FILTERS
from shared.content.insertion import URL_FILTER, Insertion
from shared.content.value import link, shown, told, told_link

MAX_SOURCE_CHARS: Final = 262_144
MAX_OUTPUT_CHARS: Final = 262_144
"""Per part. Gmail clips mails at 102 KB, so a quarter of a million characters is already past any use."""
MAX_NODES: Final = 4_000
"""Of a part's syntax tree: compiling takes a seventh of a millisecond each, once a process. Large mails have 1,000."""
MAX_NUMBER: Final = 10**18
MAX_LITERAL_ITEMS: Final = 100
"""Of a list, tuple or object that an author writes out."""

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


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """The environment of one escaping mode; `html` decides it, never a file name (J2)."""

    intercepted_binops = frozenset({"+", "*", "%"})

    def __init__(self, *, html: bool) -> None:
        super().__init__(
            autoescape=html,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            cache_size=0,
        )
        self.globals.clear()
        self.filters = {name: FILTERS[name] for name in _FILTERS}
        self.filters |= {"join": _join, "replace": _replace, URL_FILTER: link, **LANGUAGE_FILTERS}
        self.filters |= {BOUNDED: bounded, WEIGHED: weighed}
        self.filters |= {insertion_filter(insertion): _inserted(insert) for insertion, insert in INSERTS.items()}
        self.tests = {name: test for name, test in self.tests.items() if name in _TESTS or not name.isidentifier()}

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """`+`, `*` and `%` on numbers as usual, `+` on texts up to the size of an output, else refused."""
        if _is_number(left) and _is_number(right):
            result = super().call_binop(context, operator, left, right)
            if abs(result) > MAX_NUMBER:
                raise BoundExceededError(f"a number beyond {MAX_NUMBER}")
            return result
        if operator != "+" or isinstance(left, list | tuple):
            raise BoundExceededError(f"`{operator}` is for numbers{' and texts' if operator == '+' else ''} only")
        if isinstance(left, str) and isinstance(right, str) and len(left) + len(right) > MAX_OUTPUT_CHARS:
            raise BoundExceededError(f"a value longer than {MAX_OUTPUT_CHARS}")
        return super().call_binop(context, operator, weighed(context, left), right)


def forbidden_nodes(tree: nodes.Template) -> Iterator[tuple[int, str]]:
    """What the tree holds beyond the allowed part: line and remedy, in source order."""
    found = list(_walk(tree))
    if len(found) > MAX_NODES:
        yield 1, f"more than {MAX_NODES} expressions and statements: prepare values in params"
    for node in found:
        if not isinstance(node, _ALLOWED):
            kind = type(node)
            yield node.lineno, _REMEDIES.get(kind, f"`{kind.__name__.lower()}` is not available in templates")
        elif isinstance(node, nodes.For) and node.recursive:
            yield node.lineno, "recursive loops are not available"
        elif isinstance(node, nodes.Name) and node.name.startswith("_"):
            yield node.lineno, f"{node.name!r}: names that begin with an underscore are not available"
        elif isinstance(node, nodes.Getattr) and node.attr.startswith("_"):
            yield node.lineno, f"{node.attr!r}: attributes that begin with an underscore are not available"
    for node in tree.find_all((nodes.List, nodes.Tuple, nodes.Dict, nodes.Assign)):
        wrong = _wrong_literal(node)
        if wrong is not None:
            yield node.lineno, wrong


def _wrong_literal(node: nodes.Node) -> str | None:
    """Lists that hold lists, or are kept under a name, could be stacked until no memory holds their text."""
    if isinstance(node, nodes.Assign):
        kept = any(_is_variable(inner) for inner in (node.node, *node.node.find_all(_LITERALS)))
        return "a list of values cannot be assigned: use it where it is" if kept else None
    if isinstance(node, nodes.Tuple) and node.ctx == "store":
        return None
    items = node.items if isinstance(node, nodes.List | nodes.Tuple | nodes.Dict) else ()
    if len(items) > MAX_LITERAL_ITEMS:
        return f"a list of more than {MAX_LITERAL_ITEMS} items: bring it in params"
    if any(_is_variable(inner) for inner in node.find_all(_LITERALS)):
        return "a list within a list can hold constants only"
    if isinstance(node, nodes.Dict) and not all(isinstance(pair.key, nodes.Const) for pair in node.items):
        return "the names in an object must be constants"
    return None


_LITERALS: Final = (nodes.List, nodes.Tuple, nodes.Dict)


def _is_variable(node: nodes.Node) -> bool:
    """Whether it is a list, tuple or object written out that holds more than constants."""
    return isinstance(node, _LITERALS) and any(True for _ in node.find_all(nodes.Name))


def _walk(node: nodes.Node) -> Iterator[nodes.Node]:
    yield node
    for child in node.iter_child_nodes():
        yield from _walk(child)


INSERTS: Final[Mapping[Insertion, Callable[[Any], str]]] = {
    Insertion.WORDS: told,
    Insertion.LINK_WORDS: told_link,
    Insertion.VERBATIM: shown,
    Insertion.LINK: link,
}


def insertion_filter(insertion: Insertion) -> str:
    """Name of the filter that is put around a value."""
    return f"_{insertion.name.lower()}"


def _inserted(insert: Callable[[Any], str]) -> Callable[[Any], str]:
    """As the insertion; what a filter has escaped already stays escaped, and what is undefined fails as ever."""

    @wraps(insert)
    def filtered(value: Any) -> str:
        if isinstance(value, Undefined):
            return str(value)
        return Markup(insert(str(value))) if isinstance(value, Markup) else insert(value)  # noqa: S704  escaped before

    return filtered


def _join(items: Iterable[Any], separator: str = "") -> str:
    texts = [shown(item) for item in items]
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
