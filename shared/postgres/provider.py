"""Provider accounts as operators and breakers leave them: drains, and every switch with its reason (migration 0004)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import structlog

from shared.core.breaker import Switch
from shared.postgres.audit_log import Actor, record
from shared.postgres.errors import PostgresError, translated
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.wire.channel import MessageClass

AUDIT_KIND: Final = "provider"
DRAINED: Final = "drained"
ENABLED: Final = "enabled"
_REASON_CHARS: Final = 200
_NOTE_CHARS: Final = 500

_SQL: Final = load_queries("provider")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProviderEvent:
    """One switch. message_class None: of all classes. actor: the operator; None where a breaker switched."""

    at: datetime
    account: str
    message_class: MessageClass | None
    from_state: str
    to_state: str
    reason: str
    actor: str | None


async def drain_account(connection: Connection, actor: Actor, account: str, note: str) -> bool:
    """Take an account out, wherever another can carry its messages. False: it is out already.

    Acts with the commit of the caller's transaction, within a second on all workers.
    """
    if not await connection.fetchval(_SQL["drain"], account, note[:_NOTE_CHARS], actor.name[:128]):
        return False
    await _operated(connection, actor, account, _Said(ENABLED, DRAINED, note))
    return True


async def enable_account(connection: Connection, actor: Actor, account: str, note: str) -> bool:
    """Give a drained account its messages again. False: it is not drained."""
    if not await connection.fetchval(_SQL["enable"], account):
        return False
    await _operated(connection, actor, account, _Said(DRAINED, ENABLED, note))
    return True


async def prune_events(connection: Connection, before: datetime, limit: int) -> int:
    """Forget at most so many that are older; how many there were."""
    return int((await connection.execute(_SQL["prune_events"], before, limit)).rpartition(" ")[2])


async def provider_events(connection: Connection, account: str | None, limit: int) -> tuple[ProviderEvent, ...]:
    """The newest first, of one account or of all."""
    rows = await connection.fetch(_SQL["events"], account, limit)
    return tuple(
        ProviderEvent(
            **{**row, "message_class": None if row["message_class"] is None else MessageClass(row["message_class"])}
        )
        for row in rows
    )


class ProviderEvents:
    """Writes what breakers do. A database that is away loses the line, and nothing else: the breaker has switched."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def __call__(self, account: str, message_class: MessageClass, switch: Switch) -> None:
        try:
            with translated():
                await self._pool.execute(
                    _SQL["add_event"],
                    account,
                    int(message_class),
                    switch.before,
                    switch.after,
                    switch.reason[:_REASON_CHARS],
                    None,
                )
        except PostgresError as error:
            _log.warning("provider_event_lost", provider=account, after=switch.after, error=str(error))


class _Said(NamedTuple):
    before: str
    after: str
    note: str


async def _operated(connection: Connection, actor: Actor, account: str, said: _Said) -> None:
    reason, name = said.note[:_REASON_CHARS], actor.name[:128]
    await connection.execute(_SQL["add_event"], account, None, said.before, said.after, reason, name)
    await record(connection, actor, said.after, AUDIT_KIND, account, {"note": said.note})
