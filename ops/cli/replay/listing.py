"""`replay list`, `replay show`, `replay runs`: what there is, before anything is done about it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import orjson
import typer
from rich.console import Console
from rich.table import Table

from ops.cli.replay.desk import OUTBOX, Desk, at_desk, known_topic, look, named
from ops.cli.replay.option import (
    CampaignOption,
    ErrorOption,
    JsonOption,
    KindOption,
    ProviderOption,
    SinceOption,
    TypeOption,
    UntilOption,
    wanted,
)
from ops.cli.text import moment, number
from shared.core.identifier import NOTIFICATION, REPLAY, public_id
from shared.core.replay import WORDS, Kind, verdict
from shared.delivery.failed import Failed, load_failed
from shared.delivery.poison import dead_letter_topics
from shared.kafka.error import MessagingError
from shared.postgres.dead_letter import (
    BEGINNING,
    OPEN,
    STATES,
    Letter,
    LetterFilter,
    Run,
    TopicSummary,
    last_runs,
    letters,
    summaries,
)

_ANY: Final = "any"

StateOption = Annotated[str, typer.Option("--state", help=f"{', '.join(STATES)}, or {_ANY}.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many at most.")]


def list_letters(
    topic: Annotated[str | None, typer.Argument(help="One topic's letters; else all topics, with counts.")] = None,
    *,
    error: ErrorOption = None,
    type_name: TypeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    campaign: CampaignOption = None,
    provider: ProviderOption = None,
    kind: KindOption = None,
    state: StateOption = OPEN,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """Without a topic: how many letters are open, by topic and kind. With one: its letters, the oldest first."""
    if topic is None:
        found, problem = at_desk(_summaries)
        _print_summaries(found, problem, as_json=as_json)
        return
    if topic != OUTBOX:
        known_topic(topic)
    if state not in {*STATES, _ANY}:
        raise typer.BadParameter(f"one of {', '.join(STATES)}, {_ANY}", param_hint="--state")
    asked = wanted(error, type_name, since, until, campaign, provider, kind)
    page = at_desk(lambda desk: _page(desk, topic, asked, None if state == _ANY else state, limit))
    _print_letters(topic, page, limit, as_json=as_json)


def show(
    letter: Annotated[str, typer.Argument(metavar="ID", help="As `replay list` prints it; its beginning is enough.")],
    *,
    as_json: JsonOption = False,
) -> None:
    """All that is known of one letter, and what a replay would do about it. What it says, and to whom, is not shown."""
    body = at_desk(lambda desk: _shown(desk, letter))
    if as_json:
        typer.echo(orjson.dumps(body, option=orjson.OPT_INDENT_2))
        return
    for name, value in body.items():
        if value not in (None, {}):
            typer.echo(f"{name:16} {moment(value) if isinstance(value, datetime) else value}")


def runs(
    topic: Annotated[str | None, typer.Argument(help="Of this topic alone.")] = None,
    *,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """The last replays: whose, of what, and what became of it. One that has no end can be resumed."""
    found = at_desk(lambda desk: last_runs(desk.connection, topic, limit))
    if as_json:
        typer.echo(orjson.dumps({"runs": [run_body(run) for run in found]}, option=orjson.OPT_INDENT_2))
        return
    if not found:
        typer.echo("Nothing has been replayed.")
        return
    table = Table("run", "topic", "started", "by", "ended", "what became of it", box=None, pad_edge=False)
    for run in found:
        ended = "not yet" if run.ended_at is None else moment(run.ended_at)
        table.add_row(
            public_id(REPLAY, run.id), run.topic, moment(run.started_at), run.started_by, ended, counted(run.counts)
        )
    Console(highlight=False).print(table)


def counted(counts: Mapping[str, int]) -> str:
    """`40 replayed, 2 expired`; `nothing`."""
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(counts.items())) or "nothing"


def run_body(run: Run) -> dict[str, Any]:
    """A run, as JSON."""
    return {
        "runId": public_id(REPLAY, run.id),
        "topic": run.topic,
        "filters": run.wanted.body(),
        "provider": run.provider,
        "ratePerSecond": run.rate_per_second,
        "startedBy": run.started_by,
        "startedAt": run.started_at,
        "endedAt": run.ended_at,
        "counts": run.counts,
    }


async def _summaries(desk: Desk) -> tuple[Sequence[TopicSummary], str | None]:
    """And what kept the topics from being looked into: the table is shown all the same."""
    problem = None
    try:
        for topic in dead_letter_topics():
            await look(desk, topic)
    except MessagingError as error:
        problem = str(error)
    return await summaries(desk.connection), problem


async def _page(desk: Desk, topic: str, asked: LetterFilter, state: str | None, limit: int) -> Sequence[Letter]:
    if topic != OUTBOX:
        await look(desk, topic)
    return await letters(desk.connection, topic, asked, after=BEGINNING, limit=limit, state=state)


async def _shown(desk: Desk, id_: str) -> dict[str, Any]:
    letter = await named(desk, id_)
    row = None
    if letter.key is not None:
        row = (await load_failed(desk.connection, [letter.key])).get(letter.key)
    body = letter_body(letter)
    if letter.key is not None:
        body |= _standing(row)
    elif letter.origin_topic is not None:
        number_, offset = letter.at
        body |= {"originTopic": letter.origin_topic, "liesIn": f"{letter.topic}, partition {number_}, offset {offset}"}
    return body


def _standing(row: Failed | None) -> dict[str, Any]:
    said = WORDS[verdict(None if row is None else row.standing, datetime.now(UTC))]
    if row is None:
        return {"replay": said}
    standing = row.standing
    return {
        "status": standing.status if standing.reason is None else f"{standing.status} ({standing.reason})",
        "expiresAt": standing.expires_at,
        "replay": said,
    }


def letter_body(letter: Letter) -> dict[str, Any]:
    """A letter, as JSON."""
    notification = None if letter.notification_id is None else public_id(NOTIFICATION, letter.notification_id)
    return {
        "id": letter.id,
        "topic": letter.topic,
        "kind": letter.kind,
        "state": letter.state,
        "errorClass": letter.error_class,
        "detail": letter.detail,
        "firstSeen": letter.first_seen,
        "lastSeen": letter.last_seen,
        "notificationId": notification,
        "type": letter.type_name,
        "channel": letter.channel or None,
        "provider": letter.provider,
        "attempts": letter.attempt,
        "note": letter.note,
        "endedBy": letter.ended_by,
        "runId": None if letter.run_id is None else public_id(REPLAY, letter.run_id),
    }


def _print_summaries(found: Sequence[TopicSummary], problem: str | None, *, as_json: bool) -> None:
    if as_json:
        topics = [
            {"topic": each.topic}
            | {str(kind): count for kind, count in each.counts.items()}
            | {"oldest": each.oldest, "newest": each.newest}
            for each in found
        ]
        typer.echo(orjson.dumps({"topics": topics, "problem": problem}, option=orjson.OPT_INDENT_2))
        return
    if problem is not None:
        typer.echo(f"Only what the table knows, for topics cannot be looked into: {problem}", err=True)
    if not found:
        typer.echo("No dead letters are open.")
        return
    table = Table("topic", *Kind, "oldest", "last seen", box=None, pad_edge=False)
    for each in found:
        table.add_row(
            each.topic, *(f"{each.counts[kind]:,}" for kind in Kind), moment(each.oldest), moment(each.newest)
        )
    Console(highlight=False).print(table)
    typer.echo("Look closer with: replay list TOPIC. Events of outboxes come back by `ulak outbox requeue`.")


def _print_letters(topic: str, page: Sequence[Letter], limit: int, *, as_json: bool) -> None:
    if as_json:
        typer.echo(orjson.dumps({"letters": [letter_body(each) for each in page]}, option=orjson.OPT_INDENT_2))
        return
    if not page:
        typer.echo(f"No letter of {topic} fits.")
        return
    table = Table("id", "first seen", "kind", "error", "type", "provider", "detail", box=None, pad_edge=False)
    for each in page:
        table.add_row(
            each.id,
            moment(each.first_seen),
            each.kind,
            each.error_class,
            each.type_name or "",
            each.provider or "",
            each.detail or "",
        )
    Console(highlight=False).print(table)
    if len(page) == limit:
        typer.echo(f"The first {number(limit, 'letter')}: narrow it down, or say --limit.")
