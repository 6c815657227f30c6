"""Sealing Ulak's own long-lived values anew, at the pace that was asked for and with progress on a terminal."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.progress import Progress, TaskID

from ops.cli.errors import CommandError
from shared.core.sealing import KeyRing
from shared.postgres.errors import PostgresError
from shared.postgres.pool import connect
from shared.postgres.reseal import BATCH, LONG_LIVED, Step, left_alone, reseal
from shared.postgres.settings import PostgresSettings
from shared.runtime.keyring import KeyRingError, RingSource
from shared.runtime.settings import load

_AGAIN: Final = "what was sealed anew stays so; run `ulak keys reseal` again to go on with the rest"


@dataclass(frozen=True, slots=True)
class Resealed:
    """Values by `table.column`, every long-lived one; what the numbers mean, `shared.postgres.reseal.Step` tells.

    active: the key that sealed at the end. left: the sealed columns that were not looked at.
    """

    active: str
    resealed: Mapping[str, int]
    changed: Mapping[str, int]
    shut: Mapping[str, int]
    left: tuple[str, ...]


def reseal_values(rings: RingSource, *, only: str | None, rate: int) -> Resealed:
    """Seal anew at most `rate` values a second. CommandError where that is not possible, or was stopped half-way."""
    if only is not None:
        _check(rings.ring, only)
    try:
        return asyncio.run(_reseal(load(PostgresSettings), rings, only, rate))
    except (PostgresError, KeyRingError) as error:
        raise CommandError(f"{error}; {_AGAIN}") from error
    except KeyboardInterrupt:
        raise CommandError(f"stopped: {_AGAIN}") from None


def _check(ring: KeyRing, only: str) -> None:
    if only == ring.active:
        raise CommandError(f"{only} is the active key: what it sealed is to stay under it. Rotate first")
    if only not in ring.keys:
        raise CommandError(
            f"no key {only!r} in the ring, so nothing that it sealed opens: the ring has {', '.join(sorted(ring.keys))}"
        )


async def _reseal(settings: PostgresSettings, rings: RingSource, only: str | None, rate: int) -> Resealed:
    resealed, changed, shut = (dict.fromkeys((column.place for column in LONG_LIVED), 0) for _ in range(3))
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        tasks = {column.place: progress.add_task(column.place, total=None) for column in LONG_LIVED}
        async with connect(settings, name="keys reseal") as connection:
            left = await left_alone(connection)
            began = time.monotonic()
            async for step in reseal(connection, rings, only=only, at_once=min(rate, BATCH)):
                resealed[step.place] += step.resealed
                changed[step.place] += step.changed
                shut[step.place] += step.shut
                _show(progress, tasks[step.place], step)
                await asyncio.sleep(max(0.0, began + step.resealed / rate - time.monotonic()))
                began = time.monotonic()  # a slow step is not made up for by a burst
    return Resealed(rings.ring.active, resealed, changed, shut, left)


def _show(progress: Progress, task: TaskID, step: Step) -> None:
    progress.update(task, total=max(step.rows, 1))
    progress.advance(task, step.looked)
