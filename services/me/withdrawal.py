"""Withdrawals by link, appended to the ledger of consents."""

from collections.abc import Callable
from datetime import datetime

from shared.core.consent import Line, Purpose, Source
from shared.core.identifier import new_id
from shared.core.unsubscribe import Refusal
from shared.postgres.consent import append, read_states
from shared.postgres.errors import translated
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.runtime.keyring import RingSource


class WithdrawalStore:
    """Raises UnavailableError when PostgreSQL cannot be asked."""

    def __init__(self, pool: Pool, rings: RingSource, *, clock: Callable[[], datetime]) -> None:
        self._pool = pool
        self._rings = rings
        self._clock = clock
        self._hold = load_queries("me")["hold_subject"]

    async def withdraw(self, refusal: Refusal) -> bool:
        """The subject's consent to marketing on the channel ends now; False if it had ended before.

        A consent that claims to be from later does not outlive the refusal: whoever refuses now means now.
        """
        subject = (refusal.subject, refusal.channel, Purpose.MARKETING)
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(self._hold, refusal.subject)
                standing = (await read_states(connection, [subject])).get(subject)
                if standing is not None and not standing.granted:
                    return False
                now = self._clock()
                line = Line(
                    id=new_id(),
                    subject=refusal.subject,
                    channel=refusal.channel,
                    granted=False,
                    at=now if standing is None else max(now, standing.at),
                    source=Source.ONE_CLICK,
                    recorded_by="recipient",
                )
                await append(connection, self._rings.ring, [line])
        return True
