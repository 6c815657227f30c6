"""One part of a template: parsed and checked, then compiled to something that fills it in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from jinja2 import Template as CompiledTemplate
from jinja2 import TemplateSyntaxError, UndefinedError, nodes
from jinja2.exceptions import SecurityError, TemplateRuntimeError
from markupsafe import escape

from shared.content.problem import InvalidTemplateError, RenderError, TemplateProblem
from shared.content.sandbox import (
    BUDGET,
    MAX_OUTPUT_CHARS,
    MAX_SOURCE_CHARS,
    BoundExceededError,
    Budget,
    TemplateSandbox,
    bound_loops,
    forbidden_nodes,
)

HTML_PARTS: Final = frozenset({"html"})
"""Parts that are HTML and so escape their values; all others are plain text (J2: by part, never by file name)."""

_TEXT: Final = TemplateSandbox(html=False)
_HTML: Final = TemplateSandbox(html=True)


class Part(Protocol):
    """A compiled part."""

    def render(self, params: Mapping[str, Any]) -> str:
        """The part with its parameters filled in; RenderError names the part, never a value."""


def parse_part(name: str, source: str) -> nodes.Template:
    """The syntax tree of a part that does nothing a template may not do; InvalidTemplateError lists what it does."""
    if len(source) > MAX_SOURCE_CHARS:
        raise InvalidTemplateError([TemplateProblem(name, f"longer than {MAX_SOURCE_CHARS} characters")])
    environment = _environment(name)
    try:
        tree = environment.parse(source)
        forbidden = [TemplateProblem(name, message, line) for line, message in forbidden_nodes(tree)]
        if not forbidden:
            environment.compile(tree)  # what the parser lets through and the compiler does not: unknown filters, tests
    except TemplateSyntaxError as error:
        raise InvalidTemplateError([TemplateProblem(name, error.message or "syntax error", error.lineno)]) from error
    except RecursionError as error:
        raise InvalidTemplateError([TemplateProblem(name, "nested too deeply")]) from error
    if forbidden:
        raise InvalidTemplateError(forbidden)
    return tree


def compile_part(name: str, source: str) -> Part:
    """Compile a part; InvalidTemplateError as `parse_part`."""
    environment = _environment(name)
    tree = parse_part(name, source)
    pieces = _pieces(tree)
    if pieces is not None:
        return _PlainPart(name, pieces, escape if name in HTML_PARTS else str)
    bound_loops(tree, environment)
    return _GeneralPart(name, CompiledTemplate.from_code(environment, environment.compile(tree), {}))


def _environment(name: str) -> TemplateSandbox:
    return _HTML if name in HTML_PARTS else _TEXT


def _pieces(tree: nodes.Template) -> Sequence[tuple[str, bool]] | None:
    """(text, is a parameter's name) where the part is only text with names in it; None where it is more."""
    pieces: list[tuple[str, bool]] = []
    for output in tree.body:
        if not isinstance(output, nodes.Output):
            return None
        for node in output.nodes:
            match node:
                case nodes.TemplateData():
                    pieces.append((node.data, False))
                case nodes.Name():
                    pieces.append((node.name, True))
                case _:
                    return None
    return pieces


@dataclass(frozen=True, slots=True)
class _PlainPart:
    """Most parts are text with a few names in it. Filling those in takes a microsecond, where Jinja's machinery for
    what they do not use takes thirty; the result is the same.
    """

    name: str
    pieces: Sequence[tuple[str, bool]]
    insert: Callable[[Any], str]

    def render(self, params: Mapping[str, Any]) -> str:
        insert = self.insert
        try:
            text = "".join([insert(params[piece]) if named else piece for piece, named in self.pieces])
        except KeyError as error:
            raise RenderError(f"{self.name}: {error} is undefined") from error
        if len(text) > MAX_OUTPUT_CHARS:
            raise _too_long(self.name)
        return text


@dataclass(frozen=True, slots=True)
class _GeneralPart:
    name: str
    compiled: CompiledTemplate

    def render(self, params: Mapping[str, Any]) -> str:
        chunks: list[str] = []
        size = 0
        try:
            context = self.compiled.new_context({**params, BUDGET: Budget()})
            for chunk in self.compiled.root_render_func(context):
                chunks.append(chunk)
                size += len(chunk)
                if size > MAX_OUTPUT_CHARS:
                    raise _too_long(self.name)
        except (UndefinedError, BoundExceededError, SecurityError, TemplateRuntimeError) as error:
            raise RenderError(f"{self.name}: {error}") from error
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError) as error:
            # These messages may quote a parameter's value, so only their kind is told.
            raise RenderError(f"{self.name}: a value does not fit its use ({type(error).__name__})") from None
        return "".join(chunks)


def _too_long(name: str) -> RenderError:
    return RenderError(f"{name}: comes out longer than {MAX_OUTPUT_CHARS} characters")
