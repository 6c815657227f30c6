"""One part of a template: parsed and checked, then compiled to something that fills it in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from jinja2 import Template as CompiledTemplate
from jinja2 import TemplateSyntaxError, UndefinedError, nodes
from jinja2.exceptions import SecurityError, TemplateRuntimeError
from markupsafe import escape

from shared.content.budget import BUDGET, BoundExceededError, Budget, charge
from shared.content.filters import SETTING, Setting
from shared.content.html_context import html_problems
from shared.content.insertion import HTML_PARTS, Insertion, Placed, placed
from shared.content.problem import InvalidTemplateError, RenderError, TemplateProblem
from shared.content.sandbox import (
    INSERTS,
    MAX_OUTPUT_CHARS,
    MAX_SOURCE_CHARS,
    TemplateSandbox,
    forbidden_nodes,
    insertion_filter,
)

Insert = Callable[[Any], str]

_TEXT: Final = TemplateSandbox(html=False)
_HTML: Final = TemplateSandbox(html=True)


class Part(Protocol):
    """A compiled part."""

    def render(self, params: Mapping[str, Any], setting: Setting) -> str:
        """The part with its parameters filled in; RenderError names the part, never a value."""


def parse_part(name: str, source: str) -> nodes.Template:
    """The syntax tree of a part that does nothing a template may not do; InvalidTemplateError lists what it does."""
    if len(source) > MAX_SOURCE_CHARS:
        raise InvalidTemplateError([TemplateProblem(name, f"longer than {MAX_SOURCE_CHARS} characters")])
    environment = _environment(name)
    try:
        tree = environment.parse(source)
        forbidden = [TemplateProblem(name, message, line) for line, message in forbidden_nodes(tree)]
        if name in HTML_PARTS:
            forbidden += html_problems(name, source, environment)
        if not forbidden:
            environment.compile(tree)  # what the parser lets through and the compiler does not: unknown filters, tests
    except TemplateSyntaxError as error:
        raise InvalidTemplateError([TemplateProblem(name, error.message or "syntax error", error.lineno)]) from error
    except RecursionError as error:
        raise InvalidTemplateError([TemplateProblem(name, "nested too deeply")]) from error
    if forbidden:
        raise InvalidTemplateError(forbidden)
    return tree


def lexed(name: str, source: str) -> Sequence[tuple[str, str]]:
    """A part's tokens as (kind, text), which together are the source again; `data` is what is not Jinja's."""
    return [(kind, text) for _, kind, text in _environment(name).lex(source)]


def compile_part(name: str, source: str) -> Part:
    """Compile a part; InvalidTemplateError as `parse_part`."""
    environment = _environment(name)
    tree = parse_part(name, source)
    outputs = list(placed(name, tree))
    pieces = _pieces(name, tree, [entries for _, entries in outputs])
    if pieces is not None:
        return _PlainPart(name, pieces)
    charge(tree, environment)
    for output, entries in outputs:
        output.nodes = [_inserted(node, insertion, environment) for node, insertion in entries]
    return _GeneralPart(name, CompiledTemplate.from_code(environment, environment.compile(tree), {}))


def _environment(name: str) -> TemplateSandbox:
    return _HTML if name in HTML_PARTS else _TEXT


def _inserted(node: nodes.Expr, insertion: Insertion | None, environment: TemplateSandbox) -> nodes.Expr:
    if insertion is None:
        return node
    name = insertion_filter(insertion)
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno, environment=environment)


def _pieces(name: str, tree: nodes.Template, outputs: Sequence[Placed]) -> Sequence[tuple[str, Insert | None]] | None:
    """(text, None) or (parameter's name, how it is inserted) where the part is only text with a few names in it; None
    where it is more.
    """
    if not all(isinstance(node, nodes.Output) for node in tree.body):
        return None
    inserts = _HTML_INSERTS if name in HTML_PARTS else INSERTS
    pieces: list[tuple[str, Insert | None]] = []
    for node, insertion in (entry for entries in outputs for entry in entries):
        match node:
            case nodes.TemplateData():
                pieces.append((node.data, None))
            case nodes.Name() if insertion is not None:
                pieces.append((node.name, inserts[insertion]))
            case _:
                return None
    return pieces if len(pieces) <= _MAX_PIECES else None


def _escaping(insert: Insert) -> Insert:
    return lambda value: escape(insert(value))


_HTML_INSERTS: Final[Mapping[Insertion, Insert]] = {name: _escaping(insert) for name, insert in INSERTS.items()}
_MAX_PIECES: Final = 200
"""Of a part whose size is known only when it is put together; values are no larger than a request."""


@dataclass(frozen=True, slots=True)
class _PlainPart:
    """Most parts are text with a few names in it. Filling those in takes a microsecond, where Jinja's machinery for
    what they do not use takes thirty; the result is the same.
    """

    name: str
    pieces: Sequence[tuple[str, Insert | None]]

    def render(self, params: Mapping[str, Any], _setting: Setting) -> str:
        try:
            text = "".join([piece if insert is None else insert(params[piece]) for piece, insert in self.pieces])
        except KeyError as error:
            raise RenderError(f"{self.name}: {error} is undefined") from error
        except RenderError as error:
            raise RenderError(f"{self.name}: {error}") from None
        if len(text) > MAX_OUTPUT_CHARS:
            raise _too_long(self.name)
        return text


@dataclass(frozen=True, slots=True)
class _GeneralPart:
    name: str
    compiled: CompiledTemplate

    def render(self, params: Mapping[str, Any], setting: Setting) -> str:
        chunks: list[str] = []
        size = 0
        try:
            context = self.compiled.new_context({**params, BUDGET: Budget(), SETTING: setting})
            for chunk in self.compiled.root_render_func(context):
                chunks.append(chunk)
                size += len(chunk)
                if size > MAX_OUTPUT_CHARS:
                    raise _too_long(self.name)
        except (UndefinedError, BoundExceededError, SecurityError, TemplateRuntimeError, RenderError) as error:
            raise RenderError(f"{self.name}: {error}") from error
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError) as error:
            # These messages may quote a parameter's value, so only their kind is told.
            raise RenderError(f"{self.name}: a value does not fit its use ({type(error).__name__})") from None
        return "".join(chunks)


def _too_long(name: str) -> RenderError:
    return RenderError(f"{name}: comes out longer than {MAX_OUTPUT_CHARS} characters")
