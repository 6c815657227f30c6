"""`ulak templates versions|publish|rollback`: one template's life. The API has the same (docs/administration.md)."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from ops.cli.actor import operator
from ops.cli.errors import CommandError
from ops.cli.templates.option import ChannelArgument, JsonOption, LocaleArgument, TypeArgument
from shared.content.problem import TemplateProblem
from shared.postgres.errors import PostgresError
from shared.postgres.notification_type import stored_type
from shared.postgres.pool import Connection, open_pool
from shared.postgres.settings import PostgresSettings
from shared.postgres.template import StoredTemplate, TemplateKey, template_versions
from shared.publishing.error import PublicationError
from shared.publishing.template import Checked, publish_template, roll_back_template
from shared.runtime.settings import LocaleSettings, load

T = TypeVar("T")


def versions(
    type_name: TypeArgument, channel: ChannelArgument, locale: LocaleArgument, *, as_json: JsonOption = False
) -> None:
    """List the versions of a template, the newest first: which is a draft, which is active, who did it and when."""
    key = TemplateKey(type_name, channel.upper(), locale)
    found = _run(lambda connection: template_versions(connection, key))
    if not found:
        raise CommandError(f"there is no template {key}: see `ulak templates list`")
    if as_json:
        typer.echo(json.dumps({"versions": [_body(template) for template in found]}))
        return
    table = Table(box=None)
    for column in ("version", "state", "created", "by", "published", "by"):
        table.add_column(column)
    for template in found:
        table.add_row(
            str(template.version),
            "active" if template.active else template.state.value,
            f"{template.created_at:%Y-%m-%d %H:%M}",
            template.created_by,
            "" if template.published_at is None else f"{template.published_at:%Y-%m-%d %H:%M}",
            template.published_by or "",
        )
    Console(highlight=False).print(table)


def publish(
    type_name: TypeArgument,
    channel: ChannelArgument,
    locale: LocaleArgument,
    version: Annotated[int, typer.Argument(metavar="VERSION", help="The draft's version.")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Publish a draft: from now on it is what new notifications say, and it never changes again."""
    key = TemplateKey(type_name, channel.upper(), locale)
    by, profile = operator(), load(LocaleSettings).marketing_profile

    async def act(connection: Connection) -> Checked:
        entry = await stored_type(connection, type_name)
        if entry is None:
            raise CommandError(f"there is no notification type {type_name}: see `ulak templates list`")
        return await publish_template(connection, entry.definition.type, key, version, by, profile=profile)

    done = _run(act)
    _tell(done.template, as_json=as_json, words=f"{key} version {version} is active.", warnings=done.warnings)


def rollback(
    type_name: TypeArgument,
    channel: ChannelArgument,
    locale: LocaleArgument,
    *,
    to: Annotated[int | None, typer.Option(help="The version to go back to; else the one published before.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make an earlier version active again. What was rendered already keeps its words."""
    key = TemplateKey(type_name, channel.upper(), locale)
    by = operator()
    done = _run(lambda connection: roll_back_template(connection, key, to, by))
    _tell(done, as_json=as_json, words=f"{key} is back at version {done.version}.")


def _run(act: Callable[[Connection], Awaitable[T]]) -> T:
    async def run() -> T:
        async with (
            open_pool(load(PostgresSettings), name="templates", size=1) as pool,
            pool.acquire() as connection,
            connection.transaction(),
        ):
            return await act(connection)

    try:
        return asyncio.run(run())
    except (PublicationError, PostgresError) as error:
        raise CommandError(str(error)) from error


def _tell(template: StoredTemplate, *, as_json: bool, words: str, warnings: Sequence[TemplateProblem] = ()) -> None:
    if as_json:
        typer.echo(json.dumps({**_body(template), "warnings": [str(warning) for warning in warnings]}))
        return
    out = Console(highlight=False, soft_wrap=True)
    out.print(words, markup=False)
    for warning in warnings:
        out.print(f"warning: {warning}", markup=False)


def _body(template: StoredTemplate) -> dict[str, Any]:
    return {
        "version": template.version,
        "state": template.state,
        "active": template.active,
        "createdAt": template.created_at.isoformat(),
        "createdBy": template.created_by,
        "publishedAt": template.published_at and template.published_at.isoformat(),
        "publishedBy": template.published_by,
    }
