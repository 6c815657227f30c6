"""The database role of the user's API: what it may do, to the column, and nothing else.

The service faces the internet. Should somebody speak SQL through it, they find no parameters, no contents, no keys of
callers, and cannot change what was decided (data.md).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import asyncpg

from shared.postgres.errors import PostgresError, translated
from shared.postgres.pool import Connection

ME_ROLE: Final = "ulak_me"
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class RoleError(PostgresError):
    """A role that cannot be made what it should be; the message names the remedy."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One privilege on one table of ours; no columns means all of them."""

    privilege: str
    table: str
    columns: tuple[str, ...] = ()

    def statement(self, role: str) -> str:
        columns = f" ({', '.join(self.columns)})" if self.columns else ""
        return f'GRANT {self.privilege}{columns} ON ulak.{self.table} TO "{role}"'


_STATES: Final = ("seen_at", "read_at", "archived_at")

ME_GRANTS: Final = (
    Grant("SELECT", "alembic_version"),
    # whose the token is, and which addresses consents are told of: by their keys
    Grant("SELECT", "recipients", ("user_id", "external_id", "email_key", "phone_key")),
    Grant("INSERT", "recipients", ("external_id",)),
    Grant("SELECT", "notification_types", ("type", "category")),
    Grant("SELECT", "user_preferences"),
    Grant("INSERT", "user_preferences"),
    Grant("UPDATE", "user_preferences", ("enabled", "updated_at")),
    Grant("SELECT", "devices"),
    Grant("INSERT", "devices"),
    Grant("UPDATE", "devices"),
    Grant("DELETE", "devices"),
    Grant("SELECT", "inbox"),
    Grant("UPDATE", "inbox", _STATES),
    Grant("SELECT", "inbox_counters"),
    Grant("UPDATE", "inbox_counters", ("unread",)),
    # that a notification a report is about is the user's own
    Grant("SELECT", "notifications", ("id", "user_id")),
    Grant("SELECT", "app_reports", ("notification_id", "user_id", "kind")),
    Grant("INSERT", "app_reports"),
    # the ledger of consents is appended to and not read; what stands is both
    Grant("INSERT", "consents"),
    Grant("SELECT", "consents", ("id", "source", "reference")),
    Grant("SELECT", "consent_states"),
    Grant("INSERT", "consent_states"),
    Grant("UPDATE", "consent_states", ("granted", "at", "consent_id")),
    Grant("INSERT", "iys_records", ("consent_id", "state")),
)


async def put_role(connection: Connection, name: str = ME_ROLE) -> bool:
    """Give the role exactly `ME_GRANTS`, making it where there is none; True if it was made. One transaction.

    It may log in, and has no password of ours: an operator sets one. RoleError for a role that could do more whatever
    is granted, and where this connection may not make roles.
    """
    if not _NAME.fullmatch(name):
        raise RoleError(f"{name!r} is not a name for a role: use lower-case letters, digits and underscores")
    with translated():
        try:
            async with connection.transaction():
                return await _put(connection, name)
        except asyncpg.InsufficientPrivilegeError as error:
            raise RoleError(
                "this login may not make roles or grant on Ulak's tables: use the schema's owner, with CREATEROLE"
            ) from error


async def _put(connection: Connection, name: str) -> bool:
    found = await connection.fetchrow(
        "SELECT rolsuper OR rolbypassrls OR rolcreaterole AS mighty, "
        "EXISTS (SELECT FROM pg_auth_members m WHERE m.member = r.oid) AS member FROM pg_roles r WHERE rolname = $1",
        name,
    )
    if found is not None and (found["mighty"] or found["member"]):
        raise RoleError(
            f"the role {name} is a superuser, makes roles, or belongs to other roles: choose another name, or drop it"
        )
    for statement in _statements(name, create=found is None):
        await connection.execute(statement)
    return found is None


def _statements(name: str, *, create: bool) -> Iterator[str]:
    if create:
        yield f'CREATE ROLE "{name}" LOGIN'
    yield f'REVOKE ALL ON ALL TABLES IN SCHEMA ulak FROM "{name}"'  # those on columns go with it
    yield f'GRANT USAGE ON SCHEMA ulak TO "{name}"'
    yield from (grant.statement(name) for grant in ME_GRANTS)
