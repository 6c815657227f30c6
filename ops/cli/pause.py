"""`ulak pause`, `ulak resume`, `ulak pauses`: the stop buttons. On the database itself (`ULAK_POSTGRES_DSN`).

Exit codes: 0 done; 1 the database cannot be used, or what was named is not there; 2 a wrong argument.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

import orjson
import typer
from rich.console import Console
from rich.table import Table

from ops.cli.actor import operator
from ops.cli.errors import CommandError
from shared.core.control import ONLY_BY_LANE, PauseKind, template_key
from shared.core.identifier import API_KEY, InvalidIdError, parse_public_id, public_id
from shared.postgres.api_key import list_keys
from shared.postgres.errors import PostgresError, translated
from shared.postgres.pause import ListedPause, begin_pause, end_pause, known_templates, known_types, list_pauses
from shared.postgres.pool import Connection, connect
from shared.postgres.settings import PostgresSettings
from shared.providers.registry import providers
from shared.runtime.settings import load
from shared.wire.channel import DEFAULT_CHANNELS

T = TypeVar("T")

_NOTE_CHARS: Final = 500
_LISTED: Final = 30
_OTP_TYPE: Final = "OTP"


class Kind(StrEnum):
    """What can be stopped, as it is typed."""

    LANE = "lane"
    TYPE = "type"
    TEMPLATE = "template"
    PROVIDER = "provider"
    API_KEY = "api-key"

    @property
    def stored(self) -> PauseKind:
        return PauseKind(self.replace("-", "_"))


KindArgument = Annotated[Kind, typer.Argument(help="lane, type, template, provider or api-key.")]
NameArgument = Annotated[
    str, typer.Argument(help="Which one; a template version as TYPE/CHANNEL/LOCALE/VERSION, an API key as key_...")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def pause(
    kind: KindArgument,
    name: NameArgument,
    *,
    reason: Annotated[str, typer.Option(help="Why: shown to whoever asks what is going on.")],
    as_json: JsonOption = False,
) -> None:
    """Stop something on all workers at once. Nothing is lost: it waits for `ulak resume`, and expires meanwhile."""
    if not 1 <= len(reason.strip()) <= _NOTE_CHARS:
        raise CommandError(f"--reason: say why in 1 to {_NOTE_CHARS} characters.")

    async def begin(connection: Connection) -> tuple[dict[str, Any], bool]:
        key = await _key(connection, kind, name)
        made, new = await begin_pause(connection, operator(), kind.stored, key, reason.strip())
        return {
            "kind": kind,
            "name": name,
            "reason": made.note,
            "pausedBy": made.paused_by,
            "pausedAt": made.paused_at,
        }, new

    body, new = _with_database(begin)
    if as_json:
        typer.echo(orjson.dumps(body | {"new": new}, option=orjson.OPT_INDENT_2))
    elif new:
        typer.echo(f"{kind} {name} is paused. Let it go on with: ulak resume {kind} {name}")
    else:
        typer.echo(
            f"{kind} {name} was paused already, {_since(body['pausedAt'])} by {body['pausedBy']}: {body['reason']}"
        )


def resume(
    kind: KindArgument,
    name: NameArgument,
    *,
    per_second: Annotated[
        float | None, typer.Option(min=0.01, help="Deliveries let go a second; else as the relay is set.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Let go on what was paused: what waited is sent in order, at a pace; what has expired is not sent."""

    async def end(connection: Connection) -> int:
        key = _typed_key(kind, name)  # and not known: a type that was deleted meanwhile can still be resumed
        ended = await end_pause(connection, operator(), kind.stored, key, per_second=per_second)
        in_force = await list_pauses(connection)
        if ended is None:
            paused = [f"{_typed(each)}" for each in in_force if each.resumed_at is None]
            raise CommandError(f"{kind} {name} is not paused. Paused {_named(paused)}.")
        return next((each.waiting for each in in_force if each.id == ended.id), 0)

    waiting = _with_database(end)
    if as_json:
        typer.echo(orjson.dumps({"kind": kind, "name": name, "waiting": waiting}, option=orjson.OPT_INDENT_2))
    elif kind is Kind.LANE:
        typer.echo(f"{kind} {name} goes on; its hints have waited in Kafka.")
    else:
        typer.echo(f"{kind} {name} goes on; {waiting} deliveries that waited are let go (see `ulak pauses`).")


def pauses(*, as_json: JsonOption = False) -> None:
    """What is paused, since when, by whom and why, and how much waits; also what is still being let go."""
    found = _with_database(list_pauses)
    if as_json:
        typer.echo(orjson.dumps({"pauses": [_body(each) for each in found]}, option=orjson.OPT_INDENT_2))
        return
    if not found:
        typer.echo("Nothing is paused.")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("what", "state", "since", "by", "why", "waiting"):
        table.add_column(column, overflow="fold")
    for each in found:
        state = "paused" if each.resumed_at is None else f"let go {_since(each.resumed_at)} by {each.resumed_by}"
        in_kafka = each.kind is PauseKind.LANE and each.resumed_at is None
        waiting = f"{each.waiting} + its lag in Kafka" if in_kafka else str(each.waiting)
        since = f"{each.paused_at.astimezone():%Y-%m-%d %H:%M:%S}"
        table.add_row(_typed(each), state, since, each.paused_by, each.note, waiting)
    Console(highlight=False).print(table)


async def _key(connection: Connection, kind: Kind, name: str) -> str:
    """How a pause names it; CommandError lists what there is."""
    match kind:
        case Kind.LANE:
            _require(kind, name, [lane.name for lane in DEFAULT_CHANNELS.lanes])
        case Kind.PROVIDER:
            _require(kind, name, sorted(providers()))
        case Kind.TYPE:
            if name == _OTP_TYPE:
                lanes = " or ".join(f"ulak pause lane {lane}" for lane in sorted(ONLY_BY_LANE))
                raise CommandError(f"Login codes are stopped by their lane alone: {lanes}.")
            _require(kind, name, await known_types(connection))
        case Kind.TEMPLATE:
            type_name = name.partition("/")[0]
            _require(Kind.TYPE, type_name, await known_types(connection))
            known = await known_templates(connection, type_name)
            _require(kind, name, [template_key(type_name, *each) for each in known])
        case Kind.API_KEY:
            known_keys = [public_id(API_KEY, key.id) for key in await list_keys(connection) if key.revoked_at is None]
            _require(kind, name, known_keys)
    return _typed_key(kind, name)


def _require(kind: Kind, name: str, known: Iterable[str]) -> None:
    names = list(known)
    if name not in names:
        raise CommandError(f"There is no {kind} {name!r}. There {_named(names)}.")


def _named(names: list[str]) -> str:
    if not names:
        return "is none"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{'is' if len(names) == 1 else 'are'} {', '.join(names[:_LISTED])}{more}"


def _typed_key(kind: Kind, name: str) -> str:
    if kind is not Kind.API_KEY:
        return name
    try:
        return str(parse_public_id(API_KEY, name))
    except InvalidIdError as error:
        raise CommandError(f"{error}: take it from `ulak api-keys list`.") from error


def _typed(paused: ListedPause) -> str:
    """As an operator types it."""
    name = public_id(API_KEY, UUID(paused.key)) if paused.kind is PauseKind.API_KEY else paused.key
    return f"{paused.kind.replace('_', '-')} {name}"


def _body(paused: ListedPause) -> dict[str, Any]:
    kind, _, name = _typed(paused).partition(" ")
    return {
        "kind": kind,
        "name": name,
        "reason": paused.note,
        "pausedBy": paused.paused_by,
        "pausedAt": paused.paused_at,
        "resumedBy": paused.resumed_by,
        "resumedAt": paused.resumed_at,
        "waiting": paused.waiting,
    }


def _since(moment: datetime) -> str:
    return f"since {moment.astimezone():%Y-%m-%d %H:%M:%S}"


def _with_database(work: Callable[[Connection], Awaitable[T]]) -> T:
    settings = load(PostgresSettings)

    async def run() -> T:
        async with connect(settings, name="pause") as connection:
            with translated():
                async with connection.transaction():
                    return await work(connection)

    try:
        return asyncio.run(run())
    except PostgresError as error:
        raise CommandError(f"{error}.") from error
