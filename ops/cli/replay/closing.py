"""`replay close`, `replay purge`: letters ended without being sent. Nothing is deleted; their notes say why."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import orjson
import typer

from ops.cli.actor import operator
from ops.cli.errors import CommandError
from ops.cli.replay.desk import OUTBOX, Desk, at_desk, known_topic, look, named
from ops.cli.replay.option import (
    CampaignOption,
    ErrorOption,
    JsonOption,
    KindOption,
    NoteOption,
    ProviderOption,
    SinceOption,
    TypeOption,
    UntilOption,
    YesOption,
    checked_note,
    wanted,
)
from ops.cli.text import number
from shared.postgres.audit_log import record
from shared.postgres.dead_letter import (
    BEGINNING,
    CLOSED,
    OPEN,
    PURGED,
    Ending,
    LetterFilter,
    count_letters,
    end_letters,
    letters,
)

AUDIT_KIND: Final = "dead_letter"
_BATCH: Final = 1_000


def close(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="As `replay list` prints them.")],
    *,
    note: NoteOption,
    as_json: JsonOption = False,
) -> None:
    """End single letters that somebody has dealt with in another way. A replay passes them over from then on."""
    said = checked_note(note)
    ended = at_desk(lambda desk: _close(desk, ids, said))
    if as_json:
        typer.echo(orjson.dumps({"closed": ended, "note": said}))
    else:
        typer.echo(f"Closed {number(len(ended), 'letter')}.")


def purge(
    topic: Annotated[str, typer.Argument(help="A topic of dead letters.")],
    *,
    note: NoteOption,
    error: ErrorOption = None,
    type_name: TypeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    campaign: CampaignOption = None,
    provider: ProviderOption = None,
    kind: KindOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Give up all open letters that fit. Without --yes, tell how many those are."""
    if topic != OUTBOX:
        known_topic(topic)
    said = checked_note(note)
    asked = wanted(error, type_name, since, until, campaign, provider, kind)
    count = at_desk(lambda desk: _purge(desk, topic, asked, said) if yes else _count(desk, topic, asked))
    if as_json:
        typer.echo(orjson.dumps({"dryRun": not yes, "topic": topic, "purged" if yes else "letters": count}))
    elif yes:
        typer.echo(f"Purged {number(count, 'letter')} of {topic}.")
    else:
        typer.echo(f"{number(count, 'open letter')} of {topic} fit. Nothing was changed: --yes does it.")


async def _close(desk: Desk, ids: Sequence[str], note: str) -> list[str]:
    """All or none. CommandError for one that is not there, or not open."""
    found = [await named(desk, id_) for id_ in ids]
    over = [f"{each.id} ({each.state})" for each in found if each.state != OPEN]
    if over:
        raise CommandError(f"not open any more: {', '.join(over)}; nothing was changed")
    actor = operator()
    async with desk.connection.transaction():
        await end_letters(desk.connection, [Ending(each, CLOSED, note) for each in found], by=actor.name)
        for each in found:
            await record(desk.connection, actor, "closed", AUDIT_KIND, each.id, {"topic": each.topic, "note": note})
    return [each.id for each in found]


async def _count(desk: Desk, topic: str, asked: LetterFilter) -> int:
    if topic != OUTBOX:
        await look(desk, topic)
    return await count_letters(desk.connection, topic, asked, after=BEGINNING)


async def _purge(desk: Desk, topic: str, asked: LetterFilter, note: str) -> int:
    """In batches: stopped half-way, what was purged stays so. What comes after the start is left."""
    if topic != OUTBOX:
        await look(desk, topic)
    actor, started, purged, after = operator(), datetime.now(UTC), 0, BEGINNING
    while True:
        async with desk.connection.transaction():
            page = await letters(
                desk.connection, topic, asked, after=after, limit=_BATCH, seen_until=started, lock=True
            )
            if not page:
                told = {"filters": asked.body(), "letters": purged, "note": note}
                await record(desk.connection, actor, "purged", AUDIT_KIND, topic, told)
                return purged
            purged += await end_letters(desk.connection, [Ending(each, PURGED, note) for each in page], by=actor.name)
            after = page[-1].position
