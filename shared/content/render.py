"""Checks a template's parts and fills them in (cases J1 to J4)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from jinja2 import meta, nodes

from shared.content.model import checked_content
from shared.content.part import Part, compile_part, parse_part
from shared.content.problem import InvalidTemplateError, MissingParametersError, RenderError, TemplateProblem
from shared.core.catalogue import Template
from shared.wire.channel import DEFAULT_CHANNELS, Channels, ChannelSpec

MAX_CACHED_TEMPLATES: Final = 4096


def check_parts(channel: ChannelSpec, parts: Mapping[str, str]) -> frozenset[str]:
    """The parameters that every rendering of these parts needs; InvalidTemplateError lists all that is wrong.

    A parameter behind `default(...)` at every use, or tested with `is defined`, is optional and not among them.
    """
    problems = list(_wrong_fields(channel, parts))
    required: set[str] = set()
    for part, source in parts.items():
        try:
            tree = parse_part(part, source)
        except InvalidTemplateError as error:
            problems += error.problems
        else:
            required |= meta.find_undeclared_variables(tree) - _optional(tree)
    if problems:
        raise InvalidTemplateError(problems)
    return frozenset(required)


class Renderer:
    """Renders templates; keeps compiled ones by (type, channel, locale, version), which never change their text.

    One per process, called from its event loop. Costs microseconds a part, tens of them where it has logic.
    """

    def __init__(self, channels: Channels = DEFAULT_CHANNELS) -> None:
        self._channels = channels
        self._compiled: dict[tuple[str, str, str, int], Mapping[str, Part]] = {}

    def render(self, template: Template, params: Mapping[str, Any]) -> dict[str, str]:
        """Content field -> text, ready to be sealed and sent; optional fields that come out empty are left out.

        Raises MissingParametersError before anything is rendered, RenderError for all else. A value is inserted as
        text and never read as a template (J1).
        """
        missing = template.parameters - params.keys()
        if missing:
            raise MissingParametersError(missing)
        rendered = {name: part.render(params) for name, part in self._parts(template).items()}
        return checked_content(self._channels.spec(template.channel), rendered)

    def _parts(self, template: Template) -> Mapping[str, Part]:
        key = (template.type_name, template.channel, template.locale, template.version)
        parts = self._compiled.get(key)
        if parts is None:
            if len(self._compiled) >= MAX_CACHED_TEMPLATES:
                self._compiled.clear()
            try:
                parts = {part: compile_part(part, source) for part, source in template.parts.items()}
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
