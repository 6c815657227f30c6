"""`ulak outbox republish`: what Kafka has lost is published again, under the same ids, while its source keeps it."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import Progress

from ops.cli.age import Moment
from ops.cli.errors import CommandError
from ops.cli.outbox.option import JsonOption, SourceOption, YesOption
from ops.cli.outbox.republication import Republished, Wanted, republish_events
from ops.cli.outbox.ring import local_ring
from ops.cli.outbox.source import Answers, ask_each, databases
from ops.cli.text import moment, number
from shared.postgres.pool import Connection
from shared.postgres.settings import PostgresSettings

_RATE: Final = 1000


def republish(
    *,
    since: Annotated[
        Moment,
        typer.Option("--since", parser=Moment.parse, metavar="WHEN", help="Published since: 2h, 1d, or a time."),
    ],
    until: Annotated[
        Moment | None,
        typer.Option("--until", parser=Moment.parse, metavar="WHEN", help="And before: 30m, or a time; else now."),
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Of this topic, without the prefix.")] = None,
    type_name: Annotated[str | None, typer.Option("--type", help="Of this CloudEvents type.")] = None,
    rate: Annotated[int, typer.Option("--rate", min=1, help="Most events to bring back in a second, per source.")] = (
        _RATE
    ),
    source: SourceOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Bring published events back into their outbox. Without --yes, tell which.

    Their ids stay, so whoever reads them and knows events by their ids does nothing twice. Exits with 1 if a source has
    no answer.
    """
    settings, wanted = databases(source), Wanted(since, until, topic, type_name)
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    again = f"what is back goes out. To go on with the rest, run it again with --until {started}"
    try:
        answers = asyncio.run(_republish(settings, wanted, rate, yes=yes))
    except KeyboardInterrupt:
        raise CommandError(f"stopped: {again}" if yes else "stopped: nothing was changed") from None
    if as_json:
        sources = [{"source": name} | found.body() for name, found in answers.found.items()]
        typer.echo(json.dumps({"dryRun": not yes, "sources": sources, "problems": answers.problem_bodies()}))
    else:
        _print(answers, done=yes)
        for name, problem in answers.problems.items():
            typer.echo(f"{name}: {problem}{f'; {again}' if yes else ''}", err=True)
    if answers.problems:
        raise typer.Exit(1)


async def _republish(
    settings: dict[str, PostgresSettings], wanted: Wanted, rate: int, *, yes: bool
) -> Answers[Republished]:
    ring = local_ring()
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        tasks = {name: progress.add_task(name, total=1.0) for name in settings}

        async def work(name: str, connection: Connection) -> Republished:
            return await republish_events(
                connection,
                wanted,
                ring,
                rate=rate,
                yes=yes,
                progress=lambda part: progress.update(tasks[name], completed=part),
            )

        return await ask_each(settings, work)


def _print(answers: Answers[Republished], *, done: bool) -> None:
    for name, found in answers.found.items():
        if found.first and found.last:
            told = "back in the outbox" if done else "would be published again"
            events = number(found.events.total(), "event")
            typer.echo(f"{name}: {told}: {events}, published from {moment(found.first)} to {moment(found.last)}")
        for (topic, message_class), count in sorted(found.events.items()):
            typer.echo(f"  {count:,}  {topic}  {message_class.label}")
        if found.missed:
            typer.echo(f"{name}: brought back by somebody else, or waiting already: {number(found.missed, 'event')}")
        if found.unreadable:
            typer.echo(
                f"{name}: of a type that is not known, because the key ring of this machine (ULAK_KEY_RING_FILE) does "
                f"not open them: {number(found.unreadable, 'event')}"
            )
    if not any(found.events for found in answers.found.values()):
        typer.echo("Nothing that is kept fits: a source keeps what it published for ULAK_RELAY_KEEP_PUBLISHED_SEC.")
    elif not done:
        typer.echo("Nothing was changed: --yes does it.")
