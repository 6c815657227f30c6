"""The inbox: newest first, never another's, and a count that is exact whatever happens at the same time."""

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from shared.core.identifier import new_id
from shared.core.inbox import MAX_PAGE, EntryState, NewEntry, Position, Shelf
from shared.postgres.inbox import PostgresInbox, prune_inbox, write_inbox
from shared.postgres.pool import Pool

pytestmark = pytest.mark.postgres

NOON = datetime(2026, 11, 11, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def entry(user_id: int, minute: int = 0, *, notification_id: UUID | None = None) -> NewEntry:
    return NewEntry(
        user_id=user_id,
        notification_id=notification_id or new_id(),
        created_at=NOON + timedelta(minutes=minute),
        type_name="ORDER_SHIPPED",
        content_sealed=b"sealed",
        locale="tr",
    )


async def write(pool: Pool, *entries: NewEntry) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await write_inbox(connection, entries)


async def true_count(pool: Pool, user_id: int) -> int:
    count: int = await pool.fetchval(
        "SELECT count(*) FROM ulak.inbox WHERE user_id = $1 AND read_at IS NULL AND archived_at IS NULL", user_id
    )
    return count


async def test_pages_come_newest_first_and_meet_end_to_end(pool: Pool) -> None:
    same_moment = sorted(new_id() for _ in range(3))
    entries = [entry(7, minute) for minute in range(5)]
    entries += [entry(7, 9, notification_id=identifier) for identifier in same_moment]
    await write(pool, *entries, entry(8, 3))
    inbox = PostgresInbox(pool)

    seen: list[UUID] = []
    before: Position | None = None
    while page := await inbox.page(7, Shelf.INBOX, before=before, limit=2):
        seen += [found.notification_id for found in page]
        before = page[-1].position

    assert seen == [*reversed(same_moment), *(new.notification_id for new in reversed(entries[:5]))]


async def test_what_came_after_a_position_is_told_oldest_first(pool: Pool) -> None:
    entries = [entry(7, minute) for minute in range(4)]
    await write(pool, *entries)
    last = Position(entries[1].created_at, entries[1].notification_id)

    found = await PostgresInbox(pool).after(7, last, limit=10)

    assert [new.notification_id for new in found] == [entries[2].notification_id, entries[3].notification_id]


async def test_a_redelivered_decision_adds_and_counts_nothing(pool: Pool) -> None:
    first = entry(7)
    await write(pool, first)
    await write(pool, first, entry(7, 1))

    assert await PostgresInbox(pool).unread(7) == 2
    assert len(await PostgresInbox(pool).page(7, Shelf.INBOX)) == 2


@pytest.mark.parametrize(
    ("steps", "state", "unread"),
    [
        pytest.param([], EntryState.UNSEEN, 1, id="new"),
        pytest.param([EntryState.SEEN], EntryState.SEEN, 1, id="seen-is-not-read"),
        pytest.param([EntryState.READ], EntryState.READ, 0, id="read"),
        pytest.param([EntryState.READ, EntryState.READ], EntryState.READ, 0, id="read-twice"),
        pytest.param([EntryState.READ, EntryState.SEEN], EntryState.READ, 0, id="never-back"),
        pytest.param([EntryState.ARCHIVED], EntryState.ARCHIVED, 0, id="archived-unread"),
        pytest.param([EntryState.READ, EntryState.ARCHIVED], EntryState.ARCHIVED, 0, id="archived-after-reading"),
        pytest.param([EntryState.ARCHIVED, EntryState.READ], EntryState.ARCHIVED, 0, id="read-in-the-archive"),
    ],
)
async def test_states(pool: Pool, steps: Sequence[EntryState], state: EntryState, unread: int) -> None:
    mine, other = entry(7), entry(8)
    await write(pool, mine, other)
    inbox = PostgresInbox(pool)

    for step in steps:
        assert await inbox.change(7, mine.notification_id, step, LATER)

    shelf = Shelf.ARCHIVED if state is EntryState.ARCHIVED else Shelf.INBOX
    (found,) = await inbox.page(7, shelf)
    assert found.state is state
    assert await inbox.unread(7) == unread
    assert await inbox.unread(8) == 1, "another's inbox is not touched"


async def test_another_users_entry_cannot_be_changed(pool: Pool) -> None:
    theirs = entry(8)
    await write(pool, theirs)

    assert not await PostgresInbox(pool).change(7, theirs.notification_id, EntryState.READ, LATER)
    assert await PostgresInbox(pool).unread(8) == 1


async def test_read_all_spares_what_came_meanwhile(pool: Pool) -> None:
    await write(pool, entry(7, 0), entry(7, 1), entry(7, 30))
    inbox = PostgresInbox(pool)

    assert await inbox.read_all(7, until=NOON + timedelta(minutes=10), at=LATER) == 2
    assert await inbox.read_all(7, until=NOON + timedelta(minutes=10), at=LATER) == 0
    assert await inbox.unread(7) == 1
    assert len(await inbox.page(7, Shelf.UNREAD)) == 1


async def test_pruning_takes_the_oldest_and_their_count(pool: Pool) -> None:
    read = entry(7, 0)
    await write(pool, read, entry(7, 1), entry(8, 2), entry(8, 90))
    inbox = PostgresInbox(pool)
    await inbox.change(7, read.notification_id, EntryState.READ, LATER)

    async with pool.acquire() as connection:
        assert await prune_inbox(connection, NOON + timedelta(hours=1), limit=2) == 2
        assert await prune_inbox(connection, NOON + timedelta(hours=1), limit=2) == 1

    assert (await inbox.unread(7), await inbox.unread(8)) == (0, 1)


async def test_the_count_is_exact_while_all_happens_at_once(pool: Pool) -> None:
    """Two routers write, the user reads, archives and clears, old entries are pruned: the counter never drifts."""
    dice = random.Random(11)
    users = (7, 8, 9)
    inbox = PostgresInbox(pool)
    known = {user: [entry(user, minute) for minute in range(20)] for user in users}
    await write(pool, *(new for entries in known.values() for new in entries))

    async def act() -> None:
        user = dice.choice(users)
        match dice.randrange(5):
            case 0:
                await write(pool, *(entry(someone, dice.randrange(60)) for someone in dice.sample(users, 3)))
            case 1:
                await write(pool, *dice.sample(known[user], 5))
            case 2:
                await inbox.read_all(user, until=NOON + timedelta(minutes=dice.randrange(60)), at=LATER)
            case 3:
                async with pool.acquire() as connection:
                    await prune_inbox(connection, NOON + timedelta(minutes=dice.randrange(5)), limit=10)
            case _:
                state = dice.choice([EntryState.SEEN, EntryState.READ, EntryState.ARCHIVED])
                await inbox.change(user, dice.choice(known[user]).notification_id, state, LATER)

    await asyncio.gather(*(act() for _ in range(200)))

    for user in users:
        assert await inbox.unread(user) == await true_count(pool, user)


async def test_a_page_has_a_size(pool: Pool) -> None:
    inbox = PostgresInbox(pool)
    for limit in (0, MAX_PAGE + 1):
        with pytest.raises(ValueError, match="a page holds 1 to 100 entries"):
            await inbox.page(7, Shelf.INBOX, limit=limit)
    with pytest.raises(ValueError, match="never becomes unseen"):
        await inbox.change(7, new_id(), EntryState.UNSEEN, NOON)
    assert await inbox.unread(7) == 0, "nobody has written to it yet"
