"""Keys: what is remembered, for how long, and what never costs a query."""

import asyncio
import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from services.ingest.caller import Caller, CallerCache
from shared.postgres.api_key import Scope

NOW = datetime(2026, 11, 30, tzinfo=UTC)
SECRET = "ulak_live_" + "x" * 43
STORED = Caller(
    UUID(int=1),
    "key",
    1,
    "shop",
    hashlib.sha256(SECRET.encode()).digest(),
    "live",
    frozenset({"otp"}),
    None,
    None,
    None,
)


class Keys:
    """Stands for the table; counts what is asked."""

    def __init__(self, *stored: Caller) -> None:
        self.stored = {caller.secret_hash: caller for caller in stored}
        self.asked = 0
        self.now = 0.0

    async def load(self, secret_hash: bytes) -> Caller | None:
        self.asked += 1
        await asyncio.sleep(0)
        return self.stored.get(secret_hash)

    def cache(self) -> CallerCache:
        return CallerCache(self.load, ttl_sec=5, clock=lambda: self.now)


async def test_found_once_for_many_at_once_and_remembered() -> None:
    keys = Keys(STORED)
    cache = keys.cache()
    assert await asyncio.gather(*(cache.find(SECRET, NOW) for _ in range(20))) == [STORED] * 20
    keys.now = 4.9
    assert await cache.find(SECRET, NOW) == STORED
    assert keys.asked == 1
    keys.now = 5.1
    keys.stored = {}
    assert await cache.find(SECRET, NOW) is None


async def test_absence_is_remembered_too() -> None:
    keys = Keys()
    cache = keys.cache()
    assert [await cache.find(SECRET, NOW) for _ in range(10)] == [None] * 10
    assert keys.asked == 1


@pytest.mark.parametrize(
    "secret", ["", "nonsense", "ulak_live_short", "ulak_root_" + "x" * 43, SECRET + "x", SECRET + "\n"]
)
async def test_what_cannot_be_a_key_costs_no_query(secret: str) -> None:
    keys = Keys(STORED)
    assert await keys.cache().find(secret, NOW) is None
    assert keys.asked == 0


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param({"revoked_at": NOW - timedelta(days=1)}, False, id="revoked"),
        pytest.param({"expires_at": NOW}, False, id="expired"),
        pytest.param({"expires_at": NOW + timedelta(seconds=1)}, True, id="not-yet-expired"),
        pytest.param({"secret_hash": STORED.secret_hash[:-1] + b"!"}, False, id="other-hash"),
    ],
)
async def test_only_usable_keys_are_found(change: dict[str, object], found: bool) -> None:
    keys = Keys()
    keys.stored = {STORED.secret_hash: replace(STORED, **change)}  # type: ignore[arg-type]  # a table of fields
    assert (await keys.cache().find(SECRET, NOW) is not None) is found


@pytest.mark.parametrize(
    ("scopes", "asked", "allowed"),
    [
        ({"notifications"}, Scope.NOTIFICATIONS, True),
        ({"notifications"}, Scope.OTP, False),
        ({"all"}, Scope.ADMIN, True),
        (set(), Scope.NOTIFICATIONS, False),
    ],
)
def test_scopes(scopes: set[str], asked: Scope, allowed: bool) -> None:
    assert replace(STORED, scopes=frozenset(scopes)).may(asked) is allowed


def test_only_operators_read_other_applications() -> None:
    assert STORED.reads_application == 1
    assert replace(STORED, scopes=frozenset({"admin"})).reads_application is None
