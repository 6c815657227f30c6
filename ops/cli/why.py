"""`ulak why <id>`: what happened to a notification, in words."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ops.cli.ingest_client import IngestClient


def why(
    notification: Annotated[str, typer.Argument(metavar="ID", help="`ntf_...`, or an event id with --event.")],
    *,
    event: Annotated[bool, typer.Option("--event", help="ID is the event id the caller sent.")] = False,
    type_name: Annotated[
        str | None, typer.Option("--type", help="With --event: which type, if it led to several.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the API's answer.")] = False,
) -> None:
    """Tell each decision and attempt of a notification, in order. Exits with 1 if there is no such notification."""
    with IngestClient.from_environment() as client:
        if event:
            kind = f"&type={quote(type_name, safe='')}" if type_name else ""
            found = client.get(f"/internal/v1/notifications?eventId={quote(notification, safe='')}{kind}")
            notification = found.body["notificationId"]
        body = client.get(f"/internal/v1/notifications/{quote(notification, safe='')}/explain").body
    if as_json:
        typer.echo(orjson.dumps(body, option=orjson.OPT_INDENT_2))
    else:
        _print(Console(highlight=False), body)


def _print(console: Console, body: Mapping[str, Any]) -> None:
    console.print(Text(f"{body['notificationId']}  {body['state']}", style="bold"))
    console.print(Text(body["summary"]))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for step in body["steps"]:
        moment = datetime.fromisoformat(step["at"]).astimezone()
        table.add_row(f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}", Text(step["text"]))
    console.print(table)
