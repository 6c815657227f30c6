"""`ulak templates`: notification types, templates, event mappings and applications from files.

Exit codes: 0 done (or nothing to do); 1 something is wrong, said by file and field, and nothing was changed.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import asyncpg
import typer
from rich.console import Console
from rich.markup import escape

from ops.cli.catalogue_file import CatalogueFiles, Problem, read_catalogue_files
from ops.cli.errors import CommandError
from shared.content.problem import RenderError
from shared.content.render import Renderer
from shared.core.catalogue import Catalogue, Template
from shared.core.segment import Segments, segments
from shared.postgres.catalogue import read_catalogue
from shared.postgres.catalogue_write import Action, Change, NewTemplate, push_catalogue
from shared.postgres.errors import PostgresError
from shared.postgres.pool import open_pool
from shared.postgres.settings import PostgresSettings
from shared.runtime.settings import load
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass

app = typer.Typer(help="Notification types, templates and event mappings.", no_args_is_help=True)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]


@app.callback()
def group() -> None:
    """Keep `push` a subcommand, also while it is the only one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    files: CatalogueFiles
    changes: tuple[Change, ...]
    sms: Mapping[str, Segments]


@app.command()
def push(
    path: Annotated[Path, typer.Argument(exists=True, readable=True, help="A catalogue folder or one YAML file.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and compare; change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check everything, then bring the catalogue to what the files say, all of it or nothing. Safe to repeat.

    A changed template becomes its next version and is active at once; what the files do not name stays as it is.
    """
    try:
        outcome = asyncio.run(_push(path, load(PostgresSettings), dry_run=dry_run))
    except (PostgresError, OSError) as error:
        raise CommandError(str(error)) from error
    if as_json:
        typer.echo(json.dumps(_as_json(outcome, dry_run=dry_run)))
    else:
        _print(outcome, dry_run=dry_run)
    if outcome.files.problems:
        raise typer.Exit(1)


async def _push(path: Path, settings: PostgresSettings, *, dry_run: bool) -> Outcome:
    async with open_pool(settings, name="templates push", size=2) as pool:
        known = await read_catalogue(pool)
        files = read_catalogue_files(path, DEFAULT_CHANNELS, known_types={entry.name: entry for entry in known.types})
        sms, broken = _rendered_samples(files)
        files = CatalogueFiles(files.push, (*files.problems, *broken), files.samples)
        if files.problems:
            return Outcome(files, (), sms)
        async with pool.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                changes = await push_catalogue(connection, files.push)
            except asyncpg.PostgresError as error:
                await transaction.rollback()
                raise CommandError(f"PostgreSQL refused the catalogue: {error}") from error
            except BaseException:
                await transaction.rollback()
                raise
            await (transaction.rollback() if dry_run else transaction.commit())
    return Outcome(files, tuple(changes), sms)


def _rendered_samples(files: CatalogueFiles) -> tuple[dict[str, Segments], list[Problem]]:
    """SMS templates packed into segments, with the type's sample parameters; what does not render is a problem."""
    sms: dict[str, Segments] = {}
    problems: list[Problem] = []
    renderer = Renderer(DEFAULT_CHANNELS)
    for new in files.push.templates:
        sample = files.samples.get(new.type_name)
        if not sample and new.parameters:
            continue
        name = _name(new)
        try:
            content = renderer.render(_as_template(new), sample or {})
        except RenderError as error:
            problems.append(Problem(name, "sample", str(error)))
        else:
            if new.channel == "SMS":
                sms[name] = segments(content["text"])
    return sms, problems


def _as_template(new: NewTemplate) -> Template:
    return Template(new.type_name, new.channel, new.locale, 0, new.parts, new.parameters)


def _name(new: NewTemplate) -> str:
    return f"{new.type_name} {new.channel} {new.locale}"


def _print(outcome: Outcome, *, dry_run: bool) -> None:
    out = Console(highlight=False, soft_wrap=True)
    if outcome.files.problems:
        for problem in outcome.files.problems:
            out.print(f"[red]✗[/red] {escape(str(problem))}")
        out.print(f"{len(outcome.files.problems)} problems; nothing was changed.")
        return
    for change in outcome.changes:
        if change.action is not Action.UNCHANGED:
            version = "" if change.version is None else f", version {change.version}"
            out.print(f"[green]✓[/green] {change.kind} {escape(change.name)} {change.action}{version}")
    for name, packed in outcome.sms.items():
        parts = "one segment" if packed.count == 1 else f"{packed.count} segments"
        out.print(f"  {escape(name)}: {parts} ({packed.encoding})")
    count = sum(change.action is not Action.UNCHANGED for change in outcome.changes)
    would = "would be " if dry_run else ""
    out.print(f"{count} {would}changed, {len(outcome.changes) - count} unchanged.")


def _as_json(outcome: Outcome, *, dry_run: bool) -> dict[str, Any]:
    return {
        "ok": not outcome.files.problems,
        "dryRun": dry_run,
        "problems": [
            {"file": problem.file, "field": problem.place, "message": problem.message}
            for problem in outcome.files.problems
        ],
        "changes": [
            {"kind": change.kind, "name": change.name, "action": change.action, "version": change.version}
            for change in outcome.changes
        ],
        "smsSegments": {
            name: {"encoding": packed.encoding, "segments": packed.count} for name, packed in outcome.sms.items()
        },
    }


@app.command(name="list")
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
            "templates": [
                {"channel": channel, "locale": template.locale, "version": template.version}
                for channel in DEFAULT_CHANNELS.names
                for template in catalogue.templates(entry.name, channel)
            ],
        }
        for entry in sorted(catalogue.types, key=lambda entry: entry.name)
    ]
