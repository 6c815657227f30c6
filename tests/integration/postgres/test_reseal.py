"""What no retention takes away is sealed anew, and whoever writes at the same time wins."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from shared.core.address import parse_email, target_key
from shared.core.ports import DkimKey, SenderProfile
from shared.core.sealing import KeyRing, Purpose, key_id, open_sealed, seal
from shared.core.sender import open_profile, seal_profile
from shared.postgres.catalogue import read_catalogue
from shared.postgres.errors import SchemaOutdatedError
from shared.postgres.pool import Pool, connect
from shared.postgres.recipient import DeviceProfile, RecipientProfile, push_recipients
from shared.postgres.reseal import LONG_LIVED, Step, left_alone, reseal
from shared.postgres.sealed import count_sealed
from shared.postgres.settings import PostgresSettings
from shared.runtime.keyring import FileRingSource, FixedRingSource, RingSource, write_ring

pytestmark = pytest.mark.postgres

Until = Callable[[str], Awaitable[None]]

OLD = KeyRing(active="k1", keys={"k1": bytes(range(32)), "k2": bytes(32)}, lookup_key=bytes(range(32, 64)))
RING = replace(OLD, active="k2")
RINGS = FixedRingSource(RING)
PEM = b"-----BEGIN PRIVATE KEY-----\n"
SOMEBODY_WAITS = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')"""


def profile(number: int, generation: str = "a") -> RecipientProfile:
    """One user of which everything is sealed; the addresses tell the generation."""
    return RecipientProfile(
        f"user-{number:04}",
        email=parse_email(f"{generation}{number}@example.com"),
        phone=f"+9053012{number:05}",
        devices=(DeviceProfile(f"token-{number}", "IOS"),),
    )


def addressed(number: int, generation: str = "a") -> RecipientProfile:
    """One user of which the e-mail address alone is known."""
    return replace(profile(number, generation), phone=None, devices=())


async def push_sender(pool: Pool, ring: KeyRing) -> None:
    stored = seal_profile("orders", SenderProfile("orders@shop.example", dkim=DkimKey("shop.example", "s1", PEM)), ring)
    assert stored.dkim is not None
    await pool.execute(
        "INSERT INTO ulak.sender_profiles (name, from_address, dkim_domain, dkim_selector, dkim_key_sealed)"
        " VALUES ('orders', 'orders@shop.example', 'shop.example', 's1', $1),"
        "        ('plain', 'plain@shop.example', NULL, NULL, NULL)",
        stored.dkim.sealed,
    )


async def push_consent(pool: Pool, ring: KeyRing) -> None:
    """A withdrawal with its evidence, and the suppression of the same address; beside each, one with nothing sealed."""
    [key, other] = [target_key(ring, "EMAIL", f"{name}@example.com") for name in ("withdrew", "erased")]
    entry = await pool.fetchval("SELECT ulak.uuidv7()")
    await pool.execute(
        "INSERT INTO ulak.consents (id, subject, channel, address_sealed, granted, at, source, evidence_sealed)"
        " VALUES ($1, $2, 'EMAIL', $3, false, now(), 'HS_WEB', $4),"
        "        (ulak.uuidv7(), $5, 'PUSH', NULL, true, now(), 'HS_MOBIL', NULL)",
        entry,
        key,
        seal(ring, Purpose.ADDRESS, key, b"withdrew@example.com"),
        seal(ring, Purpose.CONSENT, entry.bytes, b"form 7"),
        other,
    )
    await pool.execute(
        "INSERT INTO ulak.suppressions (channel, address_key, reason, address_sealed)"
        " VALUES ('EMAIL', $1, 'complaint', $2), ('EMAIL', $3, 'complaint', NULL)",
        key,
        seal(ring, Purpose.ADDRESS, key, b"withdrew@example.com"),
        other,
    )


async def walk(pool: Pool, rings: RingSource = RINGS, **options: Any) -> list[Step]:
    async with pool.acquire() as connection:
        return [step async for step in reseal(connection, rings, **options)]


def total(steps: list[Step]) -> tuple[int, int, int]:
    """resealed, changed, shut."""
    return sum(s.resealed for s in steps), sum(s.changed for s in steps), sum(s.shut for s in steps)


async def by_key(pool: Pool) -> dict[str, dict[str, int]]:
    async with pool.acquire() as connection:
        return {key: dict(places) for key, places in (await count_sealed(connection)).by_key.items()}


async def email_of(pool: Pool, external_id: str) -> tuple[str, str]:
    """The key that the address is sealed under, and the address."""
    row = await pool.fetchrow("SELECT email_key, email_sealed FROM ulak.recipients WHERE external_id = $1", external_id)
    assert row is not None
    plain = open_sealed(RING, Purpose.ADDRESS, row["email_key"], row["email_sealed"])
    return key_id(row["email_sealed"]), plain.decode()


async def test_every_sealed_column_is_sealed_anew_or_goes_with_its_retention(pool: Pool) -> None:
    """A new column fails here until it is known which of the two it is; one that is neither keeps its key for ever."""
    async with pool.acquire() as connection:
        assert await left_alone(connection) == (
            "contents.sealed",
            "deliveries.address_sealed",
            "email_messages.parameters",
            "email_messages.recipients",
            "email_messages_archive.parameters",
            "email_messages_archive.recipients",
            "inbox.content_sealed",
            "notifications.params_sealed",
            "outbox.payload",
            "outbox_published.payload",
        )
    assert [column.place for column in LONG_LIVED] == [
        "recipients.email_sealed",
        "recipients.phone_sealed",
        "devices.token_sealed",
        "sender_profiles.dkim_key_sealed",
        "consents.address_sealed",
        "consents.evidence_sealed",
        "suppressions.address_sealed",
    ]


@pytest.mark.parametrize("at_once", [1, 2, 500])
async def test_everything_opens_as_before_and_needs_the_old_key_no_more(pool: Pool, at_once: int) -> None:
    await push_recipients(pool, OLD, [profile(number) for number in range(5)])
    await push_recipients(pool, OLD, [RecipientProfile("nobody")])  # has nothing to seal
    await push_sender(pool, OLD)
    await push_consent(pool, OLD)
    rest = "SELECT to_jsonb(r) - 'email_sealed' - 'phone_sealed' FROM ulak.recipients r ORDER BY user_id"
    before = await pool.fetch(rest)
    steps = await walk(pool, at_once=at_once)
    assert total(steps) == (19, 0, 0)
    assert max(step.looked for step in steps) <= at_once
    assert await by_key(pool) == {
        "k2": {
            "recipients.email_sealed": 5,
            "recipients.phone_sealed": 5,
            "devices.token_sealed": 5,
            "sender_profiles.dkim_key_sealed": 1,
            "consents.address_sealed": 1,
            "consents.evidence_sealed": 1,
            "suppressions.address_sealed": 1,
        }
    }
    assert await pool.fetch(rest) == before
    alone = replace(RING, keys={"k2": RING.keys["k2"]})
    for row in await pool.fetch("SELECT * FROM ulak.recipients JOIN ulak.devices USING (user_id)"):
        number = int(row["external_id"].removeprefix("user-"))
        for key, sealed, plain in (
            ("email_key", "email_sealed", f"a{number}@example.com"),
            ("phone_key", "phone_sealed", f"+9053012{number:05}"),
            ("token_key", "token_sealed", f"token-{number}"),
        ):
            assert open_sealed(alone, Purpose.ADDRESS, row[key], row[sealed]) == plain.encode()
    [sender] = [sender for sender in (await read_catalogue(pool)).senders if sender.name == "orders"]
    assert open_profile(sender, alone).dkim == DkimKey("shop.example", "s1", PEM)
    [consent] = await pool.fetch("SELECT * FROM ulak.consents WHERE channel = 'EMAIL'")
    [suppression] = await pool.fetch("SELECT * FROM ulak.suppressions WHERE address_sealed IS NOT NULL")
    for key, sealed in (
        (consent["subject"], consent["address_sealed"]),
        (suppression["address_key"], suppression["address_sealed"]),
    ):
        assert open_sealed(alone, Purpose.ADDRESS, key, sealed) == b"withdrew@example.com"
    assert open_sealed(alone, Purpose.CONSENT, consent["id"].bytes, consent["evidence_sealed"]) == b"form 7"


async def test_what_a_delivery_holds_stays_as_it_was_copied(pool: Pool, plant: Callable[..., Awaitable[None]]) -> None:
    await push_recipients(pool, OLD, [profile(1)])
    copied = await pool.fetchrow("SELECT email_key, email_sealed FROM ulak.recipients")
    assert copied is not None
    now = await pool.fetchval("SELECT now()")
    await plant(
        "deliveries",
        notification_id=await pool.fetchval("SELECT ulak.uuidv7()"),
        channel="EMAIL",
        target_key=copied["email_key"],
        address_sealed=copied["email_sealed"],
        created_at=now,
    )
    await walk(pool)
    assert await pool.fetchval("SELECT address_sealed FROM ulak.deliveries") == copied["email_sealed"]
    assert (await by_key(pool))["k1"] == {"deliveries.address_sealed": 1}


async def test_stopped_half_way_the_next_walk_takes_what_is_left(pool: Pool) -> None:
    await push_recipients(pool, OLD, [profile(number) for number in range(5)])
    async with pool.acquire() as connection:
        async for step in reseal(connection, RINGS, at_once=2):
            assert (step.place, step.resealed) == ("recipients.email_sealed", 2)
            break
    done = await pool.fetch("SELECT email_sealed FROM ulak.recipients ORDER BY user_id LIMIT 2")
    assert await by_key(pool) == {
        "k1": {"recipients.email_sealed": 3, "recipients.phone_sealed": 5, "devices.token_sealed": 5},
        "k2": {"recipients.email_sealed": 2},
    }
    assert total(await walk(pool, at_once=2)) == (13, 0, 0)
    assert await pool.fetch("SELECT email_sealed FROM ulak.recipients ORDER BY user_id LIMIT 2") == done
    assert list(await by_key(pool)) == ["k2"]
    assert total(await walk(pool)) == (0, 0, 0)


async def test_an_update_that_commits_meanwhile_stands(pool: Pool, until: Until) -> None:
    """Read before the commit, written after it; the rows beside it do not wait for it."""
    await push_recipients(pool, OLD, [addressed(number) for number in range(3)])
    newer = "newer@example.com"
    key = target_key(RING, "EMAIL", newer)
    async with pool.acquire() as other:
        transaction = other.transaction()
        await transaction.start()
        await other.execute(
            "UPDATE ulak.recipients SET email_key = $1, email_sealed = $2 WHERE external_id = 'user-0000'",
            key,
            seal(OLD, Purpose.ADDRESS, key, newer.encode()),  # by an instance that does not have the new ring yet
        )
        walking = asyncio.create_task(walk(pool))
        await until(SOMEBODY_WAITS)
        assert [await email_of(pool, f"user-000{number}") for number in (1, 2)] == [
            ("k2", "a1@example.com"),
            ("k2", "a2@example.com"),
        ]
        await transaction.commit()
    assert total(await walking) == (2, 1, 0)
    assert await email_of(pool, "user-0000") == ("k1", newer)
    assert total(await walk(pool)) == (1, 0, 0)
    assert await email_of(pool, "user-0000") == ("k2", newer)


class Mover:
    """A ring that gives the user another address whenever it is asked for: also between a step's read and its write."""

    def __init__(self, database: str) -> None:
        self._database = database
        self.moves = 0

    @property
    def ring(self) -> KeyRing:
        self.moves += 1
        key = target_key(RING, "EMAIL", self.address)
        with psycopg.connect(self._database) as connection:
            connection.execute(
                b"UPDATE ulak.recipients SET email_key = %s, email_sealed = %s",
                (key, seal(OLD, Purpose.ADDRESS, key, self.address.encode())),
            )
        return RING

    @property
    def address(self) -> str:
        return f"moved-{self.moves}@example.com"

    def refresh(self) -> bool:
        return False


async def test_an_update_between_read_and_write_stands(pool: Pool, database: str) -> None:
    await push_recipients(pool, OLD, [addressed(0)])
    mover = Mover(database)
    async with pool.acquire() as connection:
        step = await anext(reseal(connection, mover))
    assert mover.moves > 1
    assert (step.resealed, step.changed) == (0, 1)
    assert await email_of(pool, "user-0000") == ("k1", mover.address)


@pytest.mark.parametrize("commits", [True, False])
async def test_a_row_that_somebody_held_without_a_new_address_is_sealed_anew(
    pool: Pool, until: Until, commits: bool
) -> None:
    await push_recipients(pool, OLD, [addressed(0)])
    async with pool.acquire() as other:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("UPDATE ulak.recipients SET locale = 'tr'")
        walking = asyncio.create_task(walk(pool))
        await until(SOMEBODY_WAITS)
        await (transaction.commit() if commits else transaction.rollback())
    assert total(await walking) == (1, 0, 0)
    assert await email_of(pool, "user-0000") == ("k2", "a0@example.com")
    assert await pool.fetchval("SELECT locale FROM ulak.recipients") == ("tr" if commits else None)


async def test_loads_beside_it_neither_lose_an_address_nor_wait_in_a_circle(pool: Pool) -> None:
    """Loads lock rows in the order of external ids, which is that of user ids the other way round here."""
    users = 400
    for number in reversed(range(users)):
        await push_recipients(pool, OLD, [addressed(number)])
    loaded = asyncio.Event()

    async def load() -> str:
        generation = ""
        for number in range(12):
            generation = f"g{number}-"
            await push_recipients(pool, OLD, [addressed(user, generation) for user in range(users)])
        loaded.set()
        return generation

    loading = asyncio.create_task(load())
    walks: list[Step] = []
    while not loaded.is_set():
        walks += await walk(pool, at_once=50)
    generation = await loading
    walks += await walk(pool)
    assert total(walks)[2] == 0
    assert list(await by_key(pool)) == ["k2"]
    for number in range(users):
        assert await email_of(pool, f"user-{number:04}") == ("k2", f"{generation}{number}@example.com")


async def test_what_does_not_open_is_counted_and_stays_and_stops_nothing(pool: Pool) -> None:
    await push_recipients(pool, OLD, [addressed(number) for number in range(6)])
    elsewhere = KeyRing(active="k9", keys={"k9": bytes(32)}, lookup_key=OLD.lookup_key)
    [key, *_] = [row["email_key"] for row in await pool.fetch("SELECT email_key FROM ulak.recipients ORDER BY user_id")]
    sealed = await pool.fetchval("SELECT email_sealed FROM ulak.recipients WHERE external_id = 'user-0005'")
    broken = {
        "user-0000": seal(elsewhere, Purpose.ADDRESS, key, b"a0@example.com"),
        "user-0001": seal(replace(elsewhere, active="lost", keys={"lost": bytes(32)}), Purpose.ADDRESS, b"row", b"x"),
        "user-0002": sealed,  # of another row
        "user-0003": b"in the clear",
    }
    for external_id, value in broken.items():
        await pool.execute("UPDATE ulak.recipients SET email_sealed = $2 WHERE external_id = $1", external_id, value)
    await pool.execute("UPDATE ulak.recipients SET email_key = NULL WHERE external_id = 'user-0004'")
    rings = FixedRingSource(replace(RING, lost=frozenset({"lost"})))
    for resealed in (1, 0):
        steps = await walk(pool, rings, at_once=2)
        assert total(steps) == (resealed, 0, 5)
        assert {step.place for step in steps if step.shut} == {"recipients.email_sealed"}
    for external_id, value in broken.items():
        stands = await pool.fetchval("SELECT email_sealed FROM ulak.recipients WHERE external_id = $1", external_id)
        assert stands == value
    assert await email_of(pool, "user-0005") == ("k2", "a5@example.com")


async def test_one_key_alone(pool: Pool) -> None:
    three = replace(RING, active="k3", keys={**RING.keys, "k3": bytes(range(64, 96))})
    for number, key in enumerate(("k1", "k2", "k3")):
        await push_recipients(pool, replace(three, active=key), [addressed(number)])
    assert total(await walk(pool, FixedRingSource(three), only="k1")) == (1, 0, 0)
    assert await by_key(pool) == {"k2": {"recipients.email_sealed": 1}, "k3": {"recipients.email_sealed": 2}}


async def test_a_key_that_is_replaced_meanwhile_seals_no_more(pool: Pool, tmp_path: Path) -> None:
    """Or it could be retired on a count that its last values came after."""
    await push_recipients(pool, OLD, [addressed(number) for number in range(4)])
    path = tmp_path / "ring.json"
    write_ring(path, RING)
    three = replace(RING, active="k3", keys={**RING.keys, "k3": bytes(range(64, 96))})
    async with pool.acquire() as connection:
        async for _ in reseal(connection, FileRingSource(path), at_once=2):
            write_ring(path, three)
    assert await by_key(pool) == {"k2": {"recipients.email_sealed": 2}, "k3": {"recipients.email_sealed": 2}}


async def test_a_database_without_the_schema_is_named(empty_database: str) -> None:
    async with connect(PostgresSettings(dsn=empty_database), name="test") as connection:
        with pytest.raises(SchemaOutdatedError, match="ulak db migrate"):
            await anext(reseal(connection, RINGS))


@pytest.mark.parametrize("column", LONG_LIVED, ids=lambda column: column.place)
async def test_a_walk_begins_before_every_key(pool: Pool, column: Any) -> None:
    """user_id counts from 1, and no id is the nil UUID or empty."""
    [kind] = await pool.fetch(
        "SELECT format_type(atttypid, NULL) AS type FROM pg_index JOIN pg_attribute ON attrelid = indrelid"
        " AND attnum = indkey[0] WHERE indrelid = to_regclass('ulak.' || $1::text) AND indisprimary AND indnatts = 1",
        column.table,
    )
    assert {"bigint": 0, "uuid": UUID(int=0), "character varying": ""}[kind["type"]] == column.first
