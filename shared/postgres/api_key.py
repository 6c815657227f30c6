"""API keys: who may call the internal API, what each may do, and until when. For `ulak api-keys` and administration."""

import base64
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

import asyncpg

from shared.core.address import InvalidAddressError, parse_email, parse_phone, target_key
from shared.core.identifier import API_KEY, new_id, public_id
from shared.core.sealing import KeyRing
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

_SQL: Final = load_queries("api_key")
AUDIT_KIND: Final = "api_key"
BEFORE_ALL: Final = UUID(int=0)
"""Sorts before every key."""


class Kind(StrEnum):
    """live sends; team sends to its allow-list only; test is sent by an in-process simulated provider (api.md)."""

    LIVE = "live"
    TEAM = "team"
    TEST = "test"


class Scope(StrEnum):
    """What a key may do; `all` stands for every one of them."""

    NOTIFICATIONS = "notifications"
    OTP = "otp"
    ADMIN = "admin"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Secret:
    """A new key: `text` is shown once, `hash` is stored."""

    text: str
    hash: bytes

    def __repr__(self) -> str:
        return "Secret(...)"


@dataclass(frozen=True, slots=True)
class KeyTerms:
    """What may be changed of a key. rate_per_second: requests, of each ingest process; None is no limit of its own.
    allow_list: target keys a team key may reach. expires_at None: never.
    """

    name: str
    scopes: tuple[Scope, ...]
    rate_per_second: int | None = None
    allow_list: tuple[bytes, ...] = field(default=(), repr=False)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key, without its secret. application is its name."""

    id: UUID
    application: str
    kind: Kind
    terms: KeyTerms
    created_at: datetime
    revoked_at: datetime | None
    revision: int


class InvalidEntryError(ValueError):
    """An address of an allow-list that can never be sent to. position: its place, from 0; never repeats it."""

    def __init__(self, position: int, error: InvalidAddressError) -> None:
        super().__init__(str(error))
        self.position = position


def new_secret(kind: Kind) -> Secret:
    """`ulak_<kind>_` and 43 characters of base64url: 256 random bits, so a plain SHA-256 of it cannot be guessed."""
    text = f"ulak_{kind}_{base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip('=')}"
    return Secret(text, hashlib.sha256(text.encode()).digest())


def in_order(scopes: Sequence[Scope]) -> tuple[Scope, ...]:
    """Each once, in a stable order."""
    return tuple(scope for scope in Scope if scope in scopes)


def allow_list(addresses: Sequence[str], ring: KeyRing) -> tuple[bytes, ...]:
    """Target keys of the addresses a team key may reach: what holds an @ is e-mail, all else a phone.

    Raises InvalidEntryError.
    """
    keys: list[bytes] = []
    for position, address in enumerate(addresses):
        try:
            if "@" in address:
                keys.append(target_key(ring, "EMAIL", parse_email(address).canonical))
            else:
                keys.append(target_key(ring, "SMS", parse_phone(address)))
        except InvalidAddressError as error:
            raise InvalidEntryError(position, error) from error
    return tuple(keys)


async def create_key(
    connection: Connection, application: str, kind: Kind, terms: KeyTerms, secret: Secret
) -> StoredKey:
    """Store a new key; an application is created at its first one."""
    row = await connection.fetchrow(
        _SQL["create"],
        application,
        new_id(),
        terms.name,
        secret.hash,
        kind,
        terms.scopes,
        terms.rate_per_second,
        terms.allow_list,
        terms.expires_at,
    )
    assert row is not None
    return _stored(row)


async def list_keys(
    connection: Connection, *, application: str | None = None, after: UUID = BEFORE_ALL, limit: int | None = None
) -> Sequence[StoredKey]:
    """At most `limit` (None: all) behind the id `after`, in the order in which they were made."""
    return [_stored(row) for row in await connection.fetch(_SQL["page"], application, after, limit)]


async def stored_key(connection: Connection, key_id: UUID, *, to_change: bool = False) -> StoredKey | None:
    """to_change: nobody else changes it until the transaction ends."""
    row = await connection.fetchrow(_SQL["one_locked" if to_change else "one"], key_id)
    return None if row is None else _stored(row)


async def change_key(connection: Connection, key_id: UUID, terms: KeyTerms) -> None:
    """Services notice within seconds (`ULAK_INGEST_KEY_TTL_SEC`)."""
    await connection.execute(
        _SQL["change"],
        key_id,
        terms.name,
        terms.scopes,
        terms.rate_per_second,
        terms.allow_list,
        terms.expires_at,
    )


async def revoke_key(connection: Connection, key_id: UUID) -> bool:
    """Make it unusable; services notice within seconds. False if it was so already, or is not there."""
    status = await connection.execute(_SQL["revoke"], key_id)
    return status == "UPDATE 1"


def key_body(stored: StoredKey) -> dict[str, Any]:
    """A key as it is told, by commands and over the API. Of the allow-list the number alone: only hashes are known."""
    terms = stored.terms
    return {
        "id": public_id(API_KEY, stored.id),
        "application": stored.application,
        "name": terms.name,
        "kind": stored.kind.value,
        "scopes": [scope.value for scope in terms.scopes],
        "ratePerSecond": terms.rate_per_second,
        "allowed": len(terms.allow_list),
        "createdAt": stored.created_at,
        "expiresAt": terms.expires_at,
        "revokedAt": stored.revoked_at,
    }


def audit_detail(stored: StoredKey) -> dict[str, Any]:
    """What the audit log says of a key that was made or changed."""
    named = ("application", "name", "kind", "scopes", "ratePerSecond", "allowed", "expiresAt")
    body = key_body(stored)
    return {name: body[name] for name in named}


def _stored(row: asyncpg.Record) -> StoredKey:
    return StoredKey(
        id=row["id"],
        application=row["application"],
        kind=Kind(row["kind"]),
        terms=KeyTerms(
            name=row["name"],
            scopes=tuple(Scope(scope) for scope in row["scopes"]),
            rate_per_second=row["rate_per_second"],
            allow_list=tuple(row["allow_list"]),
            expires_at=row["expires_at"],
        ),
        created_at=row["created_at"],
        revoked_at=row["revoked_at"],
        revision=row["revision"],
    )
