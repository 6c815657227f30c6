"""The ledger of consents: what stands is what the pure rule says, whoever appends what in which order."""

import asyncio
import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from shared.core.address import target_key
from shared.core.consent import Line, Purpose, Source, Word, standing, user_subject
from shared.core.identifier import new_id
from shared.core.lifecycle import Reason
from shared.core.sealing import KeyRing
from shared.postgres.consent import (
    Appended,
    Going,
    append,
    find_people,
    pages,
    read_current,
    read_history,
    read_refused,
    read_states,
)
from shared.postgres.pool import Pool
from shared.postgres.recipient import RecipientProfile, push_recipients

pytestmark = pytest.mark.postgres

AT = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)
STEP = timedelta(microseconds=1)
AYSE = "ayse@example.com"


def line(ring: KeyRing, *, address: str | None = AYSE, granted: bool = True, steps: int = 0, **changes: object) -> Line:
    made = Line(
        id=new_id(),
        subject=target_key(ring, "EMAIL", address or "nobody"),
        channel="EMAIL",
        granted=granted,
        at=AT + steps * STEP,
        source=Source.HS_WEB,
        address=address,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


async def appended(pool: Pool, ring: KeyRing, lines: Sequence[Line]) -> Appended:
    async with pool.acquire() as connection, connection.transaction():
        return await append(connection, ring, lines)


async def stands(pool: Pool, ring: KeyRing, address: str = AYSE) -> Word | None:
    subject = (target_key(ring, "EMAIL", address), "EMAIL", Purpose.MARKETING)
    return (await read_states(pool, [subject])).get(subject)


@pytest.mark.parametrize("seed", range(12))
async def test_sql_and_the_pure_rule_agree_whatever_the_order_and_the_batches(
    pool: Pool, key_ring: KeyRing, seed: int
) -> None:
    """Three addresses, words on six instants, said up to twice, cut into batches anywhere."""
    chance = random.Random(seed)
    lines = [
        line(key_ring, address=f"{name}@example.com", granted=chance.random() < 0.5, steps=chance.randrange(6))
        for name in ("a", "b", "c")
        for _ in range(chance.randrange(1, 8))
    ]
    lines += [replace(each, id=new_id()) for each in chance.choices(lines, k=4)]
    chance.shuffle(lines)
    left = list(lines)
    while left:
        cut = chance.randrange(1, len(left) + 1)
        await appended(pool, key_ring, left[:cut])
        del left[:cut]
    for name in ("a", "b", "c"):
        subject = target_key(key_ring, "EMAIL", f"{name}@example.com")
        assert await stands(pool, key_ring, f"{name}@example.com") == standing(
            each.word for each in lines if each.subject == subject
        )
    assert await pool.fetchval("SELECT count(*) FROM ulak.consents") == len(lines)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_a_refusal_wins_a_tie_in_every_order(pool: Pool, key_ring: KeyRing, order: Sequence[int]) -> None:
    said = [line(key_ring), line(key_ring, granted=False), line(key_ring)]
    for position in order:
        await appended(pool, key_ring, [said[position]])
    assert await stands(pool, key_ring) == Word(False, AT)


async def test_a_reference_is_one_line(pool: Pool, key_ring: KeyRing) -> None:
    first = line(key_ring, reference="form-7")
    again = line(key_ring, reference="form-7", granted=False, steps=1)
    elsewhere = line(key_ring, reference="form-7", source=Source.HS_MOBIL)
    assert (await appended(pool, key_ring, [first, again])).recorded == {first.id}
    assert (await appended(pool, key_ring, [again, elsewhere])).recorded == {elsewhere.id}
    assert await stands(pool, key_ring) == Word(True, AT)


async def test_batches_side_by_side_neither_lose_a_word_nor_wait_in_a_circle(pool: Pool, key_ring: KeyRing) -> None:
    batches = []
    for number in range(8):
        batch = [
            line(key_ring, address=f"user{user}@example.com", granted=number % 3 != 0, steps=number // 2)
            for user in range(40)
        ]
        random.Random(number).shuffle(batch)
        batches.append(batch)
    await asyncio.gather(*(appended(pool, key_ring, batch) for batch in batches))
    expected = standing(Word(number % 3 != 0, AT + number // 2 * STEP) for number in range(8))
    for user in range(40):
        assert await stands(pool, key_ring, f"user{user}@example.com") == expected


async def test_nothing_stands_of_what_was_rolled_back(pool: Pool, key_ring: KeyRing) -> None:
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await append(connection, key_ring, [line(key_ring)])
        assert await stands(pool, key_ring) is None
        await transaction.rollback()
    assert await stands(pool, key_ring) is None
    assert await pool.fetchval("SELECT count(*) FROM ulak.consents") == 0


async def test_address_and_evidence_are_sealed_and_open_again(pool: Pool, key_ring: KeyRing) -> None:
    given = line(key_ring, evidence="192.0.2.7, form 12")
    await appended(pool, key_ring, [given, line(key_ring, channel="PUSH", address=None, subject=b"u" * 32)])
    row = await pool.fetchrow("SELECT * FROM ulak.consents WHERE id = $1", given.id)
    assert row is not None
    assert all(clear not in bytes(row["address_sealed"] + row["evidence_sealed"]) for clear in (b"ayse", b"192.0"))
    [push, email] = [each async for page in pages(pool) for each in page][::-1]
    assert (email.address(key_ring), email.evidence(key_ring)) == (AYSE, "192.0.2.7, form 12")
    assert (push.address(key_ring), push.evidence(key_ring)) == (None, None)
    assert "ayse" not in repr(email) + repr(given)


async def due(pool: Pool) -> list[UUID]:
    rows = await pool.fetch("SELECT consent_id FROM ulak.iys_records ORDER BY consent_id")
    return [row["consent_id"] for row in rows]


async def test_the_registry_is_told_of_changes_alone_and_of_its_own_channels(pool: Pool, key_ring: KeyRing) -> None:
    yes, no = line(key_ring), line(key_ring, granted=False, steps=5)
    for entry in (
        yes,
        line(key_ring, steps=1),  # the same again is no change
        line(key_ring, granted=False, steps=-1),  # too late to count
        no,
        line(key_ring, address="b@example.com", source=Source.IYS),  # it told us
        line(key_ring, address="c@example.com", purpose=Purpose.TRACKING),
        line(key_ring, channel="PUSH", address=None),
        line(key_ring, channel="INBOX", address=None),
    ):
        await appended(pool, key_ring, [entry])
    sms = line(key_ring, channel="SMS", address="+905321234567")
    await appended(
        pool, key_ring, [sms, line(key_ring, channel="SMS", address="+905321234567", granted=False, steps=-1)]
    )
    assert await due(pool) == [yes.id, no.id, sms.id]


async def test_who_may_not_be_written_to_now(pool: Pool, key_ring: KeyRing) -> None:
    addresses = [f"{name}@example.com" for name in ("yes", "no", "nothing", "dead", "left", "expired")]
    keys = [target_key(key_ring, "EMAIL", address) for address in addresses]
    await appended(
        pool, key_ring, [line(key_ring, address=a, granted=a[:2] != "no") for a in addresses if a[:3] != "not"]
    )
    await pool.execute(
        "INSERT INTO ulak.suppressions (channel, address_key, reason, scope, expires_at)"
        " VALUES ('EMAIL', $1, 'target_gone', 'ALL', NULL), ('EMAIL', $2, 'complaint', 'MARKETING', NULL),"
        "        ('EMAIL', $3, 'manual', 'ALL', now() - interval '1 s'), ('SMS', $4, 'manual', 'ALL', NULL)",
        *(keys[3], keys[4], keys[5], keys[0]),
    )
    going = [Going(key, key) for key in keys]
    assert await read_refused(pool, "EMAIL", going) == {
        1: Reason.NO_CONSENT,
        2: Reason.NO_CONSENT,
        3: Reason.SUPPRESSED,
        4: Reason.SUPPRESSED,
    }
    tests = [Going(key, key, live=False) for key in keys[2:5]]
    assert await read_refused(pool, "EMAIL", tests) == {0: Reason.NO_CONSENT}
    assert await read_refused(pool, "PUSH", [Going(None, b"token")]) == {0: Reason.NO_CONSENT}


async def test_a_persons_history_is_paged_newest_first(pool: Pool, key_ring: KeyRing) -> None:
    await push_recipients(pool, key_ring, [RecipientProfile("ayse", phone="+905321234567")])
    async with pool.acquire() as connection:
        people = await find_people(connection, ["ayse", "new"], create=True)
        assert await find_people(connection, ["nobody"]) == {}
    ayse = people["ayse"]
    assert people["new"].addresses == {}
    [phone] = [key for key, _ in ayse.addresses.values()]
    said = [
        line(key_ring, subject=phone, channel="SMS", address="+905321234567"),
        line(key_ring, subject=user_subject(key_ring, ayse.user_id), channel="PUSH", address=None),
        line(key_ring, address="old@example.com", user_id=ayse.user_id),
        line(key_ring, address="somebody@example.com"),
    ]
    await appended(pool, key_ring, said)
    subjects = ayse.subjects(key_ring)
    found = await read_history(pool, subjects, user_id=ayse.user_id, limit=2)
    assert [entry.id for entry in found] == [said[2].id, said[1].id]
    assert found[0].user_id == "ayse"
    rest = await read_history(pool, subjects, user_id=ayse.user_id, before=found[-1].id)
    assert [entry.id for entry in rest] == [said[0].id]
    assert {channel for _, channel, _ in await read_current(pool, subjects)} == {"SMS", "PUSH"}


async def test_an_export_goes_through_all_pages(pool: Pool, key_ring: KeyRing) -> None:
    lines = [line(key_ring, address=f"user{number}@example.com") for number in range(25)]
    await appended(pool, key_ring, lines)
    found = [page async for page in pages(pool, size=10)]
    assert [len(page) for page in found] == [10, 10, 5]
    assert [entry.id for page in found for entry in page] == [entry.id for entry in lines]
