"""`ulak templates push`: notification types, templates, event mappings, senders and applications from files."""

import asyncio
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import asyncpg
import typer
from rich.console import Console
from rich.markup import escape

from ops.cli.actor import operator
from ops.cli.catalogue_file import CatalogueFiles, read_catalogue_files
from ops.cli.errors import CommandError
from ops.cli.templates.cost import cost
from ops.cli.templates.option import JsonOption
from shared.content.sms import SmsReport, sms_body
from shared.core.catalogue import Catalogue, NotificationType
from shared.core.sealing import KeyRing
from shared.postgres.catalogue import read_catalogue
from shared.postgres.catalogue_write import Action, Change, push_catalogue
from shared.postgres.errors import PostgresError
from shared.postgres.pool import open_pool
from shared.postgres.settings import PostgresSettings
from shared.runtime.keyring import KeyRingError, KeyRingSettings, load_ring_source
from shared.runtime.settings import LocaleSettings, load
from shared.wire.channel import DEFAULT_CHANNELS


@dataclass(frozen=True, slots=True)
class Outcome:
    """unsaid: channels of the files' types for which there are no words, here or in the database."""

    files: CatalogueFiles
    changes: tuple[Change, ...]
    unsaid: tuple[str, ...] = ()

    @property
    def sms(self) -> Mapping[str, SmsReport]:
        """What each SMS template costs, by its name."""
        return {str(key): report.sms for key, report in self.files.reports.items() if report.sms is not None}

    @property
    def warnings(self) -> Sequence[str]:
        found = [f"{key}: {warning}" for key, report in self.files.reports.items() for warning in report.warnings]
        return [*found, *self.unsaid]


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
        outcome = asyncio.run(_push(path, load(PostgresSettings), load(LocaleSettings), dry_run=dry_run))
    except (PostgresError, OSError) as error:
        raise CommandError(str(error)) from error
    if as_json:
        typer.echo(json.dumps(_as_json(outcome, dry_run=dry_run)))
    else:
        _print(outcome, dry_run=dry_run)
    if outcome.files.problems:
        raise typer.Exit(1)


async def _push(path: Path, settings: PostgresSettings, defaults: LocaleSettings, *, dry_run: bool) -> Outcome:
    async with open_pool(settings, name="templates push", size=2) as pool:
        known = await read_catalogue(pool)
        files = read_catalogue_files(
            path,
            DEFAULT_CHANNELS,
            known_types={entry.name: entry for entry in known.types},
            known_senders={sender.name for sender in known.senders},
            profile=defaults.marketing_profile,
        )
        if files.problems:
            return Outcome(files, ())
        ring = _ring(files)
        async with pool.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                changes = await push_catalogue(connection, files.push, ring, by=operator())
            except asyncpg.PostgresError as error:
                await transaction.rollback()
                raise CommandError(f"PostgreSQL refused the catalogue: {error}") from error
            except BaseException:
                await transaction.rollback()
                raise
            await (transaction.rollback() if dry_run else transaction.commit())
    spoken = {(each.type_name, each.channel) for each in files.push.templates}
    return Outcome(files, tuple(changes), tuple(unsaid([new.type for new in files.push.types], spoken, known)))


def unsaid(types: Iterable[NotificationType], spoken: Collection[tuple[str, str]], known: Catalogue) -> Iterator[str]:
    """Channels that types go to, or fall back to, without a template; what is meant for them reaches nobody there."""
    for entry in types:
        for channel in dict.fromkeys((*entry.default_channels, *entry.fallback_channels)):
            if (entry.name, channel) not in spoken and not known.templates(entry.name, channel):
                goes = "goes to" if channel in entry.default_channels else "falls back to"
                yield f"{entry.name} {goes} {channel} and has no template for it"


def _ring(files: CatalogueFiles) -> KeyRing | None:
    """What senders' keys are sealed with; only whoever pushes such a key needs a ring."""
    if not any(sender.profile.dkim for sender in files.push.senders):
        return None
    try:
        return load_ring_source(load(KeyRingSettings)).ring
    except KeyRingError as error:
        raise CommandError(f"a sender's DKIM key is stored sealed: {error}") from error


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
    for name, report in outcome.sms.items():
        out.print(f"  {escape(name)}: {cost(report)}")
    for warning in outcome.warnings:
        out.print(f"[yellow]![/yellow] {escape(warning)}")
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
        "warnings": list(outcome.warnings),
        "smsSegments": {name: sms_body(report) for name, report in outcome.sms.items()},
    }
