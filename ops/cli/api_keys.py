"""`ulak api-keys`: who may call the internal API. Works on the database itself (`ULAK_POSTGRES_DSN`)."""

import asyncio
import base64
import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

import orjson
import typer
from rich.console import Console
from rich.table import Table

from ops.cli.errors import CommandError
from shared.core.address import InvalidAddressError, parse_email, parse_phone, target_key
from shared.core.identifier import API_KEY, InvalidIdError, new_id, parse_public_id, public_id
from shared.core.sealing import KeyRing
from shared.postgres.errors import PostgresError
from shared.postgres.pool import Connection, connect
from shared.postgres.query import load_queries
from shared.postgres.settings import PostgresSettings
from shared.runtime.keyring import KeyRingError, KeyRingSettings, load_ring_source
from shared.runtime.settings import load

T = TypeVar("T")

app = typer.Typer(help="API keys: create, list, revoke.", no_args_is_help=True)

_UNITS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_SCOPES: Final = ("notifications", "otp", "admin", "all")
_NAME_CHARS: Final = 64


class Kind(StrEnum):
    """live sends; team sends to its allow-list only; test is sent by an in-process simulated provider (api.md)."""

    LIVE = "live"
    TEAM = "team"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Secret:
    """A new key: `text` is shown once, `hash` is stored."""

    text: str
    hash: bytes

    def __repr__(self) -> str:
        return "Secret(...)"


def new_secret(kind: Kind) -> Secret:
    """`ulak_<kind>_` and 43 characters of base64url: 256 random bits, so a plain SHA-256 of it cannot be guessed."""
    text = f"ulak_{kind}_{base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip('=')}"
    return Secret(text, hashlib.sha256(text.encode()).digest())


def parse_scopes(text: str) -> list[str]:
    """Comma-separated scopes, each once, in a stable order; CommandError for one that does not exist."""
    given = [scope.strip() for scope in text.split(",") if scope.strip()]
    unknown = [scope for scope in given if scope not in _SCOPES]
    if unknown or not given:
        raise CommandError(f"--scopes {text!r}: use {', '.join(_SCOPES)}, separated by commas.")
    return [scope for scope in _SCOPES if scope in given]


def parse_age(text: str) -> timedelta:
    """`12h`, `90d`, `4w`; CommandError otherwise."""
    found = re.fullmatch(r"([1-9][0-9]{0,3})([hdw])", text.strip())
    if found is None:
        raise CommandError(f"--expires-in {text!r}: give hours, days or weeks, like 12h, 90d or 4w.")
    return int(found[1]) * _UNITS[found[2]]


def allow_list(addresses: Sequence[str], ring: KeyRing) -> list[bytes]:
    """Target keys of the addresses a team key may reach: what holds an @ is e-mail, all else a phone."""
    keys: list[bytes] = []
    for address in addresses:
        try:
            if "@" in address:
                keys.append(target_key(ring, "EMAIL", parse_email(address).canonical))
            else:
                keys.append(target_key(ring, "SMS", parse_phone(address)))
        except InvalidAddressError as error:
            raise CommandError(f"--allow number {len(keys) + 1} is {error}.") from error
    return keys


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
    allowed = allow_list(allow, _ring()) if allow else []
    chosen = parse_scopes(scopes)
    expires_at = None if expires_in is None else datetime.now(UTC) + parse_age(expires_in)
    secret = new_secret(kind)
    key_id = new_id()

    async def insert(connection: Connection) -> None:
        await connection.execute(
            load_queries("api_key")["create"],
            application,
            key_id,
            name,
            secret.hash,
            kind,
            chosen,
            rate,
            allowed,
            expires_at,
        )

    _with_database(insert)
    shown = {
        "id": public_id(API_KEY, key_id),
        "name": name,
        "application": application,
        "kind": kind,
        "scopes": chosen,
        "ratePerSecond": rate,
        "expiresAt": expires_at,
        "secret": secret.text,
    }
    if as_json:
        typer.echo(orjson.dumps(shown, option=orjson.OPT_INDENT_2))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{shown['id']}  {application} / {name}  {kind}  {', '.join(chosen)}", markup=False)
    console.print(secret.text, style="bold", markup=False)
    console.print("This is the only time the secret is shown. Send it as `Authorization: Bearer ...`.", style="dim")


@app.command("list")
def list_keys(*, as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """All keys, without their secrets."""

    async def read(connection: Connection) -> list[dict[str, Any]]:
        rows = await connection.fetch(load_queries("api_key")["list"])
        return [
            {
                "id": public_id(API_KEY, row["id"]),
                "application": row["application"],
                "name": row["name"],
                "kind": row["kind"],
                "scopes": row["scopes"],
                "ratePerSecond": row["rate_per_second"],
                "createdAt": row["created_at"],
                "expiresAt": row["expires_at"],
                "revokedAt": row["revoked_at"],
            }
            for row in rows
        ]

    keys = _with_database(read)
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
        revoked_at: datetime | None = await connection.fetchval(load_queries("api_key")["revoke"], key_id)
        return revoked_at

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


def _ring() -> KeyRing:
    try:
        return load_ring_source(load(KeyRingSettings)).ring
    except KeyRingError as error:
        raise CommandError(f"--allow needs the key ring: {error}") from error


def _with_database(work: Callable[[Connection], Awaitable[T]]) -> T:
    settings = load(PostgresSettings)

    async def run() -> T:
        async with connect(settings, name="api-keys") as connection:
            return await work(connection)

    try:
        return asyncio.run(run())
    except PostgresError as error:
        raise CommandError(f"{error}.") from error
