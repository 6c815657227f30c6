"""The same content once: of several notifications with one business key, the first to be decided goes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from services.router.notification import Claim, Plan
from services.router.plan import duplicate
from shared.facts.store import Window, window_holders
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

_SQL: Final = load_queries("router")


async def claim_windows(connection: Connection, plans: Sequence[Plan], now: datetime) -> tuple[Plan, ...]:
    """The plans, those that come second turned into duplicates. Within the transaction that writes them.

    A claim lives and dies with it: whoever rolls back has claimed nothing. The rows are locked until its end, so that
    of two routers the second learns what became of the first.
    """
    wished = [(plan.claim, plan.notification.id) for plan in plans if plan.claim is not None]
    firsts: dict[Window, UUID] = {}
    for claim, id_ in wished:
        firsts.setdefault(_key(claim), id_)
    claims = [(claim, id_) for claim, id_ in wished if firsts[_key(claim)] == id_]
    if not claims:
        return tuple(plans)
    rows = await connection.fetch(
        _SQL["claim_windows"],
        [claim.type for claim, _ in claims],
        [claim.user_id for claim, _ in claims],
        [claim.business_key for claim, _ in claims],
        [id_ for _, id_ in claims],
        [claim.until for claim, _ in claims],
        now,
    )
    stand = {row["notification_id"] for row in rows}
    beaten = [_key(claim) for claim, id_ in claims if id_ not in stand]
    if beaten:
        # A statement of its own: it sees who committed while ours waited.
        firsts |= await window_holders(connection, beaten, now)
    return tuple(
        plan
        if plan.claim is None or firsts[_key(plan.claim)] == plan.notification.id
        else duplicate(plan, firsts[_key(plan.claim)])
        for plan in plans
    )


def _key(claim: Claim) -> Window:
    return claim.type, claim.user_id, claim.business_key
