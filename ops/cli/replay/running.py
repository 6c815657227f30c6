"""`replay run`: letters on their way again, at a pace; broken off, it can be resumed."""

import asyncio
import math
import time
from datetime import UTC, datetime
from typing import Annotated, Final
from uuid import UUID

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from ops.cli.actor import operator
from ops.cli.errors import CommandError
from ops.cli.replay.desk import OUTBOX, Desk, at_desk, known_topic, look
from ops.cli.replay.listing import counted, run_body
from ops.cli.replay.option import (
    CampaignOption,
    ErrorOption,
    JsonOption,
    KindOption,
    ProviderOption,
    SinceOption,
    TypeOption,
    UntilOption,
    YesOption,
    wanted,
)
from shared.core.identifier import REPLAY, InvalidIdError, new_id, parse_public_id, public_id
from shared.core.replay import WORDS, Verdict
from shared.core.sealing import KeyRing, UnknownKeyError
from shared.delivery.replay import BATCH, preview, replay_batch, start
from shared.kafka.producer import Producer
from shared.kafka.settings import KafkaSettings
from shared.postgres.dead_letter import Run, count_letters, load_run
from shared.postgres.pool import Connection
from shared.providers.registry import providers
from shared.runtime.keyring import KeyRingSettings, load_ring_source
from shared.runtime.settings import load
from shared.wire.channel import DEFAULT_CHANNELS

_RATE: Final = 100.0
_BATCHES_A_SEC: Final = 4
"""So that a slow pace is even, and a run that is stopped leaves little undone."""


def run(
    topic: Annotated[
        str | None, typer.Argument(help="A topic of dead letters; not with --resume, which knows it.")
    ] = None,
    *,
    error: ErrorOption = None,
    type_name: TypeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    campaign: CampaignOption = None,
    provider: ProviderOption = None,
    kind: KindOption = None,
    via: Annotated[
        str | None, typer.Option("--via", help="Send them through this provider alone, whatever the lane's order.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.1, help=f"Letters a second at most ({_RATE:g} if unsaid).")
    ] = None,
    resume: Annotated[str | None, typer.Option("--resume", metavar="RUN", help="Go on with this run.")] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Send dead letters on their way again. Without --yes, tell what would become of them, and change nothing.

    Refused are those that were sent, cancelled, suppressed or superseded meanwhile; what has expired is skipped.
    Letters that come after the start are left for the next run. Exits with 1 if it could not go to its end.
    """
    asked = wanted(error, type_name, since, until, campaign, provider, kind)
    if resume is not None:
        if topic is not None or asked.body() or via is not None or rate is not None:
            raise CommandError("--resume goes on with a run as it was begun: leave the topic and filters away")
        going = at_desk(lambda desk: _resumed(desk, resume))
        yes = True
    else:
        going = Run(new_id(), _topic(topic, via), asked, via, rate or _RATE, operator().name, _now())
    ended = at_desk(lambda desk: _run(desk, going, resumed=resume is not None) if yes else _dry_run(desk, going))
    if as_json:
        typer.echo(orjson.dumps({"dryRun": not yes, **run_body(ended)}, option=orjson.OPT_INDENT_2))
    else:
        _tell(ended, done=yes)


def _topic(topic: str | None, via: str | None) -> str:
    """The topic that is meant. CommandError for none, or for one that the provider has nothing to do with."""
    if topic is None:
        raise CommandError("say which topic: `replay list` shows those that have open letters")
    if topic == OUTBOX:
        raise CommandError("events of outboxes come back by `ulak outbox requeue`")
    if via is not None:
        _check_provider(known_topic(topic), via)
    return known_topic(topic)


def _check_provider(topic: str, via: str) -> None:
    lane = next((lane for lane in DEFAULT_CHANNELS.lanes if lane.dlq_topic == topic), None)
    if lane is None:
        raise CommandError(f"--via: letters of {topic} go to no provider")
    names = sorted(name for name, each in providers().items() if each.channel == lane.channel)
    if via not in names:
        raise CommandError(f"--via: {via!r} carries no {lane.channel}: there are {', '.join(names)}")


async def _resumed(desk: Desk, text: str) -> Run:
    try:
        run_id: UUID = parse_public_id(REPLAY, text)
    except InvalidIdError as error:
        raise CommandError(str(error)) from error
    found = await load_run(desk.connection, run_id)
    if found is None:
        raise CommandError(f"there is no run {text}: see `replay runs`")
    if found.ended_at is not None:
        raise CommandError(f"{text} has ended: {counted(found.counts)}")
    return found


async def _dry_run(desk: Desk, run_: Run) -> Run:
    await look(desk, run_.topic)
    moved = run_
    while True:
        moved, found = await preview(desk.connection, moved, reader=desk.reader, now=_now())
        if not found:
            return moved


async def _run(desk: Desk, run_: Run, *, resumed: bool) -> Run:
    if not resumed:
        await look(desk, run_.topic)
        async with desk.connection.transaction():
            await start(desk.connection, operator(), run_)
    console = Console(stderr=True)
    again = f"To go on: replay run --resume {public_id(REPLAY, run_.id)}"
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        task = progress.add_task(run_.topic, total=await _left(desk.connection, run_))
        try:
            return await _batches(desk, run_, progress, task)
        except asyncio.CancelledError:
            raise CommandError(f"stopped: what was replayed stays so. {again}") from None
        except UnknownKeyError as error:
            raise CommandError(f"{error}. {again}") from error
        except Exception:
            console.print(again, highlight=False)
            raise


async def _batches(desk: Desk, run_: Run, progress: Progress, task: TaskID) -> Run:
    ring: KeyRing = load_ring_source(load(KeyRingSettings)).ring
    limit = max(1, min(BATCH, math.ceil(run_.rate_per_second / _BATCHES_A_SEC)))
    moved = run_
    async with Producer.open(load(KafkaSettings), name="replay") as publisher:
        while True:
            began = time.monotonic()
            following = await replay_batch(
                desk.connection,
                moved,
                operator(),
                reader=desk.reader,
                publisher=publisher,
                ring=ring,
                now=_now(),
                limit=limit,
            )
            if following is None:
                ended = await load_run(desk.connection, run_.id)
                return moved if ended is None else ended
            dealt = sum(following.counts.values()) - sum(moved.counts.values())
            sent = following.counts.get(Verdict.REPLAYED, 0) - moved.counts.get(Verdict.REPLAYED, 0)
            progress.advance(task, dealt)
            moved = following
            await asyncio.sleep(max(0.0, began + sent / run_.rate_per_second - time.monotonic()))


async def _left(connection: Connection, run_: Run) -> int:
    """How many letters there are to deal with, for the bar."""
    return await count_letters(connection, run_.topic, run_.wanted, after=run_.after, seen_until=run_.started_at)


def _tell(ended: Run, *, done: bool) -> None:
    if not ended.counts:
        typer.echo("No open letter fits.")
        return
    for name, count in sorted(ended.counts.items(), key=lambda item: -item[1]):
        typer.echo(f"{count:>9,}  {WORDS[Verdict(name)]}")
    if not done:
        typer.echo("Nothing was changed: --yes does it.")
    elif ended.ended_at is not None:
        typer.echo(f"{public_id(REPLAY, ended.id)} has ended.")


def _now() -> datetime:
    return datetime.now(UTC)
