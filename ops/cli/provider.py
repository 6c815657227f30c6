"""`ulak provider list|drain|enable`: who carries messages, who does not, and since when and why.

On the database (`ULAK_POSTGRES_DSN`) and on Redis (`ULAK_REDIS_URL`) themselves. Exit codes: 0 done; 1 the database
cannot be used, or there is no such provider; 2 a wrong argument or setting.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

import orjson
import typer
from redis.exceptions import RedisError
from rich.console import Console
from rich.table import Table

from ops.cli.actor import operator
from ops.cli.errors import CommandError
from shared.core.breaker import Breaker, Phase, Policy
from shared.core.control import Controls, PauseKind
from shared.postgres.control import read_controls
from shared.postgres.errors import PostgresError, translated
from shared.postgres.pool import Connection, connect
from shared.postgres.provider import ProviderEvent, drain_account, enable_account, provider_events
from shared.postgres.settings import PostgresSettings
from shared.providers.registry import providers
from shared.redis_store.breaker import BreakerScript, Guarded
from shared.redis_store.client import open_redis
from shared.redis_store.settings import RedisSettings
from shared.runtime.settings import load
from shared.wire.channel import MessageClass

T = TypeVar("T")

app = typer.Typer(
    help="Provider accounts: how they stand, take one out, give it its messages again.", no_args_is_help=True
)

_NOTE_CHARS: Final = 500
_POLICY: Final = Policy()
"""Nobody reports an outcome here, so that it decides nothing."""

Breakers = Mapping[Guarded, Breaker] | None
"""None: Redis could not be asked."""

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="As `ulak provider list` names it.")]
ReasonOption = Annotated[str, typer.Option(help="Why: shown to whoever asks what is going on.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


@app.command("list")
def list_providers(
    *,
    events: Annotated[int, typer.Option(min=0, max=1000, help="How many of the last switches to tell.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Every provider with its drain or pause, its breakers that are not closed, and the last switches."""

    async def read(connection: Connection) -> tuple[Controls, tuple[ProviderEvent, ...]]:
        return await read_controls(connection), await provider_events(connection, None, events)

    controls, switches = _with_database(read)
    breakers = asyncio.run(_breakers(load(RedisSettings)))
    found = [_body(name, channel, controls, breakers) for name, channel in _channels().items()]
    if as_json:
        told = [_event_body(each) for each in switches]
        typer.echo(orjson.dumps({"providers": found, "events": told}, option=orjson.OPT_INDENT_2))
        return
    _print(Console(highlight=False), found, switches, known=breakers is not None)


@app.command()
def drain(name: NameArgument, *, reason: ReasonOption, as_json: JsonOption = False) -> None:
    """Take an account out: within a second nothing new goes to it where another provider can carry it."""
    _require(name)
    note = _note(reason)
    new = _with_database(lambda connection: drain_account(connection, operator(), name, note))
    if as_json:
        typer.echo(orjson.dumps({"provider": name, "drained": True, "new": new}))
    elif new:
        typer.echo(f"{name} is drained. Give it its messages again with: ulak provider enable {name}")
    else:
        typer.echo(f"{name} was drained already: see ulak provider list")


@app.command()
def enable(name: NameArgument, *, reason: ReasonOption = "", as_json: JsonOption = False) -> None:
    """End a drain, and have open breakers of the account tried at once, as its trouble is over."""
    _require(name)
    note = _note(reason) if reason else ""
    was_drained = _with_database(lambda connection: enable_account(connection, operator(), name, note))
    retried = asyncio.run(_retry(load(RedisSettings), name))
    if as_json:
        body = {
            "provider": name,
            "wasDrained": was_drained,
            "retried": None if retried is None else [each.label for each in retried],
        }
        typer.echo(orjson.dumps(body))
        return
    typer.echo(f"{name} is no longer drained." if was_drained else f"{name} was not drained.")
    if retried is None:
        typer.echo("Redis cannot be asked: breakers that are open stay so for their time.")
    elif retried:
        typer.echo(f"Its breakers for {', '.join(each.label for each in retried)} were open and are tried at once.")


async def _breakers(settings: RedisSettings) -> Breakers:
    async with open_redis(settings) as redis:
        script = BreakerScript(redis, settings.key_prefix, _POLICY)
        try:
            return {guarded: await script.read(guarded) for name in _channels() for guarded in _of(name)}
        except RedisError:
            return None


async def _retry(settings: RedisSettings, name: str) -> Sequence[MessageClass] | None:
    async with open_redis(settings) as redis:
        script = BreakerScript(redis, settings.key_prefix, _POLICY)
        try:
            tried = [(guarded.message_class, await script.retry(guarded)) for guarded in _of(name)]
        except RedisError:
            return None
    return [message_class for message_class, breaker in tried if breaker.phase is Phase.OPEN]


def _of(name: str) -> Sequence[Guarded]:
    return [Guarded(name, message_class) for message_class in MessageClass]


def _channels() -> Mapping[str, str]:
    return {name: provider.channel for name, provider in providers().items()}


def _body(name: str, channel: str, controls: Controls, breakers: Breakers) -> dict[str, Any]:
    drained = controls.drains.get(name)
    paused = next((each for each in controls.pauses if (each.kind, each.key) == (PauseKind.PROVIDER, name)), None)
    state = "paused" if paused is not None else "drained" if drained is not None else "enabled"
    body: dict[str, Any] = {"name": name, "channel": channel, "state": state}
    if paused is not None:
        body |= {"since": paused.paused_at, "by": paused.paused_by, "reason": paused.note}
    elif drained is not None:
        body |= {"since": drained.drained_at, "by": drained.drained_by, "reason": drained.note}
    if breakers is None:
        return body | {"breakers": None}
    return body | {
        "breakers": [
            {
                "class": guarded.message_class.label,
                "phase": breaker.phase,
                "since": datetime.fromtimestamp(breaker.since / 1000, UTC),
                "reason": breaker.reason,
            }
            for guarded in _of(name)
            if (breaker := breakers[guarded]).phase is not Phase.CLOSED
        ]
    }


def _event_body(event: ProviderEvent) -> dict[str, Any]:
    return {
        "at": event.at,
        "provider": event.account,
        "class": None if event.message_class is None else event.message_class.label,
        "from": event.from_state,
        "to": event.to_state,
        "reason": event.reason,
        "by": event.actor,
    }


def _print(
    console: Console, found: Sequence[Mapping[str, Any]], events: Sequence[ProviderEvent], *, known: bool
) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("provider", "channel", "state", "breakers"):
        table.add_column(column, overflow="fold")
    for each in found:
        state = each["state"]
        if "since" in each:
            state += f" since {_clock(each['since'])} by {each['by']}: {each['reason']}"
        told = [
            f"{one['class']} {one['phase'].replace('_', ' ')} since {_clock(one['since'])}: {one['reason']}"
            for one in each["breakers"] or ()
        ]
        table.add_row(each["name"], each["channel"], state, "\n".join(told) or ("closed" if known else "unknown"))
    console.print(table)
    if not known:
        console.print("Redis cannot be asked, so that breakers are unknown; workers go by their own.", style="yellow")
    for event in events:
        of_class = "" if event.message_class is None else f" {event.message_class.label}"
        by = "" if event.actor is None else f" by {event.actor}"
        why = f": {event.reason}" if event.reason else ""
        change = f"{event.from_state} -> {event.to_state}".replace("_", " ")
        console.print(f"{_clock(event.at)}  {event.account}{of_class}  {change}{by}{why}", style="dim", markup=False)


def _clock(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def _note(reason: str) -> str:
    if not 1 <= len(reason.strip()) <= _NOTE_CHARS:
        raise CommandError(f"--reason: say why in 1 to {_NOTE_CHARS} characters.")
    return reason.strip()


def _require(name: str) -> None:
    names = sorted(providers())
    if name not in names:
        raise CommandError(f"There is no provider {name!r}. There are {', '.join(names)}.")


def _with_database(work: Callable[[Connection], Awaitable[T]]) -> T:
    settings = load(PostgresSettings)

    async def run() -> T:
        async with connect(settings, name="provider") as connection:
            with translated():
                async with connection.transaction():
                    return await work(connection)

    try:
        return asyncio.run(run())
    except PostgresError as error:
        raise CommandError(f"{error}.") from error
