"""`ulak why <id>`: what happened to a notification or an e-mail, in words."""

import asyncio
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ops.cli.errors import CommandError, RefusedError
from ops.cli.ingest_client import IngestClient
from ops.cli.outbox.ring import local_ring
from ops.cli.outbox.story import row_stories
from shared.core.identifier import EMAIL, InvalidIdError, parse_public_id, public_id
from shared.decision.wording import Language


def why(
    notification: Annotated[
        str, typer.Argument(metavar="ID", help="`ntf_...`, `eml_...`, or an event id with --event.")
    ],
    *,
    event: Annotated[bool, typer.Option("--event", help="ID is the event id the caller sent.")] = False,
    type_name: Annotated[
        str | None, typer.Option("--type", help="With --event: which type, if it led to several.")
    ] = None,
    email: Annotated[
        bool, typer.Option("--email", help="ID is an e-mail's: `eml_...`, or the id of its row in a service's table.")
    ] = False,
    language: Annotated[Language, typer.Option("--lang", help="Language of the sentences.")] = Language.ENGLISH,
    as_json: Annotated[bool, typer.Option("--json", help="Print the API's answer.")] = False,
) -> None:
    """Tell each decision and attempt of a notification or e-mail, in order. Exits with 1 if there is none.

    An e-mail that the API does not know, or has no API to ask, is looked for in the tables of ULAK_RELAY_SOURCES and
    Ulak's own: so it is with model A.
    """
    if event and email:
        raise CommandError("--event and --email: ID is one or the other.")
    if not event and (email or notification.startswith(f"{EMAIL}_")):
        body = _of_email(notification, language)
    elif _has_no_api(os.environ):
        body = _of_row(notification, language)  # what has no API has e-mails alone
    else:
        body = _of_notification(notification, language, event=event, type_name=type_name)
    if as_json:
        typer.echo(orjson.dumps(body, option=orjson.OPT_INDENT_2))
    else:
        _print(Console(highlight=False), body)


def _has_no_api(environment: Mapping[str, str]) -> bool:
    """As a stack of model A: its database is at hand, and nobody to ask."""
    return bool(environment.get("ULAK_POSTGRES_DSN")) and not environment.get("ULAK_INGEST_URL")


def _of_notification(text: str, language: Language, *, event: bool, type_name: str | None) -> dict[str, Any]:
    with IngestClient.from_environment() as client:
        if event:
            of_type = f"&type={quote(type_name, safe='')}" if type_name else ""
            found = client.get(f"/internal/v1/notifications?eventId={quote(text, safe='')}{of_type}")
            text = found.body["notificationId"]
        return client.get(f"/internal/v1/notifications/{quote(text, safe='')}/explain?lang={language}").body


def _of_email(text: str, language: Language) -> dict[str, Any]:
    """By the API; what it does not know may be a row that is sent straight from its service's table."""
    if _has_no_api(os.environ):
        return _of_row(text, language)
    try:
        with IngestClient.from_environment() as client:
            return client.get(f"/internal/v1/emails/{quote(text, safe='')}/explain?lang={language}").body
    except RefusedError as error:
        if error.code != "email_not_found" or not os.environ.get("ULAK_POSTGRES_DSN"):
            raise
        return _of_row(text, language)


def _of_row(text: str, language: Language) -> dict[str, Any]:
    """From `email_messages`, in Ulak's own database or a service's."""
    try:
        id_ = parse_public_id(EMAIL, text)
    except InvalidIdError as error:
        raise CommandError(
            f"{error}. Without an internal API (ULAK_INGEST_URL is not set) only e-mails are known here: give "
            "`eml_...`, or the id that `ulak.enqueue_email` returned"
        ) from error
    answers = asyncio.run(row_stories(id_, local_ring(), language))
    for source, problem in answers.problems.items():
        typer.echo(f"{source}: {problem}", err=True)
    stories = [body for bodies in answers.found.values() for body in bodies]
    if not stories:
        raise CommandError(
            f"no e-mail {public_id(EMAIL, id_)} in {', '.join(answers.found) or 'any source'}: check the id, and that "
            "ULAK_RELAY_SOURCES names its service's database. What is old is gone, what was rolled back never was there"
        )
    return stories[0]


def _print(console: Console, body: Mapping[str, Any]) -> None:
    ids = "  ".join(body[name] for name in ("emailId", "notificationId") if name in body)
    console.print(Text(f"{ids}  {body['state']}", style="bold"))
    console.print(Text(body["summary"]))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for step in body["steps"]:
        at: str | datetime = step["at"]
        moment = (datetime.fromisoformat(at) if isinstance(at, str) else at).astimezone()
        table.add_row(f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}", Text(step["text"]))
    console.print(table)
