"""`ulak templates diff`: what a push would change, line by line. Changes nothing."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ops.cli.catalogue_diff import Difference, Stored, differences
from ops.cli.catalogue_file import CatalogueFiles, read_catalogue_files
from ops.cli.errors import CommandError
from ops.cli.templates.option import JsonOption
from shared.postgres.catalogue import read_catalogue
from shared.postgres.errors import PostgresError
from shared.postgres.notification_type import all_types
from shared.postgres.pool import open_pool
from shared.postgres.settings import PostgresSettings
from shared.postgres.template import active_templates
from shared.runtime.settings import LocaleSettings, load
from shared.wire.channel import DEFAULT_CHANNELS


def diff(
    path: Annotated[Path, typer.Argument(exists=True, readable=True, help="A catalogue folder or one YAML file.")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Compare files with the database: types, mappings and templates. Exit 1 if they differ or are wrong, 0 if not."""
    try:
        files, found = asyncio.run(_diff(path, load(PostgresSettings), load(LocaleSettings)))
    except (PostgresError, OSError) as error:
        raise CommandError(str(error)) from error
    if as_json:
        typer.echo(json.dumps(_as_json(files, found)))
    else:
        _print(files, found)
    if files.problems or found:
        raise typer.Exit(1)


async def _diff(
    path: Path, settings: PostgresSettings, defaults: LocaleSettings
) -> tuple[CatalogueFiles, Sequence[Difference]]:
    async with open_pool(settings, name="templates diff", size=2) as pool:
        known = await read_catalogue(pool)
        files = read_catalogue_files(
            path,
            DEFAULT_CHANNELS,
            known_types={entry.name: entry for entry in known.types},
            known_senders={sender.name for sender in known.senders},
            profile=defaults.marketing_profile,
        )
        async with pool.acquire() as connection:
            types = await all_types(connection)
            templates = await active_templates(connection)
    stored = Stored(
        types={entry.definition.type.name: entry.definition for entry in types},
        mappings={mapping.name: mapping for mapping in known.all_mappings},
        templates={template.key: template for template in templates},
    )
    return files, tuple(differences(files.push, stored))


def _print(files: CatalogueFiles, found: Sequence[Difference]) -> None:
    out = Console(highlight=False, soft_wrap=True)
    for problem in files.problems:
        out.print(f"[red]✗[/red] {escape(str(problem))}")
    for difference in found:
        out.print(f"[bold]{difference.kind} {escape(difference.name)}[/bold] {'is new' if difference.is_new else ''}")
        for line in difference.lines:
            colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
            out.print(f"  [{colour}]{escape(line)}[/{colour}]" if colour else f"  {escape(line)}")
    out.print(f"{len(found)} would be changed." if found else "The database has what the files say.")


def _as_json(files: CatalogueFiles, found: Sequence[Difference]) -> dict[str, object]:
    return {
        "same": not files.problems and not found,
        "problems": [
            {"file": problem.file, "field": problem.place, "message": problem.message} for problem in files.problems
        ],
        "differences": [
            {"kind": entry.kind, "name": entry.name, "new": entry.is_new, "diff": list(entry.lines)} for entry in found
        ],
    }
