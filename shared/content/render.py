"""Checks a template's parts and fills them in (cases J1 to J4)."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from jinja2 import Template as CompiledPart
from jinja2 import TemplateSyntaxError, UndefinedError, meta, nodes
from jinja2.exceptions import SecurityError, TemplateRuntimeError

from shared.content.model import checked_content
from shared.content.problem import InvalidTemplateError, MissingParametersError, RenderError, TemplateProblem
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
from shared.core.catalogue import Template
from shared.wire.channel import DEFAULT_CHANNELS, Channels, ChannelSpec

HTML_PARTS: Final = frozenset({"html"})
"""Parts that are HTML and so escape their values; all others are plain text (J2: by part, never by file name)."""

MAX_CACHED_TEMPLATES: Final = 4096

_TEXT: Final = TemplateSandbox(html=False)
_HTML: Final = TemplateSandbox(html=True)


def check_parts(channel: ChannelSpec, parts: Mapping[str, str]) -> frozenset[str]:
    """The parameters that every rendering of these parts needs; InvalidTemplateError lists all that is wrong.

    A parameter behind `default(...)` at every use, or tested with `is defined`, is optional and not among them.
    """
    problems = list(_wrong_fields(channel, parts))
    required: set[str] = set()
    for part, source in parts.items():
        try:
            tree = _parsed(part, source)
        except InvalidTemplateError as error:
            problems += error.problems
        else:
            required |= meta.find_undeclared_variables(tree) - _optional(tree)
    if problems:
        raise InvalidTemplateError(problems)
    return frozenset(required)


class Renderer:
    """Renders templates; keeps compiled ones by (type, channel, locale, version), which never change their text.

    Not thread-safe by need: one per process, called from its event loop. Costs tens of microseconds a part.
    """

    def __init__(self, channels: Channels = DEFAULT_CHANNELS) -> None:
        self._channels = channels
        self._compiled: dict[tuple[str, str, str, int], Mapping[str, CompiledPart]] = {}

    def render(self, template: Template, params: Mapping[str, Any]) -> dict[str, str]:
        """Content field -> text, ready to be sealed and sent; optional fields that come out empty are left out.

        Raises MissingParametersError before anything is rendered, RenderError for all else. A value is inserted as
        text and never read as a template (J1).
        """
        missing = template.parameters - params.keys()
        if missing:
            raise MissingParametersError(missing)
        rendered = {part: _rendered_part(part, compiled, params) for part, compiled in self._parts(template).items()}
        return checked_content(self._channels.spec(template.channel), rendered)

    def _parts(self, template: Template) -> Mapping[str, CompiledPart]:
        key = (template.type_name, template.channel, template.locale, template.version)
        parts = self._compiled.get(key)
        if parts is None:
            if len(self._compiled) >= MAX_CACHED_TEMPLATES:
                self._compiled.clear()
            try:
                parts = {part: _compiled(part, source) for part, source in template.parts.items()}
            except InvalidTemplateError as error:
                raise RenderError(f"the template does not compile: {error}") from error
            self._compiled[key] = parts
        return parts


def _wrong_fields(channel: ChannelSpec, parts: Mapping[str, str]) -> Iterator[TemplateProblem]:
    known = (*channel.content_fields, *channel.optional_fields)
    for name in channel.content_fields:
        if not parts.get(name, "").strip():
            yield TemplateProblem(name, f"{channel.name} needs this part")
    for name in parts:
        if name not in known:
            yield TemplateProblem(name, f"{channel.name} has no such part: use {', '.join(known)}")


def _environment(part: str) -> TemplateSandbox:
    return _HTML if part in HTML_PARTS else _TEXT


def _parsed(part: str, source: str) -> nodes.Template:
    if len(source) > MAX_SOURCE_CHARS:
        raise InvalidTemplateError([TemplateProblem(part, f"longer than {MAX_SOURCE_CHARS} characters")])
    environment = _environment(part)
    try:
        tree = environment.parse(source)
        # What the parser lets through and the compiler does not: unknown filters and tests.
        forbidden = [TemplateProblem(part, message, line) for line, message in forbidden_nodes(tree)]
        if not forbidden:
            environment.compile(tree)
    except TemplateSyntaxError as error:
        raise InvalidTemplateError([TemplateProblem(part, error.message or "syntax error", error.lineno)]) from error
    except RecursionError as error:
        raise InvalidTemplateError([TemplateProblem(part, "nested too deeply")]) from error
    if forbidden:
        raise InvalidTemplateError(forbidden)
    return tree


def _compiled(part: str, source: str) -> CompiledPart:
    environment = _environment(part)
    tree = _parsed(part, source)
    bound_loops(tree, environment)
    return CompiledPart.from_code(environment, environment.compile(tree), {})


def _optional(tree: nodes.Template) -> set[str]:
    """Names the part can do without: tested with `is defined`, or never used but behind `default`."""
    tested = {
        test.node.name
        for test in tree.find_all(nodes.Test)
        if test.name in {"defined", "undefined"} and isinstance(test.node, nodes.Name)
    }
    behind_default = [
        filtered.node
        for filtered in tree.find_all(nodes.Filter)
        if filtered.name in {"default", "d"} and isinstance(filtered.node, nodes.Name)
    ]
    guarded = {id(node) for node in behind_default}
    bare = {name.name for name in tree.find_all(nodes.Name) if id(name) not in guarded}
    return tested | ({node.name for node in behind_default} - bare)


def _rendered_part(part: str, compiled: CompiledPart, params: Mapping[str, Any]) -> str:
    fail = partial(_render_error, part)
    chunks: list[str] = []
    size = 0
    try:
        context = compiled.new_context({**params, BUDGET: Budget()})
        for chunk in compiled.root_render_func(context):
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_OUTPUT_CHARS:
                raise fail(f"comes out longer than {MAX_OUTPUT_CHARS} characters")
    except (UndefinedError, BoundExceededError, SecurityError, TemplateRuntimeError) as error:
        raise fail(str(error)) from error
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError) as error:
        # These messages may quote a parameter's value, so only their kind is told.
        raise fail(f"a value does not fit its use ({type(error).__name__})") from None
    return "".join(chunks)


def _render_error(part: str, message: str) -> RenderError:
    return RenderError(f"{part}: {message}")
