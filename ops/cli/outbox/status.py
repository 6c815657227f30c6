"""`ulak outbox status`: what waits in each source, since when, and why the rest failed."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

import typer

from ops.cli.outbox.ledger_email import look_at_ledger
from ops.cli.outbox.option import JsonOption, SourceOption
from ops.cli.outbox.source import CLASSES, ask_each, databases, looking
from ops.cli.text import COUNTED_AT_MOST, count, moment, span
from shared.core.identifier import EMAIL, public_id
from shared.postgres.pool import Connection
from shared.postgres.producer import installed_version
from shared.postgres.query import load_queries
from shared.postgres.source import OWN
from shared.wire.channel import MessageClass

_SQL: Final = load_queries("outbox_cli")
_ERRORS_SHOWN: Final = 10

Body = Mapping[str, Any]


def status(*, source: SourceOption = None, as_json: JsonOption = False) -> None:
    """Tell what waits per source, since when, and what failed by which error. Exits with 1 if a source has no answer.

    Only looks, and counts no further than 100,000.
    """
    answers = asyncio.run(ask_each(databases(source), _look))
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "sources": list(answers.found.values()),
                    "problems": answers.problem_bodies(),
                    "countedAtMost": COUNTED_AT_MOST,
                }
            )
        )
    else:
        for body in answers.found.values():
            typer.echo("\n".join(_lines(body)))
        for name, problem in answers.problems.items():
            typer.echo(f"{name}: {problem}", err=True)
    if answers.problems:
        raise typer.Exit(1)


async def _look(name: str, connection: Connection) -> dict[str, Any]:
    """One source's body, as `--json` prints it."""
    async with looking(connection):
        events = await connection.fetch(_SQL["waiting_events"], CLASSES, COUNTED_AT_MOST)
        aside = await connection.fetch(_SQL["set_aside_errors"], CLASSES, COUNTED_AT_MOST, _ERRORS_SHOWN)
        emails = await connection.fetch(_SQL["waiting_emails"], CLASSES, COUNTED_AT_MOST)
        failed = await connection.fetch(_SQL["failed_email_errors"], COUNTED_AT_MOST, _ERRORS_SHOWN)
        kept = await connection.fetchrow(_SQL["kept_published"], COUNTED_AT_MOST)
        version = await installed_version(connection)
        by_api = await look_at_ledger(connection, errors_shown=_ERRORS_SHOWN) if name == OWN else None
    assert kept is not None  # an aggregate
    return {
        "source": name,
        "producerSchema": version,
        "events": {
            "waiting": [_event_body(row) for row in events if row["due"] or row["later"]],
            "setAside": _errors_body(aside, str),
        },
        "emails": [_email_body(row, [each for each in failed if each["model"] == row["model"]]) for row in emails],
        **({} if by_api is None else {"apiEmails": by_api}),
        "published": {"count": kept["count"], "oldestAt": kept["oldest"] and kept["oldest"].isoformat()},
    }


def _event_body(row: Any) -> dict[str, Any]:
    return {
        "class": MessageClass(row["message_class"]).label,
        "due": row["due"],
        "oldestDueSec": row["oldest_due_sec"],
        "later": row["later"],
    }


def _email_body(row: Any, failed: Sequence[Any]) -> dict[str, Any]:
    return {
        "model": row["model"],
        "pending": {"due": row["due"], "oldestDueSec": row["oldest_due_sec"], "later": row["later"]},
        "sending": {"count": row["sending"], "oldestSec": row["oldest_sending_sec"]},
        "failed": _errors_body(failed, partial(public_id, EMAIL)),
        "sentLastDay": row["sent_last_day"],
    }


def _errors_body(rows: Sequence[Any], id_of: Callable[[UUID], str]) -> dict[str, Any]:
    """The most frequent errors; count is of all of them."""
    return {
        "count": rows[0]["total"] if rows else 0,
        "errors": [{"error": row["error"], "count": row["count"], "sample": id_of(row["sample"])} for row in rows],
    }


def _lines(body: Body) -> Iterator[str]:
    yield f"{body['source']}  (producer schema {body['producerSchema']})"
    by_api = [body["apiEmails"]] if "apiEmails" in body else []
    told = [*_event_lines(body["events"])]
    told += [line for each in body["emails"] for line in _email_lines(f"e-mails of model {each['model']}", each)]
    told += [line for each in by_api for line in _email_lines("e-mails by the API in the ledger (model B)", each)]
    yield from told or ["  nothing waits, nothing failed"]
    sent = sum(each["sentLastDay"] for each in (*body["emails"], *by_api))
    if sent:
        yield f"  e-mails sent in the last day: {count(sent)}"
    published = body["published"]
    if published["count"]:
        oldest = moment(datetime.fromisoformat(published["oldestAt"]))
        yield f"  published events kept: {count(published['count'])}, since {oldest} (`ulak outbox republish`)"


def _event_lines(events: Body) -> Iterator[str]:
    for waiting in events["waiting"]:
        yield f"  events {waiting['class']}: {_waiting(waiting)}"
    if events["setAside"]["count"]:
        yield f"  events set aside: {count(events['setAside']['count'])} (`ulak outbox requeue`)"
        yield from _error_lines(events["setAside"])


def _email_lines(what: str, emails: Body) -> Iterator[str]:
    name = f"  {what}"
    pending, sending, failed = emails["pending"], emails["sending"], emails["failed"]
    if pending["due"] or pending["later"]:
        yield f"{name} PENDING: {_waiting(pending)}"
    if sending["count"]:
        since = "" if sending["oldestSec"] is None else f", the oldest for {span(sending['oldestSec'])}"
        yield f"{name} SENDING: {count(sending['count'])}{since}"
    if failed["count"]:
        yield f"{name} FAILED: {count(failed['count'])} (`ulak outbox requeue`)"
        yield from _error_lines(failed)


def _waiting(waiting: Body) -> str:
    due, later = waiting["due"], waiting["later"]
    told = [f"{count(due)} due, the oldest for {span(waiting['oldestDueSec'])}"] if due else []
    return "; ".join([*told, f"{count(later)} later"] if later else told)


def _error_lines(failed: Body) -> Iterator[str]:
    for each in failed["errors"]:
        yield f"    {count(each['count'])}  {each['error'] or 'no error was kept'}  (such as {each['sample']})"
    rest = failed["count"] - sum(each["count"] for each in failed["errors"])
    if rest:
        yield f"    {count(rest)}  with other errors"
