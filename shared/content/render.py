"""Checks a template's parts and fills them in (cases J1 to J4)."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from jinja2 import meta, nodes

from shared.content.filters import Setting
from shared.content.model import RESERVED_DATA, checked_content, is_headline
from shared.content.part import Part, compile_part, parse_part
from shared.content.prepare import text_of_html
from shared.content.problem import InvalidTemplateError, MissingParametersError, RenderError, TemplateProblem
from shared.core.catalogue import Template
from shared.core.direction import turning_in
from shared.core.unsubscribe import PARAMETER
from shared.core.zone import zone_named
from shared.wire.channel import DEFAULT_CHANNELS, Channels, ChannelSpec

MAX_CACHED_TEMPLATES: Final = 4096
_OPEN_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


def check_parts(channel: ChannelSpec, parts: Mapping[str, str]) -> frozenset[str]:
    """The parameters that a request must bring for these parts; InvalidTemplateError lists all that is wrong.

    The link to unsubscribe by is ours to fill in (shared/core/unsubscribe.py).
    A parameter behind `default(...)` at every use, or tested with `is defined`, is optional and not among them.
    """
    problems = [
        TemplateProblem(part, "not a text: put it in quotes") for part, source in parts.items() if not _is_text(source)
    ]
    if problems:
        raise InvalidTemplateError(problems)
    problems += _wrong_fields(channel, parts)
    problems += [
        TemplateProblem(part, f"{turning} turns the text around it over, which looks like a forgery: leave it out")
        for part, source in parts.items()
        if is_headline(part) and (turning := turning_in(source)) is not None
    ]
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
    return frozenset(required - {PARAMETER})


class Renderer:
    """Renders templates; keeps compiled ones by (type, channel, locale, version), which never change their text.

    One per process, called from its event loop. Costs microseconds a part, tens of them where it has logic.
    """

    def __init__(self, channels: Channels = DEFAULT_CHANNELS, *, default_zone: str = "Europe/Istanbul") -> None:
        self._channels = channels
        self._default_zone = default_zone
        self._compiled: dict[tuple[str, str, str, int], Mapping[str, Part]] = {}

    def render(self, template: Template, params: Mapping[str, Any], *, zone: str | None = None) -> dict[str, str]:
        """Content field -> text, ready to be sealed and sent; optional fields that come out empty are left out.

        zone: the recipient's, by which dates and times are told; None: the default one.

        Raises MissingParametersError before anything is rendered, RenderError for all else. A value is inserted as
        text and never read as a template (J1).
        """
        missing = template.parameters - params.keys()
        if missing:
            raise MissingParametersError(missing)
        filled = self.filled(template, params, zone=zone)
        return checked_content(self._channels.spec(template.channel), filled, template.options)

    def filled(self, template: Template, params: Mapping[str, Any], *, zone: str | None = None) -> dict[str, str]:
        """The parts with their values, before anything is asked of them by their channel. RenderError as `render`."""
        setting = _setting(template.locale, zone, self._default_zone)
        filled = {name: part.render(params, setting) for name, part in self._parts(template).items()}
        if template.channel == "EMAIL" and "text" not in filled:
            filled["text"] = text_of_html(filled["html"])
        return filled

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


@lru_cache(maxsize=1024)
def _setting(locale: str, zone: str | None, default_zone: str) -> Setting:
    return Setting(locale, zone_named(zone, default_zone))


def _wrong_fields(channel: ChannelSpec, parts: Mapping[str, str]) -> Iterator[TemplateProblem]:
    known = (*channel.content_fields, *channel.optional_fields)
    for name in channel.content_fields:
        source = channel.derived_fields.get(name, "")
        if not parts.get(name, "").strip() and not parts.get(source, "").strip():
            yield TemplateProblem(name, f"{channel.name} needs this part{f', or {source}' if source else ''}")
    for name in parts:
        if name not in known and not _is_open(channel, name):
            names = ", ".join((*known, *(f"{prefix}<name>" for prefix in channel.open_fields)))
            yield TemplateProblem(name, f"{channel.name} has no such part: use {names}")


def _is_text(source: object) -> bool:
    """Whoever reads YAML gets a number for `title: 5`."""
    return isinstance(source, str)


def _is_open(channel: ChannelSpec, name: str) -> bool:
    return any(
        name.startswith(prefix)
        and _OPEN_NAME.fullmatch(own := name.removeprefix(prefix)) is not None
        and own not in RESERVED_DATA
        for prefix in channel.open_fields
    )


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
