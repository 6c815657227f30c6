"""`ulak templates preview`: what a version says, and what it costs. Stores nothing."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from ops.cli.errors import CommandError
from ops.cli.templates.cost import cost
from ops.cli.templates.option import ChannelArgument, JsonOption, LocaleArgument, TypeArgument
from shared.content.problem import RenderError
from shared.content.sms import sms_body
from shared.core.catalogue import NotificationType
from shared.postgres.errors import PostgresError
from shared.postgres.notification_type import stored_type
from shared.postgres.pool import open_pool
from shared.postgres.settings import PostgresSettings
from shared.postgres.template import StoredTemplate, TemplateKey, active_template, template_version
from shared.publishing.preview import Preview
from shared.publishing.preview import preview as preview_of
from shared.runtime.settings import LocaleSettings, load


def preview(
    type_name: TypeArgument,
    channel: ChannelArgument,
    locale: LocaleArgument,
    *,
    version: Annotated[int | None, typer.Option(help="Which version; else the active one.")] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="In the sample's place: a text where it has one, else JSON. Repeatable."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a version says with its type's sample, and what an SMS costs. Exit 1 if it cannot be rendered."""
    key = TemplateKey(type_name, channel.upper(), locale)
    defaults = load(LocaleSettings)
    try:
        template, entry = asyncio.run(_read(key, version))
        seen = preview_of(
            template,
            entry,
            {**entry.sample, **_given(param or [], entry.sample)},
            zone=defaults.time_zone,
            profile=defaults.marketing_profile,
        )
    except (PostgresError, RenderError) as error:
        raise CommandError(str(error)) from error
    if as_json:
        typer.echo(json.dumps({"version": template.version, **_body(seen)}))
    else:
        _print(template, seen)


async def _read(key: TemplateKey, version: int | None) -> tuple[StoredTemplate, NotificationType]:
    async with (
        open_pool(load(PostgresSettings), name="templates preview", size=1) as pool,
        pool.acquire() as connection,
    ):
        if version is None:
            template = await active_template(connection, key)
        else:
            template = await template_version(connection, key, version)
        entry = await stored_type(connection, key.type_name)
    if template is None or entry is None:
        which = "active version" if version is None else f"version {version}"
        raise CommandError(f"there is no {which} of {key}: see `ulak templates versions {key}`")
    return template, entry.definition.type


def _given(params: Sequence[str], sample: Mapping[str, Any]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for param in params:
        name, separator, text = param.partition("=")
        if not name or not separator:
            raise typer.BadParameter(f"{param!r}: say NAME=VALUE, like orderNo=98213", param_hint="--param")
        found[name] = text if isinstance(sample.get(name), str) else _json_or_text(text)
    return found


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _print(template: StoredTemplate, seen: Preview) -> None:
    out = Console(highlight=False, soft_wrap=True)
    out.print(f"{template.key} version {template.version} ({'active' if template.active else template.state})\n")
    for name, text in seen.content.items():
        out.print(name, style="bold")
        out.print(f"{text}\n", markup=False)
    if seen.sms is not None:
        out.print(cost(seen.sms))
    for error in seen.report.errors:
        out.print(f"[red]✗[/red] {escape(str(error))}")
    for warning in seen.report.warnings:
        out.print(f"[yellow]![/yellow] {escape(str(warning))}")


def _body(seen: Preview) -> Mapping[str, Any]:
    return {
        "content": dict(seen.content),
        "sms": None if seen.sms is None else sms_body(seen.sms),
        "errors": [str(error) for error in seen.report.errors],
        "warnings": [str(warning) for warning in seen.report.warnings],
    }
