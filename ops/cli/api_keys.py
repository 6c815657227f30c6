"""`ulak api-keys`: who may call the internal API. Works on the database itself (`ULAK_POSTGRES_DSN`)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

import orjson
import typer
from rich.console import Console
from rich.table import Table

from ops.cli.actor import operator
from ops.cli.age import parse_age
from ops.cli.errors import CommandError
from shared.core.identifier import API_KEY, InvalidIdError, parse_public_id, public_id
from shared.postgres.api_key import (
    AUDIT_KIND,
    InvalidEntryError,
    KeyTerms,
    Kind,
    Scope,
    StoredKey,
    allow_list,
    audit_detail,
    create_key,
    in_order,
    key_body,
    new_secret,
    revoke_key,
    stored_key,
)
from shared.postgres.api_key import (
    list_keys as stored_keys,
)
from shared.postgres.audit_log import record
from shared.postgres.errors import PostgresError
from shared.postgres.pool import Connection, connect
from shared.postgres.settings import PostgresSettings
from shared.runtime.keyring import KeyRingError, KeyRingSettings, load_ring_source
from shared.runtime.settings import load

T = TypeVar("T")

app = typer.Typer(help="API keys: create, list, revoke.", no_args_is_help=True)

_NAME_CHARS: Final = 64


def parse_scopes(text: str) -> tuple[Scope, ...]:
    """Comma-separated scopes, each once, in a stable order; CommandError for one that does not exist."""
    given = [scope.strip() for scope in text.split(",") if scope.strip()]
    try:
        found = in_order([Scope(scope) for scope in given])
    except ValueError:
        found = ()
    if not found:
        raise CommandError(f"--scopes {text!r}: use {', '.join(Scope)}, separated by commas.")
    return found


@app.command()
def create(
    name: Annotated[str, typer.Option(help="What the key is for; shown in lists and refusals.")],
    application: Annotated[str, typer.Option(help="The calling application; created on first use.")],
    *,
    kind: Annotated[Kind, typer.Option(help="live, team or test.")] = Kind.LIVE,
    scopes: Annotated[str, typer.Option(help="notifications, otp, admin, all; separated by commas.")] = "notifications",
    rate: Annotated[int | None, typer.Option(min=1, help="Requests a second (per ingest process).")] = None,
    expires_in: Annotated[str | None, typer.Option("--expires-in", help="12h, 90d, 4w; never by default.")] = None,
    allow: Annotated[list[str] | None, typer.Option("--allow", help="Team keys: an address it may reach.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the key as JSON.")] = False,
) -> None:
    """Create a key and print its secret, which cannot be shown again."""
    for option, text in (("--name", name), ("--application", application)):
        if not 1 <= len(text) <= _NAME_CHARS:
            raise CommandError(f"{option}: give 1 to {_NAME_CHARS} characters.")
    if allow and kind is not Kind.TEAM:
        raise CommandError("--allow is for team keys: add --kind team, or leave it out.")
    try:
        expires_at = None if expires_in is None else datetime.now(UTC) + parse_age(expires_in)
    except ValueError as error:
        raise CommandError(f"--expires-in {expires_in!r}: {error}.") from error
    terms = KeyTerms(name, parse_scopes(scopes), rate, _allowed(allow) if allow else (), expires_at)
    secret = new_secret(kind)

    async def insert(connection: Connection) -> StoredKey:
        created = await create_key(connection, application, kind, terms, secret)
        await record(
            connection, operator(), "created", AUDIT_KIND, public_id(API_KEY, created.id), audit_detail(created)
        )
        return created

    shown = key_body(_with_database(insert)) | {"secret": secret.text}
    if as_json:
        typer.echo(orjson.dumps(shown, option=orjson.OPT_INDENT_2))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{shown['id']}  {application} / {name}  {kind}  {', '.join(terms.scopes)}", markup=False)
    console.print(secret.text, style="bold", markup=False)
    console.print("This is the only time the secret is shown. Send it as `Authorization: Bearer ...`.", style="dim")


@app.command("list")
def list_keys(*, as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """All keys, without their secrets."""
    keys = [key_body(stored) for stored in _with_database(stored_keys)]
    if as_json:
        typer.echo(orjson.dumps({"keys": keys}, option=orjson.OPT_INDENT_2))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("id", "application", "name", "kind", "scopes", "rate", "state"):
        table.add_column(column, overflow="fold")
    now = datetime.now(UTC)
    for key in keys:
        rate = "" if key["ratePerSecond"] is None else f"{key['ratePerSecond']}/s"
        table.add_row(
            key["id"], key["application"], key["name"], key["kind"], ",".join(key["scopes"]), rate, _state(key, now)
        )
    Console(highlight=False).print(table)


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="ID", help="`key_...` as `ulak api-keys list` shows it.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Make a key unusable; services notice within seconds. Revoking it again changes nothing."""
    try:
        key_id = parse_public_id(API_KEY, key)
    except InvalidIdError as error:
        raise CommandError(f"{error}: take it from `ulak api-keys list`.") from error

    async def update(connection: Connection) -> datetime | None:
        if await revoke_key(connection, key_id):
            await record(connection, operator(), "revoked", AUDIT_KIND, public_id(API_KEY, key_id))
        revoked = await stored_key(connection, key_id)
        return None if revoked is None else revoked.revoked_at

    revoked_at = _with_database(update)
    if revoked_at is None:
        raise CommandError(f"There is no key {key}: see `ulak api-keys list`.")
    if as_json:
        typer.echo(orjson.dumps({"id": key, "revokedAt": revoked_at}))
    else:
        typer.echo(f"{key} is revoked since {revoked_at.isoformat(timespec='seconds')}")


def _state(key: dict[str, Any], now: datetime) -> str:
    if key["revokedAt"] is not None:
        return "revoked"
    if key["expiresAt"] is None:
        return "active"
    return f"until {key['expiresAt']:%Y-%m-%d}" if key["expiresAt"] > now else "expired"


def _allowed(addresses: Sequence[str]) -> tuple[bytes, ...]:
    try:
        ring = load_ring_source(load(KeyRingSettings)).ring
    except KeyRingError as error:
        raise CommandError(f"--allow needs the key ring: {error}") from error
    try:
        return allow_list(addresses, ring)
    except InvalidEntryError as error:
        raise CommandError(f"--allow number {error.position + 1} is {error}.") from error


def _with_database(work: Callable[[Connection], Awaitable[T]]) -> T:
    settings = load(PostgresSettings)

    async def run() -> T:
        async with connect(settings, name="api-keys") as connection, connection.transaction():
            return await work(connection)

    try:
        return asyncio.run(run())
    except PostgresError as error:
        raise CommandError(f"{error}.") from error
