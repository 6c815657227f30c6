"""`ulak send`: one notification from the shell."""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from uuid import uuid4

import orjson
import typer
from rich.console import Console
from rich.text import Text

from ops.cli.errors import CommandError
from ops.cli.ingest_client import IngestClient

_POLL_SEC: Final = 0.25
_OPEN: Final = frozenset({"PENDING", "SENDING"})


def send(
    type_name: Annotated[str, typer.Option("--type", help="Notification type, like ORDER_SHIPPED.")],
    user: Annotated[str, typer.Option("--user", help="The recipient's user id.")],
    *,
    param: Annotated[list[str] | None, typer.Option("--param", "-p", help="name=value; repeat it.")] = None,
    params: Annotated[str | None, typer.Option("--params", help="All params as a JSON object.")] = None,
    event_id: Annotated[str | None, typer.Option("--event-id", help="Dedup key; a fresh one by default.")] = None,
    channel: Annotated[list[str] | None, typer.Option("--channel", help="Instead of the type's; repeat it.")] = None,
    priority: Annotated[str | None, typer.Option(help="critical, tx, bulk or low.")] = None,
    send_at: Annotated[str | None, typer.Option("--send-at", help="RFC 3339 time with its offset.")] = None,
    email: Annotated[str | None, typer.Option(help="The user's e-mail address, if Ulak does not know it.")] = None,
    phone: Annotated[str | None, typer.Option(help="The user's phone number.")] = None,
    locale: Annotated[str | None, typer.Option(help="The user's language, like tr-TR.")] = None,
    time_zone: Annotated[str | None, typer.Option("--time-zone", help="The user's zone, like Europe/Istanbul.")] = None,
    wait: Annotated[float, typer.Option(help="Wait so many seconds for its deliveries to settle.")] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the API's answer.")] = False,
) -> None:
    """Send one notification; prints its id. With --wait, exits with 1 if it has not settled by then."""
    recipient = _given({"email": email, "phone": phone, "locale": locale, "timeZone": time_zone})
    body = _given(
        {
            "eventId": event_id or f"cli-{uuid4()}",
            "userId": user,
            "type": type_name,
            "params": merged_params(params, param or []),
            "channels": channel or None,
            "priority": priority,
            "sendAt": send_at,
            "recipient": recipient or None,
        }
    )
    with IngestClient.from_environment() as client:
        answer = client.post("/internal/v1/notifications", body)
        identifier: str = answer.body["notificationId"]
        found = _settled(client, identifier, wait) if wait > 0 else None
    if as_json:
        typer.echo(orjson.dumps({**answer.body, **(found or {})}, option=orjson.OPT_INDENT_2))
        return
    console = Console(highlight=False)
    said = "accepted" if answer.status == 202 else "was accepted before"
    console.print(Text.assemble((identifier, "bold"), f" {said}"))
    if "priority" in answer.body:
        console.print(Text(f"priority clamped to {answer.body['priority']['applied']}", style="yellow"))
    for delivery in () if found is None else found["deliveries"]:
        reason = f" ({delivery['reason']})" if "reason" in delivery else ""
        console.print(Text(f"  {delivery['channel']:6} {delivery['target'] or '':24} {delivery['status']}{reason}"))
    console.print(Text(f"ulak why {identifier}", style="dim"))


def merged_params(text: str | None, pairs: Sequence[str]) -> dict[str, Any]:
    """The JSON object of --params with each --param on top; CommandError says which one cannot be read."""
    merged: dict[str, Any] = {}
    if text is not None:
        try:
            parsed = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise CommandError(
                f'--params is not JSON ({error}): give an object, like \'{{"orderNo": "1"}}\'.'
            ) from error
        if not isinstance(parsed, dict):
            raise CommandError('--params is not a JSON object: give one, like \'{"orderNo": "1"}\'.')
        merged |= parsed
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise CommandError(f"--param {pair!r} is not name=value.")
        merged[name] = value
    return merged


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _settled(client: IngestClient, identifier: str, wait_sec: float) -> dict[str, Any]:
    """The notification once all its deliveries are settled; CommandError if they are not in time."""
    deadline = time.monotonic() + wait_sec
    while True:
        body = client.get(f"/internal/v1/notifications/{identifier}").body
        open_ones = [delivery for delivery in body["deliveries"] if delivery["status"] in _OPEN]
        if body["state"] in {"DECIDED", "CANCELLED"} and not open_ones:
            return body
        if time.monotonic() > deadline:
            raise CommandError(
                f"{identifier} has not settled after {wait_sec:g} s (state {body['state']}, {len(open_ones)} open "
                f"deliveries): look with `ulak why {identifier}`, or wait longer."
            )
        time.sleep(_POLL_SEC)
