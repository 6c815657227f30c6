"""`ulak templates list`: what there is."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from ops.cli.errors import CommandError
from ops.cli.templates.option import JsonOption
from shared.core.catalogue import Catalogue
from shared.postgres.catalogue import read_catalogue
from shared.postgres.errors import PostgresError
from shared.postgres.pool import open_pool
from shared.postgres.settings import PostgresSettings
from shared.runtime.settings import load
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass


def list_templates(*, as_json: JsonOption = False) -> None:
    """Show the types with their active templates."""
    try:
        catalogue = asyncio.run(_read(load(PostgresSettings)))
    except PostgresError as error:
        raise CommandError(str(error)) from error
    rows = _rows(catalogue)
    if as_json:
        typer.echo(json.dumps({"types": rows}))
        return
    out = Console(highlight=False, soft_wrap=True)
    for row in rows:
        out.print(f"[bold]{escape(row['name'])}[/bold] {row['category']}, {row['class']}, {row['ttlSeconds']} s")
        for template in row["templates"]:
            out.print(f"    {template['channel']} {template['locale']} version {template['version']}")


async def _read(settings: PostgresSettings) -> Catalogue:
    async with open_pool(settings, name="templates list", size=2) as pool:
        return await read_catalogue(pool)


def _rows(catalogue: Catalogue) -> Sequence[dict[str, Any]]:
    return [
        {
            "name": entry.name,
            "category": entry.category,
            "class": MessageClass(entry.message_class).label,
            "channels": list(entry.default_channels),
            "ttlSeconds": int(entry.ttl.total_seconds()),
            "sender": entry.sender_profile,
            "templates": [
                {"channel": channel, "locale": template.locale, "version": template.version}
                for channel in DEFAULT_CHANNELS.names
                for template in catalogue.templates(entry.name, channel)
            ],
        }
        for entry in sorted(catalogue.types, key=lambda entry: entry.name)
    ]
