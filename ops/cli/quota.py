"""`ulak quota show|set|unset`: how many messages a second a provider account may be given.

On the database (`ULAK_POSTGRES_DSN`) and on Redis (`ULAK_REDIS_URL`) themselves; the settings are those of this shell.
Exit codes: 0 done; 1 the database cannot be used, or there is no such provider; 2 a wrong argument or setting.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, TypeVar

import orjson
import typer
from redis.exceptions import RedisError
from rich.console import Console
from rich.table import Table

from ops.cli.actor import operator
from ops.cli.errors import CommandError
from ops.cli.text import moment, span
from shared.core.control import Controls, QuotaOverride
from shared.postgres.control import read_controls
from shared.postgres.errors import PostgresError, translated
from shared.postgres.pool import Connection, connect
from shared.postgres.quota import SaidQuota, said_quotas, set_quota, unset_quota
from shared.postgres.settings import PostgresSettings
from shared.providers.registry import providers
from shared.redis_store.client import open_redis
from shared.redis_store.quota import ACCOUNT, quota_of
from shared.redis_store.settings import RedisSettings
from shared.redis_store.token_bucket import Quota, TokenBuckets
from shared.runtime.settings import load

T = TypeVar("T")

app = typer.Typer(help="Quotas of provider accounts: what holds, and another one for now.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="ACCOUNT", help="As `ulak provider list` names it.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


@app.command()
def show(*, as_json: JsonOption = False) -> None:
    """Every account: its quota, where that comes from, and for how long it is drained because the provider said so."""
    said, controls = _with_database(_read)
    drained = asyncio.run(_drained(load(RedisSettings)))
    found = [_body(name, said.get(name), controls, drained) for name in providers()]
    if as_json:
        typer.echo(orjson.dumps({"quotas": found}, option=orjson.OPT_INDENT_2))
        return
    if drained is None:
        typer.echo("Redis cannot be asked: who is drained is not known.", err=True)
    table = Table("account", "per second", "for critical", "by", "drained for", box=None, pad_edge=False)
    for each in found:
        rate = "any" if each["perSecond"] is None else f"{each['perSecond']:g}"
        reserve = "" if not each["reservePerSecond"] else f"{each['reservePerSecond']:g}"
        by = each["source"] if "setBy" not in each else f"{each['setBy']}, {moment(each['setAt'])}"
        table.add_row(each["account"], rate, reserve, by, span(each["drainedSec"]) if each["drainedSec"] else "")
    Console(highlight=False).print(table)


@app.command("set")
def set_(
    account: NameArgument,
    *,
    per_second: Annotated[float | None, typer.Option(min=0.01, help="Messages a second.")] = None,
    reserve: Annotated[
        float | None, typer.Option(min=0, help="Of these, for the critical class alone; else its part as before.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Another quota instead of the settings', within a second on all workers, until it is unset."""
    _require(account)
    if per_second is None and reserve is None:
        raise CommandError("say --per-second, --reserve or both")

    async def change(connection: Connection) -> Quota | None:
        before = (await read_controls(connection)).quotas.get((account, ACCOUNT))
        rate = per_second if per_second is not None else None if before is None else before.per_second
        own = _own(account)
        known = rate if rate is not None else None if own is None else own.per_second
        if reserve is not None and known is not None and reserve >= known:
            raise CommandError(f"--reserve: must be below the {known:g} messages a second, or nobody else gets any")
        await set_quota(connection, operator(), account, per_second, reserve)
        return quota_of(account, own, (await read_controls(connection)).quotas[account, ACCOUNT])

    now = _with_database(change)
    if as_json:
        typer.echo(orjson.dumps({"account": account, **_numbers(now)}))
    else:
        rate = "any number of messages" if now is None else f"{now.per_second:g} messages"
        typer.echo(f"{account} is given {rate} a second. Back to the settings: ulak quota unset {account}")


@app.command()
def unset(account: NameArgument, *, as_json: JsonOption = False) -> None:
    """Back to the settings."""
    _require(account)
    was_set = _with_database(lambda connection: unset_quota(connection, operator(), account))
    if as_json:
        typer.echo(orjson.dumps({"account": account, "wasSet": was_set}))
    else:
        typer.echo(f"{account} goes by its settings." if was_set else f"{account} went by its settings already.")


async def _read(connection: Connection) -> tuple[Mapping[str, SaidQuota], Controls]:
    return {each.account: each for each in await said_quotas(connection)}, await read_controls(connection)


async def _drained(settings: RedisSettings) -> Mapping[str, float] | None:
    """Seconds by account; None where Redis cannot be asked."""
    async with open_redis(settings) as redis:
        buckets = TokenBuckets(redis, settings.key_prefix)
        try:
            return {name: (await buckets.drained_sec(name))[0] for name in providers()}
        except RedisError:
            return None


def _body(name: str, said: SaidQuota | None, controls: Controls, drained: Mapping[str, float] | None) -> dict[str, Any]:
    override: QuotaOverride | None = controls.quotas.get((name, ACCOUNT))
    body = {"account": name, **_numbers(quota_of(name, _own(name), override))}
    if said is None:
        body["source"] = "settings"
    else:
        body |= {"source": "operator", "setBy": said.updated_by, "setAt": said.updated_at}
    return body | {"drainedSec": None if drained is None else drained[name]}


def _numbers(quota: Quota | None) -> dict[str, Any]:
    if quota is None:
        return {"perSecond": None, "reservePerSecond": None}
    return {"perSecond": quota.per_second, "reservePerSecond": quota.reserve_per_second}


def _own(name: str) -> Quota | None:
    settings = load(providers()[name].settings)
    if settings.quota_per_second is None:
        return None
    return Quota(name, settings.quota_per_second, settings.quota_reserve_per_second)


def _require(name: str) -> None:
    if name not in providers():
        raise CommandError(f"there is no provider {name!r}: there are {', '.join(sorted(providers()))}.")


def _with_database(work: Callable[[Connection], Awaitable[T]]) -> T:
    settings = load(PostgresSettings)

    async def run() -> T:
        async with connect(settings, name="quota") as connection:
            with translated():
                async with connection.transaction():
                    return await work(connection)

    try:
        return asyncio.run(run())
    except PostgresError as error:
        raise CommandError(f"{error}.") from error
