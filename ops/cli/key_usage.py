"""How much is still sealed under each key: in Ulak's own database and in those that the relay reads."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from ops.cli.errors import CommandError
from ops.cli.outbox.source import databases
from shared.postgres.errors import PostgresError
from shared.postgres.pool import connect
from shared.postgres.sealed import SealedCounts, count_sealed
from shared.postgres.settings import PostgresSettings
from shared.postgres.source import OWN


@dataclass(frozen=True, slots=True)
class KeyUsage:
    """Values by key id and place; a place is `contents.sealed`, or `shop: outbox.payload` in a source named shop."""

    by_key: Mapping[str, Mapping[str, int]]
    unreadable: Mapping[str, int]

    def total(self, key_id: str) -> int:
        return sum(self.by_key.get(key_id, {}).values())


def read_usage() -> KeyUsage:
    """Look at every database, one after another, with progress on a terminal. CommandError where one is not usable."""
    try:
        return asyncio.run(_read(databases(None)))
    except PostgresError as error:
        raise CommandError(f"it is not known what is still sealed under which key: {error}") from error


async def _read(databases: Mapping[str, PostgresSettings]) -> KeyUsage:
    by_key: dict[str, dict[str, int]] = {}
    unreadable: dict[str, int] = {}
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        for name, settings in databases.items():
            counts = await _count(name, settings, progress)
            prefix = "" if name == OWN else f"{name}: "
            for key_id, places in counts.by_key.items():
                by_key.setdefault(key_id, {}).update({f"{prefix}{place}": count for place, count in places.items()})
            unreadable.update({f"{prefix}{place}": count for place, count in counts.unreadable.items()})
    return KeyUsage(by_key, unreadable)


async def _count(name: str, settings: PostgresSettings, progress: Progress) -> SealedCounts:
    task = progress.add_task(f"Reading database {name}", total=None)
    async with connect(settings, name="keys usage") as connection:
        return await count_sealed(
            connection, lambda done, total: progress.update(task, completed=done, total=max(total, 1))
        )
