"""`ulak outbox show <id>`: one event or e-mail where it was enqueued; all but what it says, addresses masked."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ops.cli.errors import CommandError
from ops.cli.outbox.lookup import LOOKED_AT, Name, find_rows
from ops.cli.outbox.option import JsonOption, SourceOption
from ops.cli.outbox.ring import local_ring
from ops.cli.outbox.source import ask_each, databases


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="An e-mail's `eml_...` or UUID, an event's id or its row's UUID, or the idempotency key of either.",
        ),
    ],
    *,
    source: SourceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a row of an event or e-mail, and what to do about it. Exits with 1 if there is none, or a source is down.

    Addresses are masked, and only told if they are in the clear or this machine's key ring opens them. Published events
    are found while they are kept: by their row, if they were published within a minute of being enqueued; by their own
    id among the newest 100,000 rows that wait, and as many that are kept.
    """
    asked, ring, now = Name.parse(name), local_ring(), datetime.now(UTC)
    answers = asyncio.run(
        ask_each(databases(source), lambda where, connection: find_rows(where, connection, asked, ring, now))
    )
    found = [body for bodies in answers.found.values() for body in bodies]
    if as_json:
        typer.echo(json.dumps({"found": found, "problems": answers.problem_bodies()}))
    else:
        typer.echo("\n\n".join("\n".join(_lines(body)) for body in found))
        for where, problem in answers.problems.items():
            typer.echo(f"{where}: {problem}", err=True)
    if not found and not answers.problems:
        raise CommandError(_nothing(asked, list(answers.found)))
    if answers.problems:
        raise typer.Exit(1)


def _nothing(asked: Name, sources: Sequence[str]) -> str:
    """What was looked for, and where else to ask."""
    ids = "an e-mail's id, the id of an event's row, " if asked.id is not None else ""
    return (
        f"no row for {asked.text[:200]!r} in {', '.join(sources)}. Looked for as {ids}an idempotency key, and an "
        f"event's own id among the newest {LOOKED_AT:,} rows that wait and as many that were published. What was "
        "rolled back never was there, and what is published or old is gone: `ulak why --event` tells what became of "
        "an event, `ulak why` of an e-mail"
    )


def _lines(body: Mapping[str, Any]) -> Iterator[str]:
    """What is not there is left out; lists have a line for each."""
    yield f"{body['kind']} {body['id']}  in {body['source']}"
    for name, value in body.items():
        if name in {"kind", "id", "source", "recipients", "advice"} or value in (None, [], {}):
            continue
        yield f"  {name}: {_text(value)}"
    for recipient in body.get("recipients", []):
        told = " ".join(str(recipient[name]) for name in ("field", "address") if recipient[name])
        yield f"  recipient {told or recipient['position']}: {recipient['outcome']}"
    yield f"  -> {body['advice']}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
